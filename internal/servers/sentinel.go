package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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
	Proxies   []*Proxy // of the nodes, whose addresses the Sentinels name; empty unless requested
	Sentinels []*Redis
}

// RunRedisSentinel starts the servers and returns when a failover is possible. ctx and a timeout of 30 s bound only the
// start; the servers run until Stop. downAfter is the time without an answer after which a Sentinel considers the master
// down. With proxies, everything reaches the two nodes through a Proxy each: clients, Sentinels and replication.
func RunRedisSentinel(ctx context.Context, downAfter time.Duration, proxies bool) (*RedisSentinel, error) {
	s := &RedisSentinel{}
	if err := s.run(ctx, downAfter, proxies); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *RedisSentinel) run(ctx context.Context, downAfter time.Duration, proxies bool) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	if err := s.addNode(ctx, proxies); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Addr(0))
	if err != nil {
		return err
	}
	if err := s.addNode(ctx, proxies, "--replicaof", host+" "+port); err != nil {
		return err
	}
	for range sentinelCount {
		sentinel, err := runSentinel(ctx, fmt.Sprintf(`sentinel monitor %[1]s %[2]s %[3]s 2
sentinel down-after-milliseconds %[1]s %[4]d
sentinel failover-timeout %[1]s 5000
`, SentinelMaster, host, port, downAfter.Milliseconds()))
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

// addNode starts a Redis that announces the address of its proxy, if it has one.
func (s *RedisSentinel) addNode(ctx context.Context, proxied bool, args ...string) error {
	args = append(args, "--repl-diskless-sync-delay", "0")
	if proxied {
		p, err := StartProxy(ctx, "")
		if err != nil {
			return err
		}
		s.Proxies = append(s.Proxies, p)
		host, port, err := net.SplitHostPort(p.Addr)
		if err != nil {
			return err
		}
		args = append(args, "--replica-announce-ip", host, "--replica-announce-port", port)
	}
	node, err := RunRedis(ctx, args...)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, node)
	if proxied {
		s.Proxies[len(s.Nodes)-1].Forward(node.Addr)
	}
	return nil
}

// runSentinel starts a redis-server as a Sentinel with this configuration, which the server rewrites.
func runSentinel(ctx context.Context, config string) (*Redis, error) {
	bin, err := FindBinary("redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir.path, "sentinel.conf")
	s := &Process{bin: bin, dir: dir, ready: sentinelReady, args: func(s *Process) []string {
		return []string{file, "--sentinel", "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.number), "--dir", dir.path}
	}}
	err = os.WriteFile(file, []byte(config), 0o600)
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &Redis{Process: s, Addr: s.addr()}, nil
}

// sentinelReady returns nil if the process c answers.
func sentinelReady(ctx context.Context, s *Process, c *child) error {
	info, err := serverInfo(ctx, s.addr(), "")
	if err != nil {
		return err
	}
	return ofProcess(info, c)
}

// untilWatching waits until a Sentinel has found the replica and the other Sentinels.
func untilWatching(ctx context.Context, n *Redis) error {
	rdb := redis.NewSentinelClient(RedisOptions(n.Addr))
	defer func() { _ = rdb.Close() }()
	for {
		state, err := rdb.Master(ctx, SentinelMaster).Result()
		if err == nil && state["num-slaves"] == "1" && state["num-other-sentinels"] == strconv.Itoa(sentinelCount-1) {
			replicas, err := rdb.Replicas(ctx, SentinelMaster).Result()
			if err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" {
				return nil
			}
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return errors.Join(ctx.Err(), err, fmt.Errorf("not watching in time: %v", state))
		}
	}
}

// Addrs returns the addresses of the Sentinels.
func (s *RedisSentinel) Addrs() (addrs []string) {
	for _, n := range s.Sentinels {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Addr returns the address of a node, as the Sentinels name it.
func (s *RedisSentinel) Addr(node int) string {
	if len(s.Proxies) > 0 {
		return s.Proxies[node].Addr
	}
	return s.Nodes[node].Addr
}

// Master returns the index of the node that a Sentinel names as the master.
func (s *RedisSentinel) Master(ctx context.Context) (int, error) {
	rdb := redis.NewSentinelClient(RedisOptions(s.Sentinels[0].Addr))
	defer func() { _ = rdb.Close() }()
	at, err := rdb.GetMasterAddrByName(ctx, SentinelMaster).Result()
	if err != nil {
		return 0, err
	}
	for i := range s.Nodes {
		if net.JoinHostPort(at[0], at[1]) == s.Addr(i) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the Sentinels name an unknown master %v", at)
}

// Promoted waits until a Sentinel names the node as the master.
func (s *RedisSentinel) Promoted(ctx context.Context, node int) error {
	for {
		master, err := s.Master(ctx)
		if err == nil && master == node {
			return nil
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return errors.Join(ctx.Err(), err, errors.New("no failover"))
		}
	}
}

// Stop kills the servers and removes their data. They cannot be used again.
func (s *RedisSentinel) Stop() error {
	var errs []error
	for _, n := range append(s.Sentinels, s.Nodes...) {
		errs = append(errs, n.Stop())
	}
	for _, p := range s.Proxies {
		p.Close()
	}
	return errors.Join(errs...)
}
