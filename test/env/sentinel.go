package env

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/test/env/servers"
)

// RedisSentinel is a Redis master with a replica, watched by three Sentinels, of a test.
type RedisSentinel struct {
	*servers.RedisSentinel

	Master, Replica *Redis // their roles at the start
	Sentinels       []*Redis
}

// StartRedisSentinel starts the servers and returns when a failover is possible. It stops them at cleanup. downAfter is
// the time without an answer after which a Sentinel considers the master down.
func StartRedisSentinel(tb testing.TB, downAfter time.Duration) *RedisSentinel {
	tb.Helper()
	return startSentinel(tb, downAfter, nil)
}

func startSentinel(tb testing.TB, downAfter time.Duration, start servers.RedisStarter) *RedisSentinel {
	tb.Helper()
	Full(tb)
	s, err := servers.RunRedisSentinel(tb.Context(), downAfter, start)
	need(tb, err)
	stopAtCleanup(tb, s)
	nodes := ofTest(s.Nodes)
	return &RedisSentinel{RedisSentinel: s, Master: nodes[0], Replica: nodes[1], Sentinels: ofTest(s.Sentinels)}
}

// Verdict waits until a Sentinel names the replica as the master.
func (s *RedisSentinel) Verdict(tb testing.TB) {
	tb.Helper()
	inTime(tb, func(ctx context.Context) error { return s.Promoted(ctx, 1) })
}

// StopReplication keeps further writes of the master from the replica, which can still be promoted, and returns when the
// replica is disconnected.
func (s *RedisSentinel) StopReplication(tb testing.TB) {
	tb.Helper()
	ctx := tb.Context()
	master := s.Master.Client(tb)
	replica := s.Replica.Client(tb)

	// The replica may not connect again.
	need(tb, master.Do(ctx, "ACL", "SETUSER", "default", "-psync").Err())
	need(tb, master.ClientKillByFilter(ctx, "TYPE", "replica").Err())

	inTime(tb, func(ctx context.Context) error {
		return servers.Until(ctx, func() error {
			if replica.InfoMap(ctx, "replication").Item("Replication", "master_link_status") != "down" {
				return errors.New("the replica is still connected")
			}
			return nil
		})
	})
}
