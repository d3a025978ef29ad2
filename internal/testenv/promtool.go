package testenv

import (
	"testing"

	"seckill/internal/servers"
)

// Promtool returns the path of the tool that checks rules of Prometheus. If there is none, the test is skipped, or fails if
// [EnvRequire] is 1.
func Promtool(tb testing.TB) string {
	tb.Helper()
	path, err := servers.FindBinary("promtool")
	need(tb, err)
	return path
}
