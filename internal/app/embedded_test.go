package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
)

// TestSigningSecretIsPersisted: the secret is generated once, and a stored secret that is too short is an error.
func TestSigningSecretIsPersisted(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: t.TempDir()}
	first, err := SigningSecrets(cfg)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(first.Signer()), auth.MinSecret)

	again, err := SigningSecrets(cfg)
	require.NoError(t, err)
	require.Equal(t, first, again)

	require.NoError(t, os.WriteFile(filepath.Join(cfg.DataDir, SecretFile), []byte("short"), 0o600))
	_, err = SigningSecrets(cfg)
	require.ErrorContains(t, err, "at least 32")
}
