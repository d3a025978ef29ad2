package testenv

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/loop"
	"seckill/internal/servers"
)

// Galera is a cluster of three MariaDB nodes of a test. See [servers.Galera].
type Galera struct {
	Nodes []*MariaDB
}

// StartGalera starts a private cluster and stops it at cleanup. options are as for [servers.RunGalera].
func StartGalera(tb testing.TB, options ...string) *Galera {
	tb.Helper()
	run, err := servers.RunGalera(tb.Context(), options...)
	need(tb, err)
	stopAtCleanup(tb, run)
	g := &Galera{}
	for _, n := range run.Nodes {
		g.Nodes = append(g.Nodes, &MariaDB{n})
	}
	return g
}

// Verdict waits until the last node has formed a cluster of n nodes without the others.
func (g *Galera) Verdict(tb testing.TB, n int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := servers.GaleraSize(ctx, g.Nodes[len(g.Nodes)-1].Addr, n)
		if err == nil {
			return
		}
		if loop.Sleep(ctx, 20*time.Millisecond) != nil {
			tb.Fatalf("no new cluster: %v", err)
		}
	}
}

// Addrs returns the addresses of the nodes, those from node first on in front.
func (g *Galera) Addrs(first int) (addrs []string) {
	for i := range g.Nodes {
		addrs = append(addrs, g.Nodes[(first+i)%len(g.Nodes)].Addr)
	}
	return addrs
}

// DSN creates an empty utf8mb4 database with a new name and returns its DSN on the first node, which every node can
// open. The test does not drop it.
func (g *Galera) DSN(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	name := randomDatabase()
	dsn, err := g.Nodes[0].CreateDatabase(ctx, name)
	if err != nil {
		tb.Fatalf("create a database on Galera: %v", err)
	}
	for _, n := range g.Nodes[1:] {
		for err := errors.New("unknown"); err != nil; err = n.hasDatabase(ctx, name) {
			if loop.Sleep(ctx, 10*time.Millisecond) != nil {
				tb.Fatalf("a node of Galera has no database %s: %v", name, err)
			}
		}
	}
	return dsn
}

func (m *MariaDB) hasDatabase(ctx context.Context, name string) error {
	cfg := servers.AdminConfig(m.Addr)
	cfg.DBName = name
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	return db.PingContext(ctx)
}
