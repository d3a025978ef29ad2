package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// Redis is a redis-server process. Its methods are safe for concurrent use.
type Redis struct {
	*Process
	// Announced is the address for other servers and their clients: Addr, unless TLS or a proxy has another.
	Announced string
}

// RunRedis starts a redis-server and returns when it answers. ctx and StartTimeout bound only the start; the
// server runs until Stop. args are appended to the default arguments, which disable persistence, and override them. If
// the program is missing, the error wraps [exec.ErrNotFound].
func RunRedis(ctx context.Context, args ...string) (*Redis, error) {
	return runRedis(ctx, nil, func(string) []string { return append([]string{"--save", "", "--appendonly", "no"}, args...) })
}

// runRedis starts a redis-server, also as a Sentinel. prepare, if it is not nil, fills its directory.
func runRedis(ctx context.Context, prepare func(dir string) error, args func(dir string) []string) (*Redis, error) {
	bin, err := FindBinary("redis-server")
	if err != nil {
		return nil, err
	}

	s := &Process{bin: bin, ready: redisReady, args: func(s *Process) []string {
		return append(args(s.dir.path), "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.number), "--dir", s.dir.path)
	}}
	if err := s.run(ctx, prepare); err != nil {
		return nil, err
	}

	return &Redis{Process: s, Announced: s.Addr}, nil
}

// redisReady returns nil when the process c answers and has loaded its data, of which a Sentinel has none. Of the commands,
// INFO works even while Redis loads.
func redisReady(ctx context.Context, s *Process, c *child) error {
	// go-redis logs every refused connection, and a starting server refuses the first ones.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}

	_ = conn.Close()
	rdb := redis.NewClient(RedisOptions(s.Addr))
	defer func() { _ = rdb.Close() }()

	info, err := rdb.Info(ctx).Result()
	lines := strings.Split(info, "\r\n")
	switch {
	case err != nil:
		return err
	case !slices.Contains(lines, "process_id:"+strconv.Itoa(c.proc.Pid)):
		return errors.New("another Redis answers on this port")
	case slices.Contains(lines, "loading:1"):
		return errors.New("still loading its data")
	}

	return nil
}

// RedisOptions returns options without retries: fault tests need every command sent once and every failure reported.
func RedisOptions(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true}
}

// RedisClient is what tests use of a client. A package that mentions redis.Client, redis.UniversalClient or redis.Options
// compiles two thousand methods of go-redis once more, which takes longer than all else in most packages. So does one into
// which a function that mentions them is inlined.
type RedisClient interface {
	redis.Cmdable
	Do(ctx context.Context, args ...any) *redis.Cmd
	AddHook(hook redis.Hook)
	Close() error
}

// A Test calls functions when it ends.
type Test interface{ Cleanup(f func()) }

// Client returns a client for database 0 that is closed at the cleanup of a test. It sends every command once, and a context can
// end a command in flight.
func (r *Redis) Client(test Test) RedisClient { return NewRedisClient(test, r.Addr, 0) }

// NewRedisClient is [Redis.Client] for the database db of any server.
//
//go:noinline
func NewRedisClient(test Test, addr string, db int) RedisClient {
	opts := RedisOptions(addr)
	opts.DB = db
	return NewClient(test, opts)
}

// LogIn is [Redis.Client] for a user of Redis.
func LogIn(test Test, addr, user, password string) *redis.Client {
	opts := RedisOptions(addr)
	opts.Username = user
	opts.Password = password
	return NewClient(test, opts)
}

// NewClient returns a client that is closed at the cleanup of a test.
func NewClient(test Test, opts *redis.Options) *redis.Client {
	rdb := redis.NewClient(opts)
	test.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// AnotherRedisClient returns a client for the same database as that of rdb, with connections and hooks of its own.
//
//go:noinline
func AnotherRedisClient(test Test, rdb RedisClient) RedisClient {
	opts := rdb.(*redis.Client).Options()
	return NewRedisClient(test, opts.Addr, opts.DB)
}

// SentinelMaster is the name of the master of a RedisSentinel.
const SentinelMaster = "mymaster"

// sentinelCount is the number of Sentinels. Two of them are a quorum.
const sentinelCount = 3

// RedisSentinel is a Redis master with a replica, watched by three Sentinels. Each can be killed and paused.
type RedisSentinel struct {
	Nodes     []*Redis // the master and the replica at the start
	Sentinels []*Redis
}

// RedisRunner starts a Redis node, or a Sentinel, with more arguments.
type RedisRunner func(ctx context.Context, args ...string) (*Redis, error)

// RedisStarter calls run once, with args and more arguments, and may change the address that is announced.
type RedisStarter func(ctx context.Context, run RedisRunner, args ...string) (*Redis, error)

// StartPlainly is a RedisStarter that changes nothing.
func StartPlainly(ctx context.Context, run RedisRunner, args ...string) (*Redis, error) {
	return run(ctx, args...)
}

// RunRedisSentinel starts the servers, each by start, and returns when a failover is possible. ctx bounds only the
// start; the servers run until Stop. downAfter is the time without an answer after which a Sentinel considers the master
// down.
func RunRedisSentinel(ctx context.Context, downAfter time.Duration, start RedisStarter) (*RedisSentinel, error) {
	s := &RedisSentinel{}
	if err := s.run(ctx, downAfter, start); err != nil {
		return nil, errors.Join(err, s.Stop())
	}

	return s, nil
}

func (s *RedisSentinel) run(ctx context.Context, downAfter time.Duration, start RedisStarter) error {
	master, err := start(ctx, RunRedis)
	if err != nil {
		return err
	}

	s.Nodes = append(s.Nodes, master)

	host, port, err := net.SplitHostPort(master.Announced)
	if err != nil {
		return err
	}

	replica, err := start(ctx, RunRedis, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	if err != nil {
		return err
	}

	s.Nodes = append(s.Nodes, replica)

	config := fmt.Sprintf(`sentinel monitor %[1]s %[2]s %[3]s 2
sentinel down-after-milliseconds %[1]s %[4]d
sentinel failover-timeout %[1]s 5000
`, SentinelMaster, host, port, downAfter.Milliseconds())
	for range sentinelCount {
		sentinel, err := start(ctx, func(ctx context.Context, args ...string) (*Redis, error) { return runSentinel(ctx, config, args...) })
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, sentinel)
	}

	for _, n := range s.Sentinels {
		if err := untilWatching(ctx, n); err != nil {
			return err
		}
	}

	return nil
}

func runSentinel(ctx context.Context, config string, more ...string) (*Redis, error) {
	file := func(dir string) string { return filepath.Join(dir, "sentinel.conf") }
	prepare := func(dir string) error { return os.WriteFile(file(dir), []byte(config), 0o600) }

	return runRedis(ctx, prepare, func(dir string) []string {
		return append([]string{file(dir), "--sentinel"}, more...)
	})
}

func untilWatching(ctx context.Context, n *Redis) error {
	rdb := redis.NewSentinelClient(RedisOptions(n.Addr))
	defer func() { _ = rdb.Close() }()

	return Until(ctx, func() error {
		state, err := rdb.Master(ctx, SentinelMaster).Result()
		if err != nil {
			return err
		}
		if state["num-slaves"] != "1" || state["num-other-sentinels"] != strconv.Itoa(sentinelCount-1) {
			return fmt.Errorf("not watching: %v", state)
		}

		replicas, err := rdb.Replicas(ctx, SentinelMaster).Result()
		if err == nil && (len(replicas) != 1 || replicas[0]["master-link-status"] != "ok") {
			err = fmt.Errorf("no replica with a link to its master: %v", replicas)
		}
		return err
	})
}

// Addrs returns the addresses of the Sentinels.
func (s *RedisSentinel) Addrs() (addrs []string) {
	for _, n := range s.Sentinels {
		addrs = append(addrs, n.Announced)
	}

	return addrs
}

// Promoted waits until a Sentinel names the second node as the master. Error: not in time.
func (s *RedisSentinel) Promoted(ctx context.Context) error {
	rdb := redis.NewSentinelClient(RedisOptions(s.Sentinels[0].Addr))
	defer func() { _ = rdb.Close() }()

	return Until(ctx, func() error {
		at, err := rdb.GetMasterAddrByName(ctx, SentinelMaster).Result()
		if err == nil && net.JoinHostPort(at[0], at[1]) != s.Nodes[1].Announced {
			err = errors.New("no failover")
		}
		return err
	})
}

// StopReplication keeps further writes of the first node from the second, which can still be promoted, and returns when that
// is disconnected.
func (s *RedisSentinel) StopReplication(ctx context.Context) error {
	err := s.Nodes[0].Use(func(rdb RedisClient) error {
		// The replica may not connect again.
		return errors.Join(
			rdb.Do(ctx, "ACL", "SETUSER", "default", "-psync").Err(),
			rdb.ClientKillByFilter(ctx, "TYPE", "replica").Err())
	})
	return errors.Join(err, s.Nodes[1].linked(ctx, "down"))
}

// Stop kills the servers and removes their data. They cannot be used again.
func (s *RedisSentinel) Stop() error { return stopAll(slices.Concat(s.Sentinels, s.Nodes)) }

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// RedisCluster is a Redis Cluster of three masters, without replicas unless AddReplicas was called. Each node can be
// killed, paused and restarted. The slots of a master that is down are unavailable until its replica takes over.
type RedisCluster struct {
	Nodes    []*Redis // masters at the start
	Replicas []*Redis // the replica of each, or empty

	start RedisStarter
	args  []string
}

// RunRedisCluster starts a cluster, each server by start, with args. ctx bounds only the start; the servers run until Stop.
func RunRedisCluster(ctx context.Context, start RedisStarter, args ...string) (*RedisCluster, error) {
	c := &RedisCluster{start: start, args: append([]string{
		"--cluster-enabled", "yes",
		"--cluster-require-full-coverage", "no", // the other nodes keep serving if one is down
		"--cluster-node-timeout", "2000",
	}, args...)}
	if err := c.run(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}

	return c, nil
}

func (c *RedisCluster) run(ctx context.Context) error {
	for range clusterMasters {
		n, err := c.start(ctx, RunRedis, c.args...)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
	}

	if err := c.form(ctx); err != nil {
		return fmt.Errorf("form a Redis cluster: %w", err)
	}

	return nil
}

func (c *RedisCluster) form(ctx context.Context) error {
	for i, n := range c.Nodes {
		err := n.Use(func(rdb RedisClient) error {
			first := i * clusterSlots / clusterMasters
			next := (i + 1) * clusterSlots / clusterMasters
			if err := rdb.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
				return err
			}
			// Nodes with the same epoch need seconds to resolve the conflict.
			return rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		})
		if err != nil {
			return err
		}
	}

	for _, n := range c.Nodes[1:] {
		if err := c.Nodes[0].meet(ctx, n); err != nil {
			return err
		}
	}

	return c.Formed(ctx)
}

// Client returns a client that is closed at the cleanup of a test. It sends every command once and follows redirections, and a
// context can end a command in flight.
func (c *RedisCluster) Client(test Test) RedisClient {
	opts := &redis.ClusterOptions{MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true}
	for _, n := range c.Nodes {
		opts.Addrs = append(opts.Addrs, n.Addr)
	}

	rdb := redis.NewClusterClient(opts)
	test.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Use calls f with a client of the server.
func (r *Redis) Use(f func(rdb RedisClient) error) error {
	rdb := redis.NewClient(RedisOptions(r.Addr))
	defer func() { _ = rdb.Close() }()
	return f(rdb)
}

func (r *Redis) meet(ctx context.Context, other *Redis) error {
	host, port, err := net.SplitHostPort(other.Announced)
	if err != nil {
		return err
	}

	return r.Use(func(rdb RedisClient) error { return rdb.ClusterMeet(ctx, host, port).Err() })
}

// Formed returns when every node of the start reports that the cluster is complete. Error: not in time.
func (c *RedisCluster) Formed(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.Use(func(rdb RedisClient) error { return nodeFormed(ctx, rdb) }); err != nil {
			return err
		}
	}

	return nil
}

func nodeFormed(ctx context.Context, rdb RedisClient) error {
	return Until(ctx, func() error {
		info, err := rdb.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}

		if strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, "cluster_size:"+strconv.Itoa(clusterMasters)) &&
			strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(clusterSlots)) {
			return nil
		}
		return fmt.Errorf("not formed:\n%s", info)
	})
}

// AddReplicas starts a replica of each master and returns when all have their master's data.
func (c *RedisCluster) AddReplicas(ctx context.Context) error {
	for range c.Nodes {
		replica, err := c.start(ctx, RunRedis, append(slices.Clone(c.args), "--repl-diskless-sync-delay", "0")...)
		if err != nil {
			return err
		}
		c.Replicas = append(c.Replicas, replica)
	}

	var group errgroup.Group
	for i, replica := range c.Replicas {
		group.Go(func() error { return replicate(ctx, c.Nodes[i], replica) })
	}

	return group.Wait()
}

func replicate(ctx context.Context, master, replica *Redis) error {
	if err := replica.meet(ctx, master); err != nil {
		return err
	}

	var id string
	err := master.Use(func(rdb RedisClient) (err error) { id, err = rdb.Do(ctx, "CLUSTER", "MYID").Text(); return err })
	if err != nil {
		return err
	}

	// It fails until the nodes have met.
	err = replica.Use(func(rdb RedisClient) error {
		return Until(ctx, func() error { return rdb.ClusterReplicate(ctx, id).Err() })
	})
	return errors.Join(err, replica.Replicating(ctx))
}

// Replicating returns when the server is a replica that has its master's data. Error: not in time.
func (r *Redis) Replicating(ctx context.Context) error { return r.linked(ctx, "up") }

// linked returns when the link of a replica to its master has a status. Error: it has not in time.
func (r *Redis) linked(ctx context.Context, status string) error {
	return r.Use(func(rdb RedisClient) error {
		return Until(ctx, func() error {
			if now := rdb.InfoMap(ctx, "replication").Item("Replication", "master_link_status"); now != status {
				return fmt.Errorf("the link to the master is %q, not %s", now, status)
			}
			return nil
		})
	})
}

// IsMaster reports whether the server answers that it is a master.
func (r *Redis) IsMaster(ctx context.Context) (is bool) {
	_ = r.Use(func(rdb RedisClient) error {
		is = rdb.InfoMap(ctx, "replication").Item("Replication", "role") == "master"
		return nil
	})
	return is
}

// Promoted returns when the server is a master. Error: not in time.
func (r *Redis) Promoted(ctx context.Context) error {
	return Until(ctx, func() error {
		if !r.IsMaster(ctx) {
			return errors.New("no failover in the cluster")
		}
		return nil
	})
}

// Stop kills the servers and removes their data. They cannot be used again.
func (c *RedisCluster) Stop() error { return stopAll(slices.Concat(c.Nodes, c.Replicas)) }
