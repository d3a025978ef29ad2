package lock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// newLocks returns a Client on the given server, with connections of its own.
func newLocks(t testing.TB, addr string, opts ...ClientOption) *Client {
	t.Helper()
	var rdb redis.UniversalClient = newClient(t, addr)
	if cluster := newClusterClient(t, addr); cluster != nil {
		rdb = cluster
	}
	c, err := New(rdb, opts...)
	require.NoError(t, err)
	c.exec.timeout = 10 * commandTimeout // tolerates a machine that stalls for a moment
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// withLongTimeout runs the set-up of a test with a long command timeout, so that only the faults under test meet the
// normal one.
func withLongTimeout(c *Client, setUp func()) {
	c.exec.timeout = longTimeout
	setUp()
	c.exec.timeout = commandTimeout
}

// soon returns a context with a long timeout, for a test's calls, each of which should return quickly.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*longTimeout)
	t.Cleanup(cancel)
	return ctx
}

// An exclusiveKind is a kind of lock with one holder at a time.
type exclusiveKind struct {
	*kind
	lock func(c *Client, name string) Locker
}

var exclusiveKinds = []exclusiveKind{
	{mutexKind, func(c *Client, name string) Locker { return c.Mutex(name) }},
	{fairKind, func(c *Client, name string) Locker { return c.Fair(name) }},
	{reentrantKind, func(c *Client, name string) Locker { return c.Reentrant(name) }},
}

// attempt returns a claim of that lock, with an empty owner.
func (k exclusiveKind) attempt(c *Client, name string, lease time.Duration) *claim {
	keys := keysOf(c.prefix, k.name, name, fenceKey)
	if k.kind == rwWriteKind {
		keys = rwKeys(c.prefix, name, "")
	}
	return c.newClaim(k.kind, keys, lease, "")
}

// eachExclusive runs test for each kind on these servers. The server belongs to the test alone.
func eachExclusive(t *testing.T, on serverKinds, test func(t *testing.T, addr string, k exclusiveKind)) {
	t.Helper()
	on(t, func(t *testing.T, addr string) {
		for _, k := range exclusiveKinds {
			t.Run(k.name, func(t *testing.T) {
				require.NoError(t, newClient(t, addr).FlushAll(context.Background()).Err())
				test(t, addr, k)
			})
		}
	})
}

// eachOnRedis is eachExclusive for what only a real Redis supports. The tests run in parallel.
func eachOnRedis(t *testing.T, test func(t *testing.T, server *testenv.Redis, k exclusiveKind)) {
	t.Helper()
	t.Parallel()
	for _, k := range exclusiveKinds {
		t.Run(k.name, func(t *testing.T) { t.Parallel(); test(t, testenv.StartRedis(t), k) })
	}
}

// background acquires the lock in a goroutine and sends the outcome.
func background(ctx context.Context, l Locker, opts ...Option) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		h, err := l.Lock(ctx, opts...)
		got <- outcome{h, err}
	}()
	return got
}

// persistent repeats a failed Lock, as a client of a server that restarts must: the outcome of a command that was on its way
// is uncertain, and a queued waiter may not have received the answer that queued it.
type persistent struct{ Locker }

func (p persistent) Lock(ctx context.Context, opts ...Option) (*Hold, error) {
	h, err := p.Locker.Lock(ctx, opts...)
	for ; err != nil && ctx.Err() == nil; h, err = p.Locker.Lock(ctx, opts...) {
	}
	return h, err
}

type outcome struct {
	hold *Hold
	err  error
}

// waiters returns the length of a lock's queue. Both of its keys must agree; a waiter may come or go between the two
// reads, so it repeats them.
func waiters(t testing.TB, rdb *redis.Client, kind, name string) (n int64) {
	t.Helper()
	keys := keysOf(DefaultPrefix, kind, name)
	eventually(t, "queue and waiters have the same length", func() bool {
		var err error
		n, err = rdb.ZCard(context.Background(), keys[1]).Result()
		require.NoError(t, err)
		m, err := rdb.HLen(context.Background(), keys[2]).Result()
		require.NoError(t, err)
		return n == m
	})
	return n
}

// queued waits until n waiters are in the queue.
func queued(t testing.TB, rdb *redis.Client, kind, name string, n int64) {
	t.Helper()
	key := keysOf(DefaultPrefix, kind, name)[1]
	eventually(t, "queued", func() bool { return rdb.ZCard(context.Background(), key).Val() == n })
}

// allAnswered waits until c has the answers to all its commands. A waiter survives a fault only after the answer that
// queued it.
func allAnswered(t testing.TB, c *Client) {
	t.Helper()
	eventually(t, "answered", func() bool {
		c.exec.mu.Lock()
		defer c.exec.mu.Unlock()
		return c.exec.inFlight == 0 && len(c.exec.queue) == 0
	})
}

// stay keeps a waiter in the queue however long the test takes between its attempts, as a live client's rechecks do.
func stay(t testing.TB, rdb *redis.Client, kind, name string, cl *claim) {
	t.Helper()
	ctx := context.Background()
	keys := keysOf(DefaultPrefix, kind, name)
	entry, err := rdb.HGet(ctx, keys[2], cl.id).Result()
	require.NoError(t, err)
	_, wants, _ := strings.Cut(entry, ":")
	deadline := time.Now().Add(time.Hour).UnixMilli()
	require.NoError(t, rdb.HSet(ctx, keys[2], cl.id, fmt.Sprintf("%d:%s", deadline, wants)).Err())
	for _, key := range keys[1:3] {
		require.NoError(t, rdb.Persist(ctx, key).Err())
	}
}

// nothingLeft waits until only fencing tokens are on the server and no client is subscribed.
func nothingLeft(t testing.TB, rdb *redis.Client) {
	t.Helper()
	ctx := context.Background()
	var keys, channels []string
	require.Eventually(t, func() bool {
		keys = nil
		for _, key := range rdb.Keys(ctx, "*").Val() {
			if !strings.HasSuffix(key, ":"+fenceKey) {
				keys = append(keys, key)
			}
		}
		channels = rdb.PubSubChannels(ctx, "*").Val()
		return len(keys) == 0 && len(channels) == 0
	}, longTimeout, 20*time.Millisecond, "left: %q, %q", keys, channels)
}

// calls returns how often the server has executed a command, including calls from scripts.
func calls(t testing.TB, rdb *redis.Client, name string) int {
	t.Helper()
	stats, err := rdb.Info(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	_, line, found := strings.Cut(stats, "cmdstat_"+name+":calls=")
	if !found {
		return 0
	}
	count, _, _ := strings.Cut(line, ",")
	n, err := strconv.Atoi(count)
	require.NoError(t, err)
	return n
}
