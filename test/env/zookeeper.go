package env

import (
	"testing"

	"seckill/test/env/servers"
)

// SharedZooKeeper returns the ensemble that all tests of this process share. Tests must not kill or pause its servers.
func SharedZooKeeper(tb testing.TB) *servers.ZooKeeper {
	tb.Helper()
	Full(tb)
	z, err := sharedZooKeeper()
	need(tb, err)
	return z
}

// StartZooKeeper starts a private ensemble and stops it at cleanup.
func StartZooKeeper(tb testing.TB) *servers.ZooKeeper {
	tb.Helper()
	Full(tb)
	return started(servers.RunZooKeeper(tb.Context()))(tb)
}
