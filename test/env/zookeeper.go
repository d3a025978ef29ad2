package env

import (
	"context"
	"testing"

	"seckill/test/env/servers"
)

// ZooKeeper is an ensemble of a test.
type ZooKeeper struct{ *servers.ZooKeeper }

// SharedZooKeeper returns the ensemble that all tests of this process share. Tests must not kill or pause its servers.
func SharedZooKeeper(tb testing.TB) *ZooKeeper {
	tb.Helper()
	Full(tb)
	z, err := sharedZooKeeper()
	need(tb, err)
	return z
}

// StartZooKeeper starts a private ensemble and stops it at cleanup.
func StartZooKeeper(tb testing.TB) *ZooKeeper {
	tb.Helper()
	Full(tb)
	z, err := runZooKeeper(tb.Context())
	need(tb, err)
	stopAtCleanup(tb, z)
	return z
}

func runZooKeeper(ctx context.Context) (*ZooKeeper, error) {
	z, err := servers.RunZooKeeper(ctx)
	return &ZooKeeper{z}, err
}

// Leader returns the server that leads the ensemble. It waits for an election, at most [servers.StartTimeout].
func (z *ZooKeeper) Leader(tb testing.TB) *servers.ZooKeeperNode {
	tb.Helper()
	var leader *servers.ZooKeeperNode
	inTime(tb, func(ctx context.Context) (err error) {
		leader, err = z.ZooKeeper.Leader(ctx)
		return err
	})
	return leader
}
