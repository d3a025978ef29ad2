package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/internal/service"
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

func TestSalesByEnd(t *testing.T) {
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
		until := a.Sale.EndAt
		require.ElementsMatch(t, []int64{a.ID, b.ID}, env.Must(s.SalesEnded(t.Context(), time.Unix(0, 0), until))(t))
		require.Empty(t, env.Must(s.SalesEnded(t.Context(), time.Unix(0, 0), until.Add(-time.Second)))(t))
		require.Empty(t, env.Must(s.SalesEnded(t.Context(), until, until.Add(time.Hour)))(t))
	})
}

func change(t *testing.T, s *Store, id int64, change func(v *domain.Voucher)) domain.Voucher {
	t.Helper()
	return env.Must(s.ChangeVoucher(t.Context(), id, admin, func(v *domain.Voucher) (string, error) {
		change(v)
		return "", nil
	}))(t)
}

// A sale that was inserted without the columns of migrations 00019 to 00027, by an earlier version or by another
// program, is open and has the defaults. Its entry can be changed, and a change keeps the epoch.
func TestEntryOfSale(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 5, 1)
		for _, statement := range []string{
			"DELETE FROM seckill_vouchers",
			`INSERT INTO seckill_vouchers (voucher_id, initial_stock, stock, begin_at, end_at, created_at, updated_at)
				SELECT id, 5, 5, created_at, '2099-01-01 00:00:00', created_at, created_at FROM vouchers`,
		} {
			env.Must(s.Pools()["write"].ExecContext(ctx, statement))(t)
		}
		stored := env.Must(s.Voucher(ctx, v.ID))(t)
		require.Equal(t, domain.DefaultEntry, stored.Sale.Entry)
		require.Zero(t, stored.Sale.PayTimeout)
		require.Nil(t, stored.Sale.UnpaidLimit)
		require.Equal(t, 1, stored.Sale.Segments)
		env.Fails(s.ChangeRoom(ctx, nil, v.ID, admin, now, domain.RoomChange{Revoke: true}))(t, domain.ErrInvalidState)
		env.Fails(s.ChangeRoom(ctx, nil, 999, admin, now, domain.RoomChange{Revoke: true}))(t, domain.ErrNotFound)

		want := domain.Entry{
			Mode: domain.EntryRoom, Challenge: true, PassTTL: time.Minute, OpensAt: now.Add(-time.Hour), Rate: 7,
		}
		change(t, s, v.ID, func(v *domain.Voucher) { v.Sale.Entry, v.Sale.Segments = want, 16 })
		later, message, paused := now.Add(time.Hour), "soon", true
		changed := env.Must(s.ChangeRoom(ctx, nil, v.ID, admin, later, domain.RoomChange{Revoke: true, Message: &message, Paused: &paused}))(t)
		want.Epoch, want.Message, want.Paused = 1, message, paused
		require.Equal(t, want, changed.Sale.Entry)
		stored = env.Must(s.Voucher(ctx, v.ID))(t)
		require.Equal(t, want, stored.Sale.Entry)
		require.Equal(t, 16, stored.Sale.Segments)
		require.Equal(t, later.UTC(), stored.UpdatedAt.UTC(), "readers tell the voucher from the one before the change")
	})
}

// Two reads of a sale show that a unit was returned and sold again in between, although the stock is the same.
func TestSaleChangesWithItsUnits(t *testing.T) {
	onEachSale(t, 1, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		seen := map[time.Time]bool{}
		read := func(stock int64) {
			sales := env.Must(s.Vouchers(t.Context(), []int64{v.ID}))(t)
			require.Equal(t, stock, sales[0].Sale.Stock)
			require.NotContains(t, seen, sales[0].Sale.ChangedAt)
			seen[sales[0].Sale.ChangedAt] = true
		}
		place := func(id, user int64, at time.Time) {
			o := newOrder(id, user, v.ID)
			o.CreatedAt = at
			env.Must(placeOrder(t.Context(), s, o, 1))(t)
		}

		read(1)
		place(1, 10, now.Add(time.Millisecond))
		read(0)
		env.Must(cancel(t.Context(), s, 10, 1, now.Add(time.Second)))(t)
		read(1)
		place(2, 11, now.Add(time.Second+time.Millisecond))
		read(0)
	})
}

// TestPictureByAnyText: MySQL compares a column in ASCII with no other text, and refuses the statement.
func TestPictureByAnyText(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 1, 1)
		for _, id := range []string{"x", "图片", strings.Repeat("é", 32), strings.Repeat("0", 64)} {
			env.Fails(s.Picture(t.Context(), id))(t, domain.ErrNotFound)
			_, err := s.ChangeVoucher(t.Context(), v.ID, admin, func(v *domain.Voucher) (string, error) {
				v.ImageID = id
				return "", nil
			})
			require.Equal(t, domain.Invalid("image_id", "is not the id of an uploaded picture"), err)
		}
	})
}

// The conditions in SQL must agree with domain.VoucherFilter.Matches, which serves the newest vouchers from memory.
func TestListVouchers(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for _, status := range []domain.VoucherStatus{domain.VoucherOn, domain.VoucherOff, domain.VoucherExpired} {
			for _, window := range [][2]time.Duration{{-2, -1}, {-1, 0}, {-1, 1}, {0, 1}, {1, 2}} {
				for _, stock := range []int64{0, 3} {
					v := domain.Voucher{
						ShopID: 1, Title: "v", Type: domain.VoucherSeckill, Status: status, CreatedAt: now, UpdatedAt: now,
						Sale: &domain.Sale{
							InitialStock: 3, Stock: stock, LimitPerUser: 1,
							BeginAt: now.Add(window[0] * time.Hour), EndAt: now.Add(window[1] * time.Hour),
						},
					}
					require.NoError(t, s.CreateVoucher(t.Context(), nil, &v, admin))
				}
			}
			v := domain.Voucher{ShopID: 2, Title: "n", Status: status, CreatedAt: now, UpdatedAt: now}
			require.NoError(t, s.CreateVoucher(t.Context(), nil, &v, admin))
		}
		all := env.Must(s.NewestVouchers(t.Context(), 100))(t)
		require.Len(t, all, 33)
		for _, f := range []domain.VoucherFilter{
			{}, {ShopID: 2}, {Lasts: true}, {Status: domain.VoucherOn}, {Status: domain.VoucherOff}, {Status: domain.VoucherExpired},
			{State: domain.StateUpcoming}, {State: domain.StateOnSale}, {State: domain.StateSoldOut}, {State: domain.StateEnded},
			{Lasts: true, Page: domain.Page{Before: all[5].ID}},
			{ShopID: 2, Lasts: true}, {ShopID: 1, State: domain.StateEnded},
		} {
			var want, pages []int64
			f.Now, f.Page.Limit = now, 100
			for i := range all {
				if f.Matches(&all[i], now) {
					want = append(want, all[i].ID)
				}
			}
			list := func() (ids []int64) {
				for _, v := range env.Must(s.ListVouchers(t.Context(), f))(t) {
					ids = append(ids, v.ID)
				}
				return ids
			}
			require.NotEmpty(t, want)
			require.Equal(t, want, list(), "%+v", f)

			for f.Page.Limit = 2; len(pages) < len(want); f.Page.Before = pages[len(pages)-1] {
				pages = append(pages, list()...)
			}
			require.Equal(t, want, pages, "%+v", f)
		}
	})
}

// A voucher that is changed while it is read, between the reads of its two tables, is returned as it was before.
func TestReadsSeeWholeChanges(t *testing.T) {
	onEachFaulty(t, func(t *testing.T, s *Store, faults *env.Faults) {
		v := newSale(t, s, 9, 1)
		version := 0
		raise := func() {
			version++
			change(t, s, v.ID, func(v *domain.Voucher) {
				v.PayValue, v.Sale.PayTimeout = int64(version), time.Duration(version)*time.Second
			})
		}
		raise()
		for name, read := range map[string]func() ([]domain.Voucher, error){
			"one": func() ([]domain.Voucher, error) {
				v, err := s.Voucher(t.Context(), v.ID)
				return []domain.Voucher{v}, err
			},
			"some":   func() ([]domain.Voucher, error) { return s.Vouchers(t.Context(), []int64{v.ID}) },
			"newest": func() ([]domain.Voucher, error) { return s.NewestVouchers(t.Context(), 1) },
			"a list": func() ([]domain.Voucher, error) {
				return s.ListVouchers(t.Context(), domain.VoucherFilter{Now: now, Page: domain.Page{Limit: 1}})
			},
		} {
			faults.Before(func(query string) error {
				if strings.Contains(query, "FROM `seckill_vouchers`") {
					faults.Before(nil)
					raise()
				}
				return nil
			})
			before := version
			got, err := read()
			require.NoError(t, err, name)
			require.Equal(t, before+1, version, "%s: nothing was changed meanwhile", name)
			v := env.Only(t, got, name)
			require.EqualValues(t, before, v.PayValue, name)
			require.Equal(t, time.Duration(before)*time.Second, v.Sale.PayTimeout, name)
		}
	})
}

// TestVouchersByTitle: every database finds the same titles, the newest first. domain.Finder decides which, see TestFinder.
// Source: mozilla/addons-server#22767, Mininglamp-OSS/octo-server#636.
func TestVouchersByTitle(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		titles := map[int64]string{}
		add := func(titles map[int64]string, all ...string) {
			rows := make([]voucherRow, len(all))
			for i, title := range all {
				rows[i] = voucherRow{Voucher: domain.Voucher{ShopID: 1, Title: title, Currency: "CNY", Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now}}
			}
			require.NoError(t, s.db.Writer(t.Context()).Create(&rows).Error)
			for _, r := range rows {
				titles[r.ID] = r.Title
			}
		}
		add(titles, "🍜 noodles", "🍣 sushi", "𠮷野家", "Straße", "Café", "cafe", "at 100%_! off", "がき")
		find := func(text string, most int) (found []string) {
			ids := env.Must(s.VouchersByTitle(t.Context(), text, most))(t)
			for _, id := range ids {
				found = append(found, titles[id])
			}
			return found
		}
		for text, want := range map[string][]string{
			"🍣": {"🍣 sushi"}, "𠮷": {"𠮷野家"}, "STRASSE": {"Straße"}, "CAFE": {"cafe", "Café"}, "É": {"Café"}, "%_!": {"at 100%_! off"}, "か": nil,
			"\u200b": nil,
		} {
			require.Equal(t, want, find(text, 9), "%q", text)
		}

		add(map[int64]string{}, slices.Repeat([]string{"another"}, titlesAtOnce)...)
		require.Equal(t, []string{"cafe"}, find("cafe", 1), "beyond the first query, and no more than allowed")
	})
}

// TestOffers: an offer is stored once, whichever server stores it, and orders find it in the database.
func TestOffers(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		require.NoError(t, s.db.Writer(ctx).Exec("INSERT INTO shops (id, name, type_id, created_at, updated_at) VALUES (1, '桂花茶餐厅 🍜', 1, ?, ?)", now, now).Error)
		v := newSale(t, s, 9, 1)
		v.SubTitle, v.Rules, v.ActualValue = "  ", "Not on Sundays.\n𠮷", 300
		change(t, s, v.ID, func(stored *domain.Voucher) {
			v.Sale = stored.Sale
			*stored = v
		})
		offer := env.Must(s.Vouchers(ctx, []int64{v.ID}))(t)[0].Offer
		require.Equal(t, domain.NewOffer(&v, "桂花茶餐厅 🍜"), offer)

		// Many servers begin to sell at once.
		servers := make([]*Store, 8)
		for i := range servers {
			servers[i] = newStore(s.DB)
		}
		allAtOnce(t, 4*len(servers), func(i int) error { return servers[i%len(servers)].KeepOffer(ctx, offer, time.Now().Add(time.Minute)) })
		o := newOrder(1, 10, v.ID)
		o.OfferID, o.Offer = offer.ID, offer
		require.Same(t, offer, env.Must(placeOrder(ctx, s, o, 1))(t).Offer)
		v.Title, v.Rules = "another", ""
		later := domain.NewOffer(&v, "")
		ended := env.Cancelled(ctx)
		require.ErrorIs(t, s.KeepOffer(ended, later, time.Now()), domain.ErrUnavailable, "no time is left")
		require.NoError(t, s.KeepOffer(ended, later, time.Now().Add(time.Minute)), "a client that has gone stops nothing")
		o = newOrder(2, 11, v.ID)
		o.OfferID = later.ID
		env.Must(placeOrder(ctx, s, o, 1))(t)
		env.Must(placeOrder(ctx, s, newOrder(3, 12, v.ID), 1))(t) // as an earlier release does

		reader := newStore(s.DB)
		orders := env.Must(reader.FindOrders(ctx, service.SearchQuery{Users: []int64{10}, Page: domain.Page{Limit: 9}}))(t)
		require.Equal(t, offer, orders[0].Offer)
		unstored := []domain.Order{
			{ID: 3, VoucherID: v.ID}, {ID: 2, VoucherID: v.ID, OfferID: later.ID}, {ID: 1, VoucherID: v.ID, OfferID: offer.ID},
			{ID: 4, VoucherID: v.ID, OfferID: domain.OfferID{7}}, {ID: 5, VoucherID: v.ID + 1},
		}
		require.NoError(t, reader.AddOffers(ctx, unstored))
		require.Equal(t, []*domain.Offer{offer, later, offer, offer, nil}, []*domain.Offer{
			unstored[0].Offer, unstored[1].Offer, unstored[2].Offer, unstored[3].Offer, unstored[4].Offer,
		}, "an order without an offer, or with one that is gone, shows the voucher as it is")

		env.Must(cancel(ctx, newStore(s.DB), 11, 2, now))(t)
		require.Equal(t, later, env.Must(newStore(s.DB).Order(ctx, 11, 2))(t).Offer)
	})
}

// The nearest shops are those with the shortest distance on the ground, where a degree of longitude is shorter than one
// of latitude.
func TestListShops(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		here := domain.Place{X: 120, Y: 60}
		newShop := func(name string, typ int64, x, y float64) domain.Shop {
			return domain.Shop{
				Name: name, TypeID: typ, X: x, Y: y, Images: "a.png,b.png", Area: "area", Address: "address", AvgPrice: 8000,
				Sold: 1, Comments: 2, Score: 47, OpenHours: "10:00-22:00", CreatedAt: now, UpdatedAt: now,
			}
		}
		shops := []domain.Shop{
			newShop("north", 1, 120, 60.06), newShop("east", 1, 120.1, 60), newShop("here", 1, 120, 60), newShop("other", 2, 120, 60),
			newShop("too", 1, 120, 60), newShop("west", 1, 119.87, 60),
		}
		require.NoError(t, s.db.Writer(t.Context()).Create(&shops).Error)
		list := func(f domain.ShopFilter) (names []string) {
			found := env.Must(s.ListShops(t.Context(), f))(t)
			for i, one := range found {
				names = append(names, one.Name)
				if i > 0 && f.Near != nil {
					require.GreaterOrEqual(t, one.Distance(here), found[i-1].Distance(here))
				}
			}
			return names
		}
		require.Equal(t, []string{"north", "east", "here", "too", "west"}, list(domain.ShopFilter{TypeID: 1, Limit: 9}))
		require.Equal(t, []string{"here", "too", "east", "north", "west"}, list(domain.ShopFilter{TypeID: 1, Limit: 9, Near: &here}))
		require.Equal(t, []string{"east", "north"}, list(domain.ShopFilter{TypeID: 1, Skip: 2, Limit: 2, Near: &here}))
		require.Empty(t, list(domain.ShopFilter{TypeID: 1, Skip: 5, Limit: 5}))
		require.Empty(t, list(domain.ShopFilter{TypeID: 3, Limit: 5}))

		require.Equal(t, shops[0], env.Must(s.Shop(t.Context(), shops[0].ID))(t))
		env.Fails(s.Shop(t.Context(), 999))(t, domain.ErrNotFound)
	})
}
