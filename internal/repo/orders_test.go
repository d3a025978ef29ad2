package repo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
	"seckill/internal/service"
	"seckill/test/env"
)

func outcomes(placed []domain.Placed) []string {
	words := make([]string, len(placed))
	for i, p := range placed {
		switch p.Err {
		case nil:
			words[i] = fmt.Sprintf("order %d", p.Order.ID)
		default:
			words[i] = p.Err.Error()
		}
	}
	return words
}

func duplicateOf(id int64) string { return (&domain.DuplicateOrderError{OrderID: id}).Error() }

// One batch contains every possible result.
func TestPlaceOrdersAnswersEachOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v, other := newSale(t, s, 4, 1), newSale(t, s, 4, 1)
		env.Must(placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1))(t)
		env.Must(placeOrder(t.Context(), s, newOrder(2, 11, other.ID), 1))(t)
		placed := s.PlaceOrders(t.Context(), withLimit(1, offered(t, s, &v,
			newOrder(103, 30, v.ID),
			newOrder(104, 10, v.ID), // the user has an active order
			newOrder(105, 30, v.ID), // repeats the first
			newOrder(2, 31, v.ID),   // the id belongs to an order of another sale
			newOrder(106, 20, v.ID),
			newOrder(1, 32, v.ID), // the id belongs to an order of this sale
			newOrder(107, 25, v.ID),
			newOrder(108, 24, v.ID), // sold out
			newOrder(109, 24, v.ID), // repeats an order that was sold out
			newOrder(110, 20, v.ID), // repeats an order that was placed
		)))
		taken, none := domain.ErrIDTaken.Error(), domain.ErrSoldOut.Error()
		require.Equal(t, []string{
			"order 103", duplicateOf(1), duplicateOf(103), taken, "order 106", taken, "order 107", none, none, duplicateOf(106),
		}, outcomes(placed))
		requireTotals(t, s, v.ID, 0, 4)
		want := offered(t, s, &v, newOrder(103, 30, v.ID))[0]
		want.Slot = 1
		require.Equal(t, want, placed[0].Order)
		for _, p := range placed {
			if p.Err == nil {
				stored := env.Must(s.Order(t.Context(), p.Order.UserID, p.Order.ID))(t)
				require.Equal(t, stored, p.Order, "the result equals the stored order, to the millisecond, in UTC")
			}
		}

		require.Equal(t, []string{duplicateOf(106), none, none}, outcomes(s.PlaceOrders(t.Context(), withLimit(1, []domain.Order{
			newOrder(120, 20, v.ID), newOrder(121, 40, v.ID), newOrder(122, 40, v.ID),
		}))), "sold out from the start")
	})
}

// A user with a limit of several orders is told of the limit only if they all got a unit, whatever the order of their
// ids: a server whose clock is behind gives smaller ones than those that are stored.
func TestLimitCountsOnlyOrdersWithUnit(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const limit = 3
		none := domain.ErrSoldOut.Error()
		one, two := newSale(t, s, 2, limit), newSale(t, s, 2, limit)
		env.Must(placeOrder(t.Context(), s, newOrder(9, 10, one.ID), limit))(t)

		require.Equal(t, []string{"order 5", none, none}, outcomes(s.PlaceOrders(t.Context(), withLimit(limit, []domain.Order{
			newOrder(5, 10, one.ID), newOrder(6, 10, one.ID), newOrder(7, 10, one.ID),
		}))), "the newest order is stored")
		require.Equal(t, []string{"order 29", "order 28", none, none}, outcomes(s.PlaceOrders(t.Context(), withLimit(limit, []domain.Order{
			newOrder(29, 10, two.ID), newOrder(28, 10, two.ID), newOrder(25, 10, two.ID), newOrder(27, 10, two.ID),
		}))), "the newest order is in the batch")
		requireTotals(t, s, one.ID, 0, 2)
		requireTotals(t, s, two.ID, 0, 2)
	})
}

// A batch with repeated clicks, with and without a key, costs one run of its transaction: refused rows do not make it
// start again, and an order with a key is not taken for its own repetition because others of its buyer are refused.
func TestRepeatedClicksCostOneRun(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const buyers = 50
		v, other := newSale(t, s, 1000, 1), newSale(t, s, 10, 1)
		clicks := func(round int64) (orders []domain.NewOrder) {
			for user := range int64(buyers) {
				orders = append(orders, domain.NewOrder{Order: newOrder(round*1000+user, 1+user, v.ID), Limit: 1},
					keyedOrder(round*1000+500+user, 1001+user, v.ID, 1, "k", "a"))
			}
			return orders
		}
		placeAll(t, s, append(clicks(1), domain.NewOrder{Order: newOrder(8000, 2, other.ID), Limit: 1})...)
		runs := &losingContext{Context: t.Context(), lose: func() {}}
		fresh := keyedOrder(9000, 1, other.ID, 1, "fresh", "a")
		fresh.Fence = runs
		repeated := domain.NewOrder{Order: newOrder(9001, 2, other.ID), Limit: 1}
		placed := s.PlaceOrders(t.Context(), append(clicks(2), fresh, repeated))
		for i := range buyers {
			require.Equal(t, []string{duplicateOf(1000 + int64(i)), fmt.Sprint("again order ", 1500+i)}, keyedOutcomes(placed[2*i:2*i+2]))
		}
		require.Equal(t, []string{"order 9000", duplicateOf(8000)}, keyedOutcomes(placed[2*buyers:]))
		require.Equal(t, -2, runs.after, "Err is called twice per run")
		requireTotals(t, s, v.ID, 1000-2*buyers, 2*buyers)
		requireTotals(t, s, other.ID, 8, 2)
	})
}

// A stream may deliver a committed batch again: whole, with further orders, or after a cancellation.
func TestBatchDeliveredTwice(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for _, limit := range []int{1, 2} {
			v := newSale(t, s, 3, limit)
			id := v.ID * 100
			first := []domain.Order{newOrder(id, 10, v.ID), newOrder(id+1, 11, v.ID)}
			want := s.PlaceOrders(t.Context(), withLimit(limit, first))
			require.NoError(t, want[0].Err)
			for i, p := range s.PlaceOrders(t.Context(), withLimit(limit, first)) {
				require.Equal(t, domain.Placed{Order: want[i].Order, Before: true}, p)
			}
			requireTotals(t, s, v.ID, 1, 2)
			more := append(slices.Clone(first), newOrder(id+2, 12, v.ID), newOrder(id+3, 13, v.ID))
			require.Equal(t, []string{
				fmt.Sprintf("order %d", id), fmt.Sprintf("order %d", id+1), fmt.Sprintf("order %d", id+2), domain.ErrSoldOut.Error(),
			}, outcomes(s.PlaceOrders(t.Context(), withLimit(limit, more))))
			env.Must(cancel(t.Context(), s, 10, id, now))(t)
			again := s.PlaceOrders(t.Context(), withLimit(limit, first))
			require.NoError(t, again[0].Err)
			require.Equal(t, domain.OrderCancelled, again[0].Order.Status, "a cancelled order stays cancelled")
			requireTotals(t, s, v.ID, 1, 2)
		}
	})
}

// Rows of one batch with the same id, which a lost counter repeats, are answered as if they came one after the other: an
// order that is delivered twice, and two orders of one buyer or of two. The others are placed.
func TestBatchRepeatsID(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v, other := newSale(t, s, 10, 1), newSale(t, s, 10, 1)
		place := func(orders ...domain.Order) []string {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return outcomes(s.PlaceOrders(ctx, withLimit(1, orders)))
		}
		twice := newOrder(1, 10, v.ID)
		require.Equal(t, []string{"order 2", "order 1", "order 1"}, place(newOrder(2, 11, v.ID), twice, twice))

		taken := domain.ErrIDTaken.Error()
		require.Equal(t, []string{"order 3", taken, "order 4"},
			place(newOrder(3, 12, v.ID), newOrder(3, 12, other.ID), newOrder(4, 13, v.ID)))
		require.Equal(t, []string{"order 5", taken, "order 6"},
			place(newOrder(5, 14, v.ID), newOrder(5, 15, v.ID), newOrder(6, 15, v.ID)))
		requireTotals(t, s, v.ID, 4, 6)
		requireTotals(t, s, other.ID, 10, 0)
	})
}

// A sold-out sale does not affect the other sales of a batch.
func TestBatchOfSeveralSales(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		a, b, c := newSale(t, s, 2, 1), newSale(t, s, 10, 1), newSale(t, s, 5, 1)
		require.Equal(t, []string{"order 1", "order 2", "order 3"}, outcomes(s.PlaceOrders(t.Context(), withLimit(1, []domain.Order{
			newOrder(1, 10, c.ID), newOrder(2, 10, a.ID), newOrder(3, 11, c.ID),
		}))))
		none := domain.ErrSoldOut.Error()
		require.Equal(t, []string{"order 11", "order 12", none, duplicateOf(2), duplicateOf(11), none, duplicateOf(1), none},
			outcomes(s.PlaceOrders(t.Context(), withLimit(1, []domain.Order{
				newOrder(11, 20, b.ID),
				newOrder(12, 21, a.ID),
				newOrder(13, 20, a.ID), // sold out; the order of sale b does not count
				newOrder(14, 10, a.ID),
				newOrder(15, 20, b.ID),
				newOrder(16, 20, a.ID),
				newOrder(17, 10, c.ID),
				newOrder(18, 30, 999), // no such sale
			}))))
		requireTotals(t, s, a.ID, 0, 2)
		requireTotals(t, s, b.ID, 9, 1)
		requireTotals(t, s, c.ID, 3, 2)
		level := env.Must(s.SaleLevel(t.Context(), c.ID))(t)
		require.Equal(t, reconcile.SaleLevel{Stock: 3, Active: 2, Sum: 1 + 3}, level)
		env.Must(cancel(t.Context(), s, 10, 1, now))(t)
		level = env.Must(s.SaleLevel(t.Context(), c.ID))(t)
		require.Equal(t, reconcile.SaleLevel{Stock: 4, Active: 1, Sum: 3}, level)
		env.Fails(s.SaleLevel(t.Context(), 999))(t, domain.ErrNotFound)
		require.Equal(t, []string{none, none}, outcomes(s.PlaceOrders(t.Context(), withLimit(1, []domain.Order{
			newOrder(21, 40, a.ID), newOrder(22, 40, 999),
		}))), "all are sold out")
	})
}

// All batches complete even if they list the sales in different orders, and the totals balance. Pairs of workers send the same
// orders: each is stored at most once.
func TestConcurrentBatchesOfSeveralSales(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const sales, stock, users = 6, 30, 50
		var ids []int64
		for range sales {
			ids = append(ids, newSale(t, s, stock, 1).ID)
		}
		allAtOnce(t, 8, func(i int) error {
			worker, order := int64(i%4), slices.Clone(ids)
			if i < 4 {
				slices.Reverse(order)
			}
			for user := range int64(users) {
				var batch []domain.Order
				for _, sale := range order {
					batch = append(batch, newOrder(10_000*(1+worker)+100*user+sale, 1+(user+7*worker)%users, sale))
				}
				for _, p := range s.PlaceOrders(t.Context(), withLimit(1, batch)) {
					if p.Err != nil && !errors.As(p.Err, new(*domain.DuplicateOrderError)) && !errors.Is(p.Err, domain.ErrSoldOut) {
						return p.Err
					}
				}
			}
			return nil
		})
		for _, id := range ids {
			requireTotals(t, s, id, 0, stock)
		}
	})
}

func TestPoisonRowIsIsolated(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		damage(t, s, map[string]string{
			"mysql": "CREATE TRIGGER poison BEFORE INSERT ON voucher_orders FOR EACH ROW " +
				"IF NEW.user_id = 13 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'poison'; END IF",
			"sqlite": "CREATE TRIGGER poison BEFORE INSERT ON voucher_orders WHEN NEW.user_id = 13 BEGIN SELECT RAISE(ABORT, 'poison'); END",
		}[s.Dialect()])
		v := newSale(t, s, 100, 1)
		var batch []domain.Order
		for user := range int64(20) {
			batch = append(batch, newOrder(100+user, 1+user, v.ID))
		}
		for i, p := range s.PlaceOrders(t.Context(), withLimit(1, batch)) {
			if batch[i].UserID == 13 {
				require.ErrorContains(t, p.Err, "poison")
				require.NotErrorIs(t, p.Err, domain.ErrUnavailable)
			} else {
				require.NoError(t, p.Err)
			}
		}
		requireTotals(t, s, v.ID, 81, 19)
	})
}

// ofGeneration returns an order that a gate with a generation has admitted, the newest of a user of its own.
func ofGeneration(generation, id, voucher int64) domain.NewOrder {
	return domain.NewOrder{Order: newOrder(id, id, voucher), Limit: 1, Generation: &generation}
}

// An order is stored only if its gate has the generation of the sale. Lanes without a gate need none.
func TestOrdersOfOtherGenerationAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v, other := newSale(t, s, 3, 1), newSale(t, s, 3, 1)
		fence := func(from int64) bool {
			return env.Must(s.FenceGate(t.Context(), v.ID, from))(t)
		}
		place := func(orders ...domain.NewOrder) (errs []error) {
			for _, p := range s.PlaceOrders(t.Context(), orders) {
				errs = append(errs, p.Err)
			}
			return errs
		}
		require.Equal(t, []error{nil}, place(ofGeneration(0, 1, v.ID)))
		before := env.Must(s.Voucher(t.Context(), v.ID))(t)

		require.True(t, fence(0))
		require.False(t, fence(0), "another load has raised it")
		require.EqualValues(t, 1, env.Must(s.GateGeneration(t.Context(), v.ID))(t))
		after := env.Must(s.Voucher(t.Context(), v.ID))(t)
		require.NotEqual(t, before.Sale.ChangedAt, after.Sale.ChangedAt, "lists of buyers are outdated")

		require.Equal(t, []error{domain.ErrGateReplaced}, place(ofGeneration(0, 2, v.ID)))
		require.Equal(t, []error{domain.ErrGateReplaced, domain.ErrGateReplaced}, place(ofGeneration(0, 2, v.ID), ofGeneration(0, 3, v.ID)))
		require.Equal(t, []error{nil}, place(ofGeneration(0, 1, v.ID)), "it is stored already")
		requireTotals(t, s, v.ID, 2, 1)

		// Rows of all kinds in one transaction.
		require.Equal(t, []error{domain.ErrGateReplaced, nil, nil, domain.ErrGateReplaced, nil}, place(
			ofGeneration(0, 2, v.ID), ofGeneration(1, 3, v.ID), ofGeneration(0, 4, other.ID), ofGeneration(2, 5, v.ID),
			domain.NewOrder{Order: newOrder(6, 6, v.ID), Limit: 1},
		))
		requireTotals(t, s, v.ID, 0, 3)
		requireTotals(t, s, other.ID, 2, 1)
		require.Equal(t, []error{domain.ErrSoldOut, domain.ErrGateReplaced}, place(ofGeneration(1, 7, v.ID), ofGeneration(0, 8, v.ID)))

		env.Fails(s.GateGeneration(t.Context(), 404))(t, domain.ErrNotFound)
	})
}

// The pages of each kind of search contain every order once, the newest first.
func TestFindOrdersPages(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for voucher := range int64(2) {
			v := newSale(t, s, 100, 9)
			for i := range int64(20) {
				o := newOrder(1+i*2+voucher, 1+i%5, v.ID)
				o.CreatedAt = now.Add(time.Duration(o.ID) * time.Second)
				o.ExpiresAt = o.CreatedAt.Add(time.Duration(i/4) * 9 * time.Hour) // several with the same time, after an outage of a day as well
				env.Must(placeOrder(t.Context(), s, o, 9))(t)
				if i%3 == 0 {
					env.Must(cancel(t.Context(), s, o.UserID, o.ID, now))(t)
				}
			}
		}
		first, second := []int64{1}, []int64{2}
		from, to := now.Add(20*time.Second), now.Add(31*time.Second)
		for _, f := range []service.SearchQuery{
			{}, {ID: 7}, {Users: []int64{3}}, {Vouchers: first}, {Status: domain.OrderCancelled}, {Status: domain.OrderPendingPayment},
			{Vouchers: second, Status: domain.OrderCancelled}, {Users: first, Status: domain.OrderCancelled}, {Users: second, Vouchers: first},
			{ID: 7, Users: []int64{99}}, {Users: []int64{1, 4, 99}}, {Users: []int64{1, 4}, Vouchers: second}, {Vouchers: []int64{2, 1, 99}},
			{Vouchers: []int64{2, 1}, Status: domain.OrderPendingPayment},
			{From: from}, {To: to}, {From: from, To: to, FirstID: 15, LastID: 35}, {From: from, To: to, Users: []int64{1, 4}},
			{From: from, To: to, FirstID: 15, LastID: 35, Vouchers: []int64{2, 1}}, {From: from, To: to, Status: domain.OrderCancelled},
			{To: to, Status: domain.OrderPendingPayment},
		} {
			var want []int64
			where, args := []string{"1 = 1"}, []any{}
			for condition, v := range map[string]any{
				"id = ?": f.ID, "user_id IN ?": f.Users, "voucher_id IN ?": f.Vouchers, "status = ?": f.Status, "created_at >= ?": f.From, "created_at < ?": f.To,
			} {
				if !reflect.ValueOf(v).IsZero() {
					where, args = append(where, condition), append(args, v)
				}
			}
			require.NoError(t, s.db.Reader(t.Context()).Raw("SELECT id FROM voucher_orders WHERE "+strings.Join(where, " AND ")+" ORDER BY id DESC", args...).Scan(&want).Error)
			require.Equal(t, slices.Contains(f.Users, 99) && f.ID == 7, len(want) == 0, "%+v", f)
			f.Page.Limit = 3
			var got []int64
			for {
				orders := env.Must(s.FindOrders(t.Context(), f))(t)
				for _, o := range orders {
					got = append(got, o.ID)
					f.Page.Before = o.ID
				}
				if len(orders) < f.Page.Limit {
					break
				}
			}
			if f.Users == nil && f.Vouchers == nil && f.Status != 0 { // sorted by the time to pay
				require.ElementsMatch(t, want, got, "%+v", f)
				continue
			}
			require.Equal(t, want, got, "%+v", f)
		}
		env.Fails(s.FindOrders(t.Context(), service.SearchQuery{Status: domain.OrderPaid, Page: domain.Page{Before: 777, Limit: 3}}))(t, new(*domain.InvalidError))
	})
}

// A count takes as long as the sale is large. It uses none of the connections that end after mysqlIOTimeout.
func TestCountOrdersHasNoIOTimeout(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 1, 1)
		place(t, s, newOrder(1, 10, v.ID))
		count, amount, err := s.CountOrders(t.Context(), v.ID, domain.OrderPendingPayment)
		require.NoError(t, err)
		require.EqualValues(t, 1, count)
		require.EqualValues(t, 100, amount)
		require.Zero(t, s.Pools()["read"].Stats().OpenConnections)
	})
}

const manyRows = 100_000

// A page of a list costs as many rows at its end as at its beginning, with and without the filters of the console.
func TestPagesAtDepth(t *testing.T) {
	env.Full(t)
	t.Parallel()
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		dsn := kind.Start(t).MigratedDSN(t)
		s := openStore(t, dsn)
		v := newSale(t, s, manyRows, 1)
		fillLists(t, dsn, v.ID)

		const limit = 20
		yesterday, tomorrow := now.AddDate(0, 0, -1), now.AddDate(0, 0, 1)
		users := make([]int64, limit+5)
		for i := range users {
			users[i] = int64(1 + i)
		}
		lists := map[string]any{
			"all orders":        service.SearchQuery{},
			"orders of a sale":  service.SearchQuery{Vouchers: []int64{v.ID}},
			"paid orders":       service.SearchQuery{Status: domain.OrderPaid},
			"paid of a sale":    service.SearchQuery{Vouchers: []int64{v.ID}, Status: domain.OrderPaid},
			"orders of a day":   service.SearchQuery{From: yesterday, To: tomorrow, FirstID: 1, LastID: manyRows + 1},
			"day of a sale":     service.SearchQuery{Vouchers: []int64{v.ID}, From: yesterday, FirstID: 1},
			"paid of a day":     service.SearchQuery{From: yesterday, To: tomorrow, Status: domain.OrderPaid},
			"orders of users":   service.SearchQuery{Users: users},
			"users of a sale":   service.SearchQuery{Users: users, Vouchers: []int64{v.ID}},
			"payments":          nil,
			"changes":           domain.AuditFilter{},
			"changes of a sale": domain.AuditFilter{VoucherID: v.ID},
			"changes of one":    domain.AuditFilter{ActorID: 7},
			"changes of a kind": domain.AuditFilter{Action: "redeem"},
			"requests":          domain.RequestFilter{},
			"requests of one":   domain.RequestFilter{UserID: 7},
			"requests for one":  domain.RequestFilter{Target: "1"},
			"events":            domain.EventFilter{},
			"delivered events":  domain.EventFilter{Status: domain.EventDelivered},
		}
		few := map[string]any{ // at the end of all
			"failed events":    domain.EventFilter{Status: domain.EventFailed},
			"changes by staff": domain.AuditFilter{Actor: domain.ActorAdmin},
			"refunding orders": service.SearchQuery{Status: domain.OrderRefunding},
		}
		// The server's own work, such as reading statistics, is counted as well, so the smallest of three counts is that of the
		// page. Each count costs rows as well.
		count := func() int { return handlerReads(t, s.db.Writer(t.Context()), "GLOBAL") }
		read := func(filter any, before int64) int {
			var counts []int
			for range 3 {
				idle := count()
				began := count()
				require.Equal(t, limit, page(t, s, filter, domain.Page{Before: before, Limit: limit}))
				counts = append(counts, count()-began-(began-idle))
			}
			return slices.Min(counts)
		}
		for name, filter := range lists {
			first, last := read(filter, 0), read(filter, manyRows/10)
			t.Logf("%s: %d rows at the beginning, %d at the end", name, first, last)
			require.Less(t, max(first, last), 5*limit, name)
		}
		for name, filter := range few {
			all := read(filter, 0)
			t.Logf("%s: %d rows", name, all)
			require.Less(t, all, 5*limit, name)
		}

		// Of a receiver that was down for a day. The metrics have three seconds.
		execSQL(t, dsn, "UPDATE order_events SET status = 1")
		s.RecordEvents()
		began := count()
		require.EqualValues(t, manyRows, env.Must(s.Backlog(t.Context()))(t).Events)
		require.Less(t, count()-began, manyRows*3/2, "each event is read once")
	})
}

// page returns the number of rows of a page of the list with that filter; payments have none.
func page(t *testing.T, s *Store, filter any, p domain.Page) int {
	t.Helper()
	switch f := filter.(type) {
	case service.SearchQuery:
		f.Page = p
		return len(env.Must(s.FindOrders(t.Context(), f))(t))
	case domain.AuditFilter:
		f.Page = p
		return len(env.Must(s.AuditLog(t.Context(), f))(t))
	case domain.RequestFilter:
		f.Page = p
		return len(env.Must(s.AdminRequests(t.Context(), f))(t))
	case domain.EventFilter:
		f.Page = p
		return len(env.Must(s.OrderEvents(t.Context(), f))(t))
	default:
		return len(env.Must(s.ListPayments(t.Context(), p))(t))
	}
}

// fillLists stores manyRows orders of a sale with a payment each, changes, requests and events. Their ids are 1 to manyRows.
// The connections of the store have I/O timeouts.
func fillLists(t *testing.T, dsn string, voucher int64) {
	t.Helper()
	at := now.Format("'2006-01-02 15:04:05.000'")
	numbers := env.Numbers(5) + " numbers ORDER BY n"
	execSQL(t, dsn,
		"DELETE FROM audit_log",
		fmt.Sprintf("INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, paid_at, updated_at) "+
			"SELECT 1 + n, 1 + n, %d, 1, 2, 100, %s, TIMESTAMPADD(SECOND, n, %[2]s), %[2]s, %[2]s FROM ", voucher, at)+numbers,
		"INSERT INTO payments (id, order_id, provider, provider_ref, amount, status, created_at, updated_at) "+
			"SELECT 1 + n, 1 + n, 'bank', CONCAT('pay_', n), 100, 2, "+at+", "+at+" FROM "+numbers,
		fmt.Sprintf("INSERT INTO audit_log (id, at, actor, actor_id, action, voucher_id, order_id, detail) "+
			"SELECT 1 + n, %s, 'admin', 7, 'redeem', %d, 1 + n, '' FROM ", at, voucher)+numbers,
		"INSERT INTO admin_requests (id, at, user_id, role, method, route, target, status, request_id, network) "+
			"SELECT 1 + n, "+at+", 7, 'admin', 'GET', '/', '1', 200, '', '' FROM "+numbers,
		"INSERT INTO order_events (id, order_id, type, status, created_at) SELECT 1 + n, 1 + n, 'order.paid', 2, "+at+" FROM "+numbers,
		"UPDATE audit_log SET actor = 'system' WHERE id > 5000", // all but the oldest
		"UPDATE order_events SET status = 3 WHERE id <= 5000",   // the oldest
		"UPDATE voucher_orders SET status = 5 WHERE id <= 50",
		"ANALYZE TABLE voucher_orders, payments, audit_log, admin_requests, order_events",
	)
}

// placeOverdue stores n overdue orders, spread over the sales. Their ids and user ids begin at first.
func placeOverdue(t *testing.T, s *Store, first int64, n int, sales ...int64) {
	t.Helper()
	orders := make([]domain.Order, n)
	for i := range orders {
		id := first + int64(i)
		orders[i] = overdueOrder(id, id, sales[int(id)%len(sales)])
	}
	sold(t, s, 1, orders...)
}

func TestCloseExpiredUsesDatabaseClock(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		at := databaseTime(t, s)
		for id, expires := range map[int64]time.Time{1: at.Add(-time.Hour), 2: at, 3: at.Add(time.Hour)} {
			o := newOrder(id, id, v.ID)
			o.ExpiresAt = expires
			place(t, s, o)
		}
		paid := overdueOrder(4, 4, v.ID)
		place(t, s, paid)
		pay(t, s, paid, "ref")
		b := env.Must(s.Backlog(t.Context()))(t)
		require.EqualValues(t, 2, b.Orders)
		require.InDelta(t, time.Hour, b.OldestOrder, float64(10*time.Minute))
		require.Equal(t, []int64{1}, closeExpired(t, s, 1), "the oldest first")
		require.Equal(t, []int64{2}, closeExpired(t, s, 10))
		require.Empty(t, closeExpired(t, s, 10))
		requireTotals(t, s, v.ID, 8, 2)
		stored := env.Must(s.Order(t.Context(), 1, 1))(t)
		require.Equal(t, domain.OrderCancelled, stored.Status)
		require.Zero(t, stored.Slot)
		require.WithinDuration(t, at, *stored.CancelledAt, time.Minute)
	})
}

func closeExpired(t *testing.T, s *Store, most int) []int64 {
	t.Helper()
	return orderIDs(env.Must(s.CloseExpired(t.Context(), most, true))(t))
}

func orderIDs(orders []domain.Order) (ids []int64) {
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	return ids
}

// A transaction that has locked one order, here a payment, does not delay the closing of the others. The units return to their
// sales.
func TestCloseExpiredSkipsLockedOrders(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v, other := newSale(t, s, 10, 1), newSale(t, s, 10, 1)
		placeOverdue(t, s, 1, 4, v.ID, other.ID)
		payer := s.db.Writer(t.Context()).Begin()
		env.Must(lockOrder(payer, 0, 2))(t)
		require.ElementsMatch(t, []int64{1, 3, 4}, closeExpired(t, s, 10))
		requireTotals(t, s, v.ID, 9, 1)
		requireTotals(t, s, other.ID, 10, 0)
		require.NoError(t, payer.Rollback().Error)
		require.Equal(t, []int64{2}, closeExpired(t, s, 10))
	})
}

// Orders that expire together keep the other times that each has, as another program may have written them.
func TestCloseExpiredKeepsOtherTimes(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		placeOverdue(t, s, 1, 3, v.ID)
		paid := s.db.Writer(t.Context()).Model(&orderRow{}).Where("id = 1")
		require.NoError(t, paid.Update("paid_at", now).Error)
		require.Len(t, closeExpired(t, s, 10), 3)
		for id := range int64(3) {
			require.Equal(t, id == 0, env.Must(s.Order(t.Context(), 0, 1+id))(t).PaidAt != nil, 1+id)
		}
	})
}

// A transaction that has locked the row of one sale delays neither the closing of the orders of others, even if that sale has
// more expired ones, nor the purchases of others.
func TestCloseExpiredOfOtherSales(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v, locked := newSale(t, s, 10, 1), newSale(t, s, 10, 1)
		placeOverdue(t, s, 1, 3, locked.ID)
		placeOverdue(t, s, 4, 2, v.ID)
		other := s.db.Writer(t.Context()).Begin()
		require.NoError(t, returnUnits(other, locked.ID, 1, time.Now()))
		closed, err := s.CloseExpired(t.Context(), 2, true)
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.ElementsMatch(t, []int64{4, 5}, orderIDs(closed))
		requireTotals(t, s, v.ID, 10, 0)

		require.NoError(t, other.Rollback().Error)
		require.Len(t, env.Must(s.CloseExpired(t.Context(), 2, true))(t), 2)
		require.Len(t, env.Must(s.CloseExpired(t.Context(), 2, true))(t), 1)
		requireTotals(t, s, locked.ID, 10, 0)
	})
}

// The orders of two users in two sales, one for each way in which an order can end.
func TestUnpaidRecords(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		limit := 1
		create := func() domain.Voucher {
			v := newSale(t, s, 20, 100)
			change(t, s, v.ID, func(v *domain.Voucher) { v.Sale.UnpaidLimit = &limit })
			return v
		}
		v, other, open := create(), create(), newSale(t, s, 20, 100)
		place := func(id, user, voucher int64, expires time.Time) {
			o := newOrder(id, user, voucher)
			o.ExpiresAt = expires
			env.Must(placeOrder(t.Context(), s, o, 100))(t)
		}
		end := func(id int64, at time.Time) {
			env.Must(cancel(t.Context(), s, 0, id, at))(t)
		}
		ended := func() (ids []int64) {
			found := env.Must(s.Vouchers(t.Context(), []int64{v.ID, other.ID, open.ID, 999}))(t)
			require.Len(t, found, 3)
			for _, v := range found {
				if v.Sale.EndedUnpaid {
					ids = append(ids, v.ID)
				}
			}
			return ids
		}
		deadline := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
		for id := int64(1); id <= 6; id++ {
			place(id, 10, v.ID, deadline)
		}
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE voucher_orders SET status = 6, slot = NULL WHERE id = 1").Error)
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE voucher_orders SET status = 2 WHERE id = 2").Error)
		require.Empty(t, ended(), "a refunded order was paid")

		end(3, now.Add(time.Second))
		require.Equal(t, []int64{v.ID}, ended(), "cancelled in time")
		end(4, deadline.Add(-time.Millisecond))
		end(5, deadline) // by its owner, before the closer
		require.Equal(t, []int64{v.ID}, ended())
		place(7, 10, v.ID, time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC))
		place(8, 10, other.ID, time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC))
		place(9, 11, v.ID, deadline)
		place(10, 11, open.ID, deadline)
		end(10, now)
		require.Len(t, env.Must(s.CloseExpired(t.Context(), 10, true))(t), 2)
		require.Equal(t, []int64{v.ID, other.ID}, ended(), "a sale without a limit is not marked")

		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE voucher_orders SET entry_round = id WHERE id IN (6, 7)").Error)
		asked := []domain.SaleUser{{UserID: 10, VoucherID: v.ID}, {UserID: 10, VoucherID: other.ID}, {UserID: 11, VoucherID: v.ID},
			{UserID: 12, VoucherID: v.ID}, {UserID: 10, VoucherID: v.ID}}
		found := env.Must(s.SaleRecords(t.Context(), asked))(t)
		require.Equal(t, map[domain.SaleUser]domain.SaleRecord{
			asked[0]: {Active: 2, Newest: 6, Expired: 2, Cancelled: 2, LastCancel: deadline.Add(-time.Millisecond), LastRound: 7},
			asked[1]: {Expired: 1},
			asked[2]: {Active: 1, Newest: 9},
		}, found)

		place(11, 11, other.ID, deadline)
		require.Equal(t, map[int64]int{10: 1, 11: 2}, env.Must(s.UnpaidOrders(t.Context(), []int64{10, 11, 12, 10}))(t))
	})
}

// events returns the events in the outbox, oldest first, as "order type status".
func events(t *testing.T, s *Store) (all []string) {
	t.Helper()
	found := env.Must(s.OrderEvents(t.Context(), domain.EventFilter{Page: domain.Page{Limit: 1000}}))(t)
	for _, e := range slices.Backward(found) {
		all = append(all, fmt.Sprint(e.Order.ID, " ", e.Type, " ", e.Order.Status))
		if e.Order.Status == domain.OrderRedeemed {
			require.Equal(t, e.CreatedAt, *e.Order.RedeemedAt)
		}
	}
	return all
}

// Every placement and move of an order writes one event in its transaction, which shows the order as the move left it.
// Refused purchases write none.
func TestMovesAreRecorded(t *testing.T) {
	onEachSale(t, 4, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		env.Must(placeOrder(t.Context(), s, newOrder(90, 90, v.ID), 1))(t)
		require.Empty(t, events(t, s), "without a receiver nothing is recorded")

		s.RecordEvents()
		orders := make([]domain.Order, 5) // with three units left, and one order of its user too many
		for i, user := range []int64{1, 2, 90, 3, 4} {
			orders[i] = newOrder(user, user, v.ID)
		}
		orders[2].ID = 91
		require.Equal(t, []string{"order 1", "order 2", duplicateOf(90), "order 3", domain.ErrSoldOut.Error()},
			outcomes(s.PlaceOrders(t.Context(), withLimit(1, orders))))
		env.Must(cancel(t.Context(), s, 1, 1, now))(t)
		env.Fails(cancel(t.Context(), s, 1, 1, now))(t, domain.ErrInvalidState)
		for i, m := range []domain.Move{domain.MovePay, domain.MoveRedeem, domain.MoveUndoRedeem, domain.MoveRedeem, domain.MoveUndoRedeem} {
			env.Must(s.MoveOrder(t.Context(), domain.OrderMove{Move: m, OrderID: 2, At: now.Add(time.Duration(i) * time.Second)}))(t)
		}
		env.Must(s.BeginRefund(t.Context(), domain.OrderMove{OrderID: 2, At: now}))(t) // without a payment there is nothing to wait for
		env.Must(s.CloseExpired(t.Context(), 10, true))(t)
		require.Equal(t, []string{
			"1 created pending_payment", "2 created pending_payment", "3 created pending_payment", "1 cancelled cancelled", "2 paid paid",
			"2 redeemed redeemed", "2 unredeemed paid", "2 redeemed redeemed", "2 unredeemed paid",
			"2 refunding refunding", "2 refunded refunded", "3 expired cancelled", "90 expired cancelled",
		}, events(t, s))
		of := env.Must(s.OrderEvents(t.Context(), domain.EventFilter{OrderID: 2, Page: domain.Page{Limit: 3}}))(t)
		require.Len(t, of, 3)
		before := env.Must(s.OrderEvents(t.Context(), domain.EventFilter{OrderID: 2, Page: domain.Page{Limit: 9, Before: of[1].ID}}))(t)
		require.Len(t, before, 6)
	})
}

// The connections for reads may lead to a server that does not have the order of an event yet. It is delivered when the lease
// is over, and not without its order.
func TestEventWaitsForItsOrder(t *testing.T) {
	onEachSale(t, 2, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		created, due := newOrder(7, 1, v.ID), now.Add(-time.Hour)
		e := eventRow{OrderID: created.ID, OrderEvent: domain.OrderEvent{Type: domain.EventCreated, CreatedAt: now}}
		e.Status, e.NextTryAt = domain.EventPending, &due
		require.NoError(t, s.db.Writer(t.Context()).Create(&e).Error)
		require.Empty(t, env.Must(s.ClaimEvents(t.Context(), 9, 0))(t)) // the lease ends at once
		place(t, s, created)
		require.Equal(t, created.ID, env.Only(t, env.Must(s.ClaimEvents(t.Context(), 9, time.Hour))(t)).Order.ID)
	})
}

// An event waits for the earlier ones of its order. Senders that run at once share the events.
func TestEventsAreClaimedInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		s.RecordEvents()
		const n = 20
		v := newSale(t, s, n, 1)
		orders := make([]domain.Order, n)
		for i := range orders {
			orders[i] = newOrder(int64(1+i), int64(1+i), v.ID)
		}
		sold(t, s, 1, orders...)
		for _, o := range orders {
			env.Must(cancel(t.Context(), s, o.UserID, o.ID, now))(t)
		}
		b := env.Must(s.Backlog(t.Context()))(t)
		require.EqualValues(t, 2*n, b.Events)
		require.InDelta(t, databaseTime(t, s).Sub(orders[0].CreatedAt), b.OldestEvent, float64(time.Minute))
		claim := func() []domain.OrderEvent { return env.Must(s.ClaimEvents(t.Context(), 4, time.Hour))(t) }
		var mu sync.Mutex
		var all []domain.OrderEvent
		allAtOnce(t, 3, func(int) error {
			for {
				some, err := s.ClaimEvents(t.Context(), 4, time.Hour)
				if err != nil || len(some) == 0 {
					return err
				}
				mu.Lock()
				all = append(all, some...)
				mu.Unlock()
			}
		})
		require.Len(t, all, n)
		seen := map[int64]bool{}
		for _, e := range all {
			require.Equal(t, domain.EventCreated, e.Type)
			require.Equal(t, 1, e.Tries)
			require.False(t, seen[e.Order.ID], "leased to one sender")
			seen[e.Order.ID] = true
		}
		finish := func(e domain.OrderEvent, r domain.EventResult) {
			r.Event = e
			require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{r}))
		}
		finish(all[0], domain.EventResult{Delivered: true, Status: 200, Answer: "ok"})
		next := env.Only(t, claim(), "only one order may go on")
		require.Equal(t, all[0].Order.ID, next.Order.ID)
		require.EqualValues(t, "cancelled", next.Type)

		finish(next, domain.EventResult{Retry: time.Hour, Status: 500, Answer: "later"})
		require.Empty(t, claim())
		finish(all[1], domain.EventResult{Answer: "given up"})
		finish(all[1], domain.EventResult{Delivered: true}) // it counts as given up, and nothing else changes
		require.Equal(t, all[1].Order.ID, claim()[0].Order.ID, "after an event that was given up, the next one is due")
	})
}

// The result of a sender whose lease has ended counts only if it is a success.
func TestLateResultsOfDeliveries(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		s.RecordEvents()
		v := newSale(t, s, 2, 1)
		env.Must(placeOrder(t.Context(), s, newOrder(1, 1, v.ID), 1))(t)
		claim := func() domain.OrderEvent {
			return env.Only(t, env.Must(s.ClaimEvents(t.Context(), 9, 0))(t)) // the lease ends at once
		}
		first, second := claim(), claim()
		require.Equal(t, []int{1, 2}, []int{first.Tries, second.Tries})
		require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{{Event: first}, {Event: first, Retry: time.Hour}}))
		claim()
		require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{{Event: first, Delivered: true, Status: 204}}))
		require.Empty(t, env.Must(s.ClaimEvents(t.Context(), 9, 0))(t))

		require.NoError(t, s.RepeatEvent(t.Context(), nil, first.ID))
		again := claim()
		require.Equal(t, 1, again.Tries)
		require.NotNil(t, again.RepeatedAt)
		require.Equal(t, 204, again.AnswerStatus, "the last answer stays visible")
		require.ErrorIs(t, s.RepeatEvent(t.Context(), nil, 12345), domain.ErrNotFound)

		purge := func() int { return env.Must(s.PurgeEvents(t.Context(), now.Add(time.Hour)))(t) }
		require.Zero(t, purge(), "a pending event is kept")
		require.NoError(t, s.FinishEvents(t.Context(), []domain.EventResult{{Event: again}}))
		require.Equal(t, []int{1, 0}, []int{purge(), purge()})
		env.Must(placeOrder(t.Context(), s, newOrder(2, 2, v.ID), 1))(t)
		s.events = false
		require.Equal(t, 1, purge(), "no receiver is left for it")
	})
}
