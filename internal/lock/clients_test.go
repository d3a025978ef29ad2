package lock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newLocks is a Client on the given server, with connections of its own.
func newLocks(t testing.TB, addr string, opts ...ClientOption) *Client {
	t.Helper()
	c, err := New(newClient(t, addr), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// soon bounds a call that should end long before.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// exclusive makes the locks of each kind that lets one holder in at a time.
var exclusive = map[string]func(c *Client, name string) Locker{
	"mutex": func(c *Client, name string) Locker { return c.Mutex(name) },
}

// eachExclusive runs test for each of them on each server, with a client.
func eachExclusive(t *testing.T, test func(t *testing.T, addr, kind string, lock func(c *Client, name string) Locker)) {
	t.Helper()
	onEachServer(t, func(t *testing.T, addr string) {
		for kind, lock := range exclusive {
			t.Run(kind, func(t *testing.T) {
				require.NoError(t, newClient(t, addr).FlushAll(context.Background()).Err())
				test(t, addr, kind, lock)
			})
		}
	})
}

// waiters is the number in the queue of a lock.
func waiters(t testing.TB, rdb *redis.Client, kind, name string) int64 {
	t.Helper()
	keys := keysOf(DefaultPrefix, kind, name)
	n, err := rdb.ZCard(context.Background(), keys[1]).Result()
	require.NoError(t, err)
	m, err := rdb.HLen(context.Background(), keys[2]).Result()
	require.NoError(t, err)
	require.Equal(t, n, m, "queue and waiters differ")
	return n
}

// queued waits until so many stand in the queue.
func queued(t testing.TB, rdb *redis.Client, kind, name string, n int64) {
	t.Helper()
	key := keysOf(DefaultPrefix, kind, name)[1]
	eventually(t, "queued", func() bool { return rdb.ZCard(context.Background(), key).Val() == n })
}

// nothingLeft waits until only fencing tokens are on the server, and nobody is
// subscribed.
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
	}, patience, 5*time.Millisecond, "left: %q, %q", keys, channels)
}
