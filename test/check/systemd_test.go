package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

const unitFile = "deploy/systemd/seckill.service"

// TestSystemdUnit: the unit waits for the end of the server as long as the containers, whose drain time is the same.
func TestSystemdUnit(t *testing.T) {
	unit := read(t, unitFile)
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(unit)
	require.NotNil(t, stop)
	require.Equal(t, compose(t).Services["app"].StopGracePeriod.String(), stop[1]+"s")
}

// TestSystemdKnowsUnit: systemd accepts every line of the unit.
func TestSystemdKnowsUnit(t *testing.T) {
	env.Full(t)

	// The program must exist.
	self := env.Must(os.Executable())(t)
	file := filepath.Join(t.TempDir(), "seckill.service")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(read(t, unitFile), "/usr/local/bin/seckill", self, 1)), 0o600))

	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "seckill.service")
}
