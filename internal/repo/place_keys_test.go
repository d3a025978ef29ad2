package repo

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/service"
	"seckill/internal/testenv"
)

// keyedOrder is an order of a request with an Idempotency-Key that says what.
func keyedOrder(id, user, voucher int64, limit int, key, what string) service.NewOrder {
	var fingerprint [32]byte
	copy(fingerprint[:], what)
	k := service.NewRequestKey(key, fingerprint)
	return service.NewOrder{Order: newOrder(id, user, voucher), Limit: limit, Key: k}
}

// keyedOutcomes tells replays apart.
func keyedOutcomes(placed []service.Placed) []string {
	words := outcomes(placed)
	for i, p := range placed {
		if p.Replayed {
			words[i] = "again " + words[i]
		}
	}
	return words
}

// TestRepeatedRequest: an order is placed once for its key, as first given, whatever became of it, and whether the
// repetition comes later or in the same batch.
func TestRepeatedRequest(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx, mismatch := t.Context(), service.ErrIdempotencyMismatch.Error()
		for _, limit := range []int{1, 3} {
			v, other := newSale(t, s, 100, limit), newSale(t, s, 100, limit)
			at := v.ID * 1000
			user := v.ID * 10
			first := s.PlaceOrders(ctx, []service.NewOrder{keyedOrder(at, user, v.ID, limit, "k", "a")})
			require.NoError(t, first[0].Err)
			requireAgain := func(because string) {
				t.Helper()
				again := s.PlaceOrders(ctx, []service.NewOrder{
					keyedOrder(at+1, user, v.ID, limit, "k", "a"), keyedOrder(at+2, user, v.ID, limit, "k", "other"),
					keyedOrder(at+3, user, other.ID, limit, "k", "b"), keyedOrder(at+4, user+1, other.ID, limit, "fresh", "b"),
				})
				require.Equal(t, []string{fmt.Sprint("again order ", at), mismatch, mismatch}, keyedOutcomes(again)[:3], because)
				again[0].Order.Slot = first[0].Order.Slot
				require.Equal(t, first[0].Order, again[0].Order, "as first given")
			}
			requireAgain("while the order is active")
			_, err := cancel(ctx, s, user, at, now)
			require.NoError(t, err)
			requireAgain("after it was cancelled")
			require.NoError(t, s.w.Exec("UPDATE seckill_vouchers SET initial_stock = initial_stock - stock, stock = 0 WHERE voucher_id = ?", v.ID).Error)
			requireAgain("in a sale that is sold out")
			requireBooks(t, s, v.ID, 0, 0)

			// A day later the key is as good as new.
			late := keyedOrder(at+9, user, other.ID, limit, "k", "b")
			late.CreatedAt = now.Add(service.KeyLife)
			require.Equal(t, []string{fmt.Sprint("order ", at+9)}, keyedOutcomes(s.PlaceOrders(ctx, []service.NewOrder{late})))
		}
	})
}

func TestRepeatedRequestInABatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 3, 2)
		require.Equal(t, []string{
			"order 1", "again order 1", "order 3", holds(3), service.ErrIdempotencyMismatch.Error(), "order 6",
			service.ErrSoldOut.Error(), service.ErrSoldOut.Error(),
		}, keyedOutcomes(s.PlaceOrders(t.Context(), []service.NewOrder{
			keyedOrder(1, 10, v.ID, 2, "k", "a"), keyedOrder(2, 10, v.ID, 2, "k", "a"), keyedOrder(3, 10, v.ID, 2, "l", "a"),
			keyedOrder(4, 10, v.ID, 2, "m", "a"), keyedOrder(5, 10, v.ID, 2, "k", "x"), keyedOrder(6, 11, v.ID, 2, "k", "a"),
			keyedOrder(7, 12, v.ID, 2, "k", "a"), keyedOrder(8, 12, v.ID, 2, "k", "a"), // nothing is left
		})))
		requireBooks(t, s, v.ID, 0, 3)
	})
}

// TestKeyOfAnotherRoute: a key that another kind of request used is refused, and the other way round.
func TestKeyOfAnotherRoute(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		require.NoError(t, s.claim(t, newClaim(10, "k", "cancel")).Err)
		orders := []service.NewOrder{keyedOrder(1, 10, v.ID, 1, "k", "order"), keyedOrder(2, 11, v.ID, 1, "k", "order")}
		orders[1].CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
		require.Equal(t, []string{service.ErrIdempotencyMismatch.Error(), "order 2"}, keyedOutcomes(s.PlaceOrders(t.Context(), orders)))
		requireBooks(t, s, v.ID, 9, 1)
		require.ErrorIs(t, s.claim(t, newClaim(11, "k", "cancel")).Err, service.ErrIdempotencyMismatch)
		require.NoError(t, s.claim(t, newClaim(11, "l", "cancel")).Err)
	})
}

// TestRepeatedRequestsRaced: from several processes at once, while the buyer cancels what he has, one order is placed.
func TestRepeatedRequestsRaced(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for _, limit := range []int{1, 2} {
			const users = 20
			v := newSale(t, s, 1000, limit)
			var wg sync.WaitGroup
			for worker := range int64(4) {
				wg.Go(func() {
					for user := range int64(users) {
						id := v.ID*100_000 + worker*1000 + user*10
						p := s.PlaceOrders(context.Background(), []service.NewOrder{
							keyedOrder(id, 1+user, v.ID, limit, "k", "a"), keyedOrder(id+1, 1+user, v.ID, limit, fmt.Sprint(worker), "a"),
						})
						if worker == 0 && p[1].Err == nil {
							if _, err := cancel(context.Background(), s, 1+user, p[1].Order.ID, now); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			var doubled []int64
			hash := service.KeyHash("k")
			require.NoError(t, s.r.Raw("SELECT user_id FROM voucher_orders WHERE voucher_id = ? AND idem_key = ? GROUP BY user_id HAVING COUNT(*) > 1",
				v.ID, hash[:]).Scan(&doubled).Error)
			require.Empty(t, doubled)
			books, err := s.Books(t.Context())
			require.NoError(t, err)
			for _, b := range books {
				require.Empty(t, b.Check())
			}
		}
	})
}

// TestKeyOfAnotherRouteInABatch: a buyer whose key is refused, and who presses without it at the same moment, costs the
// others of the batch nothing.
func TestKeyOfAnotherRouteInABatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		require.NoError(t, s.claim(t, newClaim(10, "k", "cancel")).Err)
		tries := &losing{Context: t.Context(), lose: func() {}, after: 1 << 30}
		orders := []service.NewOrder{
			keyedOrder(1, 10, v.ID, 1, "k", "order"), {Order: newOrder(2, 10, v.ID), Limit: 1}, {Order: newOrder(3, 11, v.ID), Limit: 1},
			{Order: newOrder(4, 11, v.ID), Limit: 1}, {Order: newOrder(5, 12, v.ID), Limit: 1, Fence: tries},
		}
		require.Equal(t, []string{service.ErrIdempotencyMismatch.Error(), "order 2", "order 3", holds(3), "order 5"},
			keyedOutcomes(s.PlaceOrders(t.Context(), orders)))
		require.Less(t, 1<<30-tries.after, 10, "runs of the transaction, twice each")
		requireBooks(t, s, v.ID, 7, 3)
	})
}

// TestKeysOfABatchAreNotCombined: MariaDB neither looks for every key of a batch under every user of it nor reads the whole
// table.
func TestKeysOfABatchAreNotCombined(t *testing.T) {
	s, err := OpenMySQL(testenv.MySQLDSN(t))
	require.NoError(t, err)
	migrated(t, s)
	const buyers = 60
	rows := make([]*placing, buyers)
	for i := range rows {
		user := int64(i + 1)
		rows[i] = &placing{
			row: orderRow{UserID: user, IdemRequest: []byte{1}}, key: &service.RequestKey{Name: fmt.Sprint("order ", i)},
		}
	}
	require.Equal(t, 1, s.claim(t, newClaim(1, "payment", "pay")).Runs)
	require.NoError(t, s.w.Exec("INSERT INTO idempotency_keys (user_id, idem_key, fingerprint, claim, runs, done, status, location, "+
		"content_type, locked_until, created_at, expires_at) SELECT seq, 'payment', fingerprint, seq, runs, done, status, location, "+
		"content_type, locked_until, created_at, expires_at FROM idempotency_keys, seq_2_to_20000 WHERE user_id = 1").Error)
	require.NoError(t, s.w.Exec("ANALYZE TABLE idempotency_keys").Error)
	require.NoError(t, s.w.Transaction(func(tx *gorm.DB) error {
		reads := func() (n int) {
			require.NoError(t, tx.Raw("SELECT CAST(SUM(variable_value) AS SIGNED) FROM information_schema.session_status "+
				"WHERE variable_name IN ('Handler_read_key', 'Handler_read_next', 'Handler_read_rnd_next')").Scan(&n).Error)
			return n
		}
		before := reads()
		used, err := s.keysElsewhere(tx, rows)
		require.NoError(t, err)
		require.Empty(t, used)
		require.Less(t, reads()-before, 5*buyers)
		return nil
	}))
}
