package lock

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestMutualExclusion(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		const workers, rounds = 6, 5
		rdb := newClient(t, addr)
		var inside, total int // unguarded: the race detector checks them too
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range rounds {
					l, err := NewRedLock("shared", []redis.UniversalClient{rdb}, WithNodeTimeout(MaxNodeTimeout))
					if !assert.NoError(t, err) {
						return
					}
					err = Do(context.Background(), l, func(context.Context) error {
						mu.Lock()
						inside++
						assert.Equal(t, 1, inside)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						inside--
						total++
						mu.Unlock()
						return nil
					})
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, workers*rounds, total)
	})
}

func TestTryLockTaken(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		var seen recorder
		l := newLock(t, "a", []string{addr}, WithRedLockObserver(seen.observe))
		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		assert.Zero(t, h.Token())

		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		assert.NotErrorIs(t, err, ErrUncertain)

		other, err := newLock(t, "b", []string{addr}).TryLock(ctx)
		require.NoError(t, err, "another name is another lock")
		require.NoError(t, other.Release(ctx))

		require.NoError(t, h.Release(ctx))
		h, err = l.TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
		assert.Equal(t, []EventKind{EventAcquired, EventNotAcquired, EventReleased, EventAcquired, EventReleased}, seen.kinds())
	})
}

func TestLockWaitsForRelease(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithTimeout(context.Background(), longTimeout)
		defer cancel()
		l := newLock(t, "a", []string{addr})
		first, err := l.Lock(ctx)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			h, err := l.Lock(ctx)
			if err == nil {
				err = h.Release(ctx)
			}
			got <- err
		}()
		select {
		case err := <-got:
			require.FailNow(t, "acquired too early", "%v", err)
		case <-time.After(100 * time.Millisecond):
		}
		require.NoError(t, first.Release(ctx))
		require.NoError(t, <-got)
	})
}

func TestCancelledLockReturns(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		l := newLock(t, "a", []string{addr})
		h, err := l.Lock(context.Background())
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond)
		defer cancel()
		_, err = l.Lock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		why := errors.New("the caller has returned")
		gone, leave := context.WithCancelCause(context.Background())
		leave(why)
		for _, lock := range []func(context.Context, ...Option) (*Hold, error){l.Lock, l.TryLock} {
			_, err = lock(gone)
			require.ErrorIs(t, err, ErrNotAcquired)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
		}
		require.NoError(t, h.Release(context.Background()))
		keyGone(t, addr, "a")
	})
}

// counter counts the commands that a client sends.
type counter struct {
	mu    sync.Mutex
	names []string
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd)
		return next(ctx, cmd)
	}
}
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add(cmds...)
		return next(ctx, cmds)
	}
}

func (c *counter) add(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		c.names = append(c.names, cmd.Name())
	}
}

// countedClients returns three Clients, and a counter of the commands that they send. They tolerate a busy machine.
func countedClients(t *testing.T, addr string) (clients []*Client, sent *counter) {
	t.Helper()
	sent = &counter{}
	for range 3 {
		rdb := newClient(t, addr)
		rdb.AddHook(sent)
		c, err := New(rdb)
		require.NoError(t, err)
		c.exec.timeout = longTimeout
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		clients = append(clients, c)
	}
	return clients, sent
}

// requireFewCommands fails if contenders that waited for all of took sent more than perUse commands for each use. Every
// waiter may send one more per recheck: on a busy machine uses take longer, and waiters recheck more often.
func requireFewCommands(t *testing.T, sent *counter, uses, contenders int, perUse float64, took time.Duration) {
	t.Helper()
	rechecks := float64(contenders) * took.Seconds() / recheck.Seconds()
	n := float64(sent.sent())
	t.Logf("%.2f commands per use; up to %.0f rechecks of %.0f commands in %v", n/float64(uses), rechecks, n, took)
	assert.Less(t, n, perUse*float64(uses)+rechecks)
}

// sent returns the number of commands sent so far.
func (c *counter) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.names)
}

func TestCommandsOfACycle(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		rdb := newClient(t, addr)
		l, err := NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(MaxNodeTimeout))
		require.NoError(t, err)
		nothing := func(context.Context) error { return nil }
		require.NoError(t, TryDo(ctx, l, nothing)) // loads the script

		var sent counter
		rdb.AddHook(&sent)
		require.NoError(t, TryDo(ctx, l, nothing))
		assert.Equal(t, []string{"set", "evalsha"}, sent.names)

		h, err := l.TryLock(ctx)
		require.NoError(t, err)
		sent.names = nil
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		assert.Equal(t, []string{"set"}, sent.names)
		require.NoError(t, h.Release(ctx))
	})
}

func TestRedLockNames(t *testing.T) {
	onSingleServers(t, func(t *testing.T, addr string) {
		ctx := context.Background()
		rdb := newClient(t, addr)
		for _, name := range []string{"order:1", "}", "{", "{}", "a}b{c", "two words\r\n", "秒杀", "\x00\xff"} {
			l := newLock(t, name, []string{addr})
			h, err := l.TryLock(ctx)
			require.NoError(t, err, "%q", name)
			assert.EqualValues(t, 1, rdb.Exists(ctx, "redlock:{"+name+"}").Val(), "%q", name)
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, ErrNotAcquired, "%q", name)
			require.NoError(t, h.Release(ctx), "%q", name)
		}
		assert.Zero(t, rdb.DBSize(ctx).Val())
	})
}

func TestNewRedLockValidates(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, "127.0.0.1:1")
	one := []redis.UniversalClient{rdb}
	for what, test := range map[string]struct {
		name  string
		nodes []redis.UniversalClient
		opts  []RedLockOption
		want  string
	}{
		"no name":        {"", one, nil, "name"},
		"no nodes":       {"a", nil, nil, "at least one node"},
		"nil node":       {"a", []redis.UniversalClient{rdb, nil}, nil, "node 1 is nil"},
		"nil pointer":    {"a", []redis.UniversalClient{(*redis.Client)(nil)}, nil, "node 0 is nil"},
		"no lease":       {"a", one, []RedLockOption{WithWatchdogLease(0)}, "lease"},
		"short lease":    {"a", one, []RedLockOption{WithWatchdogLease(MinLease - 1)}, "lease"},
		"long lease":     {"a", one, []RedLockOption{WithWatchdogLease(MaxLease + time.Second)}, "lease"},
		"short timeout":  {"a", one, []RedLockOption{WithNodeTimeout(0)}, "node timeout"},
		"eternal timout": {"a", one, []RedLockOption{WithNodeTimeout(time.Hour)}, "node timeout"},
	} {
		l, err := NewRedLock(test.name, test.nodes, test.opts...)
		require.ErrorContains(t, err, test.want, what)
		require.Nil(t, l, what)
	}
	l, err := NewRedLock("a", one)
	require.NoError(t, err)
	_, err = l.TryLock(context.Background(), WithLease(-time.Second))
	require.ErrorContains(t, err, "lease")
	var op *net.OpError
	require.NotErrorAs(t, err, &op, "an invalid lease is refused before a command is sent")
}

// One cycle through each type of go-redis client.
func TestRedLockOnEveryClientType(t *testing.T) {
	t.Parallel()
	addr := testenv.StartMiniredis(t).Addr()
	for name, rdb := range map[string]redis.UniversalClient{
		"client":  redis.NewClient(&redis.Options{Addr: addr}),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}),
		"ring":    redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}}),
	} {
		l, err := NewRedLock("a", []redis.UniversalClient{rdb}, WithNodeTimeout(MaxNodeTimeout))
		require.NoError(t, err, name)
		require.NoError(t, TryDo(context.Background(), l, func(ctx context.Context) error {
			_, err := l.TryLock(ctx)
			assert.ErrorIs(t, err, ErrNotAcquired, name)
			return nil
		}), name)
		require.NoError(t, rdb.Close())
	}
}
