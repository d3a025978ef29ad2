package lock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

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

type permitKind struct {
	*kind
	of    func(c *Client, name string) permitSource
	claim func(c *Client, name string, n int64) *claim // one attempt, without the hub
	pool  *poolScripts
}

var permitKinds = []permitKind{
	{
		semaphoreKind, func(c *Client, name string) permitSource { return plainPermits{c.Semaphore(name)} },
		func(c *Client, name string, n int64) *claim {
			cl := c.newClaim(semaphoreKind, nil, unleased, n)
			cl.keys = requestKeys(c.Semaphore(name).keys, cl.id)
			return cl
		}, semaphorePool,
	},
	{
		leasedKind, func(c *Client, name string) permitSource { return leasedPermits{c.LeasedSemaphore(name)} },
		func(c *Client, name string, n int64) *claim {
			return c.newClaim(leasedKind, c.LeasedSemaphore(name).keys, time.Minute, n)
		}, leasedPool,
	},
}

// eachSemaphore runs test for both kinds on these servers. The server belongs to the test alone.
func eachSemaphore(t *testing.T, on serverKinds, test func(t *testing.T, addr string, k permitKind)) {
	t.Helper()
	on(t, func(t *testing.T, addr string) {
		for _, k := range permitKinds {
			t.Run(k.name, func(t *testing.T) {
				require.NoError(t, newClient(t, addr).FlushAll(context.Background()).Err())
				test(t, addr, k)
			})
		}
	})
}

// eachSemaphoreOnRedis is eachSemaphore for what only a real Redis supports.
func eachSemaphoreOnRedis(t *testing.T, test func(t *testing.T, server *testenv.Redis, k permitKind)) {
	t.Helper()
	testenv.Full(t)
	t.Parallel()
	for _, k := range permitKinds {
		t.Run(k.name, func(t *testing.T) { t.Parallel(); test(t, testenv.StartRedis(t), k) })
	}
}

func set(t testing.TB, s permitSource, n int64) {
	t.Helper()
	ok, err := s.SetPermits(soon(t), n)
	require.NoError(t, err)
	require.True(t, ok, "set before")
}

func requireAvailable(t testing.TB, s permitSource, want int64) {
	t.Helper()
	n, err := s.Available(soon(t))
	require.NoError(t, err)
	require.Equal(t, want, n, "available")
}

// waiting takes permits in a goroutine and sends the outcome.
func waiting(ctx context.Context, s permitSource, n int64) <-chan taken {
	got := make(chan taken, 1)
	go func() {
		giveBack, err := s.take(ctx, n, true)
		got <- taken{giveBack, err}
	}()
	return got
}

type taken struct {
	giveBack func(context.Context) error
	err      error
}

// onlyCountsLeft waits until no keys except the given ones are on the server and no client is subscribed. The replies
// remembered for requests expire.
func onlyCountsLeft(t testing.TB, rdb *redis.Client, counts ...string) {
	t.Helper()
	var left []string
	if !poll(20*time.Millisecond, func() bool {
		left = keysLeft(t, rdb)
		return slices.Equal(counts, left)
	}) {
		require.FailNow(t, "keys or channels are left", "%q, want %q", left, counts)
	}
}

// keysLeft returns the subscribed channels and the keys on the server, sorted, without the replies remembered for
// requests. Thousands of these may exist, so their expiry is read in one round trip.
func keysLeft(t testing.TB, rdb *redis.Client) []string {
	t.Helper()
	ctx := context.Background()
	left := rdb.PubSubChannels(ctx, "*").Val()
	keys := rdb.Keys(ctx, "*").Val()
	pipe := rdb.Pipeline()
	ttls := make([]*redis.DurationCmd, len(keys))
	for i, key := range keys {
		ttls[i] = pipe.PTTL(ctx, key)
	}
	_, _ = pipe.Exec(ctx) // the first of the commands' errors
	for i, key := range keys {
		ttl, err := ttls[i].Result()
		expired := ttl == -2
		remembered := strings.Contains(key, "}:done:") && ttl >= 0 && ttl <= 3*repeatWindow // 0 in its last ms
		if err != nil || !expired && !remembered {
			left = append(left, key)
		}
	}
	slices.Sort(left)
	return left
}

func countKey(k *kind, name string) string { return keysOf(DefaultPrefix, k.name, name)[0] }

// wakes receives the wake messages of a client's waiters.
type wakes struct {
	t   testing.TB
	rdb *redis.Client
	sub *redis.PubSub
	to  string
}

func listenTo(t testing.TB, addr string, c *Client) *wakes {
	t.Helper()
	rdb := newClient(t, addr)
	sub := rdb.Subscribe(soon(t), c.hub.channel)
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(soon(t))
	require.NoError(t, err)
	return &wakes{t, rdb, sub, c.hub.channel}
}

// received returns the ids that were woken since its last call.
func (w *wakes) received() (ids []string) {
	w.t.Helper()
	const end = "end"
	require.NoError(w.t, w.rdb.Publish(soon(w.t), w.to, end).Err())
	for {
		msg, err := w.sub.ReceiveMessage(soon(w.t))
		require.NoError(w.t, err)
		if msg.Payload == end {
			return ids
		}
		ids = append(ids, msg.Payload)
	}
}

// requireIn acquires once for a claim, and requires the reply.
func requireIn(t testing.TB, cl *claim, want bool) {
	t.Helper()
	v, err := cl.acquireOnce(soon(t), modeWait)
	require.NoError(t, err)
	require.Equal(t, want, v.ok, "granted")
}
