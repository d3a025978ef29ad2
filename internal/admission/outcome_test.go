package admission

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/testenv"
)

// never is a check that does not find the outcome.
func never(context.Context) (domain.Outcome, bool, error) { return domain.Outcome{}, false, nil }

// listening runs a gate of an instance named after the test, and waits until it is subscribed. Redis channels are not
// separated by database number.
func listening(t *testing.T, rdb *redis.Client) *Gate {
	t.Helper()
	g := newGate(rdb)
	g.cfg.Instance = t.Name()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool {
		n, err := rdb.PubSubNumSub(ctx, outcomeChannel(g.Instance())).Result()
		return err == nil && n[outcomeChannel(g.Instance())] == 1
	}, 10*time.Second, time.Millisecond)
	return g
}

func TestOutcomesReachWaitingBuyers(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := listening(t, rdb), newDatabase()
		db.stock[voucher] = 5
		require.NoError(t, g.Load(t.Context(), voucher, db.read))
		as := []domain.Admission{admission(1, 10), admission(2, 11), admission(3, 12), admission(4, 13), admission(5, 14)}
		var waiting [6]*OutcomeWaiter
		for i := range as {
			as[i].ReplyTo = g.Instance()
			waiting[i] = g.Expect(as[i].OrderID)
			defer waiting[i].Close()
		}
		waiting[5] = g.Expect(1) // a second one for the same order
		defer waiting[5].Close()
		as[2].ReplyTo = "elsewhere"
		reserve(t, g, as...)
		settle(t, g, queue(t, g, voucher)[0],
			domain.End{}, failed, domain.End{}, domain.End{Dead: "poison"}, domain.End{Again: true})
		wants := map[int]domain.Outcome{
			0: {OrderID: 1}, 1: {OrderID: 2, Failed: "sold_out"}, 3: {OrderID: 4, Failed: "internal"}, 5: {OrderID: 1},
		}
		for i, want := range wants {
			got, err := waiting[i].Wait(t.Context(), never)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		for i, why := range map[int]string{2: "published to another instance", 4: "not settled yet"} {
			select {
			case o := <-waiting[i].outcome:
				require.Fail(t, why, "%v", o)
			default:
			}
		}
	})
}

// Wait finds the outcome by its checks if the message is lost, and continues after an error of a check.
func TestWaitPollsWithoutMessages(t *testing.T) {
	g := newGate(nil)
	e := g.Expect(1)
	defer e.Close()
	checks := 0
	o, err := e.Wait(t.Context(), func(context.Context) (domain.Outcome, bool, error) {
		switch checks++; checks {
		case 1:
			return domain.Outcome{}, false, nil
		case 2:
			return domain.Outcome{}, true, errors.New("database unavailable")
		}
		return domain.Outcome{OrderID: 1, Failed: "sold_out"}, true, nil
	})
	require.NoError(t, err)
	require.Equal(t, domain.Outcome{OrderID: 1, Failed: "sold_out"}, o)
	require.Equal(t, 3, checks)
}

func TestWaitReturnsContextError(t *testing.T) {
	e := newGate(nil).Expect(1)
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Wait(ctx, never)
	require.ErrorIs(t, err, context.Canceled)
}

// Wait returns an outcome that has arrived even if the context has ended.
func TestWaitPrefersOutcomeToContextError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		g := newGate(nil)
		e := g.Expect(1)
		g.deliver("1")
		o, err := e.Wait(ctx, never)
		require.NoError(t, err)
		require.Equal(t, domain.Outcome{OrderID: 1}, o)
	}
}

func TestRunFailsAfterClientIsClosed(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb)
		g.cfg.Instance = t.Name()
		ended := make(chan error)
		go func() { ended <- g.Run(t.Context()) }()
		require.Eventually(t, func() bool {
			n, err := rdb.PubSubNumSub(t.Context(), outcomeChannel(g.Instance())).Result()
			return err == nil && n[outcomeChannel(g.Instance())] == 1
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, rdb.Close())
		require.Error(t, <-ended)
	})
}

func TestCloseRemovesExpectation(t *testing.T) {
	g := newGate(nil)
	a, b := g.Expect(1), g.Expect(1)
	a.Close()
	a.Close()
	g.deliver("1 garbage 2:sold_out")
	require.Empty(t, a.outcome)
	require.Len(t, b.outcome, 1)
	g.deliver("1") // a second outcome is dropped
	b.Close()
	require.Empty(t, g.waiting)
}

// Run reconnects after a restart of Redis.
func TestRunReconnects(t *testing.T) {
	server := testenv.StartRedis(t)
	rdb := server.Client(t)
	g := listening(t, rdb)
	require.NoError(t, server.Restart())
	e := g.Expect(1)
	defer e.Close()
	require.Eventually(t, func() bool {
		g.publish(t.Context(), []domain.StreamEntry{{
			Admissions: []domain.Admission{{OrderID: 1, ReplyTo: g.Instance()}}, Ends: make([]domain.End, 1),
		}})
		return len(e.outcome) == 1
	}, 30*time.Second, 10*time.Millisecond)
}

// counted counts the HMGET commands of a client.
type counted struct{ commands atomic.Int64 }

func (c *counted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

// count ignores other commands, such as those of a new connection.
func (c *counted) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if cmd.Name() == "hmget" {
			c.commands.Add(1)
		}
	}
}

// 5,000 buyers of one sale poll their tickets while no worker runs. Together they need fewer than 200 commands per
// second: each read has one command per 500 buyers, and there are at most 20 reads per second.
func TestWaitingBuyersShareReads(t *testing.T) {
	rdb := testenv.StartRedis(t).Client(t)
	const n = 5000
	g, _ := withStock(t, rdb, n)
	for first := int64(1); first <= n; first += maxRows {
		as := make([]domain.Admission, maxRows)
		for i := range as {
			as[i] = admission(first+int64(i), first+int64(i))
		}
		reserve(t, g, as...)
	}
	hook := &counted{}
	rdb.AddHook(hook)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var checks, wrong atomic.Int64
	var buyers sync.WaitGroup
	for id := range int64(n) {
		buyers.Go(func() {
			e := g.Expect(id + 1)
			defer e.Close()
			_, err := e.Wait(ctx, func(ctx context.Context) (domain.Outcome, bool, error) {
				checks.Add(1)
				ticket, err := g.Ticket(ctx, id+1, id+1)
				if err == nil && (ticket.OrderID != id+1 || ticket.Ahead == nil) {
					wrong.Add(1)
				}
				return domain.Outcome{}, false, err
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				wrong.Add(1)
			}
		})
	}
	buyers.Wait()
	t.Log(checks.Load(), "checks,", hook.commands.Load(), "commands")
	require.Zero(t, wrong.Load())
	require.GreaterOrEqual(t, checks.Load(), int64(n))
	require.Less(t, hook.commands.Load(), int64(200*time.Since(start).Seconds()))
}

// The first request for a ticket that another process admitted searches all shards. Later ones read its own shard.
func TestTicketOfOtherProcessSearchesShardsOnce(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 5)
		db.stock[stranger] = 5
		require.NoError(t, g.Load(t.Context(), stranger, db.read))
		a, b := admission(1, 10), admission(2, 10)
		b.VoucherID = stranger
		reserve(t, g, a)
		reserve(t, g, b)
		other := newGate(rdb)
		hook := &counted{}
		rdb.AddHook(hook)
		for _, want := range []int64{shards + 1, 2, 2} { // commands
			hook.commands.Store(0)
			ticket, err := other.Ticket(t.Context(), 10, 2)
			require.NoError(t, err)
			require.Equal(t, stranger, ticket.VoucherID)
			require.NotNil(t, ticket.Ahead)
			require.Equal(t, want, hook.commands.Load())
		}
		settle(t, g, queue(t, g, stranger)[0], failed)
		ticket, err := other.Ticket(t.Context(), 10, 2)
		require.NoError(t, err)
		require.Equal(t, "sold_out", ticket.Failed)
		_, err = other.Ticket(t.Context(), 11, 2)
		require.ErrorIs(t, err, domain.ErrNotFound, "another user's")
	})
}
