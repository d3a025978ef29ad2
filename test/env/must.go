package env

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Must returns a function that returns v, and fails its test if err is not nil: env.Must(s.Order(ctx, user, id))(t).
func Must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// Fails returns a function that fails its test unless err is the wanted error:
// env.Fails(s.Order(ctx, another, id))(t, domain.ErrNotFound).
func Fails[T any](_ T, err error) func(t testing.TB, want error, why ...any) {
	return func(t testing.TB, want error, why ...any) {
		t.Helper()
		require.ErrorIs(t, err, want, why...)
	}
}
