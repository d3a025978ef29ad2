package testenv

import (
	"errors"
	"os/exec"
	"testing"

	"seckill/internal/servers"
)

// Chromium returns the path of a Chromium or Chrome for tests of pages. If there is none, the test is skipped, or fails
// if [EnvRequire] is 1.
func Chromium(tb testing.TB) string {
	tb.Helper()
	var missing error
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		path, err := servers.FindBinary(name)
		if err == nil {
			return path
		}
		missing = errors.Join(missing, err)
		if !errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	need(tb, missing)
	return ""
}
