package admission

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

func inspect(t *testing.T, g *Gate, voucherID int64) domain.GateView {
	t.Helper()
	view, err := g.Inspect(t.Context(), voucherID, 1000)
	require.NoError(t, err)
	return view
}

// held returns a domain.Holder.
func held(order, user int64) domain.Holder { return domain.Holder{OrderID: order, UserID: user} }

// Inspect returns the buyers, the queue and the dead letters of one voucher, and nothing of another voucher in its
// shard.
func TestInspectShowsOneVoucher(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 10)
		reserveApart(t, g, admission(1, 10), admission(2, 20), admission(3, 30))
		db.commit(admission(1, 10))
		settle(t, g, queue(t, g, voucher)[0])
		settle(t, g, queue(t, g, voucher)[0], domain.End{Dead: "poison"})
		db.stock[neighbour] = 5
		require.NoError(t, g.Load(t.Context(), neighbour, db))
		other := admission(4, 10)
		other.VoucherID = neighbour
		reserve(t, g, other)

		view := inspect(t, g, voucher)
		require.Equal(t, level(t, g, voucher), view.Level)
		require.ElementsMatch(t, []domain.Holder{held(1, 10), held(3, 30)}, view.Buyers)
		require.Equal(t, []domain.Holder{held(3, 30)}, view.Tickets)
		require.Len(t, view.Queue, 1)
		require.Equal(t, held(3, 30), view.Queue[0].Holder)
		require.WithinDuration(t, time.Now(), view.Queue[0].Since, time.Minute)
		require.Equal(t, []domain.Holder{held(2, 20)}, view.Letters)

		view, err := g.Inspect(t.Context(), voucher, 1)
		require.NoError(t, err)
		require.True(t, view.TooMany)
		require.Empty(t, view.Buyers)
	})
}

func TestInspectReadsAllPages(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const n = 2500
		g, _ := withStock(t, rdb, n)
		var want []domain.Holder
		for some := range slices.Chunk(admissions(1, n), 5) {
			reserve(t, g, some...)
			for _, a := range some {
				want = append(want, held(a.OrderID, a.UserID))
			}
		}
		view, err := g.Inspect(t.Context(), voucher, n)
		require.NoError(t, err)
		for _, holders := range [][]domain.Holder{view.Buyers, view.Tickets} {
			slices.SortFunc(holders, func(a, b domain.Holder) int { return cmp.Compare(a.OrderID, b.OrderID) })
			require.Equal(t, want, holders)
		}
		require.Len(t, view.Queue, n)
	})
}

// The view of a cold gate reports whether other keys of the gate exist, and whether a load is running.
func TestInspectColdGate(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 10)
		reserve(t, g, admission(1, 10))
		require.Equal(t, domain.GateView{Cold: true}, inspect(t, g, stranger))

		require.NoError(t, rdb.Del(t.Context(), voucherKeys.stock).Err())
		view := inspect(t, g, voucher)
		require.True(t, view.Cold)
		require.True(t, view.Leftovers)
		require.False(t, view.Loading)
		require.Len(t, view.Queue, 1)

		require.NoError(t, g.Load(t.Context(), stranger, reads{db, func(ctx context.Context, v int64, inFlight []int64) (domain.GateState, error) {
			view := inspect(t, g, stranger)
			require.True(t, view.Cold)
			require.True(t, view.Loading)
			return db.GateState(ctx, v, inFlight)
		}}))
		require.False(t, inspect(t, g, stranger).Cold)

		require.NoError(t, g.Unload(t.Context(), voucher))
		require.False(t, inspect(t, g, voucher).Leftovers)
	})
}

// Inspect reports keys of the wrong type or content. A load after Unload repairs them.
func TestInspectReportsBrokenKeys(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 10)
		k := voucherKeys
		for name, breakIt := range map[string]func() error{
			"stock is not a number":   func() error { return rdb.Set(t.Context(), k.stock, "many", 0).Err() },
			"counter is not a number": func() error { return rdb.HSet(t.Context(), k.meta, "held", "many").Err() },
			"stock of wrong type":     func() error { rdb.Del(t.Context(), k.stock); return rdb.LPush(t.Context(), k.stock, 1).Err() },
			"counters of wrong type":  func() error { rdb.Del(t.Context(), k.meta); return rdb.Set(t.Context(), k.meta, 1, 0).Err() },
			"buyers of wrong type":    func() error { rdb.Del(t.Context(), k.buyers); return rdb.Set(t.Context(), k.buyers, 1, 0).Err() },
		} {
			require.NoError(t, breakIt())
			require.True(t, inspect(t, g, voucher).Broken, name)
			_, err := g.Level(t.Context(), voucher)
			require.ErrorIs(t, err, domain.ErrGateBroken, name)
			require.NoError(t, g.Unload(t.Context(), voucher))
			require.NoError(t, g.Load(t.Context(), voucher, db))
			require.False(t, inspect(t, g, voucher).Broken, name)
			requireExact(t, g, db)
		}
		require.NoError(t, rdb.HSet(t.Context(), k.buyers, "77", "junk,1", "junk", "2").Err())
		view := inspect(t, g, voucher)
		require.Equal(t, 2, view.Unreadable)
		require.Equal(t, []domain.Holder{held(1, 77)}, view.Buyers)
	})
}

// A load restores missing tickets, but only of admissions that are still in the stream.
func TestLoadRestoresMissingTickets(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db, q := cold(t, rdb)
		k := voucherKeys
		require.NoError(t, rdb.HDel(t.Context(), k.shard.Queued(), "20", "50").Err())
		require.NoError(t, g.Load(t.Context(), voucher, db))
		requireExact(t, g, db)
		tickets, err := g.Tickets(t.Context(), 50)
		require.NoError(t, err)
		require.Len(t, tickets, 1)

		// An entry that has left the stream gets no tickets.
		l := onlySegment(g, "mine")
		require.NoError(t, rdb.Set(t.Context(), k.loading, l.token, 0).Err())
		settle(t, g, q[0])
		require.NoError(t, l.repairTickets(t.Context(), queuedEntries{q[0].Entry: q[0].Admissions, q[1].Entry: q[1].Admissions}, q[1].Entry))
		requireTickets(t, g, voucher)
	})
}
