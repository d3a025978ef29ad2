package repo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/test/env"
)

// keyedOrder returns an order of a request with an Idempotency-Key. body stands for its contents.
func keyedOrder(id, user, voucher int64, limit int, key, body string) domain.NewOrder {
	var fingerprint [32]byte
	copy(fingerprint[:], body)
	k := domain.NewRequestKey(key, fingerprint)
	return domain.NewOrder{Order: newOrder(id, user, voucher), Limit: limit, Key: k}
}

// keyedOutcomes is outcomes with replays marked by "again".
func keyedOutcomes(placed []domain.Placed) []string {
	words := outcomes(placed)
	for i, p := range placed {
		if p.Replayed {
			words[i] = "again " + words[i]
		}
	}
	return words
}

// A key places one order. A repetition returns the order as it was placed, even if it has ended since.
func TestRepeatedRequestReplaysOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx, mismatch := t.Context(), domain.ErrIdempotencyMismatch.Error()
		for _, limit := range []int{1, 3} {
			v, other := newSale(t, s, 100, limit), newSale(t, s, 100, limit)
			at := v.ID * 1000
			user := v.ID * 10
			bought := keyedOrder(at, user, v.ID, limit, "k", "a")
			bought.Order = offered(t, s, &v, bought.Order)[0]
			first := s.PlaceOrders(ctx, []domain.NewOrder{bought})
			require.NoError(t, first[0].Err)
			requireReplay := func(state string) {
				t.Helper()
				again := s.PlaceOrders(ctx, []domain.NewOrder{
					keyedOrder(at+1, user, v.ID, limit, "k", "a"), keyedOrder(at+2, user, v.ID, limit, "k", "other"),
					keyedOrder(at+3, user, other.ID, limit, "k", "b"), keyedOrder(at+4, user+1, other.ID, limit, "fresh", "b"),
				})
				require.Equal(t, []string{fmt.Sprint("again order ", at), mismatch, mismatch}, keyedOutcomes(again)[:3], state)
				again[0].Order.Slot = first[0].Order.Slot
				require.Equal(t, first[0].Order, again[0].Order, "as it was placed")
			}
			requireReplay("while the order is active")
			env.Must(cancel(ctx, s, user, at, now))(t)
			requireReplay("after it was cancelled")
			require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE seckill_vouchers SET initial_stock = initial_stock - stock, stock = 0 WHERE voucher_id = ?", v.ID).Error)
			requireReplay("after the sale has sold out")
			requireTotals(t, s, v.ID, 0, 0)

			// After domain.KeyLife the key can be used for a new order.
			late := keyedOrder(at+9, user, other.ID, limit, "k", "b")
			late.CreatedAt = now.Add(domain.KeyLife)
			require.Equal(t, []string{fmt.Sprint("order ", at+9)}, keyedOutcomes(s.PlaceOrders(ctx, []domain.NewOrder{late})))
		}
	})
}

func TestRepeatedRequestInOneBatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 3, 2)
		require.Equal(t, []string{
			"order 1", "again order 1", "order 3", duplicateOf(3), domain.ErrIdempotencyMismatch.Error(), "order 6",
			domain.ErrSoldOut.Error(), domain.ErrSoldOut.Error(),
		}, keyedOutcomes(s.PlaceOrders(t.Context(), []domain.NewOrder{
			keyedOrder(1, 10, v.ID, 2, "k", "a"), keyedOrder(2, 10, v.ID, 2, "k", "a"), keyedOrder(3, 10, v.ID, 2, "l", "a"),
			keyedOrder(4, 10, v.ID, 2, "m", "a"), keyedOrder(5, 10, v.ID, 2, "k", "x"), keyedOrder(6, 11, v.ID, 2, "k", "a"),
			keyedOrder(7, 12, v.ID, 2, "k", "a"), keyedOrder(8, 12, v.ID, 2, "k", "a"), // sold out
		})))
		requireTotals(t, s, v.ID, 0, 3)
	})
}

// A key that another route has used is refused for an order, and vice versa. The other rows of the batch are not affected,
// even one of the same buyer.
func TestKeyUsedByAnotherRoute(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(10, "k", "cancel")).Err)
		tries := &losingContext{Context: t.Context(), lose: func() {}, after: 1 << 30}
		keyed := keyedOrder(6, 13, v.ID, 1, "k", "order")
		keyed.CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
		orders := []domain.NewOrder{
			keyedOrder(1, 10, v.ID, 1, "k", "order"), {Order: newOrder(2, 10, v.ID), Limit: 1}, {Order: newOrder(3, 11, v.ID), Limit: 1},
			{Order: newOrder(4, 11, v.ID), Limit: 1}, {Order: newOrder(5, 12, v.ID), Limit: 1, Fence: tries}, keyed,
		}
		require.Equal(t, []string{domain.ErrIdempotencyMismatch.Error(), "order 2", "order 3", duplicateOf(3), "order 5", "order 6"},
			keyedOutcomes(s.PlaceOrders(t.Context(), orders)))
		require.Less(t, 1<<30-tries.after, 10, "Err is called twice per run of the transaction, and there are few runs")
		requireTotals(t, s, v.ID, 6, 4)

		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(13, "k", "cancel")).Err, domain.ErrIdempotencyMismatch)
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(13, "l", "cancel")).Err)
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(14, "k", "cancel")).Err, "another user's key")
	})
}

// A request under the key of an order whose transaction is still open is refused after the commit.
func TestLeaseWaitsForOrderWithItsKey(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		o := keyedOrder(1, 10, v.ID, 1, "k", "order")
		o.CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
		leased := make(chan domain.KeyState, 1)
		o.Fence = &losingContext{Context: t.Context(), after: 1, lose: func() { // at the end of the transaction
			go func() { leased <- s.ClaimKey(t.Context(), newClaim(10, "k", "cancel")) }()
			env.RequireBlocked(t, s.db, "idem_key")
		}}
		require.Equal(t, []string{"order 1"}, keyedOutcomes(s.PlaceOrders(t.Context(), []domain.NewOrder{o})))
		require.ErrorIs(t, (<-leased).Err, domain.ErrIdempotencyMismatch)
	})
}

// Several workers send one request at once, while the buyer cancels orders. One order is placed.
func TestConcurrentRepetitionsPlaceOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for _, limit := range []int{1, 2} {
			const users = 20
			v := newSale(t, s, 1000, limit)
			allAtOnce(t, 4, func(worker int) (err error) {
				for user := range int64(users) {
					id := v.ID*100_000 + int64(worker)*1000 + user*10
					p := s.PlaceOrders(t.Context(), []domain.NewOrder{
						keyedOrder(id, 1+user, v.ID, limit, "k", "a"), keyedOrder(id+1, 1+user, v.ID, limit, fmt.Sprint(worker), "a"),
					})
					if worker == 0 && p[1].Err == nil {
						_, failed := cancel(t.Context(), s, 1+user, p[1].Order.ID, now)
						err = errors.Join(err, failed)
					}
				}
				return err
			})
			var doubled []int64
			hash := domain.KeyHash("k")
			require.NoError(t, s.db.Reader(t.Context()).Raw("SELECT user_id FROM voucher_orders WHERE voucher_id = ? AND idem_key = ? GROUP BY user_id HAVING COUNT(*) > 1",
				v.ID, hash[:]).Scan(&doubled).Error)
			require.Empty(t, doubled)
			totals := env.Must(s.SaleTotals(t.Context()))(t)
			for _, b := range totals {
				require.Empty(t, b.Check())
			}
		}
	})
}

// A buyer sends one key for two vouchers at once, through two processes. One order is placed.
func TestConcurrentUsesOfKeyPlaceOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const users = 50
		vouchers := [2]domain.Voucher{newSale(t, s, users, 1), newSale(t, s, users, 1)}
		for user := range int64(users) {
			requireWinners(t, 1, domain.ErrIdempotencyMismatch, atOnce(len(vouchers), func(i int) error {
				o := keyedOrder(vouchers[i].ID*100_000+user, 1+user, vouchers[i].ID, 1, "k", fmt.Sprint(i))
				return s.PlaceOrders(t.Context(), []domain.NewOrder{o})[0].Err
			}))
		}
	})
}

// The server must look up only the pairs of user and key, neither every combination of them nor the whole table.
func TestKeysElsewhereLooksUpPairs(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		const buyers = 60
		rows := make([]*pendingInsert, buyers)
		for i := range rows {
			user := int64(i + 1)
			rows[i] = &pendingInsert{
				row: orderRow{Order: domain.Order{UserID: user}, IdemRequest: []byte{1}}, key: &domain.RequestKey{Name: fmt.Sprint("order ", i)},
			}
		}
		require.Equal(t, 1, s.ClaimKey(t.Context(), newClaim(1, "payment", "pay")).Runs)
		require.NoError(t, s.db.Writer(t.Context()).Exec("INSERT INTO idempotency_keys (user_id, idem_key, fingerprint, claim, runs, done, status, location, "+
			"content_type, locked_until, created_at, expires_at) SELECT n + 2, 'payment', fingerprint, n + 2, runs, done, status, location, "+
			"content_type, locked_until, created_at, expires_at FROM idempotency_keys, "+env.Numbers(5)+" numbers WHERE user_id = 1 AND n < 5000").Error)
		require.NoError(t, s.db.Writer(t.Context()).Exec("ANALYZE TABLE idempotency_keys").Error)
		require.Less(t, s.rowReads(t, func(tx *gorm.DB) {
			used := env.Must(s.keysElsewhere(tx, rows))(t)
			require.Empty(t, used)
		}), 5*buyers)
	})
}

// The same holds for the pairs of user and voucher.
func TestOrdersOfBuyersLookUpPairs(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		const buyers, vouchers = 60, 20
		rows := make([]*pendingInsert, buyers)
		round := uint32(1)
		for i := range rows {
			rows[i] = &pendingInsert{row: orderRow{Order: domain.Order{UserID: int64(i + 1), VoucherID: int64(1 + i%vouchers)}, EntryRound: &round}}
		}
		require.NoError(t, s.db.Writer(t.Context()).Exec("INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, "+
			"updated_at, entry_round) SELECT n + 1, 1 + n MOD 250, 1 + FLOOR(n / 250), 1, 1, 1, NOW(3), NOW(3), NOW(3), 1 FROM "+env.Numbers(5)+
			" numbers WHERE n < 5000").Error)
		require.NoError(t, s.db.Writer(t.Context()).Exec("ANALYZE TABLE voucher_orders").Error)
		for _, add := range []func(tx *gorm.DB, of, except []*pendingInsert, known knownOrders) error{s.addActiveOrders, s.addPassOrders} {
			require.Less(t, s.rowReads(t, func(tx *gorm.DB) {
				known := knownOrders{}
				require.NoError(t, add(tx, rows, nil, known))
				require.Len(t, slices.Collect(maps.Keys(known)), buyers)
			}), 5*buyers)
		}
	})
}

func (s *Store) rowReads(t *testing.T, fn func(tx *gorm.DB)) (n int) {
	t.Helper()
	require.NoError(t, s.db.Writer(t.Context()).Transaction(func(tx *gorm.DB) error {
		before := handlerReads(t, tx, "SESSION")
		fn(tx)
		n = handlerReads(t, tx, "SESSION") - before
		return nil
	}))
	return n
}

// handlerReads returns how many rows and index entries were read so far, in this session or in all (GLOBAL).
func handlerReads(t *testing.T, tx *gorm.DB, scope string) (n int) {
	t.Helper()
	var read []struct{ Value int }
	require.NoError(t, tx.Raw("SHOW "+scope+" STATUS WHERE variable_name IN "+
		"('Handler_read_key', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')").Scan(&read).Error)
	require.Len(t, read, 5)
	for _, r := range read {
		n += r.Value
	}
	return n
}

// A keyed order is not taken for its own repetition when others of its batch are refused.
func TestKeyedOrderSurvivesConflictsOfItsBatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		one, other := newSale(t, s, 10, 1), newSale(t, s, 10, 1)
		for id, o := range map[int64]domain.Order{1: newOrder(1, 10, other.ID), 2: newOrder(2, 20, one.ID)} {
			_, err := placeOrder(ctx, s, o, 1)
			require.NoError(t, err, id)
		}
		require.Equal(t, []string{"order 100", duplicateOf(1), duplicateOf(2)}, keyedOutcomes(s.PlaceOrders(ctx, []domain.NewOrder{
			keyedOrder(100, 10, one.ID, 1, "k", "a"),
			{Order: newOrder(101, 10, other.ID), Limit: 1},
			{Order: newOrder(102, 20, one.ID), Limit: 1},
		})))
		env.Must(s.Order(ctx, 10, 100))(t)
	})
}
