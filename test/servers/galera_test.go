package servers

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGaleraNodeReturns kills a node and starts it again. It has what was committed before and meanwhile.
func TestGaleraNodeReturns(t *testing.T) {
	if os.Getenv("SECKILL_TEST") != "full" { // as testenv.Full, which this package cannot use
		t.Skip("only with SECKILL_TEST=full")
	}
	t.Parallel()
	g := started(t, func(ctx context.Context) (*Galera, error) { return RunGalera(ctx) })
	on := func(node int, statement string) (count int) {
		db, err := openAdmin(AdminConfig(g.Nodes[node].Addr))
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		_, err = db.ExecContext(t.Context(), "SELECT 1") // wsrep_sync_wait=1: a read, not an insert, waits for the other nodes
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
		if node == 0 {
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM x.list").Scan(&count))
		}
		return count
	}
	on(1, "CREATE DATABASE x")
	on(1, "CREATE TABLE x.list (id INT PRIMARY KEY)")
	require.Equal(t, 2, on(0, "INSERT INTO x.list VALUES (1), (2)"))
	g.Nodes[0].Kill()
	require.NoError(t, g.Formed(t.Context(), 2, 2))
	on(1, "INSERT INTO x.list VALUES (3)")
	require.NoError(t, g.Nodes[0].Restart())
	require.Equal(t, 4, on(0, "INSERT INTO x.list VALUES (4)"))
}
