// Package e2e tests whole servers over HTTP: rushes in every lane, kills, lost dependencies, commands.
package e2e

import (
	"testing"

	"seckill/test/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
