package admission

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// Lag reads the backlog from Redis, in one round trip to each node. Error: domain.ErrUnavailable.
func (g *Gate) Lag(ctx context.Context) (domain.QueueLag, error) {
	var clock *redis.TimeCmd
	var entries, users, dead []*redis.IntCmd
	var oldest []*redis.XMessageSliceCmd
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		for s := range Shards {
			entries = append(entries, p.XLen(ctx, s.Stream()))
			oldest = append(oldest, p.XRangeN(ctx, s.Stream(), "-", "+", 1))
			users = append(users, p.HLen(ctx, s.Queued()))
			dead = append(dead, p.XLen(ctx, s.Dead()))
		}
		return nil
	})
	if err != nil {
		return domain.QueueLag{}, unavailable(err, "read the lag")
	}

	lag := domain.QueueLag{Unsettled: max(sum(entries), sum(users)), DeadLetters: sum(dead)}
	for _, first := range oldest {
		for _, m := range first.Val() {
			lag.Oldest = max(lag.Oldest, clock.Val().Sub(entryTime(m.ID)).Round(time.Millisecond).Seconds())
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
