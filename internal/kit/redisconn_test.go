package kit_test

import (
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	fake "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/redisconn"
)

// clusterOf returns a client of a cluster and its only node that lives. By its slot map, all slots are at owner, or at the
// node itself for "".
func clusterOf(t *testing.T, owner string) (rdb redis.UniversalClient, node *fake.Server, maps *atomic.Int64) {
	t.Helper()
	node, err := fake.NewServer("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(node.Close)

	addr := node.Addr().String()
	if owner == "" {
		owner = addr
	}
	_, port, err := net.SplitHostPort(owner)
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)

	maps = &atomic.Int64{}
	require.NoError(t, node.Register("CLUSTER", func(c *fake.Peer, _ string, _ []string) {
		maps.Add(1)
		c.WriteLen(1)
		c.WriteLen(3)
		c.WriteInt(0)
		c.WriteInt(16383)
		c.WriteLen(2)
		c.WriteBulk("127.0.0.1")
		c.WriteInt(number)
	}))

	opts := redisconn.Options()
	opts.Addrs = []string{addr, addr}
	opts.MinIdleConns = 0
	rdb = redisconn.Open(opts)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb, node, maps
}

// A dead master answers no MOVED, so the slot map is read again at once after a connection was refused, without a further command.
func TestSlotMapIsReadAfterRefusedConnection(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())

	for name, send := range map[string]func(rdb redis.UniversalClient) error{
		"command": func(rdb redis.UniversalClient) error { return rdb.Get(t.Context(), "key").Err() },
		"pipeline": func(rdb redis.UniversalClient) error {
			_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Get(t.Context(), "key").Err() })
			return err
		},
	} {
		rdb, _, maps := clusterOf(t, dead.Addr().String())
		require.Error(t, rdb.Ping(t.Context()).Err(), name) // reads the map
		before := maps.Load()
		require.Error(t, send(rdb), name)
		require.Eventually(t, func() bool { return maps.Load() > before }, time.Minute, time.Millisecond, name)
	}
}

// TestClusterClient of the end-to-end tests has pipelines and transactions.
func TestCommandWithoutAnswerIsNotRepeated(t *testing.T) {
	rdb, node, _ := clusterOf(t, "")
	var received atomic.Int64
	require.NoError(t, node.Register("INCR", func(c *fake.Peer, _ string, _ []string) {
		received.Add(1)
		c.Close()
	}))

	require.Error(t, rdb.Incr(t.Context(), "key").Err())
	require.EqualValues(t, 1, received.Load())
}
