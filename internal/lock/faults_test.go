package lock

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

// The faults of this file happen to every kind of lock of a Client, and to a RedLock on one node. Those of a RedLock on
// several nodes are in client_test.go, those of ZooKeeper in zookeeper_test.go and in package zk.

var (
	allLeased = append(slices.Clone(leasedKinds), redLocks)
	allLocks  = append(slices.Clone(lockKinds), redLocks)
)

// The acquire was executed, and its reply is lost: the caller gets the error, which does not mean that the lock is taken, and
// nothing is left.
func TestAcquireReplyLost(t *testing.T) {
	eachKind(t, append(slices.Clone(waitKinds), redLocks), onServer, func(t *testing.T, s scene, k lockKind) {
		c, p := k.faulty(t, s.addr)

		for _, lock := range bothWays(k.lock(c, "a")) {
			p.Inject(servers.DropReply, k.acquire.sha, 1)
			requireFails(t, env.Err(lock(owned(t))), io.EOF, not{ErrNotAcquired}, not{ErrUncertain})
			require.Equal(t, 1, p.Broken())
			k.nothingLeft(t, s.rdb, "a")
		}
		release(t, env.Must(k.block(c, "a").TryLock(soon(t)))(t))
	})
}

// A waiter whose replies are lost repeats its attempt with the same id, and acquires the lock once.
func TestWaiterReplyLost(t *testing.T) {
	eachKind(t, waitKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		c, p := k.faulty(t, s.addr)
		h := env.Must(k.block(s.c, "a").Lock(s.ctx))(t)
		got := s.queue(owned(t), t, k, 1, k.lock(c, "a"))

		p.Inject(servers.DropReply, k.acquire.sha, 2)
		release(t, h)
		next := arrived(t, got)
		assert.Positive(t, p.Broken(), "no reply was lost")
		assert.Zero(t, waiters(t, s.rdb, k.name, "a"))

		release(t, next)
		release(t, env.Must(k.block(s.c, "a").TryLock(s.ctx))(t)) // it was not counted twice
	})
}

// The first release was executed, and wakes the waiter. The repeated one finds nothing, and succeeds.
func TestReleaseReplyLost(t *testing.T) {
	eachKind(t, allLocks, onServer, func(t *testing.T, s scene, k lockKind) {
		var seen recorder
		c, p := k.faulty(t, s.addr, WithObserver(seen.observe))
		h := env.Must(k.lock(c, "a").Lock(owned(t)))(t)
		got := s.queue(s.ctx, t, k, 1, k.block(s.c, "a"))

		p.Inject(servers.DropReply, k.freeing.sha, 2)
		releaseAnswered(t, h)
		require.Equal(t, 2, p.Broken())
		assert.Zero(t, seen.count(EventLost))

		release(t, arrived(t, got))
	})
}

// No renewal is executed: the hold ends before the server frees the lock, and then the waiter acquires it.
func TestFailedRenewalsEndHold(t *testing.T) {
	env.Full(t)
	eachKind(t, allLeased, onServer, func(t *testing.T, s scene, k lockKind) {
		var seen recorder
		c, p := k.faulty(t, s.addr, WithWatchdog(12*time.Second), WithObserver(seen.observe))
		h := env.Must(k.lock(c, "a").Lock(s.ctx))(t) // 0.7 s are between the end of the hold and that of the key
		got := background(s.ctx, k.block(s.c, "a"))

		p.Inject(servers.Refuse, k.renew.sha, servers.Always)
		requireDone(t, h.Context(), ErrLost)
		assert.Empty(t, got, "the server freed the lock first")
		assert.Greater(t, seen.count(EventRenewFailed), 1, "a failed renewal is repeated")
		next := arrived(t, got)

		p.Heal()
		require.ErrorIs(t, h.Release(s.ctx), ErrNotHeld)
		require.NoError(t, next.Extend(s.ctx, time.Minute))
		release(t, next)
	})
}

// The caller's context ends while the server is silent. What the calls leave behind is undone when it answers again.
func TestCancelDuringCommandReturnsAtOnce(t *testing.T) {
	each(t, allLocks, onServer, func(t *testing.T, s scene, k lockKind) {
		c, p := k.faulty(t, s.addr)
		c.exec.maxInFlight = maxQueued // a repeated call has another command in flight
		held := env.Must(k.lock(c, "a").Lock(soon(t)))(t)
		k.ready(t, c, "b")

		p.Inject(servers.MuteReply, anyCmd, servers.Always)
		for _, lock := range bothWays(k.lock(c, "b")) {
			requireFails(t, cancelled(t, func(ctx context.Context) error { return env.Err(lock(ctx)) }), ErrNotAcquired, ErrUncertain)
		}
		if k.leased() {
			err := cancelled(t, func(ctx context.Context) error { return held.Extend(ctx, time.Minute) })
			require.ErrorIs(t, err, ErrUncertain)
		}
		require.ErrorIs(t, cancelled(t, held.Release), ErrUncertain)

		p.Heal()
		k.nothingLeft(t, s.rdb, "a", "b")
	})
}

// A waiter acquires the lock after each of these faults, with a greater token. Those that take the lock from its holder
// end the hold.
func TestWaiterSurvivesFaults(t *testing.T) {
	each(t, append(slices.Clone(waitKinds), redLocks), ownRedis, func(t *testing.T, server *env.Redis, k lockKind) {
		ctx := soon(t)
		rdb := newClient(t, server.Addr)
		holder := newLocks(t, server.Addr, WithWatchdog(3*time.Second))
		for _, fault := range []struct {
			name   string
			strike func() error
			loses  bool
		}{
			{"scripts are flushed", func() error { return rdb.ScriptFlush(ctx).Err() }, false},
			{"no pub/sub connection", func() error { return rdb.Do(ctx, "client", "kill", "type", "pubsub").Err() }, false},
			{"the holds are gone", func() error { return rdb.Del(ctx, k.holds("a")...).Err() }, true},
			{"all keys are gone", func() error { return rdb.FlushAll(ctx).Err() }, true},
			{"the server restarts empty", server.Restart, true},
		} {
			c := newLocks(t, server.Addr)
			k.ready(t, holder, "a")
			old := env.Must(persistent{k.block(holder, "a")}.Lock(ctx))(t)
			got := background(ctx, persistent{k.lock(c, "a")})
			k.queued(t, rdb, "a", 1)
			allAnswered(t, c)

			require.NoError(t, fault.strike(), fault.name)
			_ = rdb.Ping(ctx).Err() // detects the dead connection
			k.ready(t, holder, "a")
			if fault.loses && k.leased() {
				requireDone(t, old.Context(), ErrLost)
				require.ErrorIs(t, old.Release(ctx), ErrNotHeld, fault.name)
			}
			_ = old.Release(ctx)
			next := arrived(t, got)
			if old.Token() > 0 && k.label != reading.label { // readers have the writer's
				assert.Greater(t, next.Token(), old.Token(), fault.name)
			}
			release(t, next)
			k.nothingLeft(t, rdb, "a")
		}
	})
}

// A dead server is not a taken lock, and a refused connection leaves nothing behind.
func TestDeadServerReturnsItsError(t *testing.T) {
	each(t, allLeased, ownRedis, func(t *testing.T, server *env.Redis, k lockKind) {
		ctx := soon(t)
		c := newLocks(t, server.Addr)
		k.ready(t, c, "a")
		h := env.Must(k.lock(c, "a").Lock(ctx))(t)
		server.Kill()

		_, _ = k.lock(c, "a").TryLock(ctx) // detects the dead connection
		for _, lock := range bothWays(k.lock(c, "a")) {
			requireFails(t, env.Err(lock(ctx)), not{ErrNotAcquired}, not{ErrUncertain})
		}
		require.ErrorIs(t, h.Release(ctx), ErrUncertain)
	})
}

// Close ends holds and waits, and frees nothing on the server.
func TestClose(t *testing.T) {
	each(t, leasedKinds, onServer, func(t *testing.T, s scene, k lockKind) {
		k.ready(t, s.c, "a")
		h := env.Must(k.block(s.c, "a").Lock(s.ctx))(t)
		got := s.queue(s.ctx, t, k, 1, k.lock(s.c, "a"))

		require.NoError(t, s.c.Close())
		requireFails(t, (<-got).err, ErrNotAcquired, ErrClosed, not{ErrUncertain})
		requireDone(t, h.Context(), ErrLost)
		assert.Zero(t, waiters(t, s.rdb, k.name, "a"))
		env.Fails(k.lock(newLocks(t, s.addr), "a").TryLock(s.ctx))(t, ErrNotAcquired, "it is left to its lease")

		require.ErrorIs(t, h.Release(s.ctx), ErrNotHeld)
		for _, lock := range bothWays(k.lock(s.c, "b")) {
			env.Fails(lock(s.ctx))(t, ErrClosed)
		}
		require.NoError(t, s.c.Close(), "the second call does nothing")
	})
}

// Without waiters, Close returns before the watches of its holds have run.
func TestCloseBeforeRelease(t *testing.T) {
	s := newScene(t)
	one, two := env.Must(s.c.Mutex("a").TryLock(s.ctx))(t), env.Must(s.c.Mutex("b").TryLock(s.ctx))(t)
	require.NoError(t, s.c.Close())
	requireFails(t, two.Extend(s.ctx, time.Second), ErrNotHeld, ErrLost)
	requireFails(t, one.Release(s.ctx), ErrNotHeld, ErrLost, not{ErrUncertain})
	require.ErrorIs(t, context.Cause(one.Context()), ErrLost)
}

// Where Redis refuses commands that may grow, holds are renewed and everything can be released; only new acquires are
// refused, by the name of the reason.
// Source: redis/redis#8623, redisson/redisson#866.
func TestRedisAtItsMemoryLimit(t *testing.T) {
	t.Parallel()
	server := env.StartRedis(t, "--maxmemory-policy", "noeviction")
	rdb := clientOf(t, server)
	ctx := owned(t)
	c := newLocksOf(t, clientOf(t, server), WithWatchdog(9*time.Second))

	holds := map[string]*Hold{"again": env.Must(c.Reentrant("a").TryLock(ctx))(t)}
	for _, k := range allLocks {
		k.ready(t, c, k.label)
		name := k.label
		if k.label == reentrant.label {
			name = "a"
		}
		holds[k.label] = env.Must(k.lock(c, name).TryLock(ctx))(t)
	}
	written := env.Must(c.RW("d").Write().TryLock(ctx))(t)
	setCount(t, c.Latch("a"), 2)

	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	require.ErrorContains(t, rdb.Set(ctx, "x", "x", 0).Err(), "OOM")
	requireFails(t, env.Err(c.Mutex("new").TryLock(ctx)), "OOM", not{ErrUncertain})
	env.Fails(c.Reentrant("new").TryLock(ctx))(t, "memory")

	before := map[string]time.Time{}
	for name, h := range holds {
		before[name] = h.ValidUntil()
	}
	for name, h := range holds {
		if name != semaphoreKind.name {
			eventually(t, name+" is renewed", func() bool { return h.ValidUntil().After(before[name]) })
		}
		require.NoError(t, h.Context().Err(), name)
	}
	holds["downgraded"] = env.Must(c.RW("d").Downgrade(ctx, written))(t)
	for name, h := range holds {
		require.NoError(t, h.Release(ctx), name)
	}
	require.NoError(t, c.Latch("a").CountDown(ctx))
	requireCount(t, c.Latch("a"), 1)
	for _, k := range permitKinds {
		requireAvailable(t, k.pool(c, k.name), allPermits)
	}
}

// aclUser returns a client of a new Redis user with access to all keys of locks. The rules add to its rights.
func aclUser(t *testing.T, server *env.Redis, rules ...any) *redis.Client {
	t.Helper()
	args := append([]any{"acl", "setuser", "locker", "reset", "on", ">secret", "~*", "+@all"}, rules...)
	require.NoError(t, clientOf(t, server).Do(context.Background(), args...).Err())
	return servers.LogIn(t, server.Addr, "locker", "secret")
}

// A Redis user without access to channels, the default since Redis 7, can use every lock. Releases are executed
// completely, and waiters acquire when they recheck.
// Source: redis/redis-py#2707, redisson/redisson#5439.
func TestUserWithoutChannels(t *testing.T) {
	each(t, waitKinds, ownRedis, func(t *testing.T, server *env.Redis, k lockKind) {
		ctx := soon(t)
		rdb := aclUser(t, server, "resetchannels")
		one, two := newLocksOf(t, rdb), newLocksOf(t, rdb)
		k.ready(t, one, "a")
		h := env.Must(k.block(one, "a").TryLock(ctx))(t)
		next := background(ctx, k.lock(two, "a"))
		k.queued(t, clientOf(t, server), "a", 1)

		release(t, h)
		release(t, arrived(t, next))
		k.nothingLeft(t, clientOf(t, server), "a")
	})
}

// An error in the middle of a script does not prove that nothing was executed. The change is reported as uncertain, and
// is not repeated.
func TestScriptThatBreaksOff(t *testing.T) {
	t.Parallel()
	server := env.StartRedis(t)
	ctx := soon(t)
	all := newLocksOf(t, clientOf(t, server)).Semaphore("s")
	set(t, &all.pool, 4)
	require.NoError(t, all.TryAcquire(ctx, 3))

	// The release ends with a SET, which this user may not execute.
	require.ErrorIs(t, newLocksOf(t, aclUser(t, server, "allchannels", "-set")).Semaphore("s").Release(ctx, 1), ErrUncertain)
	requireAvailable(t, &all.pool, 2)

	// Nothing was executed of a command that was refused as a whole.
	none := newLocksOf(t, aclUser(t, server, "allchannels", "-@scripting")).Semaphore("s")
	requireFails(t, none.Release(ctx, 1), "NOPERM", not{ErrUncertain}, not{ErrNotHeld})
	requireAvailable(t, &all.pool, 2)
}

// A Redis that accepts no writes at present, as a former master or one without its replicas, refuses the first change of a
// script. So nothing was executed, and nothing is uncertain.
func TestRefusedWritesAreNotExecuted(t *testing.T) {
	for _, refusal := range []struct {
		code       string
		begin, end []any
	}{
		{
			"READONLY",
			[]any{"replicaof", "127.0.0.1", "1"},
			[]any{"replicaof", "no", "one"},
		},
		{
			"NOREPLICAS",
			[]any{"config", "set", "min-replicas-to-write", "1"},
			[]any{"config", "set", "min-replicas-to-write", "0"},
		},
	} {
		t.Run(refusal.code, func(t *testing.T) {
			t.Parallel()
			server := env.StartRedis(t)
			rdb := clientOf(t, server)
			ctx := soon(t)
			c := newLocksOf(t, clientOf(t, server))
			permits := c.Semaphore("s")
			set(t, &permits.pool, 2)
			require.NoError(t, permits.TryAcquire(ctx, 2))
			setCount(t, c.Latch("l"), 2)
			for _, k := range allLocks {
				k.ready(t, c, "a")
			}

			require.NoError(t, rdb.Do(ctx, refusal.begin...).Err())
			for _, k := range allLocks {
				requireFails(t, env.Err(k.lock(c, "a").TryLock(ctx)), refusal.code, not{ErrUncertain}, not{ErrNotAcquired})
			}
			requireFails(t, permits.Release(ctx, 1), refusal.code, not{ErrUncertain}, not{ErrNotHeld})
			requireFails(t, c.Latch("l").CountDown(ctx), refusal.code, not{ErrUncertain})

			require.NoError(t, rdb.Do(ctx, refusal.end...).Err())
			require.NoError(t, permits.Release(ctx, 1))
			requireAvailable(t, &permits.pool, 1)
			requireCount(t, c.Latch("l"), 2)
		})
	}
}

// A waiter that died does not block a queue, and those behind it retry at the moment when it counts as dead, not later.
// That holds although the server's clock was set back by an hour since it came. Source: redisson/redisson#1104,
// redisson/redisson#2099.
func TestDeadWaiterIsSkipped(t *testing.T) {
	t.Run("steady clock", func(t *testing.T) {
		env.Full(t)
		each(t, waitKinds, startServer, func(t *testing.T, addr string, k lockKind) {
			skipDeadWaiter(t, k, addr, func() {})
		})
	})
	t.Run("clock set back", func(t *testing.T) {
		each(t, waitKinds, env.StartMiniredis, func(t *testing.T, server *miniredis.Miniredis, k lockKind) {
			skipDeadWaiter(t, k, server.Addr(), func() { server.SetTime(time.Now().Add(-time.Hour)) })
		})
	})
}

func skipDeadWaiter(t *testing.T, k lockKind, addr string, setBack func()) {
	t.Helper()
	c := newLocks(t, addr)
	k.ready(t, c, "a")
	h := env.Must(k.block(c, "a").Lock(soon(t)))(t)
	dead := k.claim(newLocks(t, addr), "a", time.Minute)
	if k.label == reading.label {
		dead = writing.claim(dead.c, "a", time.Minute)
	}
	requireIn(t, dead, false) // and never retries
	setBack()
	release(t, h)

	behind := k.claim(c, "a", time.Minute)
	waited := false
	retriesInTime := false
	eventually(t, "in", func() bool {
		setBack()
		v := env.Must(behind.acquireOnce(soon(t), modeWait))(t)
		waited = waited || !v.ok
		retriesInTime = retriesInTime || !v.ok && v.retry < recheck/2
		return v.ok
	})
	require.Equal(t, waited, retriesInTime)
	_ = behind.release(soon(t)) // of a latch it has nothing
}
