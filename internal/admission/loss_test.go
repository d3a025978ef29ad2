package admission

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// A worker may still commit an admission that Redis has lost with the gate. Until it certainly does not, nobody is
// refused as sold out by the gate that was loaded anew: its buyer may be the one with the order.
func TestNobodyIsSoldOutWhileLostAdmissionsMayBeCommitted(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		g, db := withStock(t, rdb, 1)
		inHand := admission(1, 10)
		require.Equal(t, []error{nil, domain.ErrSoldOut}, reserve(t, g, inHand, admission(2, 11)))
		require.NoError(t, rdb.FlushDB(ctx).Err())

		require.NoError(t, g.Load(ctx, voucher, db.read))
		again := admission(4, 10)
		require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(3, 12), again))
		require.ErrorIs(t, domain.ErrGateLacking, domain.ErrUnavailable)
		_, err := g.Holders(ctx, voucher, 10)
		require.ErrorIs(t, err, domain.ErrGateLacking, "the list would lack the buyer")
		require.Empty(t, db.commit(inHand))

		passLoss(t, rdb, voucherKeys)
		require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(5, 13)))
		users, err := g.Holders(ctx, voucher, 10)
		require.NoError(t, err)
		require.Equal(t, []int64{12}, users)
	})
}

// While the gate may lack admissions of a buyer, their number is no answer. What the gate knows is returned all the same.
func TestActiveOrdersMayLackLostAdmission(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		g, db := withStock(t, rdb, 1)
		requireOrders := func(user int64, wantCount int, wantNewest int64, want error) {
			t.Helper()
			count, newest, err := g.ActiveOrders(ctx, user, voucher)
			require.Equal(t, want, err)
			require.Equal(t, wantCount, count)
			require.Equal(t, wantNewest, newest)
		}
		require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
		requireOrders(10, 1, 1, nil)
		requireOrders(11, 0, 0, nil)

		require.NoError(t, rdb.FlushDB(ctx).Err())
		requireOrders(10, 0, 0, domain.ErrGateCold)
		require.NoError(t, g.Load(ctx, voucher, db.read))
		require.Equal(t, []error{nil}, reserve(t, g, admission(2, 12)))
		requireOrders(10, 0, 0, domain.ErrGateLacking)
		requireOrders(12, 1, 2, domain.ErrGateLacking)

		passLoss(t, rdb, voucherKeys)
		requireOrders(10, 0, 0, nil)
		requireOrders(12, 1, 2, nil)
	})
}

// A list of orders that another program wrote makes nobody a holder.
func TestActiveOrdersOfUnreadableList(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 1)
		require.NoError(t, rdb.HSet(t.Context(), voucherKeys.buyers, "10", "1,x").Err())
		count, _, err := g.ActiveOrders(t.Context(), 10, voucher)
		require.Error(t, err)
		require.Zero(t, count)
	})
}

// A process that has not used the gate before finds out that it was lost by the orders in the database. The first load
// of a sale is none after a loss.
func TestOrdersProveThatGateWasLost(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		g, db := withStock(t, rdb, 2)
		require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
		require.Empty(t, db.commit(admission(1, 10)))
		require.NoError(t, rdb.FlushDB(ctx).Err())

		started := newGate(rdb)
		defer started.Close()
		require.NoError(t, started.Load(ctx, voucher, db.read))
		require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, started, admission(2, 11), admission(3, 12)))

		// If all units are orders, no admission can be lost.
		require.Empty(t, db.commit(admission(2, 11)))
		require.NoError(t, rdb.FlushDB(ctx).Err())
		require.NoError(t, started.Load(ctx, voucher, db.read))
		require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, started, admission(4, 12)))
	})
}

// After a failover, the new master may not have the last admissions of the old one.
func TestNobodyIsSoldOutAfterFailover(t *testing.T) {
	rdb := testenv.StartRedis(t).Client(t)
	g, _ := withStock(t, rdb, 1)
	require.Equal(t, []error{nil, domain.ErrSoldOut}, reserve(t, g, admission(1, 10), admission(2, 11)))
	require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "run", "of another server").Err())
	require.Equal(t, []error{domain.ErrGateLacking}, reserve(t, g, admission(3, 11)))
	require.Equal(t, []error{domain.ErrGateLacking}, reserve(t, g, admission(4, 11)))
	passLoss(t, rdb, voucherKeys)
	require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(5, 11)))

	// A gate that an earlier version has loaded does not name its server.
	require.NoError(t, rdb.HDel(t.Context(), voucherKeys.meta, "run", "lost").Err())
	require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(6, 11)))
}

// The clock of Redis is set back by ten minutes after a loss. The pause of the answer sold_out begins again, and does not
// last until the clock has caught up.
func TestLossIsOverAlthoughClockGoesBack(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 1)
		require.Equal(t, []error{nil}, reserve(t, g, admission(9, 19)))
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		require.NoError(t, g.Load(t.Context(), voucher, db.read))
		require.NoError(t, rdb.HIncrBy(t.Context(), voucherKeys.meta, "lost", 600_000).Err())
		require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(1, 10), admission(2, 11)))

		passLoss(t, rdb, voucherKeys)
		require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(3, 11)))
	})
}

// A failover that ended long ago does not delay the end of a sale.
func TestFailoverBeforeTheEndOfASaleIsOver(t *testing.T) {
	rdb := testenv.StartRedis(t).Client(t)
	g, _ := withStock(t, rdb, 3)
	require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "run", "of another server").Err())
	require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
	passLoss(t, rdb, voucherKeys)

	require.Equal(t, []error{nil}, reserve(t, g, admission(2, 11)))
	require.Equal(t, []error{nil, domain.ErrSoldOut}, reserve(t, g, admission(3, 12), admission(4, 13)))
}

// A gate that was unloaded on purpose has lost nothing, whatever segments it has then.
func TestUnloadIsNoLoss(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, n := range [][2]int{{1, 1}, {4, 4}, {4, 1}, {1, 4}} {
			require.NoError(t, rdb.FlushDB(t.Context()).Err())
			segments := map[int64]int{voucher: n[0]}
			g, db := segmented(rdb, segments), newDatabase()
			db.stock[voucher] = 2
			require.NoError(t, g.Load(t.Context(), voucher, db.read))
			require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
			require.Empty(t, db.commit(admission(1, 10)))
			settle(t, g, queue(t, g, voucher)[0])

			segments[voucher] = n[1]
			require.NoError(t, g.Unload(t.Context(), voucher))
			require.NoError(t, g.Load(t.Context(), voucher, db.read))
			require.Equal(t, []error{nil}, reserve(t, g, admission(2, 11)))
			for user := int64(12); user < 32; user++ {
				require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(user, user)), "segments %v", n)
			}
		}
	})
}

// A gate that is unloaded after a loss still knows of it, even if the lost units were sold again.
func TestUnloadKeepsLoss(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		g, db := withStock(t, rdb, 1)
		inHand := admission(1, 10)
		require.Equal(t, []error{nil}, reserve(t, g, inHand))
		require.NoError(t, rdb.FlushDB(ctx).Err())
		require.NoError(t, g.Load(ctx, voucher, db.read))
		require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(2, 12), admission(3, 10)))

		require.NoError(t, g.Unload(ctx, voucher))
		require.NoError(t, g.Load(ctx, voucher, db.read))
		require.Equal(t, []error{domain.ErrGateLacking}, reserve(t, g, admission(4, 10)))
		require.Empty(t, db.commit(inHand))
	})
}

// A gate that is loaded again on a server that has taken over may lack admissions.
func TestLoadFindsFailover(t *testing.T) {
	rdb := testenv.StartRedis(t).Client(t)
	g, db := withStock(t, rdb, 1)
	require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
	require.NoError(t, g.Unload(t.Context(), voucher))
	require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "run", "of another server").Err())
	require.NoError(t, g.Load(t.Context(), voucher, db.read))
	require.Equal(t, []error{domain.ErrGateLacking}, reserve(t, g, admission(2, 11)))
}

// The data may be lost while the list of buyers is read.
func TestHoldersFindsLossDuringTheRead(t *testing.T) {
	lose := map[string]func(t *testing.T, rdb *redis.Client){
		"flush": func(t *testing.T, rdb *redis.Client) { require.NoError(t, rdb.FlushDB(t.Context()).Err()) },
		"flush and load": func(t *testing.T, rdb *redis.Client) {
			require.NoError(t, rdb.FlushDB(t.Context()).Err())
			other := newGate(rdb)
			defer other.Close()
			db := newDatabase()
			db.stock[voucher] = 1
			require.NoError(t, other.Load(t.Context(), voucher, db.read))
		},
		"failover": func(t *testing.T, rdb *redis.Client) {
			require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "run", "of another server").Err())
			require.NoError(t, rdb.HDel(t.Context(), voucherKeys.buyers, "10").Err())
		},
	}
	for name, lose := range lose {
		t.Run(name, func(t *testing.T) {
			testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
				watched := redis.NewClient(rdb.Options())
				defer func() { _ = watched.Close() }()
				g, _ := withStock(t, watched, 1)
				require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
				watched.AddHook(beforeScan(func() { lose(t, rdb) }))

				users, err := g.Holders(t.Context(), voucher, 10)
				require.Error(t, err, "a list of %v", users)
			})
		})
	}
}

// beforeScan is a hook that calls a function before each HSCAN.
type beforeScan func()

func (beforeScan) DialHook(next redis.DialHook) redis.DialHook { return next }

func (beforeScan) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (do beforeScan) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hscan" {
			do()
		}
		return next(ctx, cmd)
	}
}

// passLoss lets the time pass in which admissions that a gate has lost may be committed.
func passLoss(t *testing.T, rdb *redis.Client, k gateKeys) {
	t.Helper()
	require.NoError(t, rdb.HIncrBy(t.Context(), k.meta, "lost", -15_000).Err())
}
