package sqldb

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// openNodes opens the database of a DSN on each node.
func openNodes(t *testing.T, dsn string, g *testenv.Galera) (all []*DB) {
	for _, n := range g.Nodes {
		db, err := OpenMySQL(strings.Replace(dsn, g.Nodes[0].Addr, n.Addr, 1))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		all = append(all, db)
	}
	return all
}

// A transaction that another node has rolled back runs again. A node without a majority is unavailable, although it
// answers.
func TestGalera(t *testing.T) {
	t.Parallel()
	g := testenv.StartGalera(t)
	dbs := openNodes(t, g.DSN(t), g)
	requireAbortedTransactionRepeated(t, Access{dbs[0]}, Access{dbs[1]})

	for _, n := range g.Nodes[1:] {
		n.Kill()
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // first it hangs
		err := dbs[0].Ping(t.Context())
		assert.ErrorIs(c, err, domain.ErrUnavailable)
		assert.ErrorContains(c, err, "1047")
	}, time.Minute, 20*time.Millisecond)
}

// requireAbortedTransactionRepeated: another node has changed the same row, so Galera has rolled the transaction back. It
// says so in the next statement, which after a switch of servers is one of RunTx. COMMIT would succeed with nothing.
func requireAbortedTransactionRepeated(t *testing.T, db, other Access) {
	t.Helper()
	exec := func(tx *gorm.DB, query string) { require.NoError(t, tx.Exec(query).Error) }
	reads := func(at Access, n int) {
		require.Eventually(t, func() bool {
			var found int
			err := at.Reader(t.Context()).Raw("SELECT n FROM aborted").Row().Scan(&found)
			return err == nil && found == n
		}, time.Minute, time.Millisecond)
	}
	exec(db.Writer(t.Context()), "CREATE TABLE aborted (id INT PRIMARY KEY, n INT NOT NULL)")
	exec(db.Writer(t.Context()), "INSERT INTO aborted VALUES (1, 0)")
	reads(other, 0)
	db.leaveServer()
	runs := 0
	require.NoError(t, db.Write(t.Context(), func(tx *gorm.DB) error {
		exec(tx, "UPDATE aborted SET n = n + 1")
		if runs++; runs == 1 {
			exec(other.Writer(t.Context()), "UPDATE aborted SET n = 10")
			reads(db, 10)
		}
		return nil
	}))
	require.Equal(t, 2, runs)
	reads(db, 11)
}
