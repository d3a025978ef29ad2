package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// Lag is how far the workers are behind, over all streams.
type Lag struct {
	Unsettled int64         // entries; those that are settled are deleted
	Oldest    time.Duration // age of the oldest of them, by the clock of Redis; 0 if there is none
	Dead      int64         // dead letters
}

// Lag asks Redis, in one round trip to each node. Errors are wrapped service.ErrUnavailable.
func (w *Workers) Lag(ctx context.Context) (Lag, error) {
	var clock *redis.TimeCmd
	var dead, unsettled []*redis.IntCmd
	var oldest []*redis.XMessageSliceCmd
	_, err := w.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		for _, stream := range w.cfg.Streams {
			unsettled = append(unsettled, p.XLen(ctx, stream))
			oldest = append(oldest, p.XRangeN(ctx, stream, "-", "+", 1))
		}
		for _, stream := range w.cfg.DeadStreams {
			dead = append(dead, p.XLen(ctx, stream))
		}
		return nil
	})
	if err != nil {
		return Lag{}, fmt.Errorf("%w: queue: read the lag: %w", service.ErrUnavailable, err)
	}
	var lag Lag
	for i, first := range oldest {
		lag.Unsettled += unsettled[i].Val()
		for _, m := range first.Val() {
			lag.Oldest = max(lag.Oldest, clock.Val().Sub(addedAt(m.ID)))
		}
	}
	for _, n := range dead {
		lag.Dead += n.Val()
	}
	return lag, nil
}

// addedAt reads the time out of an entry's id, "<ms>-<seq>".
func addedAt(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64) // Redis wrote it
	return time.UnixMilli(n)
}
