package testenv

import (
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/servers"
)

func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestDatabaseKeepsCommittedRowsAfterKill(t *testing.T) {
	t.Parallel()
	EachKind(t, func(t *testing.T, kind Kind) {
		m := kind.Start(t)
		dsn := m.DSN(t)
		db := openDB(t, dsn)
		_, err := db.Exec("CREATE TABLE t (id INT PRIMARY KEY)")
		require.NoError(t, err)
		_, err = db.Exec("INSERT INTO t VALUES (7)")
		require.NoError(t, err)
		open, err := db.Begin()
		require.NoError(t, err)
		_, err = open.Exec("INSERT INTO t VALUES (8)")
		require.NoError(t, err)

		m.Kill()
		m.Kill() // no effect
		require.Error(t, open.Commit())
		require.NoError(t, m.Restart())

		var ids string
		require.NoError(t, openDB(t, dsn).QueryRow("SELECT GROUP_CONCAT(id) FROM t").Scan(&ids))
		assert.Equal(t, "7", ids)
	})
}

func TestDatabasePause(t *testing.T) {
	t.Parallel()
	EachKind(t, func(t *testing.T, kind Kind) {
		m := kind.Start(t)
		db := openDB(t, m.DSN(t))
		require.NoError(t, db.Ping())
		require.NoError(t, m.Pause())
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, db.PingContext(ctx), context.DeadlineExceeded)
		require.NoError(t, m.Resume())
		require.NoError(t, db.Ping())
		require.NoError(t, m.Pause(), "a paused server can be stopped, and its databases are not dropped")
	})
}

func TestDatabaseArgsOverride(t *testing.T) {
	t.Parallel()
	EachKind(t, func(t *testing.T, kind Kind) {
		m := kind.Start(t, "--innodb-flush-log-at-trx-commit=2", "--max-connections=77", "--loose-no-such-option=1")
		var flush, conns int
		row := openDB(t, m.DSN(t)).QueryRow("SELECT @@innodb_flush_log_at_trx_commit, @@max_connections")
		require.NoError(t, row.Scan(&flush, &conns))
		assert.Equal(t, []int{2, 77}, []int{flush, conns})
	})
}

func TestDatabasesAreSeparateAndDropped(t *testing.T) {
	var dsns [2]string
	t.Run("use", func(t *testing.T) {
		for i := range dsns {
			dsns[i] = MySQLDSN(t)
			_, err := openDB(t, dsns[i]).Exec("CREATE TABLE t (s VARCHAR(9)) SELECT '😀' AS s")
			require.NoError(t, err, "the second database must not contain the table of the first")
		}
	})
	for _, dsn := range dsns {
		assert.ErrorContains(t, openDB(t, dsn).Ping(), "Unknown database")
	}
}

func TestRunningServerIsUsed(t *testing.T) {
	m := SharedMariaDB(t)
	t.Setenv(EnvMySQLDSN, fmt.Sprintf("root@tcp(%s)/mysql?timeout=5s", m.Addr))
	dsn := MySQL.DSN(t)
	assert.Regexp(t, `^root@tcp\(`+m.Addr+`\)/seckill_test_\w+\?timeout=5s$`, dsn)
	require.NoError(t, openDB(t, dsn).Ping())
}

// A test with a kind of server of its own is skipped, even if a missing program would fail it.
func TestOneKindOfServer(t *testing.T) {
	ended := func(run func(tb testing.TB)) string {
		tb := &fakeTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(tb)
		}()
		<-done
		return tb.ended
	}
	t.Setenv(EnvRequire, "1")
	t.Setenv(EnvDatabase, "mysql")
	assert.Equal(t, []Kind{MySQL}, Kinds(t))
	assert.Equal(t, MySQL, OneKind(t))
	assert.Equal(t, "skip", ended(func(tb testing.TB) { MariaDB.Start(tb) }))
	assert.Equal(t, "skip", ended(UsesSQLite))
	assert.Equal(t, "fatal", ended(func(tb testing.TB) { MySQL.need(tb, exec.ErrNotFound) }), "no server at all")
	t.Setenv(EnvMySQLDSN, "root@tcp(127.0.0.1:1)/")
	assert.Equal(t, "skip", ended(func(tb testing.TB) { MySQL.need(tb, exec.ErrNotFound) }), "it may not be killed")
	t.Setenv(EnvDatabase, "oracle")
	assert.Equal(t, "fatal", ended(func(tb testing.TB) { Kinds(tb) }))
}

func TestCreateDatabase(t *testing.T) {
	m := SharedMariaDB(t)
	dsn, err := m.CreateDatabase(t.Context(), "by_name")
	require.NoError(t, err)
	assert.Equal(t, "root@tcp("+m.Addr+")/by_name", dsn)
	require.NoError(t, servers.DropDatabase(servers.AdminConfig(m.Addr), "by_name"))
}
