package lock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

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
