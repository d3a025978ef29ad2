package repo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

func onEach(t *testing.T, fn func(t *testing.T, s *Store)) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) { fn(t, newStore(db)) })
}

// onEachSale is onEach with a sale, see newSale.
func onEachSale(t *testing.T, stock int64, limit int, fn func(t *testing.T, s *Store, v domain.Voucher)) {
	onEach(t, func(t *testing.T, s *Store) { fn(t, s, newSale(t, s, stock, limit)) })
}

// onEachFaulty is onEach with faults of its database.
func onEachFaulty(t *testing.T, fn func(t *testing.T, s *Store, faults *env.Faults)) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) { fn(t, newStore(db), env.Inject(db)) })
}

// onEachServer is onEach without SQLite.
func onEachServer(t *testing.T, fn func(t *testing.T, s *Store)) {
	env.OnEachServer(t, func(t *testing.T, db *sqldb.DB) { fn(t, newStore(db)) })
}

func openStore(t *testing.T, dsn string) *Store {
	t.Helper()
	s := env.Must(OpenMySQL(dsn))(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

var now = time.Date(2026, 11, 11, 12, 0, 0, 123e6, time.UTC)

// newSale stores a sale that is open at the time now.
func newSale(t *testing.T, s *Store, stock int64, limit int) domain.Voucher {
	t.Helper()
	v := domain.Voucher{
		ShopID: 1, Title: "秒杀券 🎟", PayValue: 100, ActualValue: 200, Type: domain.VoucherSeckill, Status: domain.VoucherOn,
		CreatedAt: now, UpdatedAt: now,
		Sale: &domain.Sale{
			InitialStock: stock, Stock: stock, BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), LimitPerUser: limit, Segments: 1,
		},
	}
	require.NoError(t, s.CreateVoucher(t.Context(), nil, &v, admin))
	return v
}

func newOrder(id, user, voucher int64) domain.Order {
	return domain.Order{
		ID: id, UserID: user, VoucherID: voucher, Status: domain.OrderPendingPayment, Amount: 100,
		CreatedAt: now, ExpiresAt: now.Add(15 * time.Minute),
	}
}

func offered(t *testing.T, s *Store, v *domain.Voucher, orders ...domain.Order) []domain.Order {
	t.Helper()
	offer := domain.NewOffer(v, "a shop")
	require.NoError(t, s.KeepOffer(t.Context(), offer, time.Now().Add(time.Minute)))
	for i := range orders {
		orders[i].OfferID, orders[i].Offer = offer.ID, offer
	}
	return orders
}

var admin = domain.Actor{Kind: domain.ActorAdmin, ID: 1}

func cancel(ctx context.Context, s *Store, user, id int64, at time.Time) (domain.Order, error) {
	return s.MoveOrder(ctx, domain.OrderMove{
		Move: domain.MoveCancel, OrderID: id, By: domain.Actor{Kind: domain.ActorBuyer, ID: user}, At: at,
	})
}

func withLimit(limit int, orders []domain.Order) []domain.NewOrder {
	all := make([]domain.NewOrder, len(orders))
	for i, o := range orders {
		all[i] = domain.NewOrder{Order: o, Limit: limit}
	}
	return all
}

func placeOrder(ctx context.Context, s *Store, o domain.Order, limit int) (domain.Order, error) {
	placed := s.PlaceOrders(ctx, withLimit(limit, []domain.Order{o}))[0]
	return placed.Order, placed.Err
}

// atOnce calls fn n times at once, with the numbers from 0 to n-1, and returns the errors of the calls.
func atOnce(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() { errs[i] = fn(i) })
	}
	calls.Wait()
	return errs
}

// allAtOnce is atOnce for calls that must succeed.
func allAtOnce(t *testing.T, n int, fn func(i int) error) {
	t.Helper()
	require.NoError(t, errors.Join(atOnce(n, fn)...))
}

// requireWinners requires that n calls succeeded and that the others failed with the error lost.
func requireWinners(t *testing.T, n int, lost error, errs []error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, lost)
			continue
		}
		n--
	}
	require.Zero(t, n)
}

// requireTotals requires the remaining stock and the number of active orders of a sale, and that its invariants hold.
func requireTotals(t *testing.T, s *Store, voucher, left, active int64) {
	t.Helper()
	totals := env.Must(s.SaleTotals(t.Context()))(t)
	for _, b := range totals {
		if b.VoucherID == voucher {
			require.Empty(t, b.Check())
			require.Equal(t, left, b.Stock)
			require.Equal(t, active, b.Active)
			return
		}
	}
	t.Fatalf("no totals of voucher %d", voucher)
}

func TestLimitPerUser(t *testing.T) {
	onEachSale(t, 10, 3, func(t *testing.T, s *Store, v domain.Voucher) {
		for i := range int64(3) {
			require.Equal(t, int(i+1), env.Must(placeOrder(t.Context(), s, newOrder(1+i, 10, v.ID), 3))(t).Slot)
		}
		env.Fails(placeOrder(t.Context(), s, newOrder(4, 10, v.ID), 3))(t, new(*domain.DuplicateOrderError))
		env.Must(cancel(t.Context(), s, 10, 2, now))(t)
		require.Equal(t, 2, env.Must(placeOrder(t.Context(), s, newOrder(5, 10, v.ID), 3))(t).Slot, "the lowest free slot")
		count, newest, err := s.ActiveOrders(t.Context(), 10, v.ID)
		require.NoError(t, err)
		require.Equal(t, 3, count)
		require.Equal(t, int64(5), newest)
		requireTotals(t, s, v.ID, 7, 3)
	})
}

// The database alone prevents overselling and duplicates: many buyers send several requests each without any lock, and
// cancel some of the orders if they may have one. A purchase that loses its slot takes the next one, and only those above the
// limit are duplicates.
func TestConcurrentPurchasesWithoutLocks(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for _, tc := range []struct{ users, clicks, stock, limit int }{{60, 5, 20, 1}, {5, 8, 100, 4}} {
			v := newSale(t, s, int64(tc.stock), tc.limit)
			var mu sync.Mutex
			var sold int64
			holders := map[int64]int{}
			allAtOnce(t, tc.users*tc.clicks, func(i int) error {
				order, user := 1000*v.ID+int64(i), int64(1+i%tc.users)
				_, err := placeOrder(t.Context(), s, newOrder(order, user, v.ID), tc.limit)
				switch {
				case err == nil && tc.limit == 1 && i%7 == 0:
					_, err = cancel(t.Context(), s, user, order, now)
					return err
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					holders[user]++
					sold++
					return nil
				case errors.As(err, new(*domain.DuplicateOrderError)), errors.Is(err, domain.ErrSoldOut), errors.Is(err, domain.ErrOrderInProgress):
					return nil
				default:
					return err
				}
			})
			for user, n := range holders {
				require.Equal(t, tc.limit, n, "user %d", user)
			}
			require.True(t, tc.limit == 1 || len(holders) == tc.users, holders)
			requireTotals(t, s, v.ID, int64(tc.stock)-sold, sold)
		}
	})
}

// The CHECK constraint is the last guard behind the conditional UPDATE.
func TestStockCannotFallBelowZero(t *testing.T) {
	onEachSale(t, 1, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		require.Error(t, s.db.Writer(t.Context()).Exec("UPDATE seckill_vouchers SET stock = stock - 2 WHERE voucher_id = ?", v.ID).Error)
		requireTotals(t, s, v.ID, 1, 0)
	})
}

// Ping holds no connection after it has returned, even if its context lasts longer. SQLite has one for writing.
func TestPingReleasesItsConnections(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.Ping(t.Context()))
		for name, pool := range s.Pools() {
			require.Zero(t, pool.Stats().InUse, name)
		}
	})
}

// Active orders without a sale violate the invariants, because their units do not exist.
func TestTotalsIncludeOrdersWithoutSale(t *testing.T) {
	onEachSale(t, 5, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		env.Must(placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1))(t)
		require.NoError(t, s.db.Writer(t.Context()).Exec("DELETE FROM seckill_vouchers WHERE voucher_id = ?", v.ID).Error)
		totals := env.Must(s.SaleTotals(t.Context()))(t)
		require.Equal(t, []domain.SaleTotals{{VoucherID: v.ID, Active: 1}}, totals)
		require.NotEmpty(t, totals[0].Check())
	})
}

var noneOverdue = domain.OverdueSince{}

func facts(t *testing.T, s *Store, voucherID int64, inFlight ...int64) domain.SaleFacts {
	t.Helper()
	return env.Must(s.SaleFacts(t.Context(), voucherID, inFlight, 1000, noneOverdue))(t)
}

func placeAll(t *testing.T, s *Store, orders ...domain.NewOrder) {
	t.Helper()
	for _, p := range s.PlaceOrders(t.Context(), orders) {
		require.NoError(t, p.Err)
	}
}

func sold(t *testing.T, s *Store, limit int, orders ...domain.Order) {
	t.Helper()
	placeAll(t, s, withLimit(limit, orders)...)
}

func damage(t *testing.T, s *Store, query string, args ...any) {
	t.Helper()
	env.Must(s.Pools()["write"].ExecContext(t.Context(), query, args...))(t)
}

func holder(order, user int64) domain.Holder { return domain.Holder{OrderID: order, UserID: user} }

func TestSaleFacts(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v, other := newSale(t, s, 10, 2), newSale(t, s, 5, 1)
		sold(t, s, 2, newOrder(3, 30, v.ID), newOrder(1, 10, v.ID), newOrder(2, 10, v.ID), newOrder(4, 40, v.ID))
		sold(t, s, 1, newOrder(9, 10, other.ID))
		env.Must(cancel(t.Context(), s, 40, 4, now))(t)

		f := facts(t, s, v.ID, 2, 4, 9, 77)
		require.Equal(t, int64(7), f.Voucher.Sale.Stock)
		require.Equal(t, []domain.Holder{holder(1, 10), holder(2, 10), holder(3, 30)}, f.Holders)
		require.Equal(t, int64(3), f.Active)
		require.ElementsMatch(t, []int64{2, 4}, f.Settled, "of this voucher, active or not")
		require.Equal(t, domain.Named{Count: 1, Orders: []domain.Holder{holder(4, 40)}}, f.Returned)
		require.Empty(t, f.Check())

		f = env.Must(s.SaleFacts(t.Context(), v.ID, nil, 2, noneOverdue))(t)
		require.True(t, f.TooMany)
		require.Empty(t, f.Holders)
		require.Equal(t, int64(3), f.Active)
		require.Empty(t, f.Check())

		order := env.Must(s.OrderFacts(t.Context(), v.ID, []int64{1, 4, 9, 77}))(t)
		require.ElementsMatch(t, []domain.OrderFact{{Holder: holder(1, 10), Active: true}, {Holder: holder(4, 40)}}, order)

		const many = domain.MaxNamed + 5
		large := newSale(t, s, many, 1)
		for i := range int64(many) {
			sold(t, s, 1, newOrder(101+i, 1+i, large.ID))
		}
		damage(t, s, "UPDATE voucher_orders SET slot = NULL WHERE voucher_id = ?", large.ID)
		f = facts(t, s, large.ID)
		require.EqualValues(t, many, f.BadSlots.Count)
		require.Len(t, f.BadSlots.Orders, domain.MaxNamed)
		require.Equal(t, holder(101, 1), f.BadSlots.Orders[0])
	})
}

func TestViolationsNameOrders(t *testing.T) {
	env.Full(t)
	insert := func(id, user int, slot string, status int) string {
		return fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at)
			SELECT %d, %d, voucher_id, %s, %d, amount, created_at, expires_at, updated_at FROM voucher_orders WHERE id = 1`, id, user, slot, status)
	}
	const less, more = "UPDATE seckill_vouchers SET stock = stock - 1", "UPDATE seckill_vouchers SET stock = stock + 1"
	for name, tc := range map[string]struct {
		stock     int64
		damage    []string
		invariant string
		orders    []domain.Holder
	}{
		"one order too many":     {2, []string{insert(3, 30, "1", 1)}, "I1", []domain.Holder{holder(3, 30)}},
		"two orders of a user":   {5, []string{insert(3, 20, "2", 1), less}, "I2", []domain.Holder{holder(2, 20), holder(3, 20)}},
		"missing slot":           {5, []string{"UPDATE voucher_orders SET slot = NULL WHERE id = 2"}, "I2", []domain.Holder{holder(2, 20)}},
		"slot of an ended order": {5, []string{insert(3, 30, "1", 4)}, "I2", []domain.Holder{holder(3, 30)}},
		"lost unit":              {5, []string{insert(3, 30, "NULL", 4), less}, "I5", []domain.Holder{holder(3, 30)}},
		"one unit too many":      {5, []string{more}, "I3", []domain.Holder{holder(2, 20), holder(1, 10)}},
		"no sale":                {5, []string{"DELETE FROM seckill_vouchers"}, "I1", []domain.Holder{holder(1, 10), holder(2, 20)}},
	} {
		t.Run(name, func(t *testing.T) {
			onEachSale(t, tc.stock, 1, func(t *testing.T, s *Store, v domain.Voucher) {
				sold(t, s, 1, newOrder(1, 10, v.ID), newOrder(2, 20, v.ID))
				for _, statement := range tc.damage {
					damage(t, s, statement)
				}
				var found []domain.Violation
				f := facts(t, s, v.ID)
				for _, violation := range f.Check() {
					if violation.Invariant == tc.invariant {
						found = append(found, violation)
					}
				}
				require.Equal(t, domain.Named{Count: int64(len(tc.orders)), Orders: tc.orders}, env.Only(t, found).Orders)
				require.False(t, env.Only(t, env.Must(s.SaleTotals(t.Context()))(t)).Holds(tc.invariant), "the totals have it, too")
				orphans := env.Must(s.OrphanVouchers(t.Context()))(t)
				require.Equal(t, name == "no sale", len(orphans) == 1 && orphans[0] == v.ID)
			})
		})
	}
}

// Overdue are unpaid orders that were not closed, and refunds that were not finished.
func TestSaleFactsReportOverdueOrders(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		late := newOrder(1, 10, v.ID)
		late.ExpiresAt = now.Add(-time.Minute)
		sold(t, s, 1, late, newOrder(2, 20, v.ID), newOrder(3, 30, v.ID), newOrder(4, 40, v.ID))
		damage(t, s, "UPDATE voucher_orders SET status = 5, updated_at = ? WHERE id = 3", now.Add(-time.Hour))
		damage(t, s, "UPDATE voucher_orders SET status = 5 WHERE id = 4")
		since := domain.OverdueSince{Expired: now, Refunding: now.Add(-time.Minute)}
		f := env.Must(s.SaleFacts(t.Context(), v.ID, nil, 1000, since))(t)
		require.Equal(t, domain.Named{Count: 1, Orders: []domain.Holder{holder(1, 10)}}, f.Expired)
		require.Equal(t, domain.Named{Count: 1, Orders: []domain.Holder{holder(3, 30)}}, f.Refunding)
	})
}

func TestSalesReturnsNewestUnended(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		a, b := newSale(t, s, 1, 1), newSale(t, s, 1, 1)
		for name, tc := range map[string]struct {
			endAfter time.Time
			most     int
			want     []int64
			all      int
		}{
			"the newest":  {now, 1, []int64{b.ID}, 2},
			"none":        {now.Add(2 * time.Hour), 10, []int64{}, 0},
			"ended, also": {time.Time{}, 10, []int64{b.ID, a.ID}, 2},
		} {
			ids, all, err := s.Sales(t.Context(), tc.endAfter, tc.most)
			require.NoError(t, err, name)
			require.Equal(t, tc.want, ids, name)
			require.EqualValues(t, tc.all, all, name)
		}
	})
}
