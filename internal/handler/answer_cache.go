package handler

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/kit/cache"
)

// answerTTL is the age up to which a cached answer is used. maxAnswers bounds the answers of a cache.
const answerTTL, maxAnswers = time.Second, 1000

// answerCache caches encoded answers that are the same for every caller, for answerTTL. It is safe for concurrent use.
type answerCache[K comparable] struct {
	*api

	cache *cache.Cache[K, *snapshot]
	// The timeout of one read.
	timeout time.Duration
}

func newAnswerCache[K comparable](a *api, timeout time.Duration) *answerCache[K] {
	return &answerCache[K]{
		api:     a,
		timeout: timeout,
		cache: cache.New[K](cache.Options[*snapshot]{
			MaxEntries: maxAnswers, TTL: answerTTL,
		}),
	}
}

// write writes the answer of key, which read reads if it is not cached. Concurrent requests share one call of read, which
// is therefore not cancelled with the request that started it.
func (a *answerCache[K]) write(c *gin.Context, key K, read func(context.Context) (*snapshot, error)) error {
	snap, cached := a.cache.Get(key)
	if !cached {
		err := a.limits.visit(c)
		if err == nil {
			snap, err = a.cache.Load(c.Request.Context(), key, func(ctx context.Context) (*snapshot, error) {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
				defer cancel()
				return read(ctx)
			})
		}

		if err != nil {
			return err
		}
	}

	snap.write(c, a.Now())
	return nil
}

// forget drops all answers of this process, so that the next ones have a change that was just made.
func (a *answerCache[K]) forget() { a.cache.Clear() }
