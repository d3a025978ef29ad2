package repo

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/service"
	"seckill/internal/testenv"
)

// The pages of each kind of search contain every order once, the newest first.
func TestFindOrdersPages(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for voucher := range int64(2) {
			v := newSale(t, s, 100, 9)
			for i := range int64(20) {
				o := newOrder(1+i*2+voucher, 1+i%5, v.ID)
				o.ExpiresAt = now.Add(time.Duration(i/4) * time.Hour) // several orders with the same time
				_, err := placeOrder(t.Context(), s, o, 9)
				require.NoError(t, err)
				if i%3 == 0 {
					_, err := cancel(t.Context(), s, o.UserID, o.ID, now)
					require.NoError(t, err)
				}
			}
		}
		for _, f := range []service.OrderSearch{
			{}, {ID: 7}, {UserID: 3}, {VoucherID: 1}, {Status: domain.OrderCancelled}, {Status: domain.OrderPendingPayment},
			{VoucherID: 2, Status: domain.OrderCancelled}, {UserID: 1, Status: domain.OrderCancelled}, {UserID: 2, VoucherID: 1},
			{ID: 7, UserID: 99},
		} {
			var want []int64
			where, args := []string{"1 = 1"}, []any{}
			for column, v := range map[string]int64{"id": f.ID, "user_id": f.UserID, "voucher_id": f.VoucherID, "status": int64(f.Status)} {
				if v != 0 {
					where, args = append(where, column+" = ?"), append(args, v)
				}
			}
			require.NoError(t, s.db.Reader(t.Context()).Raw("SELECT id FROM voucher_orders WHERE "+strings.Join(where, " AND ")+" ORDER BY id DESC", args...).Scan(&want).Error)
			f.Page.Limit = 3
			var got []int64
			for {
				orders, err := s.FindOrders(t.Context(), f)
				require.NoError(t, err)
				for _, o := range orders {
					got = append(got, o.ID)
					f.Page.Before = o.ID
				}
				if len(orders) < f.Page.Limit {
					break
				}
			}
			if f.UserID == 0 && f.VoucherID == 0 && f.Status != 0 { // sorted by the time to pay
				require.ElementsMatch(t, want, got, "%+v", f)
				continue
			}
			require.Equal(t, want, got, "%+v", f)
		}
		_, err := s.FindOrders(t.Context(), service.OrderSearch{Status: domain.OrderPaid, Page: domain.Page{Before: 777, Limit: 3}})
		require.ErrorAs(t, err, new(*domain.InvalidError))
	})
}

// The query plans with many orders must use an index that begins with the searched column. Only the few orders of a
// single user may be sorted.
func TestFindOrdersUsesIndexes(t *testing.T) {
	testenv.Long(t)
	onEach(t, func(t *testing.T, s *Store) {
		insertMany(t, s, 20_000)
		for _, c := range []struct {
			f    service.OrderSearch
			uses string
		}{
			{service.OrderSearch{}, ""},
			{service.OrderSearch{ID: 7}, "primary"},
			{service.OrderSearch{UserID: 3}, "user"},
			{service.OrderSearch{VoucherID: 1}, "voucher_status"},
			{service.OrderSearch{VoucherID: 2, Status: domain.OrderRefunding}, "voucher_status"},
			{service.OrderSearch{Status: domain.OrderRefunding}, "status_expires"},
			{service.OrderSearch{Status: domain.OrderPaid}, "status_expires"},
		} {
			for _, before := range []int64{0, 15_000} {
				c.f.Page = domain.Page{Before: before, Limit: 20}
				plans := explainSearch(t, s, c.f)
				require.NotEmpty(t, plans)
				for _, plan := range plans {
					if c.uses != "" || s.Dialect() == "mysql" { // SQLite scans in the order of ids without naming an index
						require.Contains(t, plan, cmp.Or(c.uses, "primary"), "%+v", c.f)
					}
					if c.f.UserID == 0 {
						require.NotContains(t, plan, "filesort", "%+v", c.f)
						require.NotContains(t, plan, "temp b-tree", "%+v", c.f)
					}
				}
			}
		}
	})
}

// insertMany stores n orders of three vouchers, nearly all of them paid.
func insertMany(t *testing.T, s *Store, n int) {
	t.Helper()
	rows := make([]orderRow, n)
	for i := range rows {
		o := newOrder(int64(i+1), int64(i/2+1), int64(1+i%3))
		o.Status, o.ExpiresAt = domain.OrderPaid, now.Add(time.Duration(i)*time.Millisecond)
		if i%1000 == 0 {
			o.Status = domain.OrderRefunding
		}
		rows[i] = newOrderRow(&o)
	}
	require.NoError(t, s.db.Writer(t.Context()).CreateInBatches(&rows, 500).Error)
	analyze := "ANALYZE"
	if s.Dialect() == "mysql" {
		analyze = "ANALYZE TABLE voucher_orders"
	}
	require.NoError(t, s.db.Writer(t.Context()).Exec(analyze).Error)
}

// explainSearch returns the query plans of a search in lower case.
func explainSearch(t *testing.T, s *Store, f service.OrderSearch) []string {
	t.Helper()
	explain := "EXPLAIN QUERY PLAN "
	if s.Dialect() == "mysql" {
		explain = "EXPLAIN "
	}
	var plans []string
	callback := s.db.Reader(t.Context()).Callback().Query().After("gorm:query")
	require.NoError(t, callback.Register("explain", func(tx *gorm.DB) {
		if !strings.Contains(tx.Statement.SQL.String(), "ORDER BY") { // the read of a cursor
			return
		}
		var lines []map[string]any
		err := s.db.Writer(t.Context()).Raw(explain+tx.Statement.SQL.String(), tx.Statement.Vars...).Scan(&lines).Error
		plans = append(plans, strings.ToLower(fmt.Sprint(lines, err)))
	}))
	defer func() { require.NoError(t, s.db.Reader(t.Context()).Callback().Query().Remove("explain")) }()
	_, err := s.FindOrders(t.Context(), f)
	require.NoError(t, err)
	return plans
}
