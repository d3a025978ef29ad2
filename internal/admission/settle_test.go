package admission

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/service"
	"seckill/internal/testenv"
)

func TestSettle(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(1, 10), admission(2, 11))
		done := queue(t, g, voucher)
		done[1].Failed = "sold_out"
		require.NoError(t, g.Settle(t.Context(), done))
		requireLevel(t, g, Level{Stock: 4, Held: 1})
		require.Equal(t, map[string]string{"10": "1"}, buyers(t, g, voucher))
		_, err := g.Ticket(t.Context(), 10, 1)
		require.ErrorIs(t, err, service.ErrNotFound)
		ticket, err := g.Ticket(t.Context(), 11, 2)
		require.NoError(t, err)
		require.Equal(t, "sold_out", ticket.Failed)
		require.WithinDuration(t, time.Now(), ticket.FailedAt, time.Minute)
		require.Equal(t, noon, ticket.At)
		_, err = g.Ticket(t.Context(), 10, 2)
		require.ErrorIs(t, err, service.ErrNotFound, "another user's")

		before := level(t, g, voucher)
		require.NoError(t, g.Settle(t.Context(), done))
		require.Equal(t, before, level(t, g, voucher))
	})
}

// What left the stream is pending with nobody.
func TestSettleAndBuryAcknowledge(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(1, 10), admission(2, 11))
		stream := shardOf(voucher).stream()
		require.NoError(t, rdb.XGroupCreate(t.Context(), stream, Group, "0").Err())
		require.NoError(t, rdb.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: Group, Consumer: "a", Streams: []string{stream, ">"}, Block: -1,
		}).Err())
		q := queue(t, g, voucher)
		require.NoError(t, g.Settle(t.Context(), q[:1]))
		bury(t, g, q[1])
		pending, err := rdb.XPending(t.Context(), stream, Group).Result()
		require.NoError(t, err)
		require.Zero(t, pending.Count)
	})
}

// A worker who is late must not take away what a replay has reserved again.
func TestLateSettlementLeavesAReplayAlone(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(1, 10))
		late := queue(t, g, voucher)
		bury(t, g, late[0])
		letters, err := g.DeadLetters(t.Context(), "", 10)
		require.NoError(t, err)
		_, err = g.Replay(t.Context(), letters[0].ID)
		require.NoError(t, err)
		late[0].Failed = "sold_out"
		require.NoError(t, g.Settle(t.Context(), late))
		requireLevel(t, g, Level{Stock: 4, Held: 1, Queued: 1, Backlog: 1})
		ticket, err := g.Ticket(t.Context(), 10, 1)
		require.NoError(t, err)
		require.Empty(t, ticket.Failed)
	})
}

func TestSettleOfAColdGate(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(1, 10), admission(2, 11))
		done := queue(t, g, voucher)
		done[1].Failed = "sold_out"
		require.NoError(t, g.Unload(t.Context(), voucher))
		require.NoError(t, g.Settle(t.Context(), done))
		require.Empty(t, queue(t, g, voucher))
		requireKeys(t, rdb, shardOf(voucher).stream(), shardOf(voucher).tickets(11))
	})
}

func TestReleaseIsExactlyOnce(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(1, 10))
		for range 3 {
			require.NoError(t, g.Release(t.Context(), voucher, 10, 1))
			require.NoError(t, g.Release(t.Context(), voucher, 11, 1))
		}
		requireLevel(t, g, Level{Stock: 5, Queued: 1, Backlog: 1})
		require.Empty(t, buyers(t, g, voucher))
		// Nor does an id that looks alike take anything away.
		reserve(t, g, admission(2123, 12))
		for _, id := range []int64{2, 3, 12, 21, 23, 212, 123} {
			require.NoError(t, g.Release(t.Context(), voucher, 12, id))
		}
		require.Equal(t, map[string]string{"12": "2123"}, buyers(t, g, voucher))
		requireLevel(t, g, Level{Stock: 4, Held: 1, Queued: 2, Backlog: 2})
		// He may buy again at once, although the first admission is not settled.
		require.Equal(t, []error{nil}, reserve(t, g, admission(2, 10)))
	})
}

func TestAddStock(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		require.NoError(t, g.AddStock(t.Context(), voucher, 3))
		require.NoError(t, g.AddStock(t.Context(), voucher, -8))
		requireLevel(t, g, Level{})
		require.ErrorIs(t, g.AddStock(t.Context(), voucher, -1), service.ErrInvalidState)
		requireLevel(t, g, Level{})
	})
}

// The database lost units that were on their way. Those admissions fail and give them back, and nobody is admitted on
// units that are not there.
func TestStockBelowZeroIsPaidBack(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 3)
		reserve(t, g, admission(1, 10), admission(2, 11), admission(3, 12))
		db.stock[voucher] = 1
		require.NoError(t, g.Unload(t.Context(), voucher))
		require.NoError(t, g.Load(t.Context(), voucher, db.read))
		requireLevel(t, g, Level{Stock: -2, Held: 3, Queued: 3, Backlog: 3})
		require.Equal(t, []error{service.ErrSoldOut}, reserve(t, g, admission(4, 13)))
		done := queue(t, g, voucher)
		for i := range done {
			done[i].Failed = db.commit(done[i].Admission)
		}
		require.NoError(t, g.Settle(t.Context(), done))
		requireLevel(t, g, Level{Stock: 0, Held: 1})
		require.Equal(t, []error{service.ErrSoldOut}, reserve(t, g, admission(5, 13)))
	})
}

func TestTickets(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 5)
		db.stock[stranger] = 5
		require.NoError(t, g.Load(t.Context(), stranger, db.read))
		a, b, other := admission(1, 10), admission(2, 10), admission(3, 11)
		b.VoucherID = stranger
		reserve(t, g, a, other)
		reserve(t, g, b)
		tickets, err := g.Tickets(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, tickets, 2)
		a.ReplyTo, b.ReplyTo = "", ""
		require.Equal(t, b, tickets[0].Admission)
		require.Equal(t, a, tickets[1].Admission)

		require.NoError(t, rdb.HSet(t.Context(), shardOf(voucher).tickets(10), "1", "garbage").Err())
		_, err = g.Ticket(t.Context(), 10, 1)
		require.Error(t, err)
		require.False(t, errors.Is(err, service.ErrNotFound))
	})
}
