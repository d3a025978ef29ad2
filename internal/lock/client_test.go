package lock

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// Every constructor refuses options out of range, before it sends anything.
func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, "127.0.0.1:1")
	newClientWith := func(rdb redis.UniversalClient, opts ...ClientOption) error {
		_, err := New(rdb, opts...)
		return err
	}
	redLock := func(opts ...RedLockOption) error {
		_, err := NewRedLock("a", []redis.UniversalClient{rdb}, opts...)
		return err
	}
	redLockOn := func(name string, nodes ...redis.UniversalClient) error {
		_, err := NewRedLock(name, nodes)
		return err
	}
	zooKeeper := func(server string, opts ...ZooKeeperOption) error {
		_, err := NewZooKeeper([]string{server}, opts...)
		return err
	}
	const server = "127.0.0.1:1"

	for _, test := range []struct {
		err  error
		want string
	}{
		{newClientWith(nil), "nil"},
		{newClientWith((*redis.Client)(nil)), "nil"},
		{newClientWith(rdb, WithPrefix("")), "prefix"},
		{newClientWith(rdb, WithPrefix("{a}")), "prefix"},
		{newClientWith(rdb, WithWatchdog(MinLease-1)), "lease"},
		{newClientWith(rdb, WithWatchdog(MaxLease+time.Second)), "lease"},

		{redLockOn("", rdb), "name"},
		{redLockOn("a"), "at least one node"},
		{redLockOn("a", rdb, nil), "node 1 is nil"},
		{redLockOn("a", (*redis.Client)(nil)), "node 0 is nil"},
		{redLock(WithWatchdogLease(0)), "lease"},
		{redLock(WithWatchdogLease(MinLease - 1)), "lease"},
		{redLock(WithWatchdogLease(MaxLease + time.Second)), "lease"},
		{redLock(WithNodeTimeout(0)), "node timeout"},
		{redLock(WithNodeTimeout(time.Hour)), "node timeout"},

		{zooKeeper(""), "addresses"},
		{zooKeeper(server, WithSessionTimeout(MinSessionTimeout-1)), "session timeout"},
		{zooKeeper(server, WithSessionTimeout(time.Hour)), "session timeout"},
		{zooKeeper(server, WithRequestTimeout(0)), "request timeout"},
		{zooKeeper(server, WithRoot("")), "root"},
		{zooKeeper(server, WithRoot("/")), "root"},
		{zooKeeper(server, WithRoot("lock")), "root"},
		{zooKeeper(server, WithRoot("/a/../b")), "root"},
	} {
		require.ErrorContains(t, test.err, test.want)
	}

	c := newLocks(t, server)
	for _, l := range []Locker{c.Mutex("a"), redLockOf(c, "a"), Multi(c.Mutex("a"))} {
		_, err := l.TryLock(soon(t), WithLease(-time.Second))
		require.ErrorContains(t, err, "lease")
		var op *net.OpError
		require.NotErrorAs(t, err, &op, "it is refused before a command is sent")
	}
}

// An unreachable ensemble is not a taken lock, and long names are refused.
func TestUnreachableZooKeeper(t *testing.T) {
	t.Parallel()
	z := newZooKeeper(t, []string{"127.0.0.1:1"}, WithRequestTimeout(50*time.Millisecond))
	for _, name := range []string{"", strings.Repeat("k", maxNodeName+1)} {
		_, err := z.Mutex(name).TryLock(soon(t))
		require.ErrorContains(t, err, "name")
	}
	_, err := z.Mutex("a").TryLock(soon(t))
	require.ErrorIs(t, err, errNoSession)
	require.NotErrorIs(t, err, ErrNotAcquired)
	require.NotErrorIs(t, err, ErrUncertain)
	require.Error(t, z.Ping(t.Context()))
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
		single, err := NewRedLock("single", []redis.UniversalClient{rdb}, WithNodeTimeout(patience))
		require.NoError(t, err, name)

		for _, k := range append(exclusiveKinds, redLocks) {
			h := must(t)(k.lock(c, "a").Lock(soon(t)))
			got := background(soon(t), k.lock(c, "a"))
			k.queued(t, newClient(t, addr), "a", 1)
			release(t, h)
			release(t, arrived(t, got))
		}
		release(t, must(t)(single.Lock(soon(t))))
		require.NoError(t, c.Close())
		require.NoError(t, rdb.Close())
	}
	nothingLeft(t, newClient(t, addr))
}
