package sqldb

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/testenv"
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

// Processes migrate an empty database at once, each through another node of Galera, where GET_LOCK is local to a node.
// Then a node without a majority is unavailable, although it answers.
func TestGalera(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	g := testenv.StartGalera(t)
	dbs := openNodes(t, g.DSN(t), g)
	pool, err := dbs[0].dialect.openLongLived()
	require.NoError(t, err)
	defer pool.Close()
	galera, err := onGalera(t.Context(), pool)
	require.NoError(t, err)
	require.True(t, galera)
	var (
		wg      sync.WaitGroup
		applied [3][]Migration
		errs    [3]error
	)
	for i, db := range dbs {
		wg.Go(func() { applied[i], errs[i] = db.MigrateUp(t.Context()) })
	}
	wg.Wait()
	total := 0
	for i, db := range dbs {
		require.NoError(t, errs[i])
		total += len(applied[i])
		require.NoError(t, db.Ping(t.Context()))
	}
	all, err := dbs[0].Migrations(t.Context())
	require.NoError(t, err)
	require.Len(t, all, total, "each migration is applied once")

	for _, n := range g.Nodes[1:] {
		n.Kill()
	}
	require.Eventually(t, func() bool { return dbs[0].Ping(t.Context()) != nil }, time.Minute, 20*time.Millisecond)
	err = dbs[0].Ping(t.Context())
	require.ErrorIs(t, err, domain.ErrUnavailable)
	require.ErrorContains(t, err, "1047")
}
