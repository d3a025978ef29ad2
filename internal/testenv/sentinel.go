package testenv

import (
	"context"
	"testing"
	"time"

	"seckill/internal/servers"
)

// RedisSentinel is a Redis master with a replica and three Sentinels, of a test.
type RedisSentinel struct{ *servers.RedisSentinel }

// StartRedisSentinel starts the servers and returns when a failover is possible. It stops them at cleanup. downAfter is
// the time without an answer after which a Sentinel considers the master down.
func StartRedisSentinel(tb testing.TB, downAfter time.Duration) *RedisSentinel {
	tb.Helper()
	s, err := servers.RunRedisSentinel(tb.Context(), downAfter, false)
	need(tb, err)
	stopAtCleanup(tb, s)
	return &RedisSentinel{s}
}

// Verdict waits until a Sentinel names the replica as the master.
func (s *RedisSentinel) Verdict(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.Promoted(ctx, 1); err != nil {
		tb.Fatal(err)
	}
}
