// Package sim simulates the order life cycle. Its tests perform random steps on the real packages, with crashes and
// lost replies, and compare every table with a model after each step.
package sim

import (
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// step is one action of a random walk. It is drawn in proportion to its weight whenever can returns true. A nil can is
// always true.
type step struct {
	weight int
	can    func() bool
	do     func(*rapid.T)
}

// nextStep draws the name of a step that is possible now.
func nextStep(t *rapid.T, steps map[string]step) (name string) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(steps)) { // sorted, so a seed repeats its walk
		if s := steps[name]; s.can == nil || s.can() {
			names = append(names, slices.Repeat([]string{name}, s.weight)...)
		}
	}
	return evenly(t, "what", names...)
}

// evenly draws one of the values with equal probability. Rapid's own generators prefer the first ones.
func evenly[T any](t *rapid.T, label string, some ...T) T {
	if len(some) == 1 {
		return some[0]
	}
	return rapid.Custom(func(t *rapid.T) T {
		for {
			i := 0
			for range bits.Len(uint(len(some) - 1)) {
				i *= 2
				if rapid.Bool().Draw(t, "") {
					i++
				}
			}
			if i < len(some) {
				return some[i]
			}
		}
	}).Draw(t, label)
}

// fails reports whether rapid finds a failure. It runs rapid in its own goroutine, which FailNow ends.
func fails(t testing.TB, prop func(*rapid.T)) bool {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rapid.Check(r, prop)
	}()
	<-ended
	return r.failed
}

// recorder records the failures of a test that is expected to fail.
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
