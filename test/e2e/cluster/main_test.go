// Package cluster tests whole servers on clusters of Redis, of databases and of lock nodes: failovers, elections, and access. Only
// make test-all starts clusters, so under make test this program has no tests.
package cluster

import (
	"testing"

	"seckill/test/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
