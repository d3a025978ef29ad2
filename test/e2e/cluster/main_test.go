// Package cluster tests whole servers on clusters of databases and Redis, and their failovers.
package cluster

import (
	"testing"

	"seckill/test/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
