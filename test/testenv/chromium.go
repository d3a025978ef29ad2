package testenv

import (
	"testing"

	"seckill/test/servers"
)

// Chromium returns the path of a Chromium or Chrome for tests of pages. If there is none, the test is skipped, or fails
// if [EnvRequire] is 1.
func Chromium(tb testing.TB) string {
	tb.Helper()
	server(tb)
	path, err := servers.FindChromium()
	need(tb, err)
	return path
}
