package env

import (
	"os"
	"testing"

	"seckill/test/env/servers"
)

// EnvLevel is the variable that, set to full, runs all tests. By default those are skipped that call [Full].
const EnvLevel = "SECKILL_TEST"

// IsFull reports whether all tests run, as in make test-all.
func IsFull() bool { return os.Getenv(EnvLevel) == "full" }

// ByLevel returns how much a test does: few, or many if all tests run.
func ByLevel[T any](few, many T) T {
	if IsFull() {
		return many
	}
	return few
}

// Full marks a test that only make test-all runs: it shows what the tests of make test do not promise, or shows it once
// more on another system. It skips the test unless [EnvLevel] is full.
func Full(tb testing.TB) {
	tb.Helper()
	if !IsFull() {
		tb.Skipf("only with %s=full", EnvLevel)
	}
}

// FullParallel is [Full] for a test that is parallel to others.
func FullParallel(t *testing.T) {
	t.Helper()
	Full(t)
	t.Parallel()
}

// FullNoRace is [Full] and [NoRace] in one.
func FullNoRace(tb testing.TB, why string) {
	tb.Helper()
	NoRace(tb, why)
	Full(tb)
}

// NoRace skips a test under the race detector, which multiplies the time of code by five. make test-all then runs it without.
func NoRace(tb testing.TB, why string) {
	tb.Helper()
	if RaceDetector {
		tb.Skip("not under the race detector: " + why)
	}
}

func server(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs a server, and -short starts none")
	}
}

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
