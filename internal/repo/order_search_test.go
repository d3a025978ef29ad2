package repo

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/service"
	"seckill/test/env"
)

// The pages of each kind of search contain every order once, the newest first.
func TestFindOrdersPages(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for voucher := range int64(2) {
			v := newSale(t, s, 100, 9)
			for i := range int64(20) {
				o := newOrder(1+i*2+voucher, 1+i%5, v.ID)
				o.CreatedAt = now.Add(time.Duration(o.ID) * time.Second)
				o.ExpiresAt = o.CreatedAt.Add(time.Duration(i/4) * time.Hour) // several orders with the same time
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
		_, err := s.FindOrders(t.Context(), service.SearchQuery{Status: domain.OrderPaid, Page: domain.Page{Before: 777, Limit: 3}})
		require.ErrorAs(t, err, new(*domain.InvalidError))
	})
}

// An order that waited in the queue during an outage has its whole time to pay after that. It is found by status and time.
func TestFindOrdersThatWaitedInTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		o := newOrder(1, 10, newSale(t, s, 1, 1).ID)
		o.ExpiresAt = o.CreatedAt.Add(time.Hour + 24*time.Hour) // of the outage, and the longest time to pay
		place(t, s, o)

		found, err := s.FindOrders(t.Context(), service.SearchQuery{
			Status: domain.OrderPendingPayment, To: o.CreatedAt.Add(time.Second), Page: domain.Page{Limit: 9},
		})
		require.NoError(t, err)
		require.Len(t, found, 1)
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
		requirePagesAtDepth(t, openStore(t, dsn), dsn)
	})
}

func requirePagesAtDepth(t *testing.T, s *Store, dsn string) {
	t.Helper()
	v := newSale(t, s, manyRows, 1)
	fillLists(t, dsn, v.ID)

	const limit = 20
	yesterday, tomorrow := now.AddDate(0, 0, -1), now.AddDate(0, 0, 1)
	users := make([]int64, limit+5)
	for i := range users {
		users[i] = int64(1 + i)
	}
	lists := map[string]func(p domain.Page) (int, error){
		"all orders":        orderPages(t, s, service.SearchQuery{}),
		"orders of a sale":  orderPages(t, s, service.SearchQuery{Vouchers: []int64{v.ID}}),
		"paid orders":       orderPages(t, s, service.SearchQuery{Status: domain.OrderPaid}),
		"paid of a sale":    orderPages(t, s, service.SearchQuery{Vouchers: []int64{v.ID}, Status: domain.OrderPaid}),
		"orders of a day":   orderPages(t, s, service.SearchQuery{From: yesterday, To: tomorrow, FirstID: 1, LastID: manyRows + 1}),
		"day of a sale":     orderPages(t, s, service.SearchQuery{Vouchers: []int64{v.ID}, From: yesterday, FirstID: 1}),
		"paid of a day":     orderPages(t, s, service.SearchQuery{From: yesterday, To: tomorrow, Status: domain.OrderPaid}),
		"orders of users":   orderPages(t, s, service.SearchQuery{Users: users}),
		"users of a sale":   orderPages(t, s, service.SearchQuery{Users: users, Vouchers: []int64{v.ID}}),
		"payments":          func(p domain.Page) (int, error) { all, err := s.ListPayments(t.Context(), p); return len(all), err },
		"changes":           changePages(t, s, domain.AuditFilter{}),
		"changes of a sale": changePages(t, s, domain.AuditFilter{VoucherID: v.ID}),
		"changes of one":    changePages(t, s, domain.AuditFilter{ActorID: 7}),
		"changes of a kind": changePages(t, s, domain.AuditFilter{Action: "redeem"}),
		"requests":          requestPages(t, s, domain.RequestFilter{}),
		"requests of one":   requestPages(t, s, domain.RequestFilter{UserID: 7}),
		"requests for one":  requestPages(t, s, domain.RequestFilter{Target: "1"}),
		"events":            eventPages(t, s, domain.EventFilter{}),
		"delivered events":  eventPages(t, s, domain.EventFilter{Status: domain.EventDelivered}),
	}
	few := map[string]func(p domain.Page) (int, error){ // at the end of all
		"failed events":    eventPages(t, s, domain.EventFilter{Status: domain.EventFailed}),
		"changes by staff": changePages(t, s, domain.AuditFilter{Actor: domain.ActorAdmin}),
		"refunding orders": orderPages(t, s, service.SearchQuery{Status: domain.OrderRefunding}),
	}
	// The server's own work, such as reading statistics, is counted as well, so the smallest of three counts is that of the
	// page.
	read := func(page func(domain.Page) (int, error), before int64) int {
		t.Helper()
		var counts []int
		for range 3 {
			counts = append(counts, serverReads(t, s, func() {
				n := env.Must(page(domain.Page{Before: before, Limit: limit}))(t)
				require.Equal(t, limit, n)
			}))
		}
		return slices.Min(counts)
	}
	for name, page := range lists {
		first, last := read(page, 0), read(page, manyRows/10)
		t.Logf("%s: %d rows at the beginning, %d at the end", name, first, last)
		require.Less(t, max(first, last), 5*limit, name)
	}
	for name, page := range few {
		all := read(page, 0)
		t.Logf("%s: %d rows", name, all)
		require.Less(t, all, 5*limit, name)
	}
}

func orderPages(t *testing.T, s *Store, q service.SearchQuery) func(domain.Page) (int, error) {
	return func(p domain.Page) (int, error) {
		q.Page = p
		all, err := s.FindOrders(t.Context(), q)
		return len(all), err
	}
}

func changePages(t *testing.T, s *Store, f domain.AuditFilter) func(domain.Page) (int, error) {
	return func(p domain.Page) (int, error) {
		f.Page = p
		all, err := s.AuditLog(t.Context(), f)
		return len(all), err
	}
}

func requestPages(t *testing.T, s *Store, f domain.RequestFilter) func(domain.Page) (int, error) {
	return func(p domain.Page) (int, error) {
		f.Page = p
		all, err := s.AdminRequests(t.Context(), f)
		return len(all), err
	}
}

func eventPages(t *testing.T, s *Store, f domain.EventFilter) func(domain.Page) (int, error) {
	return func(p domain.Page) (int, error) {
		f.Page = p
		all, err := s.OrderEvents(t.Context(), f)
		return len(all), err
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

// serverReads returns how many rows and index entries the server reads during fn, while nobody else uses it.
func serverReads(t *testing.T, s *Store, fn func()) int {
	t.Helper()
	count := func() int { return handlerReads(t, s.db.Writer(t.Context()), "GLOBAL") }
	idle := count()
	before := count()
	fn()
	return count() - before - (before - idle)
}
