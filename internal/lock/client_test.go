package lock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
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

func TestClose(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		c := newLocks(t, addr)
		h, err := k.lock(c, "a").Lock(ctx)
		require.NoError(t, err)
		got := background(ctx, k.lock(c, "a"))
		queued(t, rdb, k.name, "a", 1)
		require.NoError(t, c.Close())
		err = (<-got).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, ErrClosed)
		require.NotErrorIs(t, err, ErrUncertain)
		requireDone(t, h.Context(), ErrLost)
		assert.Zero(t, waiters(t, rdb, k.name, "a"))
		assert.EqualValues(t, 1, rdb.Exists(ctx, lockKey(k)).Val(), "left to its lease")
		require.ErrorIs(t, h.Release(ctx), ErrNotHeld)
		for _, lock := range []func(context.Context, ...Option) (*Hold, error){k.lock(c, "a").TryLock, k.lock(c, "b").Lock} {
			_, err = lock(ctx)
			require.ErrorIs(t, err, ErrClosed)
		}
		require.NoError(t, c.Close())
	})
}

func TestCloseWhileServerHangs(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	server := testenv.StartRedis(t)
	c := newLocks(t, server.Addr)
	h, err := c.Mutex("a").Lock(soon(t))
	require.NoError(t, err)
	got := background(soon(t), c.Mutex("a"))
	queued(t, newClient(t, server.Addr), mutexKind.name, "a", 1)
	require.NoError(t, server.Pause())
	began := time.Now()
	require.NoError(t, c.Close())
	assert.Less(t, time.Since(began), longTimeout)
	require.ErrorIs(t, (<-got).err, ErrClosed)
	requireDone(t, h.Context(), ErrLost)
	require.NoError(t, server.Resume())
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
			ctx := soon(t)
			h, err := k.lock(c, "a").Lock(ctx)
			require.NoError(t, err, name)
			got := background(ctx, k.lock(c, "a"))
			queued(t, newClient(t, addr), k.name, "a", 1)
			require.NoError(t, h.Release(ctx), name)
			next := <-got
			require.NoError(t, next.err, name)
			require.NoError(t, next.hold.Release(ctx), name)
		}
		require.NoError(t, c.Close())
		require.NoError(t, rdb.Close())
	}
	nothingLeft(t, newClient(t, addr))
}

// Tokens increase even if the server has lost the last one or its clock is set back.
func TestTokensIncrease(t *testing.T) {
	eachExclusive(t, onEachServer, func(t *testing.T, addr string, k exclusiveKind) {
		ctx := soon(t)
		rdb := newClient(t, addr)
		l := k.lock(newLocks(t, addr), "a")
		last := uint64(0)
		take := func() {
			h, err := l.TryLock(ctx)
			require.NoError(t, err)
			assert.Greater(t, h.Token(), last)
			last = h.Token()
			require.NoError(t, h.Release(ctx))
		}
		take()
		require.NoError(t, rdb.FlushAll(ctx).Err())
		take()
		key := keysOf(DefaultPrefix, k.name, "a", fenceKey)[3]
		assert.Greater(t, rdb.PTTL(ctx, key).Val(), time.Hour-time.Minute)
		assert.Less(t, rdb.PTTL(ctx, key).Val(), 2*time.Hour, "a key without expiry")
		// As if the clock had been an hour ahead.
		last = uint64(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, rdb.Set(ctx, key, last, time.Hour).Err())
		take()
		take()
	})
}
