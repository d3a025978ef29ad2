package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMakeOnceFillsTheDirectoryOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "template")
	made := 0
	fill := func(dir string) error {
		made++
		return os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)
	}
	_, err := makeOnce(t.Context(), path, func(dir string) error {
		require.NoError(t, fill(dir))
		return exec.ErrNotFound
	})
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.NoDirExists(t, path, "an incomplete template")

	results := make(chan error)
	for range 8 {
		go func() {
			_, err := makeOnce(context.Background(), path, fill)
			results <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-results)
	}
	assert.Equal(t, 2, made, "one failed attempt, then one of eight callers")
	require.FileExists(t, filepath.Join(path, "f"))
}

func TestTemplateIsReused(t *testing.T) {
	startMariaDB(t)
	bin, err := FindBinary("mariadbd")
	require.NoError(t, err)
	dir, err := mariaDBTemplate(t.Context(), bin)
	require.NoError(t, err)
	before, err := os.Stat(dir)
	require.NoError(t, err)
	startMariaDB(t)
	after, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, before.ModTime(), after.ModTime())
	assert.NotEqual(t, templateName("mysql", "10", nil), templateName("mysql", "11", nil))
}

func TestSweepRemovesOnlyDirectoriesOfKilledProcesses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	old := time.Now().Add(-time.Hour)
	folders := make(map[string]*folder)
	for _, name := range []string{"dead", "alive", "young"} {
		f, err := newFolder()
		require.NoError(t, err)
		folders[name] = f
	}
	for _, name := range []string{"dead", "alive"} {
		require.NoError(t, os.Chtimes(folders[name].lock.Path(), old, old))
	}
	require.NoError(t, folders["dead"].lock.Close())
	require.NoError(t, folders["young"].lock.Close())

	sweep(filepath.Dir(folders["dead"].path))
	assert.NoDirExists(t, folders["dead"].path)
	assert.DirExists(t, folders["alive"].path)
	assert.DirExists(t, folders["young"].path)
	for _, f := range folders {
		require.NoError(t, f.remove())
	}
	assert.NoDirExists(t, folders["alive"].path)
}
