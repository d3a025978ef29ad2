package testenv

import (
	"context"
	"testing"

	"seckill/test/servers"
)

// ZooKeeper is an ensemble of a test.
type ZooKeeper struct{ *servers.ZooKeeper }

// Leader returns the server that leads the ensemble. It waits for an election, at most [servers.StartTimeout].
func (z *ZooKeeper) Leader(tb testing.TB) *servers.ZooKeeperNode {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	n, err := z.ZooKeeper.Leader(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
