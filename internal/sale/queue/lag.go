package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// Lag is the backlog of the workers, over all streams.
type Lag struct {
	// Unsettled is the number of users with unsettled admissions, or the number of entries if that is greater. It
	// equals the number of admissions unless a user has several.
	Unsettled int64
	// Age of the oldest entry, by the clock of Redis; 0 if there is none.
	Oldest time.Duration
	Dead   int64 // dead letters
}

// Lag reads the backlog from Redis, in one round trip to each node. Error: domain.ErrUnavailable.
func (w *Workers) Lag(ctx context.Context) (Lag, error) {
	var clock *redis.TimeCmd
	var entries, users, dead []*redis.IntCmd
	var oldest []*redis.XMessageSliceCmd
	_, err := w.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)

		for _, stream := range w.cfg.Streams {
			entries = append(entries, p.XLen(ctx, stream))
			oldest = append(oldest, p.XRangeN(ctx, stream, "-", "+", 1))
		}

		for _, tickets := range w.cfg.Tickets {
			users = append(users, p.HLen(ctx, tickets))
		}

		for _, stream := range w.cfg.DeadStreams {
			dead = append(dead, p.XLen(ctx, stream))
		}

		return nil
	})
	if err != nil {
		return Lag{}, fmt.Errorf("%w: queue: read the lag: %w", domain.ErrUnavailable, err)
	}

	lag := Lag{Unsettled: max(sum(entries), sum(users)), Dead: sum(dead)}
	for _, first := range oldest {
		for _, m := range first.Val() {
			lag.Oldest = max(lag.Oldest, clock.Val().Sub(addedAt(m.ID)))
		}
	}

	return lag, nil
}

func sum(cmds []*redis.IntCmd) int64 {
	var n int64
	for _, cmd := range cmds {
		n += cmd.Val()
	}
	return n
}

func addedAt(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	// Ids of Redis are well-formed.
	n, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(n)
}
