package lock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// TestRedisAtItsMemoryLimit: where Redis refuses commands that may grow, holds are renewed and everything can be released;
// only new acquires are refused, by the name of the reason.
func TestRedisAtItsMemoryLimit(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client(t)
	ctx := owned(t)
	c := newLocksOf(t, server.Client(t), WithWatchdog(3*time.Second))

	holds := map[string]*Hold{
		"mutex":     must(t)(c.Mutex("a").TryLock(ctx)),
		"fair":      must(t)(c.Fair("a").TryLock(ctx)),
		"reentrant": must(t)(c.Reentrant("a").TryLock(ctx)),
		"again":     must(t)(c.Reentrant("a").TryLock(ctx)),
		"read":      must(t)(c.RW("r").Read().TryLock(ctx)),
		"write":     must(t)(c.RW("w").Write().TryLock(ctx)),
		"redlock":   must(t)(newLock(t, "a", []string{server.Addr}, WithWatchdogLease(3*time.Second)).TryLock(ctx)),
	}
	downgraded := must(t)(c.RW("d").Write().TryLock(ctx))
	leased := c.LeasedSemaphore("l")
	set(t, leasedPermits{leased}, 2)
	permits, err := leased.TryAcquire(ctx, 1)
	require.NoError(t, err)
	semaphore := c.Semaphore("s")
	set(t, plainPermits{semaphore}, 2)
	require.NoError(t, semaphore.TryAcquire(ctx, 1))
	latch := c.Latch("n")
	setCount(t, latch, 2)

	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	require.ErrorContains(t, rdb.Set(ctx, "x", "x", 0).Err(), "OOM")
	_, err = c.Mutex("new").TryLock(ctx)
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, ErrUncertain)
	_, err = c.Reentrant("new").TryLock(ctx)
	require.ErrorContains(t, err, "memory")

	holds["leased"] = permits.hold
	for name, h := range holds {
		before := h.ValidUntil()
		eventually(t, name+" is renewed", func() bool { return h.ValidUntil().After(before) })
		require.NoError(t, h.Context().Err(), name)
	}
	reader, err := c.RW("d").Downgrade(ctx, downgraded)
	require.NoError(t, err)
	holds["downgraded"] = reader
	for name, h := range holds {
		require.NoError(t, h.Release(ctx), name)
	}
	require.NoError(t, semaphore.Release(ctx, 1))
	require.NoError(t, latch.CountDown(ctx))
	requireAvailable(t, plainPermits{semaphore}, 2)
	requireAvailable(t, leasedPermits{leased}, 2)
	requireCount(t, latch, 1)
}

// aclUser returns a client of a new Redis user with access to all keys of locks. The rules add to its rights.
func aclUser(t *testing.T, server *testenv.Redis, rules ...any) *redis.Client {
	t.Helper()
	args := append([]any{"acl", "setuser", "locker", "reset", "on", ">secret", "~*", "+@all"}, rules...)
	require.NoError(t, server.Client(t).Do(context.Background(), args...).Err())
	return server.Client(t, func(o *redis.Options) { o.Username, o.Password = "locker", "secret" })
}

// TestUserWithoutChannels: a Redis user without access to channels, the default since Redis 7, can use every lock.
// Releases are executed completely, and waiters acquire when they recheck.
func TestUserWithoutChannels(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	ctx := soon(t)
	rdb := aclUser(t, server, "resetchannels")
	one, two := newLocksOf(t, rdb), newLocksOf(t, rdb)

	s := one.Semaphore("s")
	set(t, plainPermits{s}, 2)
	require.NoError(t, s.TryAcquire(ctx, 1))
	require.NoError(t, s.TryAcquire(ctx, 1))
	third := waiting(ctx, plainPermits{two.Semaphore("s")}, 1)
	queued(t, server.Client(t), semaphoreKind.name, "s", 1)
	require.NoError(t, s.Release(ctx, 1))
	require.NoError(t, (<-third).err)
	requireAvailable(t, plainPermits{s}, 0)

	for _, kind := range []func(c *Client) Locker{
		func(c *Client) Locker { return c.Mutex("m") },
		func(c *Client) Locker { return c.RW("w").Write() },
	} {
		h := must(t)(kind(one).TryLock(ctx))
		next := background(ctx, kind(two))
		eventually(t, "the second waits", func() bool { return len(arrivalsOf(t, server.Client(t))) == 1 })
		release(t, h)
		release(t, arrived(t, next))
	}
}

// arrivalsOf returns the waiters in all queues.
func arrivalsOf(t *testing.T, rdb *redis.Client) (ids []string) {
	t.Helper()
	for _, key := range rdb.Keys(context.Background(), "*:queue").Val() {
		ids = append(ids, rdb.ZRange(context.Background(), key, 0, -1).Val()...)
	}
	return ids
}

// TestScriptThatBreaksOff: an error in the middle of a script does not prove that nothing was executed. The change is
// reported as uncertain, and is not repeated.
func TestScriptThatBreaksOff(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	ctx := soon(t)
	all := newLocksOf(t, server.Client(t)).Semaphore("s")
	set(t, plainPermits{all}, 4)
	require.NoError(t, all.TryAcquire(ctx, 3))

	// The release ends with a SET, which this user may not execute.
	limited := newLocksOf(t, aclUser(t, server, "allchannels", "-set")).Semaphore("s")
	err := limited.Release(ctx, 1)
	require.ErrorIs(t, err, ErrUncertain)
	requireAvailable(t, plainPermits{all}, 2)

	// Nothing was executed of a command that was refused as a whole.
	none := newLocksOf(t, aclUser(t, server, "allchannels", "-@scripting")).Semaphore("s")
	err = none.Release(ctx, 1)
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, ErrUncertain)
	require.False(t, errors.Is(err, ErrNotHeld))
	requireAvailable(t, plainPermits{all}, 2)
}
