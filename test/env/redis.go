package env

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/test/env/servers"
)

// redisDatabases is the number of Redis databases, more than the tests of a process need. An empty one takes a few hundred
// bytes.
const redisDatabases = 10_000

// usedDatabases counts those of the shared Redis that tests have had.
var usedDatabases atomic.Int64

// Redis is a redis-server process.
type Redis = servers.Redis

// RedisClient is what tests use of a client.
type RedisClient = servers.RedisClient

// SharedRedis returns the Redis that all tests of this process share. Tests must not kill, pause or flush it as a
// whole.
func SharedRedis(tb testing.TB) *Redis {
	tb.Helper()
	server(tb)
	r, err := sharedRedis()
	need(tb, err)
	return r
}

// StartRedis starts a private Redis and stops it at cleanup. args are as for [servers.RunRedis].
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	server(tb)
	return started(runRedis(tb.Context(), args...))(tb)
}

func runRedis(ctx context.Context, args ...string) (*Redis, error) {
	return servers.RunRedis(ctx, append([]string{"--databases", strconv.Itoa(redisDatabases)}, args...)...)
}

// expiryTick is how often miniredis expires keys.
const expiryTick = 100 * time.Millisecond

// StartMiniredis starts a Redis inside the test process and stops it at cleanup. Its keys expire with a delay of up to
// 100 ms, or longer if the process stalls; miniredis alone never expires a key.
func StartMiniredis(tb testing.TB) *miniredis.Miniredis {
	tb.Helper()
	m := miniredis.RunT(tb)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(expiryTick)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				now := time.Now()
				m.FastForward(min(now.Sub(last), expiryTick)) // a key of the time since last must not expire early
				last = now
			}
		}
	}()

	tb.Cleanup(func() { close(stop); <-stopped })
	return m
}

// EachRedis runs fn as the subtests "miniredis" and "redis", each with an empty database of its own. Use FLUSHDB, never
// FLUSHALL. Pub/sub channels are shared with the other tests of the process.
func EachRedis(t *testing.T, fn func(t *testing.T, rdb RedisClient)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		fn(t, servers.NewRedisClient(t, StartMiniredis(t).Addr(), 0))
	})
	t.Run("redis", func(t *testing.T) {
		n := int(usedDatabases.Add(1)) // clients without a number use 0
		fn(t, servers.NewRedisClient(t, SharedRedis(t).Addr, n))
	})
}

// RedisHook is a hook of a client. Its functions run in place of a command and of a pipeline, which they send with next. A
// nil function changes nothing.
type RedisHook struct {
	Command  func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error
	Pipeline func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error
}

// EachTrip returns a hook that runs before each command and each pipeline. These are not sent if it returns an error.
func EachTrip(before func(ctx context.Context, cmds []redis.Cmder) error) RedisHook {
	return RedisHook{
		Command: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if err := before(ctx, []redis.Cmder{cmd}); err != nil {
				return err
			}
			return next(ctx, cmd)
		},
		Pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			if err := before(ctx, cmds); err != nil {
				return err
			}
			return next(ctx, cmds)
		},
	}
}

// DialHook implements redis.Hook.
func (RedisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h RedisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if h.Command == nil {
		return next
	}

	return func(ctx context.Context, cmd redis.Cmder) error { return h.Command(ctx, cmd, next) }
}

// ProcessPipelineHook implements redis.Hook.
func (h RedisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if h.Pipeline == nil {
		return next
	}

	return func(ctx context.Context, cmds []redis.Cmder) error { return h.Pipeline(ctx, cmds, next) }
}

// StartRedisCluster starts a private cluster of three masters and stops it at cleanup.
func StartRedisCluster(tb testing.TB) *servers.RedisCluster {
	tb.Helper()
	return startCluster(tb, servers.StartPlainly)
}

func startCluster(tb testing.TB, start servers.RedisStarter, args ...string) *servers.RedisCluster {
	tb.Helper()
	Full(tb)
	return started(servers.RunRedisCluster(tb.Context(), start, args...))(tb)
}

// StartRedisSentinel starts a master with a replica and three Sentinels, and returns when a failover is possible. It stops them
// at cleanup. downAfter is the time without an answer after which a Sentinel considers the master down.
func StartRedisSentinel(tb testing.TB, downAfter time.Duration) *servers.RedisSentinel {
	tb.Helper()
	return startSentinel(tb, downAfter, servers.StartPlainly)
}

func startSentinel(tb testing.TB, downAfter time.Duration, start servers.RedisStarter) *servers.RedisSentinel {
	tb.Helper()
	Full(tb)
	return started(servers.RunRedisSentinel(tb.Context(), downAfter, start))(tb)
}
