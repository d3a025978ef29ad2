package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSystemdUnit: the unit waits for the end of the server as long as the containers, whose drain time is the same, and
// systemd knows every line of it.
func TestSystemdUnit(t *testing.T) {
	unit := read(t, "deploy/systemd/seckill.service")
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(unit)
	require.NotNil(t, stop)
	require.Equal(t, compose(t).Services["app"].StopGracePeriod.String(), stop[1]+"s")

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze:", err)
	}

	// The program must exist.
	self, err := os.Executable()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "seckill.service")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(unit, "/usr/local/bin/seckill", self, 1)), 0o600))

	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "seckill.service")
}
