package testenv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestZooKeeperElectsAnotherLeader(t *testing.T) {
	t.Parallel()
	z := StartZooKeeper(t)
	first := z.Leader(t)
	first.Kill()
	second := z.Leader(t)
	require.NotEqual(t, first.Addr, second.Addr)
	require.NoError(t, first.Restart(), "it follows the new leader")
	require.NoError(t, second.Pause())
	require.NoError(t, second.Resume())
}
