package doctor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	servers := testenv.SharedZooKeeper(t).Servers()
	verdict := func(servers ...string) Result { return examine(t, ZooKeeper(servers))["locks.ensemble"].Result }
	require.Equal(t, Good("3 servers of one ensemble"), verdict(servers...))
	assert.Equal(t, Warn, verdict(servers[0]).Status, "one server may be down")
	r := verdict(servers[0], servers[1], "127.0.0.1:1")
	assert.Equal(t, Warn, r.Status)
	assert.Contains(t, r.Found, "2 of 3 servers serve clients: 127.0.0.1:1: ")
	r = verdict("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
	assert.Equal(t, Fail, r.Status)
	assert.True(t, r.Unasked)
}

func TestEnsembleResult(t *testing.T) {
	t.Parallel()
	leader := zooKeeperReport{addr: "a:1", version: "3.8.0", mode: "leader"}
	follower := zooKeeperReport{addr: "b:1", version: "3.5.10", mode: "follower"}
	for name, c := range map[string]struct {
		change func(a, b, c *zooKeeperReport)
		want   Status
	}{
		"healthy":       {func(_, _, _ *zooKeeperReport) {}, OK},
		"old version":   {func(_, _, c *zooKeeperReport) { c.version = "3.4.14" }, Fail},
		"two ensembles": {func(_, _, c *zooKeeperReport) { c.mode = "standalone" }, Fail},
		"one down":      {func(a, _, _ *zooKeeperReport) { a.err = errors.New("refused") }, Warn},
	} {
		reports := []zooKeeperReport{leader, follower, follower}
		c.change(&reports[0], &reports[1], &reports[2])
		assert.Equal(t, c.want, ensembleResult(reports).Status, name)
	}
}
