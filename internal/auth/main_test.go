package auth

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// otter ends the goroutine of a cache after the cache is collected.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]"))
}

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
