package admission

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// queued returns a queued admission with the first queue position.
func queuedTicket(order, user, voucher int64) domain.Admission {
	return domain.Admission{
		OrderID: order, UserID: user, VoucherID: voucher, Limit: 1, Amount: 100, Currency: "CNY",
		At: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Place: 1,
	}
}

// store stores the ticket of a user's only queued admission in a shard, in the format of the gate.
func store(t *testing.T, rdb *redis.Client, s Shard, a domain.Admission) {
	t.Helper()
	require.NoError(t, rdb.HSet(t.Context(), s.Queued(), a.UserID, formatRow(&a)).Err())
	require.NoError(t, rdb.HSet(t.Context(), s.Meta(a.VoucherID), "line", 1, "queued", 1).Err())
}

// storeFailed stores the ticket of a failed admission, in the format of the gate.
func storeFailed(t *testing.T, rdb *redis.Client, s Shard, a domain.Admission, at time.Time) {
	t.Helper()
	text := "sold_out " + strconv.FormatInt(at.UnixMilli(), 10) + " " + formatRow(&a)
	require.NoError(t, rdb.HSet(t.Context(), s.Failed(a.UserID), a.OrderID, text).Err())
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
	const n, voucher = 5000, 7
	tracker, rows := startTracker(t, rdb), make([]any, 0, 2*n)
	for id := range int64(n) {
		a := queuedTicket(id+1, id+1, voucher)
		rows = append(rows, a.UserID, formatRow(&a))
		tracker.Remember(voucher, voucher, domain.Holder{OrderID: a.OrderID, UserID: a.UserID})
	}
	shard := Shard(voucher)
	require.NoError(t, rdb.HSet(t.Context(), shard.Queued(), rows...).Err())
	require.NoError(t, rdb.HSet(t.Context(), shard.Meta(voucher), "line", n, "queued", n).Err())
	hook := &counted{}
	rdb.AddHook(hook)
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var checks, wrong atomic.Int64
	var buyers sync.WaitGroup
	for id := range int64(n) {
		buyers.Go(func() {
			e := tracker.Expect(id + 1)
			defer e.Close()
			_, err := e.Wait(ctx, func(ctx context.Context) (domain.Outcome, bool, error) {
				checks.Add(1)
				ticket, err := tracker.Ticket(ctx, id+1, id+1)
				if err == nil && (ticket.OrderID != id+1 || ticket.Ahead == nil) {
					wrong.Add(1)
				}
				return domain.Outcome{}, false, err
			})
			if !errors.Is(err, context.Canceled) {
				wrong.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return checks.Load() >= n && time.Since(start) > 2*time.Second }, time.Minute, 10*time.Millisecond)
	cancel()
	buyers.Wait()
	t.Log(checks.Load(), "checks,", hook.commands.Load(), "commands")
	require.Zero(t, wrong.Load())
	require.Less(t, hook.commands.Load(), int64(200*time.Since(start).Seconds()))
}

// The first request for a ticket that another process admitted searches all shards. Later ones read its own shard.
func TestTicketOfOtherProcessSearchesShardsOnce(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		store(t, rdb, 7, queuedTicket(1, 10, 7))
		store(t, rdb, 8, queuedTicket(2, 10, 8))
		tracker, hook := startTracker(t, rdb), &counted{}
		rdb.AddHook(hook)
		for _, want := range []int64{int64(Shards) + 1, 2, 2} { // commands
			hook.commands.Store(0)
			ticket, err := tracker.Ticket(t.Context(), 10, 2)
			require.NoError(t, err)
			require.Equal(t, int64(8), ticket.VoucherID)
			require.NotNil(t, ticket.Ahead)
			require.Equal(t, want, hook.commands.Load())
		}
		require.NoError(t, rdb.HDel(t.Context(), Shard(8).Queued(), "10").Err())
		storeFailed(t, rdb, 8, queuedTicket(2, 10, 8), time.Now())
		ticket, err := tracker.Ticket(t.Context(), 10, 2)
		require.NoError(t, err)
		require.Equal(t, "sold_out", ticket.Failed)
		_, err = tracker.Ticket(t.Context(), 11, 2)
		require.ErrorIs(t, err, domain.ErrNotFound, "another user's")
	})
}

func TestTicketsOfAllShards(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		tracker := startTracker(t, rdb)
		a, b, failed, at := queuedTicket(1, 10, 7), queuedTicket(2, 10, 8), queuedTicket(3, 10, 9), time.UnixMilli(1000).UTC()
		for i, admission := range []domain.Admission{a, b} {
			admission.ReplyTo = "here" // is not part of a ticket
			store(t, rdb, Shard(7+i), admission)
		}
		store(t, rdb, 7, queuedTicket(4, 11, 7)) // another user's
		storeFailed(t, rdb, 9, failed, at)
		var first int64
		want := []domain.Ticket{
			{Admission: failed, Failed: "sold_out", FailedAt: at}, {Admission: b, Ahead: &first}, {Admission: a, Ahead: &first},
		}
		tickets, err := tracker.Tickets(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, want, tickets)

		for order, key := range map[int64]string{4: Shard(8).Queued(), 5: Shard(7).Failed(10)} {
			require.NoError(t, rdb.HSet(t.Context(), key, "10", "garbage", "5", "garbage").Err())
			_, err = tracker.Ticket(t.Context(), 10, order)
			require.Error(t, err)
			require.NotErrorIs(t, err, domain.ErrNotFound)
			_, err = tracker.Tickets(t.Context(), 10)
			require.Error(t, err)
			require.NoError(t, rdb.Del(t.Context(), key).Err())
		}
	})
}

// After Close, the tracker starts no reads.
func TestCloseEndsReads(t *testing.T) {
	tracker := startTracker(t, nil)
	tracker.Close()
	_, err := tracker.Ticket(t.Context(), 1, 1)
	require.ErrorIs(t, err, domain.ErrUnavailable)
}
