package doctor

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

func TestOpenFiles(t *testing.T) {
	t.Parallel()
	for limit, status := range map[uint64]Status{1000: Fail, 1024: Warn, 32767: Warn, 32768: OK} {
		assert.Equal(t, status, filesResult(limit, nil).Status, limit)
	}
	assert.Equal(t, Skipped, filesResult(0, errors.ErrUnsupported).Status)

	n, err := OpenFiles()
	require.NoError(t, err)
	require.Positive(t, n)
	assert.Contains(t, examine(t, Machine(OpenFiles)), "machine.files")
}

// embedded creates a data directory with a database that is opened with the given pragmas.
func embedded(t *testing.T, pragmas string) SQLite {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "seckill.db")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	pool, err := sql.Open("sqlite", "file:"+file+"?"+pragmas)
	require.NoError(t, err)
	pool.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = pool.Close() })
	execute(t, pool, "CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id INTEGER, is_applied INTEGER)",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1), (2, 1), (3, 0)")
	return SQLite{Pool: pool, Dir: dir, Database: "seckill.db", Secrets: []string{"jwt-secret"}, Migrations: []int64{1, 2}}
}

const programPragmas = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

func TestSQLite(t *testing.T) {
	t.Parallel()
	s := embedded(t, programPragmas)
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "jwt-secret"), nil, 0o600))
	want(t, examine(t, s.Groups()...), map[string]Status{
		"database.reachable": OK, "database.schema": OK, "database.journal": OK, "data.permissions": OK,
	})
	s.Migrations = []int64{1, 2, 3}
	want(t, examine(t, s.Groups()...), map[string]Status{"database.schema": Warn})
	s.Migrations = []int64{1}
	want(t, examine(t, s.Groups()...), map[string]Status{"database.schema": Fail})

	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "jwt-secret"), 0o640))
	found := examine(t, s.Groups()...)
	want(t, found, map[string]Status{"data.permissions": Fail})
	assert.Equal(t, "chmod 600 "+filepath.Join(s.Dir, "jwt-secret"), found["data.permissions"].Change)
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "jwt-secret"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "seckill.db"), 0o644))
	want(t, examine(t, s.Groups()...), map[string]Status{"data.permissions": Fail})
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "seckill.db"), 0o600))
	require.NoError(t, os.Chmod(s.Dir, 0o755))
	want(t, examine(t, s.Groups()...), map[string]Status{"data.permissions": Warn})
}

func TestSQLiteWithoutDurableCommits(t *testing.T) {
	t.Parallel()
	found := examine(t, embedded(t, "_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)").Groups()...)
	want(t, found, map[string]Status{"database.journal": Fail})
	assert.Contains(t, found["database.journal"].Found, "synchronous 1")
	found = examine(t, embedded(t, "_pragma=journal_mode(DELETE)").Groups()...)
	want(t, found, map[string]Status{"database.journal": Fail})
	assert.Contains(t, found["database.journal"].Found, "journal_mode delete")
}

func TestUnreachableSQLite(t *testing.T) {
	t.Parallel()
	s := SQLite{Err: fs.ErrNotExist, Dir: filepath.Join(t.TempDir(), "data"), Database: "seckill.db"}
	want(t, examine(t, s.Groups()...), map[string]Status{
		"database.reachable": Skipped, "database.schema": Skipped, "data.permissions": Skipped,
	})
	require.NoDirExists(t, s.Dir)
	s.Err = errors.New("file is not a database")
	found := examine(t, s.Groups()...)
	want(t, found, map[string]Status{"database.reachable": Fail, "database.journal": Skipped})
	assert.True(t, found["database.reachable"].Unasked)
}

func TestDisk(t *testing.T) {
	t.Parallel()
	assert.Equal(t, OK, diskResult("d", 1<<30).Status)
	assert.Equal(t, Warn, diskResult("d", 1<<30-1).Status)
	assert.Equal(t, Fail, diskResult("d", 99<<20).Status)
	free, err := freeDisk(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, free)
	_, err = freeDisk(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}
