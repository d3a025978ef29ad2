package servers

import (
	"context"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// TestFullDisk fills the disk of a server, which then refuses rows, runs on, and has every row that it accepted.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	m := started(t, func(ctx context.Context) (*Database, error) { return RunMariaDB(ctx, "--innodb-file-per-table=OFF") })
	db, err := openAdmin(AdminConfig(m.Addr))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	exec := func(statement string) error {
		_, err := db.ExecContext(t.Context(), statement)
		return err
	}
	require.NoError(t, exec("CREATE DATABASE x"))
	require.NoError(t, exec("CREATE TABLE x.list (data VARBINARY(8000))"))
	require.NoError(t, m.SetDiskFull(true))
	accepted := 0
	for err = nil; err == nil; {
		if err = exec("INSERT INTO x.list VALUES (REPEAT('x', 8000))"); err == nil {
			accepted++
		}
	}
	var refused *mysql.MySQLError
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, 1114, refused.Number)
	require.NoError(t, m.SetDiskFull(false))
	require.NoError(t, exec("INSERT INTO x.list VALUES ('y')"))
	require.NoError(t, m.Restart())
	var count int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM x.list").Scan(&count))
	require.Equal(t, accepted+1, count)
}
