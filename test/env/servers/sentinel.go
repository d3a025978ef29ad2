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
	"time"

	"github.com/redis/go-redis/v9"
)

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

func startPlainly(ctx context.Context, run RedisRunner, args ...string) (*Redis, error) {
	return run(ctx, args...)
}

// RunRedisSentinel starts the servers and returns when a failover is possible. ctx and StartTimeout bound only the
// start; the servers run until Stop. downAfter is the time without an answer after which a Sentinel considers the master
// down. Every server is started by start, unless that is nil.
func RunRedisSentinel(ctx context.Context, downAfter time.Duration, start RedisStarter) (*RedisSentinel, error) {
	if start == nil {
		start = startPlainly
	}

	s := &RedisSentinel{}
	if err := s.run(ctx, downAfter, start); err != nil {
		return nil, errors.Join(err, s.Stop())
	}

	return s, nil
}

func (s *RedisSentinel) run(ctx context.Context, downAfter time.Duration, start RedisStarter) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()

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

	return runRedis(ctx, sentinelReady, prepare, func(dir string) []string {
		return append([]string{file(dir), "--sentinel"}, more...)
	})
}

func sentinelReady(ctx context.Context, s *Process, c *child) error {
	info, err := serverInfo(ctx, s.addr(), "")
	if err != nil {
		return err
	}

	return ofProcess(info, c)
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

// Master returns the index of the node that a Sentinel names as the master.
func (s *RedisSentinel) Master(ctx context.Context) (int, error) {
	rdb := redis.NewSentinelClient(RedisOptions(s.Sentinels[0].Addr))
	defer func() { _ = rdb.Close() }()
	at, err := rdb.GetMasterAddrByName(ctx, SentinelMaster).Result()
	if err != nil {
		return 0, err
	}

	for i, n := range s.Nodes {
		if net.JoinHostPort(at[0], at[1]) == n.Announced {
			return i, nil
		}
	}

	return 0, fmt.Errorf("the Sentinels name an unknown master %v", at)
}

// Promoted waits until a Sentinel names the node as the master.
func (s *RedisSentinel) Promoted(ctx context.Context, node int) error {
	return Until(ctx, func() error {
		master, err := s.Master(ctx)
		if err == nil && master != node {
			err = errors.New("no failover")
		}
		return err
	})
}

// Stop kills the servers and removes their data. They cannot be used again.
func (s *RedisSentinel) Stop() error { return stopAll(slices.Concat(s.Sentinels, s.Nodes)) }
