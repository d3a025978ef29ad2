package repo

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/service"
	"seckill/test/dbtest"
	"seckill/test/testenv"
)

// manyRows is the number of rows of each list in TestPagesAtDepth.
const manyRows = 100_000

// A page of a list costs as many rows at its end as at its beginning, with and without the filters of the console.
func TestPagesAtDepth(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	testenv.EachKind(t, func(t *testing.T, kind testenv.Kind) {
		dsn := kind.Start(t).DSN(t)
		s, err := OpenMySQL(dsn)
		require.NoError(t, err)
		requirePagesAtDepth(t, migrated(t, s), dsn)
	})
}

func requirePagesAtDepth(t *testing.T, s *Store, dsn string) {
	t.Helper()
	v := newSale(t, s, manyRows, 1)
	fillLists(t, dsn, v.ID)

	const limit = 20
	lists := map[string]func(p domain.Page) (int, error){
		"all orders":        orderPages(t, s, service.SearchQuery{}),
		"orders of a sale":  orderPages(t, s, service.SearchQuery{Vouchers: []int64{v.ID}}),
		"paid orders":       orderPages(t, s, service.SearchQuery{Status: domain.OrderPaid}),
		"paid of a sale":    orderPages(t, s, service.SearchQuery{Vouchers: []int64{v.ID}, Status: domain.OrderPaid}),
		"orders of a day":   orderPages(t, s, service.SearchQuery{From: now.AddDate(0, 0, -1), To: now.AddDate(0, 0, 1), FirstID: 1, LastID: manyRows + 1}),
		"payments":          func(p domain.Page) (int, error) { all, err := s.ListPayments(t.Context(), p); return len(all), err },
		"changes":           changePages(t, s, domain.AuditFilter{}),
		"changes of a sale": changePages(t, s, domain.AuditFilter{VoucherID: v.ID}),
		"changes of one":    changePages(t, s, domain.AuditFilter{ActorID: 7}),
		"requests":          requestPages(t, s, domain.RequestFilter{}),
		"requests of one":   requestPages(t, s, domain.RequestFilter{UserID: 7}),
		"requests for one":  requestPages(t, s, domain.RequestFilter{Target: "1"}),
		"events":            eventPages(t, s, domain.EventFilter{}),
		"delivered events":  eventPages(t, s, domain.EventFilter{Status: domain.EventDelivered}),
	}
	few := map[string]func(p domain.Page) (int, error){ // at the end of all
		"failed events":    eventPages(t, s, domain.EventFilter{Status: domain.EventFailed}),
		"refunding orders": orderPages(t, s, service.SearchQuery{Status: domain.OrderRefunding}),
	}
	read := func(page func(domain.Page) (int, error), before int64) int {
		t.Helper()
		return serverReads(t, s, func() {
			n, err := page(domain.Page{Before: before, Limit: limit})
			require.NoError(t, err)
			require.Equal(t, limit, n)
		})
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
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()

	at := now.Format("'2006-01-02 15:04:05.000'")
	numbers := dbtest.Numbers(5) + " numbers ORDER BY n"
	for _, fill := range []string{
		"DELETE FROM audit_log",
		fmt.Sprintf("INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, paid_at, updated_at) "+
			"SELECT 1 + n, 1 + n, %d, 1, 2, 100, %s, TIMESTAMPADD(SECOND, n, %[2]s), %[2]s, %[2]s FROM ", voucher, at) + numbers,
		"INSERT INTO payments (id, order_id, provider, provider_ref, amount, status, created_at, updated_at) " +
			"SELECT 1 + n, 1 + n, 'bank', CONCAT('pay_', n), 100, 2, " + at + ", " + at + " FROM " + numbers,
		fmt.Sprintf("INSERT INTO audit_log (id, at, actor, actor_id, action, voucher_id, order_id, detail) "+
			"SELECT 1 + n, %s, 'admin', 7, 'redeem', %d, 1 + n, '' FROM ", at, voucher) + numbers,
		"INSERT INTO admin_requests (id, at, user_id, role, method, route, target, status, request_id, network) " +
			"SELECT 1 + n, " + at + ", 7, 'admin', 'GET', '/', '1', 200, '', '' FROM " + numbers,
		"INSERT INTO order_events (id, order_id, type, status, created_at) SELECT 1 + n, 1 + n, 'order.paid', 2, " + at + " FROM " + numbers,
		"UPDATE order_events SET status = 3 WHERE id <= 5000", // the oldest
		"UPDATE voucher_orders SET status = 5 WHERE id <= 50",
		"ANALYZE TABLE voucher_orders, payments, audit_log, admin_requests, order_events",
	} {
		_, err := db.ExecContext(t.Context(), fill)
		require.NoError(t, err, fill)
	}
}

// serverReads returns how many rows and index entries the server reads during fn, while nobody else uses it.
func serverReads(t *testing.T, s *Store, fn func()) int {
	t.Helper()
	count := func() (n int) {
		var read []struct{ Value int }
		err := s.db.Writer(t.Context()).Raw("SHOW GLOBAL STATUS WHERE variable_name IN " +
			"('Handler_read_key', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')").Scan(&read).Error
		require.NoError(t, err)
		require.Len(t, read, 5)
		for _, r := range read {
			n += r.Value
		}
		return n
	}
	idle := count()
	before := count()
	fn()
	return count() - before - (before - idle)
}
