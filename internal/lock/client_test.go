package lock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestNewValidates(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, "127.0.0.1:1")
	for what, test := range map[string]struct {
		rdb  redis.UniversalClient
		opts []ClientOption
		want string
	}{
		"nil client":  {nil, nil, "nil"},
		"nil pointer": {(*redis.Client)(nil), nil, "nil"},
		"no prefix":   {rdb, []ClientOption{WithPrefix("")}, "prefix"},
		"hash tag":    {rdb, []ClientOption{WithPrefix("{a}")}, "prefix"},
		"short lease": {rdb, []ClientOption{WithWatchdog(MinLease - 1)}, "lease"},
		"long lease":  {rdb, []ClientOption{WithWatchdog(MaxLease + time.Second)}, "lease"},
	} {
		c, err := New(test.rdb, test.opts...)
		require.ErrorContains(t, err, test.want, what)
		require.Nil(t, c, what)
	}

	c := newLocks(t, "127.0.0.1:1")
	_, err := c.Mutex("a").Lock(context.Background(), WithLease(0))
	require.ErrorContains(t, err, "lease")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	tags := map[string]bool{}
	for _, name := range []string{"a", "}", "{", "{}", "{a}", "a}b", "%7D", "%", "a:queue", ":"} {
		keys := keysOf("lock", "mutex", name, fenceKey)
		require.Len(t, keys, 4)
		_, tag, _ := strings.Cut(keys[0], "{")
		tag, _, _ = strings.Cut(tag, "}")
		require.NotEmpty(t, tag)
		require.False(t, tags[tag], "%q has another name's tag", name)
		tags[tag] = true
		for _, key := range keys {
			require.True(t, strings.HasPrefix(key, "lock:mutex:{"+tag+"}"), key)
		}
	}
}

// One contended cycle through each type of go-redis client.
func TestEveryRedisClientType(t *testing.T) {
	t.Parallel()
	addr := testenv.StartMiniredis(t).Addr()
	for name, rdb := range map[string]redis.UniversalClient{
		"client":  redis.NewClient(&redis.Options{Addr: addr}),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}),
		"ring":    redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}}),
	} {
		c, err := New(rdb)
		require.NoError(t, err, name)
		c.exec.timeout = longTimeout

		for _, k := range exclusiveKinds {
			h := must(t)(k.lock(c, "a").Lock(soon(t)))
			got := background(soon(t), k.lock(c, "a"))
			queued(t, newClient(t, addr), k.name, "a", 1)
			release(t, h)
			release(t, arrived(t, got))
		}
		require.NoError(t, c.Close())
		require.NoError(t, rdb.Close())
	}
	nothingLeft(t, newClient(t, addr))
}

// After a reconnect every waiter retries, even without a wake message.
func TestWaitersRetryAfterReconnect(t *testing.T) {
	t.Parallel()
	addr := startRedis(t)
	ctx := soon(t)
	c := newLocks(t, addr)
	woken, confirmed, err := c.hub.join("me", "")
	require.NoError(t, err)
	defer c.hub.leave("me", false)
	<-confirmed

	select {
	case <-woken:
		require.FailNow(t, "woken by the first confirmation")
	default:
	}

	require.NoError(t, newClient(t, addr).Do(ctx, "client", "kill", "type", "pubsub").Err())
	select {
	case <-woken:
	case <-ctx.Done():
		require.FailNow(t, "not woken")
	}
}
