package lock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A lockKind is a kind of lock, as the tests see it that are the same for several kinds.
type lockKind struct {
	*kind
	label string // of subtests; the kind's name, or a side of the read-write lock

	lock  func(c *Client, name string) Locker
	block func(c *Client, name string) Locker // excludes lock
	// claim returns one attempt to get what lock gets, without the hub.
	claim func(c *Client, name string, lease time.Duration) *claim
	// enter (if not nil) makes a new name ready: it sets the permits.
	enter func(ctx context.Context, c *Client, name string) error

	freeing  *script // releases a hold
	weight   int64   // of a hold of lock
	capacity int64   // the weight of a hold of block, and the most that holds can weigh together
}

func (k lockKind) String() string { return k.label }

// leased reports whether holds have a lease.
func (k lockKind) leased() bool { return k.renew != nil }

// ready makes the name ready, if that is necessary and not done yet.
func (k lockKind) ready(t testing.TB, c *Client, name string) {
	t.Helper()
	if k.enter == nil {
		return
	}
	var err error
	eventually(t, "ready", func() bool { // the connection may just have broken
		err = k.enter(soon(t), c, name)
		return err == nil
	})
}

// keys returns the keys of the lock without those of one owner.
func (k lockKind) keys(name string) []string {
	switch k.name {
	case rwReadKind.name:
		return rwKeys(DefaultPrefix, name, "")
	case leasedKind.name:
		return keysOf(DefaultPrefix, k.name, name, holdersKey)
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
	if k.enter == nil || k.kind == latchKind {
		return nil
	}
	return k.keys(name)[:1]
}

// nothingLeft waits until nothing is held of these names.
func (k lockKind) nothingLeft(t testing.TB, rdb *redis.Client, names ...string) {
	t.Helper()
	var stay []string
	for _, name := range names {
		stay = append(stay, k.stays(name)...)
	}
	nothingLeft(t, rdb, stay...)
	for _, key := range stay {
		eventually(t, "all permits are back", func() bool { return rdb.HGet(context.Background(), key, "held").Val() == "0" })
	}
}

func exclusive(k *kind, lock func(c *Client, name string) Locker) lockKind {
	return lockKind{
		kind: k, label: k.name, lock: lock, block: lock, freeing: k.release, weight: 1, capacity: 1,
		claim: func(c *Client, name string, lease time.Duration) *claim {
			return c.newClaim(k, keysOf(c.prefix, k.name, name, fenceKey), lease, "")
		},
	}
}

func side(k *kind, label string, lock func(m *RWMutex) Locker, weight, capacity int64) lockKind {
	return lockKind{
		kind: k, label: label, freeing: k.release, weight: weight, capacity: capacity,
		lock:  func(c *Client, name string) Locker { return lock(c.RW(name)) },
		block: func(c *Client, name string) Locker { return c.RW(name).Write() },
		claim: func(c *Client, name string, lease time.Duration) *claim {
			return c.newClaim(k, rwKeys(c.prefix, name, ""), lease, "")
		},
	}
}

// The exclusive kinds have one holder at a time. A release hands each over to a waiter of the same client.
var exclusiveKinds = []lockKind{
	exclusive(mutexKind, func(c *Client, name string) Locker { return c.Mutex(name) }),
	exclusive(fairKind, func(c *Client, name string) Locker { return c.Fair(name) }),
	exclusive(reentrantKind, func(c *Client, name string) Locker { return c.Reentrant(name) }),
	rwSides[1],
}

var rwSides = []lockKind{
	side(rwReadKind, "read", (*RWMutex).Read, 1, 1000),
	side(rwWriteKind, "write", (*RWMutex).Write, 1, 1),
}

// Of three permits, the lock of a semaphore takes two.
const (
	allPermits = 3
	twoPermits = 2
)

func permitsOf(k permitKind) lockKind {
	take := func(n int64) func(*Client, string) Locker {
		return func(c *Client, name string) Locker { return k.locker(c, name, n) }
	}
	return lockKind{
		kind: k.kind, label: k.name, lock: take(twoPermits), block: take(allPermits), freeing: k.freeing,
		weight: twoPermits, capacity: allPermits,
		claim: func(c *Client, name string, lease time.Duration) *claim {
			cl := k.claim(c, name, twoPermits)
			cl.lease = lease
			return cl
		},
		enter: func(ctx context.Context, c *Client, name string) error {
			_, err := k.of(c, name).SetPermits(ctx, allPermits)
			return err
		},
	}
}

var (
	leasedKinds = slices.Concat(exclusiveKinds, []lockKind{rwSides[0], permitsOf(leasedPermitKind)})
	lockKinds   = slices.Concat(leasedKinds, []lockKind{permitsOf(plainPermitKind)})
	waitKinds   = slices.Concat(lockKinds, []lockKind{latches})
)

// latches are latches as locks: lock waits for one, and a hold of block is one count.
var latches = lockKind{
	kind: latchKind, label: latchKind.name,
	lock: func(c *Client, name string) Locker {
		return looseLocker{
			take: func(ctx context.Context, _ bool) error { return c.Latch(name).Wait(ctx) },
			free: func(context.Context) error { return nil },
		}
	},
	block: func(c *Client, name string) Locker {
		return looseLocker{
			take: func(ctx context.Context, _ bool) error {
				_, err := c.Latch(name).TrySetCount(ctx, 1)
				return err
			},
			free: c.Latch(name).CountDown,
		}
	},
	claim: func(c *Client, name string, _ time.Duration) *claim {
		return c.newClaim(latchKind, c.Latch(name).keys, unleased)
	},
}

// A looseLocker makes a Locker of what has no holds.
type looseLocker struct {
	take func(ctx context.Context, wait bool) error
	free func(ctx context.Context) error
}

func (l looseLocker) Lock(ctx context.Context, _ ...Option) (*Hold, error) {
	return l.hold(ctx, true)
}

func (l looseLocker) TryLock(ctx context.Context, _ ...Option) (*Hold, error) {
	return l.hold(ctx, false)
}

func (l looseLocker) hold(ctx context.Context, wait bool) (*Hold, error) {
	if err := l.take(ctx, wait); err != nil {
		return nil, err
	}
	return newHold(ctx, grant{keeper: l, lease: time.Hour, fixed: true, validUntil: time.Now().Add(time.Hour)}), nil
}

func (looseLocker) renew(context.Context, time.Duration) (time.Time, error) { panic("no lease") }
func (l looseLocker) release(ctx context.Context) error                     { return l.free(ctx) }

// A permitKind is either semaphore.
type permitKind struct {
	*kind
	of      func(c *Client, name string) permitSource
	claim   func(c *Client, name string, n int64) *claim // one attempt, without the hub
	locker  func(c *Client, name string, n int64) Locker
	freeing *script
	pool    *poolScripts
}

func (k permitKind) String() string { return k.name }

// A permitSource is either semaphore.
type permitSource interface {
	SetPermits(ctx context.Context, n int64) (bool, error)
	AddPermits(ctx context.Context, delta int64) error
	Available(ctx context.Context) (int64, error)
	take(ctx context.Context, n int64, wait bool) (giveBack func(context.Context) error, err error)
}

type plainPermits struct{ *Semaphore }

func (s plainPermits) take(ctx context.Context, n int64, wait bool) (func(context.Context) error, error) {
	acquire := s.TryAcquire
	if wait {
		acquire = s.Acquire
	}
	return func(ctx context.Context) error { return s.Release(ctx, n) }, acquire(ctx, n)
}

type leasedPermits struct{ *LeasedSemaphore }

func (s leasedPermits) take(ctx context.Context, n int64, wait bool) (func(context.Context) error, error) {
	acquire := s.TryAcquire
	if wait {
		acquire = s.Acquire
	}
	p, err := acquire(ctx, n)
	if err != nil {
		return nil, err
	}
	return p.Release, nil
}

// A leasedLocker makes a Locker of a leased semaphore.
type leasedLocker struct {
	s *LeasedSemaphore
	n int64
}

func (l leasedLocker) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	return holdOf(l.s.Acquire(ctx, l.n, opts...))
}

func (l leasedLocker) TryLock(ctx context.Context, opts ...Option) (*Hold, error) {
	return holdOf(l.s.TryAcquire(ctx, l.n, opts...))
}

func holdOf(p *Permits, err error) (*Hold, error) {
	if err != nil {
		return nil, err
	}
	return p.hold, nil
}

var (
	plainPermitKind = permitKind{
		kind: semaphoreKind, pool: semaphorePool, freeing: releaseScript,
		of: func(c *Client, name string) permitSource { return plainPermits{c.Semaphore(name)} },
		claim: func(c *Client, name string, n int64) *claim {
			cl := c.newClaim(semaphoreKind, nil, unleased, n)
			cl.keys = requestKeys(c.Semaphore(name).keys, cl.id)
			return cl
		},
		locker: func(c *Client, name string, n int64) Locker {
			s := c.Semaphore(name)
			return looseLocker{
				take: func(ctx context.Context, wait bool) error { return s.acquire(ctx, n, wait) },
				free: func(ctx context.Context) error { return s.Release(ctx, n) },
			}
		},
	}
	leasedPermitKind = permitKind{
		kind: leasedKind, pool: leasedPool, freeing: leasedKind.release,
		of: func(c *Client, name string) permitSource { return leasedPermits{c.LeasedSemaphore(name)} },
		claim: func(c *Client, name string, n int64) *claim {
			return c.newClaim(leasedKind, c.LeasedSemaphore(name).keys, time.Minute, n)
		},
		locker: func(c *Client, name string, n int64) Locker { return leasedLocker{c.LeasedSemaphore(name), n} },
	}
	permitKinds = []permitKind{plainPermitKind, leasedPermitKind}
)

// faulty returns a Client behind a proxy. Its connection is open, the scripts are loaded and the names are ready, so
// that the next requests are those of the test.
func (k lockKind) faulty(t testing.TB, addr string, opts ...ClientOption) (*Client, *proxy) {
	t.Helper()
	p := startProxy(t, addr)
	c := newLocks(t, p.Addr, opts...)

	k.ready(t, c, "warm")
	h := must(t)(k.lock(c, "warm").Lock(soon(t)))
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
