package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/test/env/servers"
)

// database are the servers of the database: one, or the nodes of Galera, of which one is written to.
type database struct {
	nodes  []*servers.Database
	galera *servers.Galera // nil: one server
	writer int             // index of the node to which both proxies lead; used by one fault at a time
	link   *servers.Proxy  // of the servers
	direct *servers.Proxy  // of the checks, without faults
	dsn    string          // through direct
}

// startDatabase starts the servers of the database.
func startDatabase(ctx context.Context, galera bool) (*database, error) {
	d := &database{}
	if err := d.start(ctx, galera); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *database) start(ctx context.Context, galera bool) (err error) {
	create := func(ctx context.Context, name string) (string, error) { return d.nodes[0].CreateDatabase(ctx, name) }
	if galera {
		if d.galera, err = servers.RunGalera(ctx); err != nil {
			return err
		}
		d.nodes, create = d.galera.Nodes, d.galera.CreateDatabase
	} else {
		// All tables share a file, whose free space diskFull uses up.
		m, err := servers.RunMariaDB(ctx, "--innodb-file-per-table=OFF")
		if err != nil {
			return err
		}
		d.nodes = []*servers.Database{m}
	}
	for _, p := range []**servers.Proxy{&d.link, &d.direct} {
		if *p, err = servers.StartProxy(ctx); err != nil {
			return err
		}
	}
	d.lead(0)
	dsn, err := create(ctx, "seckill")
	if err != nil {
		return err
	}
	d.dsn, err = withAddr(dsn, d.direct.Addr)
	return err
}

// withAddr returns a DSN that leads to another address.
func withAddr(dsn, addr string) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	cfg.Addr = addr
	return cfg.FormatDSN(), nil
}

func (d *database) stop() error {
	var errs []error
	for _, p := range []*servers.Proxy{d.link, d.direct} {
		if p != nil {
			p.Close()
		}
	}
	for _, n := range d.nodes {
		errs = append(errs, n.Stop())
	}
	return errors.Join(errs...)
}

// lead leads new connections to a node, or to the next one that accepts them.
func (d *database) lead(writer int) {
	d.writer = writer
	var addrs []string
	for i := range d.nodes {
		addrs = append(addrs, d.nodes[(writer+i)%len(d.nodes)].Addr)
	}
	d.link.Lead(addrs...)
	d.direct.Lead(addrs...)
}

// replaced waits until the nodes of Galera have excluded the writer, and leads new connections to the next one. The
// proxies keep the connections to the old writer.
func (d *database) replaced(ctx context.Context) error {
	if d.galera == nil {
		return nil
	}
	next := (d.writer + 1) % len(d.nodes)
	if err := d.galera.Formed(ctx, next, len(d.nodes)-1); err != nil {
		return fmt.Errorf("the other nodes of Galera: %w", err)
	}
	d.lead(next)
	return nil
}

// complete waits until all nodes of Galera are members of the cluster.
func (d *database) complete(ctx context.Context) error {
	if d.galera == nil {
		return nil
	}
	for i := range d.nodes {
		if err := d.galera.Formed(ctx, i, len(d.nodes)); err != nil {
			return fmt.Errorf("node %d of Galera: %w", i+1, err)
		}
	}
	return nil
}

// takeAway lets the server that is written to fail. It returns when the others of Galera have replaced it, a time has
// passed, and it is back.
func (d *database) takeAway(away, back func(*servers.Database) error, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()
	if err := d.heal(ctx); err != nil {
		return fmt.Errorf("not injected after the fault before: %w", err)
	}
	old := d.nodes[d.writer]
	if err := away(old); err != nil {
		return err
	}
	err := d.replaced(ctx)
	time.Sleep(hold)
	return errors.Join(err, back(old), d.complete(ctx))
}

// diskFull keeps the files of the server from growing, as a full disk does, and uses up the free space in the file of the
// tables. After a time it frees both.
func (d *database) diskFull(hold time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()
	cfg := servers.AdminConfig(d.nodes[0].Addr)
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		"CREATE DATABASE IF NOT EXISTS filler",
		"CREATE TABLE IF NOT EXISTS filler.data (bytes VARBINARY(8000))",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := d.nodes[0].SetDiskFull(true); err != nil {
		return err
	}
	for _, fill := range []string{
		"INSERT INTO filler.data SELECT REPEAT('x', 8000) FROM filler.seq_1_to_20",
		"INSERT INTO filler.data VALUES (REPEAT('x', 8000))",
	} {
		for err == nil {
			_, err = db.ExecContext(ctx, fill)
		}
		if full := new(mysql.MySQLError); errors.As(err, &full) && full.Number == tableFull {
			err = nil
		}
	}
	if err == nil {
		time.Sleep(hold)
	}
	err = errors.Join(err, d.nodes[0].SetDiskFull(false))
	_, dropped := db.ExecContext(ctx, "DROP TABLE filler.data")
	return errors.Join(err, dropped)
}

// tableFull is the error of a statement for which the file of the tables cannot grow.
const tableFull = 1114

// heal starts the servers that a failed injection has left down, and frees their disks. Galera must be complete before a
// further node is taken away: it stops with the second one.
func (d *database) heal(ctx context.Context) error {
	for _, n := range d.nodes {
		if !n.Answers() {
			for err := n.Restart(); err != nil; err = n.Restart() { //nolint:contextcheck // it is bounded
				if ctx.Err() != nil {
					return err
				}
			}
		} else if d.galera == nil {
			_ = n.SetDiskFull(false) // it is unsupported where the fault is
		}
	}
	return d.complete(ctx)
}
