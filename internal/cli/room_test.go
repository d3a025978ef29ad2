package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
)

// The largest lobby that --size allows has an order of 16 GiB, which the command must not compute for one position.
func TestPositionInLargestLobby(t *testing.T) {
	var out, errOut bytes.Buffer
	args := []string{"room", "verify", "--seed", strings.Repeat("7", 64), "--size", "4294967295", "--number", "4"}
	require.Zero(t, Run(t.Context(), args, &out, &errOut, app.Tuning{}), errOut.String())
	require.Equal(t, "position 212924937 of 4294967295\n", out.String())
}
