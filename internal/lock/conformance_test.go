package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// A system is an implementation of exclusive locks with its servers. Every Locker has to pass the tests of this file,
// which need no knowledge of the implementation.
type system struct {
	kind   string // in events
	tokens bool

	// connect returns the locks as another process would see them, with connections of its own. Holds without a lease of
	// their own are renewed for this lease.
	connect func(t testing.TB, lease time.Duration, observe func(Event)) func(name string) Locker

	// revoke removes a held lock on the servers.
	revoke func(t testing.TB, name string)
}

// systems start the servers of each implementation.
var systems = func() map[string]func(t testing.TB) system {
	all := map[string]func(t testing.TB) system{
		"redlock":   redLockSystem,
		"zookeeper": zooKeeperSystem,
		"cluster":   clusterSystem,
	}
	for _, k := range exclusiveKinds {
		all["redis/"+k.label] = func(t testing.TB) system {
			addr := startRedis(t)
			return redisSystem(k, func(t testing.TB) redis.UniversalClient { return newClient(t, addr) })
		}
		all["miniredis/"+k.label] = func(t testing.TB) system {
			if !testing.Short() {
				env.Full(t)
			}
			addr := env.StartMiniredis(t).Addr()
			return redisSystem(k, func(t testing.TB) redis.UniversalClient { return newClient(t, addr) })
		}
	}
	return all
}()

// redisSystem has locks of one kind on a server or a cluster.
func redisSystem(k lockKind, client func(t testing.TB) redis.UniversalClient) system {
	return system{
		kind:   k.name,
		tokens: true,
		connect: func(t testing.TB, lease time.Duration, observe func(Event)) func(string) Locker {
			c := newLocksOf(t, client(t), WithWatchdog(lease), WithObserver(observe))
			return func(name string) Locker { return k.lock(c, name) }
		},
		revoke: func(t testing.TB, name string) {
			require.NoError(t, client(t).Del(t.Context(), k.holds(name)...).Err())
		},
	}
}

func clusterSystem(t testing.TB) system {
	cluster := env.StartRedisCluster(t)
	return redisSystem(mutex, func(t testing.TB) redis.UniversalClient { return cluster.Client(t).(*redis.ClusterClient) })
}

func redLockSystem(t testing.TB) system {
	addrs := startServers(t, 3)
	return system{
		kind: redLockKind,
		connect: func(t testing.TB, lease time.Duration, observe func(Event)) func(string) Locker {
			return newRedLocks(t, addrs, WithWatchdogLease(lease), WithRedLockObserver(observe)).Lock
		},
		revoke: func(t testing.TB, name string) {
			for _, addr := range addrs {
				require.NoError(t, newClient(t, addr).Del(t.Context(), RedLockKey(name)).Err())
			}
		},
	}
}

func zooKeeperSystem(t testing.TB) system {
	servers := env.SharedZooKeeper(t).Servers()
	root := ownRoot(t)
	return system{
		kind:   zooKeeperKind,
		tokens: true,
		connect: func(t testing.TB, lease time.Duration, observe func(Event)) func(string) Locker {
			return newZooKeeper(t, servers, root, WithSessionTimeout(max(lease, MinSessionTimeout)), WithZooKeeperObserver(observe)).Mutex
		},
		revoke: func(t testing.TB, name string) {
			conn := library(t, servers...)
			for _, path := range children(t, conn, newZooKeeper(t, servers, root), name) {
				require.NoError(t, conn.Delete(path, -1))
			}
		},
	}
}

// eachSystem runs test with each implementation. The test has its locks for itself.
func eachSystem(t *testing.T, test func(t *testing.T, s system)) {
	t.Helper()
	t.Parallel()
	for name, start := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// calmLease is long enough for a busy machine.
const calmLease = 20 * time.Second

func ignore(Event) {}

func TestLockerIsExclusive(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		ctx := context.WithValue(soon(t), ctxKey{}, "trace")
		var seen recorder
		a, b := s.connect(t, calmLease, seen.observe)("a"), s.connect(t, calmLease, ignore)("a")
		wait, cancel := context.WithCancel(ctx)
		h := env.Must(a.TryLock(wait))(t)
		cancel()
		require.NoError(t, h.Context().Err(), "the wait's end does not end the hold")
		require.Equal(t, s.tokens, h.Token() > 0)
		require.Equal(t, "trace", h.Context().Value(ctxKey{}))
		require.True(t, h.ValidUntil().After(time.Now()))
		if s.kind != zooKeeperKind { // whose sessions have the lease
			require.WithinRange(t, h.ValidUntil(), time.Now().Add(calmLease/2), time.Now().Add(calmLease*99/100))
		}
		for _, l := range []Locker{a, b} {
			requireFails(t, env.Err(l.TryLock(ctx)), ErrNotAcquired, not{ErrUncertain})
		}
		require.NoError(t, h.Extend(ctx, calmLease))
		require.NoError(t, h.Context().Err())
		require.NoError(t, h.Release(ctx))
		requireDone(t, h.Context(), ErrReleased)

		next := env.Must(b.TryLock(ctx))(t)
		if s.tokens {
			require.Greater(t, next.Token(), h.Token())
		}
		var again sync.WaitGroup
		for range 3 {
			again.Go(func() { assert.NoError(t, h.Release(ctx), "a further release does nothing") })
		}
		again.Wait()
		requireFails(t, h.Extend(ctx, time.Minute), ErrNotHeld, ErrReleased)
		env.Fails(a.TryLock(ctx))(t, ErrNotAcquired, "the release freed the next holder's lock")
		require.NoError(t, next.Release(ctx))
		require.Equal(t, []EventKind{EventAcquired, EventNotAcquired, EventReleased, EventNotAcquired}, seen.kinds())
		require.Equal(t, "a", seen.events[0].Name)
		require.Equal(t, s.kind, seen.events[0].Lock)
	})
}

func TestLockerWaits(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		a, b := s.connect(t, calmLease, ignore)("a"), s.connect(t, calmLease, ignore)("a")
		h := env.Must(a.Lock(soon(t)))(t)
		got := background(soon(t), b)

		why := errors.New("the caller has returned")
		ctx, cancel := context.WithCancelCause(soon(t))
		gaveUp := background(ctx, b)
		time.Sleep(50 * time.Millisecond) // so that it waits
		cancel(why)
		requireFails(t, (<-gaveUp).err, ErrNotAcquired, context.Canceled, why)
		for _, lock := range bothWays(b) {
			requireFails(t, env.Err(lock(ctx)), ErrNotAcquired, why)
		}
		require.Empty(t, got, "acquired too early")
		require.NoError(t, h.Release(soon(t)))
		require.NoError(t, arrived(t, got).Release(soon(t)))
		eventually(t, "the cancelled wait has left nothing behind", func() bool {
			h, err := a.TryLock(soon(t))
			return err == nil && h.Release(soon(t)) == nil
		})
	})
}

func TestDoWithEveryLocker(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		ctx := soon(t)
		l := s.connect(t, calmLease, ignore)("a")
		var inner context.Context
		require.NoError(t, Do(ctx, l, func(ctx context.Context) error {
			inner = ctx
			require.ErrorIs(t, TryDo(ctx, l, nothing), ErrNotAcquired)
			return ctx.Err()
		}))
		requireDone(t, inner, ErrReleased)
		require.ErrorIs(t, TryDo(ctx, l, func(context.Context) error { return errWork }), errWork)
		require.Panics(t, func() { _ = Do(ctx, l, func(context.Context) error { panic("at work") }) })
		require.NoError(t, TryDo(ctx, l, nothing), "a panic kept the lock")

		wait, cancel := context.WithCancelCause(ctx)
		require.ErrorIs(t, Do(wait, l, func(ctx context.Context) error {
			cancel(errWork)
			requireDone(t, ctx, errWork)
			return ctx.Err()
		}), context.Canceled)
		require.NoError(t, TryDo(ctx, l, nothing), "the end of the caller's context kept the lock")

		outlive := func(result error) error {
			return Do(ctx, persistent{l}, func(ctx context.Context) error {
				requireDone(t, ctx, ErrLost)
				return result
			}, WithLease(2*time.Second))
		}
		var unlock *UnlockError
		err := outlive(nil)
		require.ErrorAs(t, err, &unlock, "the work is done, but another holder may have worked too")
		requireFails(t, err, ErrNotHeld, ErrLost)

		err = outlive(errWork)
		require.NotErrorAs(t, err, &unlock)
		requireFails(t, err, errWork, ErrLost)
	})
}

// The hold ends with its lease, and the lock is free although the process lives and has not released it.
func TestLeaseEndsWithEveryLocker(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		ctx := soon(t)
		var seen recorder
		h := env.Must(persistent{s.connect(t, calmLease, seen.observe)("a")}.Lock(ctx, WithLease(2*time.Second)))(t)
		next := env.Must(s.connect(t, calmLease, ignore)("a").Lock(ctx))(t)

		if s.tokens { // a late write of the first holder is refused
			require.Greater(t, next.Token(), h.Token())
		}
		requireDone(t, h.Context(), ErrLost)
		requireFails(t, h.Release(ctx), ErrNotHeld, ErrLost)
		require.NoError(t, next.Context().Err())
		require.NoError(t, next.Release(ctx), "the late release freed the next holder's lock")
		require.NoError(t, h.Release(ctx), "a loss is reported once")
		require.Zero(t, seen.count(EventRenewFailed))
		require.Equal(t, 1, seen.count(EventLost))
	})
}

// A renewal finds that the servers do not have the lock any more.
func TestRevokedLockIsLost(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		ctx := soon(t)
		var seen recorder
		locks := s.connect(t, 2*time.Second, seen.observe)
		h := env.Must(persistent{locks("a")}.Lock(ctx))(t)
		s.revoke(t, "a")
		requireDone(t, h.Context(), ErrLost)
		require.ErrorIs(t, h.Extend(ctx, time.Minute), ErrNotHeld)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.Equal(t, 1, seen.count(EventLost))

		h = env.Must(persistent{locks("b")}.Lock(ctx))(t)
		s.revoke(t, "b")
		next := env.Must(s.connect(t, calmLease, ignore)("b").Lock(ctx))(t)
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		require.NoError(t, next.Extend(ctx, calmLease), "the loser freed the next holder's lock")
		release(t, next)

		h = env.Must(s.connect(t, calmLease, ignore)("c").Lock(ctx))(t)
		s.revoke(t, "c")
		require.ErrorIs(t, h.Extend(ctx, calmLease), ErrLost)
		requireDone(t, h.Context(), ErrLost)
		release(t, env.Must(locks("c").TryLock(ctx))(t))
	})
}

// A renewed hold outlives its lease, unless the machine stalls.
func TestHoldIsRenewedWithEveryLocker(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		const lease = 3 * time.Second
		ctx := soon(t)
		l, other := persistent{s.connect(t, lease, ignore)("a")}, s.connect(t, calmLease, ignore)("a")
		h := env.Must(l.Lock(ctx))(t)
		for !sleep(h.Context(), lease+lease/4) {
			_ = h.Release(ctx)
			h = env.Must(l.Lock(ctx))(t)
		}

		next, err := other.TryLock(ctx)
		if err == nil {
			require.Error(t, h.Context().Err(), "two holders at once")
			release(t, next)
			return
		}
		require.ErrorIs(t, err, ErrNotAcquired)
		release(t, h)
	})
}

// oddNames are names that every implementation has to keep apart.
var oddNames = []string{
	"order:1", "order:1/x", "/", "//", ".", "..", "%2E", "%2E%2E", "%", "%25", "a b\r\n", "秒杀", "\x00\xff", "zookeeper",
	"}", "{", "{}", "{a}", "a}b{c", "%7B", "%7D", "a", "a:queue", "a:fence", "a:waiters",
	"_c_A-lock-0000000001", strings.Repeat("k", 1024),
}

func TestNamesOfEveryLocker(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		ctx := soon(t)
		locks := s.connect(t, calmLease, ignore)

		var holds []*Hold
		for _, name := range oddNames {
			holds = append(holds, env.Must(locks(name).TryLock(ctx))(t))
			env.Fails(locks(name).TryLock(ctx))(t, ErrNotAcquired, "%q", name)
		}
		slices.Reverse(holds)
		release(t, holds...)
		env.Fails(locks("").TryLock(ctx))(t, "name")
	})
}
