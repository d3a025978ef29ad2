package env

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Must returns a function that returns v, and fails its test if err is not nil: env.Must(s.Order(ctx, user, id))(t).
func Must[T any](v T, err error) func(t require.TestingT) T {
	return func(t require.TestingT) T {
		if h, ok := t.(interface{ Helper() }); ok {
			h.Helper()
		}
		require.NoError(t, err)
		return v
	}
}

// Err returns the error of a call whose result does not matter.
func Err[T any](_ T, err error) error { return err }

// Go calls fn in a goroutine, and returns a channel with its result.
func Go[T any](fn func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- fn() }()
	return result
}

// Fails returns a function that fails its test unless err is the wanted error, which may be nil, has the wanted text, or is of
// the type to which want points: env.Fails(s.Order(ctx, another, id))(t, domain.ErrNotFound).
func Fails[T any](_ T, err error) func(t testing.TB, want any, why ...any) {
	return func(t testing.TB, want any, why ...any) {
		t.Helper()
		switch want := want.(type) {
		case nil:
			require.NoError(t, err, why...)
		case error:
			require.ErrorIs(t, err, want, why...)
		case string:
			require.ErrorContains(t, err, want, why...)
		default:
			require.ErrorAs(t, err, want, why...)
		}
	}
}

// Only returns the element of a list that must have one.
func Only[T any](t require.TestingT, list []T, why ...any) T {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.Len(t, list, 1, why...)
	return list[0]
}

// Cancelled returns a context that has been cancelled.
func Cancelled(of context.Context) context.Context {
	ctx, cancel := context.WithCancel(of)
	cancel()
	return ctx
}

// Finds reports whether a test finds a planted fault: it fails, and t does not.
func Finds(t testing.TB, test func(t testing.TB)) bool { return ended(t, test) == "fatal" }

// ended returns how a test ends: "skip", "fatal" or "". It runs in a goroutine, which FailNow and SkipNow end.
func ended(t testing.TB, test func(t testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done

	return r.ended
}

// recorder records how a test ended, and drops its log.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Errorf(string, ...any) { r.ended = "fatal" }
func (r *recorder) Error(...any)          { r.ended = "fatal" }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fail()                 { r.ended = "fatal" }
func (r *recorder) Failed() bool          { return r.ended == "fatal" }
func (r *recorder) Skipf(string, ...any)  { r.SkipNow() }
func (r *recorder) Skip(...any)           { r.SkipNow() }
func (r *recorder) Log(...any)            {}
func (r *recorder) Logf(string, ...any)   {}

func (r *recorder) FailNow() {
	r.ended = "fatal"
	runtime.Goexit()
}

func (r *recorder) SkipNow() {
	r.ended = "skip"
	runtime.Goexit()
}
