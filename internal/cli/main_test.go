package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/doctor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSecret = "a-secret-for-tests-only-0123456789"
	goodSecret = "b4c1d09f3a6e57822c9e10fd7a45be386f0b92d1e85c37a49d216fe07b58c3a2"
)

// requireStatus requires that the named checks ran with the wanted status.
func requireStatus(t *testing.T, found map[string]doctor.Finding, want doctor.Status, names ...string) {
	t.Helper()
	for _, name := range names {
		require.Contains(t, found, name)
		require.Equal(t, want, found[name].Status, "%s: %s", name, found[name].Found)
	}
}
