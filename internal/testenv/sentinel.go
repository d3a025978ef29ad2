package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelMaster is the name of the master of a RedisSentinel.
const SentinelMaster = "mymaster"

// sentinelCount is the number of Sentinels. Two of them are a quorum.
const sentinelCount = 3

// RedisSentinel is a Redis master with a replica, watched by three Sentinels. Each can be killed and paused.
type RedisSentinel struct {
	Master, Replica *Redis // their roles at the start
	Sentinels       []*Redis
}

// StartRedisSentinel starts the servers and returns when a failover is possible. It stops them at cleanup. downAfter is
// the time without an answer after which a Sentinel considers the master down.
func StartRedisSentinel(tb testing.TB, downAfter time.Duration) *RedisSentinel {
	tb.Helper()
	return startSentinel(tb, StartRedis, downAfter, func(testing.TB) (addr string, args []string) { return "", nil })
}

// startSentinel is StartRedisSentinel with TLS if listen returns an address and its settings.
func startSentinel(
	tb testing.TB, start starter, downAfter time.Duration, listen func(testing.TB) (addr string, args []string),
) *RedisSentinel {
	tb.Helper()
	s := &RedisSentinel{Master: start(tb)}
	host, port, err := net.SplitHostPort(s.Master.peerAddr())
	need(tb, err)
	s.Replica = start(tb, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	for range sentinelCount {
		addr, args := listen(tb)
		sentinel, err := runSentinel(tb.Context(), fmt.Sprintf(`sentinel monitor %[1]s %[2]s %[3]s 2
sentinel down-after-milliseconds %[1]s %[4]d
sentinel failover-timeout %[1]s 5000
`, SentinelMaster, host, port, downAfter.Milliseconds()), args)
		need(tb, err)
		sentinel.TLSAddr = addr
		stopAtCleanup(tb, sentinel.server)
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	for _, n := range s.Sentinels {
		if err := untilWatching(ctx, n); err != nil {
			tb.Fatalf("start the Sentinels: %v", err)
		}
	}
	return s
}

// runSentinel starts a redis-server as a Sentinel with this configuration, which the server rewrites, and more arguments.
func runSentinel(ctx context.Context, config string, more []string) (*Redis, error) {
	bin, err := findBinary("redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir.path, "sentinel.conf")
	s := &server{bin: bin, dir: dir, ready: sentinelReady, args: func(s *server) []string {
		return append([]string{
			file, "--sentinel", "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.number), "--dir", dir.path,
		}, more...)
	}}
	err = os.WriteFile(file, []byte(config), 0o600)
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &Redis{server: s, Addr: s.addr()}, nil
}

// sentinelReady returns nil if the process c answers.
func sentinelReady(ctx context.Context, s *server, c *child) error {
	info, err := serverInfo(ctx, s.addr(), "")
	if err != nil {
		return err
	}
	return ofProcess(info, c)
}

// untilWatching waits until a Sentinel has found the replica and the other Sentinels.
func untilWatching(ctx context.Context, n *Redis) error {
	rdb := redis.NewSentinelClient(clientOptions(n.Addr))
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

// Addrs returns the addresses of the Sentinels, with TLS if they have it.
func (s *RedisSentinel) Addrs() (addrs []string) {
	for _, n := range s.Sentinels {
		addrs = append(addrs, n.peerAddr())
	}
	return addrs
}

// Verdict waits until a Sentinel names the replica as the master.
func (s *RedisSentinel) Verdict(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	rdb := redis.NewSentinelClient(clientOptions(s.Sentinels[0].Addr))
	defer func() { _ = rdb.Close() }()
	for {
		at, err := rdb.GetMasterAddrByName(ctx, SentinelMaster).Result()
		if err == nil && net.JoinHostPort(at[0], at[1]) == s.Replica.peerAddr() {
			return
		}
		if !sleep(ctx, 20*time.Millisecond) {
			tb.Fatalf("no failover: %v %v", at, err)
		}
	}
}

// StopReplication keeps further writes of the master from the replica, which can still be promoted, and returns when the
// replica is disconnected.
func (s *RedisSentinel) StopReplication(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	master, replica := s.Master.Client(tb), s.Replica.Client(tb)
	need(tb, master.Do(ctx, "ACL", "SETUSER", "default", "-psync").Err()) // the replica may not connect again
	need(tb, master.ClientKillByFilter(ctx, "TYPE", "replica").Err())
	for replica.InfoMap(ctx, "replication").Item("Replication", "master_link_status") != "down" {
		if !sleep(ctx, 20*time.Millisecond) {
			tb.Fatal("the replica is still connected")
		}
	}
}
