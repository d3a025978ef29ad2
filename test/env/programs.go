package env

import (
	"testing"

	"seckill/test/env/servers"
)

// Program returns the path of a program on this machine. Without it the test is skipped, or fails if [EnvRequire] is 1.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	server(tb)
	path, err := servers.FindBinary(name)
	need(tb, err)
	return path
}

// Chromium returns the path of a Chromium or Chrome for tests of pages. If there is none, the test is skipped, or fails
// if [EnvRequire] is 1.
func Chromium(tb testing.TB) string {
	tb.Helper()
	server(tb)
	path, err := servers.FindChromium()
	need(tb, err)
	return path
}
