package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/test/env/servers"
)

// redisServers are the Redis servers of a campaign, each of them a master or its replica. At most one is in a fault.
type redisServers struct {
	// The masters at the start, and then the replica of each.
	nodes []*servers.Redis
	// For the configuration, with the name of the master if they are of Sentinels.
	addrs    []string
	sentinel string
	// Nil until the servers run.
	stop func() error
}

func (s *system) startRedis(ctx context.Context, cluster bool) error {
	if !cluster {
		r, err := servers.RunRedisSentinel(ctx, downAfter, s.startOfSentinels)
		if err != nil {
			return err
		}

		s.redis = redisServers{
			nodes:    r.Nodes,
			addrs:    r.Addrs(),
			sentinel: servers.SentinelMaster,
			stop:     r.Stop,
		}
		return nil
	}

	// The nodes do not reach each other's bus through the proxies.
	c, err := servers.RunRedisCluster(ctx, s.proxied("--cluster-announce"))
	if err != nil {
		return err
	}

	s.redis.stop = c.Stop
	for _, p := range s.redisLinks {
		s.redis.addrs = append(s.redis.addrs, p.Addr)
	}

	err = c.AddReplicas(ctx)
	s.redis.nodes = slices.Concat(c.Nodes, c.Replicas)
	return err
}

// startOfSentinels starts one of two Redis servers behind a proxy, and then the Sentinels.
func (s *system) startOfSentinels(ctx context.Context, run servers.RedisRunner, args ...string) (*servers.Redis, error) {
	if len(s.redisLinks) == 2 {
		return run(ctx, args...)
	}

	r, err := s.proxied("--replica-announce")(ctx, run, args...)
	if err != nil {
		return nil, err
	}

	r.Announced = s.redisLinks[len(s.redisLinks)-1].Addr
	return r, nil
}

// proxied starts nodes that each announce the host and the port of a proxy, in arguments with this prefix.
func (s *system) proxied(announce string) servers.RedisStarter {
	return func(ctx context.Context, run servers.RedisRunner, args ...string) (*servers.Redis, error) {
		p, err := servers.StartProxy(ctx)
		if err != nil {
			return nil, err
		}
		s.redisLinks = append(s.redisLinks, p)

		host, port, err := net.SplitHostPort(p.Addr)
		if err != nil {
			return nil, err
		}

		r, err := run(ctx, append(slices.Clone(args), announce+"-ip", host, announce+"-port", port)...)
		if err != nil {
			return nil, err
		}

		p.Lead(r.Addr)
		return r, nil
	}
}

// partner returns the replica of a master, or the master of a replica.
func (r redisServers) partner(n int) int { return (n + len(r.nodes)/2) % len(r.nodes) }

// master returns the index of a master. n selects it.
func (r redisServers) master(ctx context.Context, n int) (int, error) {
	for _, node := range []int{n, r.partner(n)} {
		if r.nodes[node].IsMaster(ctx) {
			return node, nil
		}
	}

	return 0, fmt.Errorf("neither Redis %d nor its replica is a master", n+1)
}

func (s *system) onMaster(n int, f func(ctx context.Context, node *servers.Redis) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()

	node, err := s.redis.master(ctx, n)
	if err != nil {
		return err
	}

	return f(ctx, s.redis.nodes[node])
}

// failover takes a Redis master away until its replica is promoted and a time has passed. The old master then returns and
// becomes a replica with the data of the new one.
func (s *system) failover(n int, away, back func(*servers.Process) error, restarted bool, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()

	old, err := s.redis.master(ctx, n)
	if err != nil {
		return err
	}

	node := s.redis.nodes[old]
	next := s.redis.nodes[s.redis.partner(old)]
	if err := away(node.Process); err != nil {
		return err
	}

	err = next.Promoted(ctx)
	time.Sleep(hold)

	if err := errors.Join(err, back(node.Process)); err != nil {
		return err
	}

	// The Sentinels need 10 s to find a restarted master without data.
	if restarted && s.redis.sentinel != "" {
		host, port, _ := net.SplitHostPort(next.Announced)
		err = node.Use(func(rdb servers.RedisClient) error { return rdb.ReplicaOf(ctx, host, port).Err() })
	}

	return errors.Join(err, node.Replicating(ctx))
}

// fillRedis lets a Redis master refuse to write for some time, as if its memory were full.
func (s *system) fillRedis(n int, hold time.Duration) error {
	return s.onMaster(n, func(ctx context.Context, node *servers.Redis) error {
		return node.Use(func(rdb servers.RedisClient) error {
			if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
				return err
			}

			time.Sleep(hold)
			return rdb.ConfigSet(ctx, "maxmemory", "0").Err()
		})
	})
}

// database are the servers of the database: one, or the nodes of Galera, of which one is written to.
type database struct {
	nodes []*servers.Database
	// Nil: one server.
	galera *servers.Galera
	// Index of the node to which both proxies lead; used by one fault at a time.
	writer int
	// Of the servers.
	link *servers.Proxy
	// Of the checks, without faults.
	direct *servers.Proxy
	// Through direct.
	dsn string
}

// start starts the database. The caller stops it, even after an error.
func (d *database) start(ctx context.Context, cluster bool) error {
	dsn, err := d.create(ctx, cluster)
	if err != nil {
		return err
	}

	for _, p := range []**servers.Proxy{&d.link, &d.direct} {
		*p, err = servers.StartProxy(ctx)
		if err != nil {
			return err
		}
	}

	d.lead(0)
	d.dsn, err = withAddr(dsn, d.direct.Addr)
	return err
}

func (d *database) create(ctx context.Context, cluster bool) (string, error) {
	if !cluster {
		// All tables share a file, whose free space diskFull uses up.
		m, err := servers.RunMariaDB(ctx, "--innodb-file-per-table=OFF")
		if err != nil {
			return "", err
		}

		d.nodes = []*servers.Database{m}
		return m.CreateDatabase(ctx, "seckill")
	}

	g, err := servers.RunGalera(ctx)
	if err != nil {
		return "", err
	}

	d.galera = g
	d.nodes = g.Nodes
	return g.CreateDatabase(ctx, "seckill")
}

func withAddr(dsn, addr string) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}

	cfg.Addr = addr
	return cfg.FormatDSN(), nil
}

func (d *database) stop() error {
	for _, p := range []*servers.Proxy{d.link, d.direct} {
		if p != nil {
			p.Close()
		}
	}

	var errs []error
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
func (d *database) takeAway(away, back func(*servers.Process) error, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()

	if err := d.heal(ctx); err != nil {
		return fmt.Errorf("not injected after the fault before: %w", err)
	}

	old := d.nodes[d.writer].Process
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

	db, err := servers.Open(servers.AdminConfig(d.nodes[0].Addr))
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // nothing is left in it

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

	err = fillTables(ctx, db)
	if err == nil {
		time.Sleep(hold)
	}

	err = errors.Join(err, d.nodes[0].SetDiskFull(false))
	_, dropped := db.ExecContext(ctx, "DROP TABLE filler.data")
	return errors.Join(err, dropped)
}

// tableFull is the error of a statement for which the file of the tables cannot grow.
const tableFull = 1114

func fillTables(ctx context.Context, db *sql.DB) error {
	for _, fill := range []string{
		"INSERT INTO filler.data SELECT REPEAT('x', 8000) FROM filler.seq_1_to_20",
		"INSERT INTO filler.data VALUES (REPEAT('x', 8000))",
	} {
		var err error
		for err == nil {
			_, err = db.ExecContext(ctx, fill)
		}

		refused, ok := errors.AsType[*mysql.MySQLError](err)
		if !ok || refused.Number != tableFull {
			return err
		}
	}

	return nil
}

// heal starts the servers that a failed injection has left down, and frees their disks. Galera must be complete before a
// further node is taken away: it stops with the second one.
func (d *database) heal(ctx context.Context) error {
	for _, n := range d.nodes {
		if n.Answers() {
			// It is unsupported where the fault is.
			_ = n.SetDiskFull(false)
			continue
		}

		if err := servers.Until(ctx, n.Restart); err != nil {
			return err
		}
	}

	return d.complete(ctx)
}
