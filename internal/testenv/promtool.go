package testenv

import "testing"

// Promtool returns the path of the tool that checks rules of Prometheus. If there is none, the test is skipped, or fails if
// [EnvRequire] is 1.
func Promtool(tb testing.TB) string {
	tb.Helper()
	path, err := findBinary("promtool")
	need(tb, err)
	return path
}
