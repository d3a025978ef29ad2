package env

import (
	"runtime"
	"testing"
)

// Finds reports whether a test finds a planted fault: it fails, and t does not. It runs in a goroutine, which FailNow ends.
func Finds(t testing.TB, test func(t testing.TB)) bool {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended

	return r.failed
}

// recorder records the failures of a test, and drops its log.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fail()                 { r.failed = true }
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Log(...any)            {}
func (r *recorder) Logf(string, ...any)   {}

func (r *recorder) FailNow() {
	r.failed = true
	runtime.Goexit()
}
