package lock

import (
	"context"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/test/testenv"
)

// longTimeout bounds waits for events that are expected soon, even on a busy machine.
const longTimeout = 20 * time.Second

// quiet drops go-redis's own log, because tests stop servers on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	// Tests mostly wait, for leases to end and servers to start. -parallel overrides this value.
	_ = flag.Set("test.parallel", "8")
	testenv.Main(m, func() error {
		// Undos of locks on dead servers continue for a while, by design.
		for end := time.Now().Add(2 * undoWindow); len(undoSlots) > 0 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		return goleak.Find()
	})
}

// onEachServer runs test against miniredis and, except with -short, a real Redis and a cluster. Tests should use it
// wherever they can.
func onEachServer(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	onSingleServers(t, test)
	t.Run("cluster", func(t *testing.T) { t.Parallel(); test(t, startCluster(t)) })
}

// onSingleServers is onEachServer for tests that put a proxy before the server, or that need what only a single server
// has: its commands, its channels, its clock.
func onSingleServers(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); test(t, testenv.StartMiniredis(t).Addr()) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, testenv.StartRedis(t).Addr) })
}

// serverKinds is onEachServer or onSingleServers.
type serverKinds func(t *testing.T, test func(t *testing.T, addr string))

// newClient connects as the package documentation advises.
func newClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	if cluster := newClusterClient(t, addr); cluster != nil {
		rdb.AddHook(overCluster{cluster})
	}
	return rdb
}

// newLock returns a RedLock on the given servers, with a client each. Its node timeout is long, so that a busy machine
// does not fail a test; opts can shorten it.
func newLock(t testing.TB, name string, addrs []string, opts ...RedLockOption) Locker {
	t.Helper()
	opts = append([]RedLockOption{WithNodeTimeout(5 * time.Second)}, opts...)
	nodes := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		nodes[i] = newClient(t, addr)
	}
	all, err := NewRedLocks(nodes, opts...)
	require.NoError(t, err)
	return all.Lock(name)
}

// recorder stores the events of a lock.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) observe(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) count(kind EventKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (r *recorder) kinds() (kinds []EventKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// eventually fails unless ok becomes true, see poll.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll(5*time.Millisecond, ok) {
		require.FailNow(t, "condition never satisfied", what)
	}
}

// poll calls ok until it returns true, and reports whether it did. It gives up after longTimeout, but not before ok was
// called many times: on a busy machine one call may take seconds.
func poll(interval time.Duration, ok func() bool) bool {
	end := time.Now().Add(longTimeout)
	for try := 0; try < 100 || time.Now().Before(end); try++ {
		if ok() {
			return true
		}
		time.Sleep(interval)
	}
	return false
}

const (
	// leaseEndBound bounds the time from the end of a lease to the next hold. A waiter that does not retry then acquires
	// the lock by its recheck, which comes 400 ms or more after the end of the longest lease in these tests. The best of
	// six tries on a busy machine needed 160 ms.
	leaseEndBound = (recheck - 900*time.Millisecond) * 3 / 4

	// belowRecheck is also below that interval, for actions of several commands.
	belowRecheck = recheck / 2

	// cancelBound bounds a call whose ctx is cancelled while a command is in flight. A call that waits for the command
	// instead returns after its timeout, which is at least twice as long.
	cancelBound = commandTimeout / 2

	// deadBound bounds the delay that a dead waiter causes.
	deadBound = 5 * time.Second
)

// requireOneWithin fails unless one of several tries takes no longer than bound. A machine that stalls makes some tries
// late; a waiter that is not woken, and acquires the lock by its recheck, makes every try late.
func requireOneWithin(t testing.TB, bound time.Duration, try func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 6 {
		took = append(took, try())
		if slices.Min(took) <= bound {
			t.Logf("in %v", took)
			return
		}
	}
	require.Failf(t, "late in every try", "%v, want %v", took, bound)
}

// cancelled returns the error of a call whose ctx is cancelled while its command is in flight. The call has to return
// within cancelBound in the best of several tries.
func cancelled(t testing.TB, call func(context.Context) error) (err error) {
	t.Helper()
	requireOneWithin(t, cancelBound, func() (took time.Duration) {
		took, err = cancelOnce(call)
		require.ErrorIs(t, err, context.Canceled)
		return took
	})
	return err
}

// cancelOnce returns how long after the end of its ctx a call returned, and its error.
func cancelOnce(call func(context.Context) error) (took time.Duration, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var at atomic.Int64
	began := time.Now()
	timer := time.AfterFunc(50*time.Millisecond, func() { at.Store(int64(time.Since(began))); cancel() })
	err = call(ctx)
	took = time.Since(began) - time.Duration(at.Load())
	timer.Stop()
	cancel()
	return took, err
}

// keyGone waits until the lock's key is gone, far sooner than its lease ends.
func keyGone(t testing.TB, addr, name string) {
	t.Helper()
	rdb := newClient(t, addr)
	eventually(t, "key is gone", func() bool {
		return rdb.Exists(context.Background(), "redlock:{"+name+"}").Val() == 0
	})
}

func requireDone(t testing.TB, ctx context.Context, cause error) {
	t.Helper()
	select {
	case <-ctx.Done():
		require.ErrorIs(t, context.Cause(ctx), cause)
	case <-time.After(longTimeout):
		require.FailNow(t, "context has not ended")
	}
}
