package lock

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
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
	require.ErrorContains(t, err, "no session")
	require.NotErrorIs(t, err, ErrNotAcquired)
	require.NotErrorIs(t, err, ErrUncertain)
	require.Error(t, z.Ping(t.Context()))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWork)
	err = z.Ping(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errWork)
}

// One contended cycle on a ring. TestCluster has the cluster.
func TestRing(t *testing.T) {
	t.Parallel()
	addr := env.StartMiniredis(t).Addr()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}})
	defer func() { require.NoError(t, ring.Close()) }()
	c := newLocksOf(t, ring)

	for _, k := range append(exclusiveKinds, redLocks) {
		h := env.Must(k.lock(c, "a").Lock(soon(t)))(t)
		got := background(soon(t), k.lock(c, "a"))
		k.queued(t, newClient(t, addr), "a", 1)
		release(t, h)
		release(t, arrived(t, got))
	}
	require.NoError(t, c.Close())
	nothingLeft(t, newClient(t, addr))
}

// Locks of many names are spread over all nodes. Waiters are woken on whichever node their client is subscribed.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := env.StartRedisCluster(t)
	rdb := cluster.Client(t)
	one, two := newLocksOf(t, rdb), newLocksOf(t, rdb)

	for _, k := range lockKinds {
		for i := range 6 {
			name := fmt.Sprint("{", i)
			k.ready(t, one, name)
			requireWoken(t, func(ctx context.Context) {
				h := env.Must(k.block(one, name).TryLock(ctx))(t)
				next := background(ctx, k.lock(two, name))
				eventually(t, "queued", func() bool { return rdb.ZCard(ctx, k.keys(name)[1]).Val() == 1 })
				release(t, h)
				release(t, arrived(t, next))
			})
		}
	}
}

// TestOpenSlot: while the slot of a lock is moved to another node, Redis refuses scripts some of whose keys do not exist. The
// holder repeats its renewal and keeps the lock; an acquire fails with Redis's reason, and leaves nothing behind; a release goes
// on by itself.
// Source: redisson/redisson#612, redis/redis#2710.
func TestOpenSlot(t *testing.T) {
	t.Parallel()
	cluster := env.StartRedisCluster(t)
	rdb := cluster.Client(t)
	for _, k := range leasedKinds {
		t.Run(k.label, func(t *testing.T) {
			t.Parallel()
			ctx := soon(t)
			var seen recorder
			c := newLocksOf(t, rdb, WithWatchdog(9*time.Second), WithObserver(seen.observe))
			k.ready(t, c, k.label)
			h := env.Must(k.block(c, k.label).TryLock(owned(t)))(t)
			move, stay := slotOf(t, cluster, k.keys(k.label)[0])

			move()
			_, err := k.block(c, k.label).TryLock(ctx)
			require.ErrorContains(t, err, "TRYAGAIN")
			require.NotErrorIs(t, err, ErrNotAcquired)
			require.NotErrorIs(t, err, ErrUncertain)
			eventually(t, "a renewal fails", func() bool { return seen.count(EventRenewFailed) > 0 })
			before := h.ValidUntil()
			stay()
			eventually(t, "renewed", func() bool { return h.ValidUntil().After(before) })
			require.NoError(t, h.Context().Err())

			move()
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, h.Release(short), ErrUncertain)
			stay()
			eventually(t, "released", func() bool {
				next, err := k.block(c, k.label).TryLock(ctx)
				return err == nil && next.Release(ctx) == nil
			})
		})
	}
}

// slotOf returns functions that open the slot of a key for its move to another node, and that end the move.
func slotOf(t *testing.T, cluster *env.RedisCluster, key string) (move, stay func()) {
	t.Helper()
	ctx := context.Background()
	rdb := cluster.Client(t)
	slot := rdb.ClusterKeySlot(ctx, key).Val()
	source := env.Must(rdb.MasterForKey(ctx, key))(t)
	var target *redis.Client
	for _, node := range cluster.Nodes {
		if node.Addr != source.Options().Addr {
			target = node.Client(t)
		}
	}
	id := func(node *redis.Client) any { return node.Do(ctx, "cluster", "myid").Val() }
	set := func(node *redis.Client, state ...any) {
		require.NoError(t, node.Do(ctx, append([]any{"cluster", "setslot", slot}, state...)...).Err())
	}
	move = func() {
		set(target, "importing", id(source))
		set(source, "migrating", id(target))
	}
	stay = func() {
		set(source, "stable")
		set(target, "stable")
	}
	return move, stay
}
