package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
	"seckill/test/env/servers"
)

type ctxKey struct{}

var errWork = errors.New("work failed")

var errNode = errors.New("node is down")

// fakeKeeper replaces the server and behaves as the test prescribes.
type fakeKeeper struct {
	onRenew   func(d time.Duration) (time.Time, error)
	onRelease func(ctx context.Context) error
	busy      atomic.Bool // a command is in flight
	overlaps  atomic.Int32
	renewals  atomic.Int32
	releases  atomic.Int32
}

func (k *fakeKeeper) command() (done func()) {
	if k.busy.Swap(true) {
		k.overlaps.Add(1)
	}
	return func() { k.busy.Store(false) }
}

func (k *fakeKeeper) renew(_ context.Context, d time.Duration) (time.Time, error) {
	defer k.command()()
	k.renewals.Add(1)
	if k.onRenew != nil {
		return k.onRenew(d)
	}
	return time.Now().Add(d), nil
}

func (k *fakeKeeper) release(ctx context.Context) error {
	defer k.command()()
	k.releases.Add(1)
	if k.onRelease != nil {
		return k.onRelease(ctx)
	}
	return nil
}

func (k *fakeKeeper) hold(lease time.Duration) *Hold {
	return newHold(context.Background(), grant{keeper: k, name: "a", token: 7, lease: lease, validUntil: time.Now().Add(lease)})
}

// An extension within bounds changes the lease of later renewals, of which one that fails is repeated.
func TestExtendChangesWatchdogLease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var lease atomic.Int64
	k := &fakeKeeper{}
	k.onRenew = func(d time.Duration) (time.Time, error) {
		if k.renewals.Load() == 2 {
			return time.Time{}, errNode
		}
		lease.Store(int64(d))
		return time.Now().Add(d), nil
	}
	h := k.hold(time.Hour)
	require.Error(t, h.Extend(ctx, 0))
	require.Error(t, h.Extend(ctx, MaxLease+time.Second))
	assert.Zero(t, k.renewals.Load())

	require.NoError(t, h.Extend(ctx, 3*time.Second))
	extended := h.ValidUntil()
	assert.Less(t, time.Until(extended), 4*time.Second)
	eventually(t, "renewed", func() bool { return h.ValidUntil().After(extended) })
	assert.GreaterOrEqual(t, k.renewals.Load(), int32(3))
	assert.Equal(t, 3*time.Second, time.Duration(lease.Load()))
	require.NoError(t, h.Release(ctx))
}

// A release waits for the renewal in flight, and no renewal follows it.
func TestReleaseWaitsForRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		finish := make(chan struct{})
		k := &fakeKeeper{}
		k.onRenew = func(d time.Duration) (time.Time, error) {
			close(started)
			<-finish
			return time.Now().Add(d), nil
		}

		h := k.hold(1500 * time.Millisecond)
		assert.EqualValues(t, 7, h.Token())
		<-started
		released := env.Go(func() error { return h.Release(context.Background()) })

		requireDone(t, h.Context(), ErrReleased)
		assert.Zero(t, k.releases.Load(), "the release overtook the renewal")

		close(finish)
		require.NoError(t, <-released)
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, k.renewals.Load(), "renewed after the release")
		assert.EqualValues(t, 1, k.releases.Load())
		assert.Zero(t, k.overlaps.Load())
	})
}

func TestLateRenewalDoesNotReviveHold(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	k := &fakeKeeper{}
	k.onRenew = func(d time.Duration) (time.Time, error) {
		<-finish
		return time.Now().Add(d), nil
	}
	h := k.hold(MinLease)
	requireDone(t, h.Context(), ErrLost)
	close(finish)
	require.ErrorIs(t, h.Extend(context.Background(), time.Minute), ErrNotHeld)
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
	assert.Zero(t, k.overlaps.Load())
}

func TestFailedExtendAssumesShorterLease(t *testing.T) {
	t.Parallel()
	k := &fakeKeeper{onRenew: func(time.Duration) (time.Time, error) { return time.Time{}, errNode }}
	h := newHold(context.Background(), grant{keeper: k, name: "a", lease: time.Hour, fixed: true, validUntil: time.Now().Add(time.Hour)})
	before := h.ValidUntil()
	require.ErrorIs(t, h.Extend(context.Background(), 2*time.Hour), errNode)
	require.Equal(t, before, h.ValidUntil(), "a longer lease may not have arrived")
	require.ErrorIs(t, h.Extend(context.Background(), 200*time.Millisecond), errNode)
	requireDone(t, h.Context(), ErrLost)
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
}

func TestReleaseRepeatsUntilAnswered(t *testing.T) {
	t.Parallel()
	k := &fakeKeeper{}
	k.onRelease = func(context.Context) error {
		if k.releases.Load() < 3 {
			return errNode
		}
		return nil
	}
	require.NoError(t, k.hold(time.Minute).Release(context.Background()))
	assert.EqualValues(t, 3, k.releases.Load())

	down := func(context.Context) error { return errNode }
	k = &fakeKeeper{onRelease: down}
	h := k.hold(time.Minute)
	began := time.Now()
	requireFails(t, h.Release(context.Background()), errNode, ErrUncertain, not{ErrLost})
	assert.GreaterOrEqual(t, time.Since(began), releaseWindow)
	assert.Less(t, k.releases.Load(), int32(80), "the wait between attempts grows")
	k.onRelease = nil
	require.NoError(t, h.Release(context.Background()), "a release that failed may be repeated")

	k = &fakeKeeper{onRelease: down}
	require.ErrorAs(t, k.hold(time.Minute).do(context.Background(), nothing), new(*UnlockError))
}

func TestMargin(t *testing.T) {
	assert.Equal(t, time.Second, margin(DefaultLease))
	assert.Equal(t, 5*time.Millisecond, margin(MinLease))
	assert.Equal(t, 10*time.Second, renewIn(DefaultLease, DefaultLease-time.Second))
	assert.Equal(t, time.Second, renewRetryInterval(DefaultLease))
}

// mixed returns a lock of each kind, on two servers.
func mixed(t testing.TB, first, second string) []Locker {
	t.Helper()
	here, there := newLocks(t, first), newLocks(t, second)
	redLock := newRedLocks(t, []string{first, second}).Lock("a")
	return []Locker{there.Fair("a"), redLock, here.Reentrant("a"), there.Mutex("a"), here.Mutex("a")}
}

// All locks are held. A reentrant one is acquired by the owner in ctx.
func TestMultiHoldsAllLocks(t *testing.T) {
	t.Parallel()
	addr, second := startServer(t), startServer(t)
	me := owned(t)
	outer := env.Must(newLocks(t, addr).Reentrant("a").Lock(me))(t)
	h := env.Must(Multi(mixed(t, addr, second)...).Lock(me))(t)
	assert.Zero(t, h.Token())
	assert.WithinRange(t, h.ValidUntil(), time.Now().Add(DefaultLease/2), time.Now().Add(DefaultLease*99/100))
	for _, l := range mixed(t, addr, second) {
		env.Fails(l.TryLock(soon(t)))(t, ErrNotAcquired, "%T", l)
	}

	require.NoError(t, h.Context().Err())
	require.NoError(t, h.Extend(me, time.Hour))
	for _, addr := range []string{addr, second} {
		assert.Greater(t, newClient(t, addr).PTTL(me, mutex.keys("a")[0]).Val(), 30*time.Minute, "each part is extended")
	}

	release(t, h)
	requireDone(t, h.Context(), ErrReleased)
	release(t, h, outer)
	require.ErrorIs(t, h.Extend(me, time.Minute), ErrNotHeld)
	nothingLeft(t, newClient(t, addr))
	nothingLeft(t, newClient(t, second))
}

func TestMultiValidates(t *testing.T) {
	ctx := soon(t)
	l := newLocks(t, env.StartMiniredis(t).Addr()).Mutex("a")

	for _, bad := range []Locker{Multi(), Multi(l, nil), Multi(l, (*Mutex)(nil)), Multi(l, Multi()), Multi(Multi(l), Multi(nil))} {
		for _, lock := range bothWays(bad) {
			requireFails(t, env.Err(lock(ctx)), "Multi", not{ErrNotAcquired})
		}
	}
}

// For each part that cannot be acquired, the earlier ones are released. Multis that name the locks in another order do
// not wait for each other for ever.
func TestMultiReleasesAfterFailure(t *testing.T) {
	t.Parallel()
	addr, second := startServer(t), startServer(t)
	for i := range mixed(t, addr, second) {
		taken := env.Must(mixed(t, addr, second)[i].TryLock(soon(t)))(t)
		all := Multi(mixed(t, addr, second)...)
		env.Fails(all.TryLock(soon(t)))(t, ErrNotAcquired)
		wait, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errNode)
		_, err := all.Lock(wait)
		cancel()
		requireFails(t, err, ErrNotAcquired, context.DeadlineExceeded, errNode)
		require.NoError(t, taken.Release(soon(t)))
		nothingLeft(t, newClient(t, addr))
		nothingLeft(t, newClient(t, second))
	}

	var wg sync.WaitGroup
	inside := 0 // guarded by the locks: the race detector checks it
	for range 4 {
		locks := mixed(t, addr, second)
		slices.Reverse(locks[rand.IntN(len(locks)):])
		wg.Go(func() {
			for range 5 {
				assert.NoError(t, Do(soon(t), Multi(locks...), func(context.Context) error {
					inside++
					return nil
				}))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 20, inside)
}

func TestMultiOrder(t *testing.T) {
	t.Parallel()
	addr := env.StartMiniredis(t).Addr()
	c, other := newLocks(t, addr), newLocks(t, addr)
	namesIn := func(ls ...Locker) string {
		m, ok := Multi(ls...).(*multi)
		require.True(t, ok)
		return m.name
	}
	want := "lock:fair:{b}, lock:mutex:{a}, lock:mutex:{b}"
	assert.Equal(t, want, namesIn(c.Mutex("b"), c.Mutex("a"), c.Fair("b")))
	assert.Equal(t, want, namesIn(Multi(other.Fair("b"), c.Mutex("b")), other.Mutex("b"), other.Mutex("a")), "each once")
	rw, ok := Multi(c.RW("a").Read(), c.RW("a").Write()).(*multi)
	require.True(t, ok)
	assert.Equal(t, []Locker{c.RW("a").Write()}, rw.locks, "the exclusive side includes the shared one")

	var called []string
	foreign := func(name string) Locker {
		return lockerFunc(func(ctx context.Context, _ bool, opts ...Option) (*Hold, error) {
			called = append(called, name)
			return c.Mutex(name).TryLock(ctx, opts...)
		})
	}
	second, first := foreign("second"), foreign("first")
	require.NoError(t, TryDo(soon(t), Multi(second, c.Mutex("z"), first), nothing))
	assert.Equal(t, []string{"second", "first"}, called, "foreign Lockers in the order given")
	taken := env.Must(c.Mutex("z").TryLock(soon(t)))(t)
	env.Fails(Multi(second, c.Mutex("z"), first).TryLock(soon(t)))(t, ErrNotAcquired)
	assert.Len(t, called, 2, "foreign Lockers come after this package's")
	require.NoError(t, taken.Release(soon(t)))
}

func TestServerOf(t *testing.T) {
	name := func(rdb redis.UniversalClient) string {
		t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
		return serverOf(rdb)
	}
	single := func(db int) string { return name(redis.NewClient(&redis.Options{Addr: "a:1", DB: db})) }
	cluster := func(addrs ...string) string { return name(redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})) }
	ring := func(second string, db int) string {
		return name(redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"x": "a:1", "y": second}, DB: db}))
	}
	sentinels := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}}
	failover := redis.NewFailoverClient(sentinels)
	redLock := func() Locker { return env.Must(NewRedLock("a", []redis.UniversalClient{failover}))(t) }

	assert.Equal(t, single(0), single(0))
	assert.NotEqual(t, single(0), single(1))
	assert.Equal(t, cluster("a:1", "b:1"), cluster("b:1", "a:1"))
	assert.Equal(t, ring("b:1", 0), ring("b:1", 0))
	assert.NotEqual(t, ring("b:1", 0), ring("c:1", 0))
	assert.NotEqual(t, ring("b:1", 0), ring("b:1", 1))
	assert.NotEqual(t, name(failover), name(redis.NewFailoverClient(sentinels)), "two sentinels may watch two servers")
	assert.NotEqual(t, name(redis.NewFailoverClusterClient(sentinels)), name(redis.NewFailoverClusterClient(sentinels)))
	assert.Len(t, inOrder([]Locker{redLock(), redLock()}), 1, "one lock of one client")
}

// If one part is lost, the whole is, and the other parts are freed by the release.
func TestMultiIsLostWithItsPart(t *testing.T) {
	s := newScene(t)
	b := mutex.keys("b")[0]
	for _, lose := range []func(h *Hold, doomed *Client){
		func(*Hold, *Client) { require.NoError(t, s.rdb.Del(s.ctx, b).Err()) }, // the next renewal finds it
		func(h *Hold, _ *Client) {
			require.NoError(t, s.rdb.Del(s.ctx, b).Err())
			require.ErrorIs(t, h.Extend(s.ctx, time.Minute), ErrNotHeld)
		},
		func(_ *Hold, doomed *Client) { require.NoError(t, doomed.Close()) },
	} {
		doomed := newLocks(t, s.addr, WithWatchdog(2400*time.Millisecond))
		h := env.Must(Multi(s.c.Mutex("a"), doomed.Mutex("b"), s.c.Fair("c")).Lock(s.ctx))(t)
		lose(h, doomed)
		requireDone(t, h.Context(), ErrLost)
		requireFails(t, h.Release(s.ctx), ErrNotHeld, ErrLost)
		require.NoError(t, h.Release(s.ctx), "a loss is reported once")
		require.NoError(t, TryDo(s.ctx, Multi(s.c.Mutex("a"), s.c.Fair("c")), nothing))
	}
	nothingLeft(t, s.rdb, b) // which is left to its lease when its client is closed
}

// A part that was acquired long ago is renewed during the wait for the others, and extended when they are acquired.
func TestMultiStartsWithFullLease(t *testing.T) {
	env.Full(t)
	s := newScene(t)
	const lease = 4 * time.Second
	taken := env.Must(s.c.Mutex("b").Lock(s.ctx))(t)
	got := background(s.ctx, Multi(s.c.Mutex("a"), s.c.Mutex("b")), WithLease(lease))
	mutex.queued(t, s.rdb, "b", 1)
	time.Sleep(lease + lease/2)
	env.Fails(s.c.Mutex("a").TryLock(s.ctx))(t, ErrNotAcquired, "a was freed during the wait")
	released := time.Now()
	require.NoError(t, taken.Release(s.ctx))
	all := <-got
	require.NoError(t, all.err)
	assert.WithinRange(t, all.hold.ValidUntil(), released.Add(lease*8/10), time.Now().Add(lease))

	requireDone(t, all.hold.Context(), ErrLost)
	require.ErrorIs(t, all.hold.Release(s.ctx), ErrNotHeld, "it was renewed")
}

func TestMultiLosesPartWhileWaiting(t *testing.T) {
	s := newScene(t)
	c := newLocks(t, s.addr, WithWatchdog(2400*time.Millisecond))
	taken := env.Must(c.Mutex("b").Lock(s.ctx))(t)
	got := background(s.ctx, Multi(c.Mutex("a"), c.Mutex("b")))
	mutex.queued(t, s.rdb, "b", 1)
	require.NoError(t, s.rdb.Del(s.ctx, keysOf(DefaultPrefix, "mutex", "a")[0]).Err())
	all := <-got
	requireFails(t, all.err, ErrLost, not{context.Canceled})
	require.NoError(t, taken.Release(s.ctx))
	nothingLeft(t, s.rdb)
}

// A part whose release is uncertain does not prevent the release of the others. The release can be repeated, and a loss
// is still reported.
func TestMultiReleaseWithUncertainPart(t *testing.T) {
	s := newScene(t)
	p := env.StartProxy(t, s.addr)
	far := newLocks(t, p.Addr)

	for _, want := range []error{nil, ErrNotHeld} {
		h := env.Must(Multi(far.Mutex("a"), s.c.Mutex("b"), s.c.Mutex("c")).Lock(s.ctx))(t)
		if want != nil {
			require.NoError(t, s.rdb.Del(s.ctx, keysOf(DefaultPrefix, "mutex", "b")[0]).Err())
		}
		p.Inject(servers.Refuse, anyCmd, servers.Always)
		require.ErrorIs(t, h.Release(s.ctx), ErrUncertain)
		require.NoError(t, TryDo(s.ctx, Multi(s.c.Mutex("b"), s.c.Mutex("c")), nothing), "these are free")
		p.Heal()
		require.ErrorIs(t, h.Release(s.ctx), want)
		nothingLeft(t, s.rdb)
	}
}
