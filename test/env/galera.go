package env

import (
	"context"
	"testing"

	"seckill/test/env/servers"
)

// Galera is a cluster of three MariaDB nodes of a test.
type Galera struct {
	*servers.Galera

	Nodes []*Database
}

// StartGalera starts a private cluster and stops it at cleanup. options are appended to wsrep_provider_options, such as
// "evs.suspect_timeout=PT4S".
func StartGalera(tb testing.TB, options ...string) *Galera {
	tb.Helper()
	Full(tb)
	MariaDB.mustBeUsed(tb)
	s, err := servers.RunGalera(tb.Context(), options...)
	need(tb, err)
	stopAtCleanup(tb, s)
	g := &Galera{Galera: s}
	for _, n := range s.Nodes {
		g.Nodes = append(g.Nodes, &Database{Database: n, Kind: MariaDB})
	}

	return g
}

// Verdict waits until the last node has formed a cluster of n nodes without the others.
func (g *Galera) Verdict(tb testing.TB, n int) {
	tb.Helper()
	inTime(tb, func(ctx context.Context) error { return g.Formed(ctx, len(g.Nodes)-1, n) })
}

// DSN creates an empty utf8mb4 database with a new name and returns its DSN on the first node, which every node can
// open. The test does not drop it.
func (g *Galera) DSN(tb testing.TB) (dsn string) {
	tb.Helper()
	inTime(tb, func(ctx context.Context) (err error) {
		dsn, err = g.CreateDatabase(ctx, randomDatabase())
		return err
	})
	return dsn
}
