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
	"seckill/test/env/servers"
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

// A lockKind is a kind of lock, as the tests see it that are the same for several kinds.
type lockKind struct {
	*kind
	label string // of subtests; the kind's name, or a side of the read-write lock

	lock  func(c *Client, name string) Locker
	block func(c *Client, name string) Locker // excludes lock
	extra []any                               // the kind's own arguments of an acquire

	freeing *script // releases a hold

	// Of semaphores only.
	pool func(c *Client, name string) *pool
	take func(c *Client, name string, n int64) Locker
}

func (k lockKind) String() string { return k.label }

func (k lockKind) leased() bool { return k.renew != nil }

// ready sets the permits of a semaphore, if that is not done yet.
func (k lockKind) ready(t testing.TB, c *Client, name string) {
	t.Helper()
	if k.pool == nil {
		return
	}
	eventually(t, "ready", func() bool { // the connection may just have broken
		return env.Err(k.pool(c, name).SetPermits(soon(t), allPermits)) == nil
	})
}

// of returns the semaphore as a lock that takes n permits.
func (k lockKind) of(n int64) lockKind {
	take := k.take
	k.lock = func(c *Client, name string) Locker { return take(c, name, n) }
	k.block = func(c *Client, name string) Locker { return take(c, name, allPermits) }
	k.extra = []any{n}
	return k
}

// claim returns one attempt to get what lock gets, without the hub.
func (k lockKind) claim(c *Client, name string, lease time.Duration) *claim {
	cl := c.newClaim(k.kind, k.keys(name), lease, k.extra...)
	if k.kind == semaphoreKind {
		cl.keys = requestKeys(cl.keys, cl.id)
	}
	return cl
}

// keys returns the keys of the lock without those of one owner.
func (k lockKind) keys(name string) []string {
	switch k.name {
	case rwReadKind.name:
		return rwKeys(DefaultPrefix, name, "")
	case leasedKind.name:
		return keysOf(DefaultPrefix, k.name, name, holdersKey)
	case semaphoreKind.name, latchKind.name:
		return keysOf(DefaultPrefix, k.name, name)
	case redLockKind:
		return []string{RedLockKey(name)}
	default:
		return keysOf(DefaultPrefix, k.name, name, fenceKey)
	}
}

// holds returns the keys of the holds, without which nothing is held.
func (k lockKind) holds(name string) []string {
	if k.name == rwReadKind.name {
		return []string{k.keys(name)[0], k.keys(name)[4]}
	}
	return k.keys(name)[:1]
}

// stays returns the keys that remain when nothing is held: the number of permits.
func (k lockKind) stays(name string) []string {
	if k.pool == nil {
		return nil
	}
	return k.keys(name)[:1]
}

// queued waits until n waiters are in the queue, if there is one.
func (k lockKind) queued(t testing.TB, rdb *redis.Client, name string, n int64) {
	t.Helper()
	if k.name != redLockKind {
		eventually(t, "queued", func() bool { return rdb.ZCard(context.Background(), k.keys(name)[1]).Val() == n })
	}
}

func (k lockKind) nothingLeft(t testing.TB, rdb *redis.Client, names ...string) {
	t.Helper()
	var stay []string
	for _, name := range names {
		stay = append(stay, k.stays(name)...)
	}

	nothingLeft(t, rdb, stay...)
	for _, key := range stay {
		eventually(t, "all permits are back", func() bool {
			return rdb.HGet(context.Background(), key, "held").Val() == "0"
		})
	}
}

// eachKind is each with the lock "a" of the kind, of which nothing must be left when the test has ended.
func eachKind(t *testing.T, kinds []lockKind, start func(testing.TB) scene, test func(t *testing.T, s scene, k lockKind)) {
	t.Helper()
	each(t, kinds, start, func(t *testing.T, s scene, k lockKind) {
		k.ready(t, s.c, "a")
		test(t, s, k)
		k.nothingLeft(t, s.rdb, "a")
	})
}

// faulty returns a Client behind a proxy. Its connection is open, the scripts are loaded and the names are ready, so
// that the next requests are those of the test.
func (k lockKind) faulty(t testing.TB, addr string, opts ...ClientOption) (*Client, *servers.Proxy) {
	t.Helper()
	p := env.StartProxy(t, addr)
	c := newLocks(t, p.Addr, opts...)

	k.ready(t, c, "warm")
	h := env.Must(k.lock(c, "warm").Lock(soon(t)))(t)
	if k.leased() {
		require.NoError(t, h.Extend(soon(t), time.Minute))
	}
	release(t, h)
	if left := k.stays("warm"); left != nil {
		require.NoError(t, newClient(t, addr).Del(soon(t), left...).Err())
	}

	k.ready(t, c, "a")
	return c, p
}

func exclusive(k *kind, lock func(c *Client, name string) Locker) lockKind {
	return lockKind{
		kind:    k,
		label:   k.name,
		lock:    lock,
		block:   lock,
		extra:   []any{""}, // no owner
		freeing: k.release,
	}
}

func side(k *kind, label string, lock func(m *RWMutex) Locker) lockKind {
	side := exclusive(k, func(c *Client, name string) Locker { return lock(c.RW(name)) })
	side.label = label
	side.block = func(c *Client, name string) Locker { return c.RW(name).Write() }
	return side
}

// Of three permits, the lock of a semaphore takes two.
const (
	allPermits = 3
	twoPermits = 2
)

var (
	mutex     = exclusive(mutexKind, func(c *Client, name string) Locker { return c.Mutex(name) })
	fair      = exclusive(fairKind, func(c *Client, name string) Locker { return c.Fair(name) })
	reentrant = exclusive(reentrantKind, func(c *Client, name string) Locker { return c.Reentrant(name) })
	reading   = side(rwReadKind, "read", (*RWMutex).Read)
	writing   = side(rwWriteKind, "write", (*RWMutex).Write)

	plainPermits = lockKind{
		kind:    semaphoreKind,
		label:   semaphoreKind.name,
		freeing: releaseScript,
		pool:    func(c *Client, name string) *pool { return &c.Semaphore(name).pool },
		take: func(c *Client, name string, n int64) Locker {
			s := c.Semaphore(name)
			return loose(
				func(ctx context.Context, wait bool) error { return s.acquire(ctx, n, wait) },
				func(ctx context.Context) error { return s.Release(ctx, n) },
			)
		},
	}.of(twoPermits)

	leasedPermits = lockKind{
		kind:    leasedKind,
		label:   leasedKind.name,
		freeing: leasedKind.release,
		pool:    func(c *Client, name string) *pool { return &c.LeasedSemaphore(name).pool },
		take: func(c *Client, name string, n int64) Locker {
			return lockerFunc(func(ctx context.Context, wait bool, opts ...Option) (*Hold, error) {
				p, err := c.LeasedSemaphore(name).acquire(ctx, n, wait, opts)
				if err != nil {
					return nil, err
				}
				return p.hold, nil
			})
		},
	}.of(twoPermits)

	// exclusiveKinds have one holder at a time. A release hands each over to a waiter of the same client.
	exclusiveKinds = []lockKind{mutex, fair, reentrant, writing}

	// leasedKinds have holds with a lease, lockKinds have holds, waitKinds have waiters in a queue.
	leasedKinds = slices.Concat(exclusiveKinds, []lockKind{reading, leasedPermits})
	lockKinds   = slices.Concat(leasedKinds, []lockKind{plainPermits})
	waitKinds   = slices.Concat(lockKinds, []lockKind{latches})
	permitKinds = []lockKind{plainPermits, leasedPermits}
)

// redLocks are RedLocks over the server of a Client, whose commands are known by a part of their text.
var redLocks = lockKind{
	kind: &kind{
		name:    redLockKind,
		acquire: &script{sha: setCmd},
		renew:   &script{sha: scriptCmd},
	},
	label:   redLockKind,
	freeing: &script{sha: scriptCmd},
	lock:    redLockOf,
	block:   redLockOf,
}

func redLockOf(c *Client, name string) Locker {
	nodes := []redis.UniversalClient{c.exec.rdb}
	opts := []RedLockOption{WithNodeTimeout(patience), WithWatchdogLease(c.lease), WithRedLockObserver(c.observe)}
	locks, err := NewRedLocks(nodes, opts...)
	if err != nil {
		panic(err)
	}
	return locks.Lock(name)
}

// latches are latches as locks: lock waits for one, and a hold of block is one count.
var latches = lockKind{
	kind:  latchKind,
	label: latchKind.name,
	lock: func(c *Client, name string) Locker {
		return loose(func(ctx context.Context, _ bool) error { return c.Latch(name).Wait(ctx) }, nothing)
	},
	block: func(c *Client, name string) Locker {
		return loose(func(ctx context.Context, _ bool) error {
			return env.Err(c.Latch(name).TrySetCount(ctx, 1))
		}, c.Latch(name).CountDown)
	},
}

// A lockerFunc is Lock and TryLock.
type lockerFunc func(ctx context.Context, wait bool, opts ...Option) (*Hold, error)

func (f lockerFunc) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f(ctx, true, opts...)
}

func (f lockerFunc) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return f(ctx, false, opts...)
}

// loose makes a Locker of what has no holds.
func loose(take func(ctx context.Context, wait bool) error, free func(ctx context.Context) error) Locker {
	return lockerFunc(func(ctx context.Context, wait bool, _ ...Option) (*Hold, error) {
		if err := take(ctx, wait); err != nil {
			return nil, err
		}
		keeper := &fakeKeeper{onRelease: free}
		return newHold(ctx, grant{keeper: keeper, lease: time.Hour, fixed: true, validUntil: time.Now().Add(time.Hour)}), nil
	})
}
