package handler_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// file returns the records of a CSV answer, by the names of the columns.
func (a answer) file() (rows []map[string]string) {
	a.t.Helper()
	a.want(http.StatusOK)
	require.Equal(a.t, "text/csv; charset=utf-8; header=present", a.header.Get("Content-Type"))
	text, marked := strings.CutPrefix(string(a.body), "\uFEFF")
	require.True(a.t, marked, "a byte order mark")
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll() // package sheet has a stricter parser
	require.NoError(a.t, err)
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestExports(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newEnv(t, db)
		viewer := e.staff("13900000003", domain.RoleViewer)
		const title = "=HYPERLINK(\"http://x\", \"win\"),\n100 元"
		v, other := e.sale(300, func(b map[string]any) { b["title"] = title }), e.sale(5)
		var newest orderView
		for n := range domain.MaxPageSize + 3 { // more than a page
			newest = e.buyer(n).place(v)
		}
		paid := e.buyer(999).place(other)
		e.buyer(999).post(paid.path()+"/pay", nil).want(http.StatusOK)
		e.exec("INSERT INTO payments (order_id, provider, provider_ref, amount, currency, status, created_at, updated_at) "+
			"VALUES (77, 'sandbox', '=1+1', 500, 'JPY', 2, ?, ?)", e.clock.now(), e.clock.now()) // of an order that does not exist

		rows := viewer.get("/api/v1/admin/orders.csv").file()
		require.Len(t, rows, domain.MaxPageSize+4)
		rows = viewer.get("/api/v1/admin/orders.csv?voucher_id=" + v.ID).file()
		require.Len(t, rows, domain.MaxPageSize+3)
		require.Equal(t, map[string]string{
			"order_id": newest.ID, "voucher_id": v.ID, "title": "'" + title, "user_id": newest.UserID, "phone": "138****0102", "status": "pending_payment",
			"amount": "80.00", "currency": "CNY", "created_at_utc": "2026-11-11 12:00:00", "expires_at_utc": "2026-11-11 12:15:00",
			"paid_at_utc": "", "redeemed_at_utc": "", "cancelled_at_utc": "", "refunded_at_utc": "",
		}, rows[0])

		rows = viewer.get("/api/v1/admin/payments.csv").file()
		require.Len(t, rows, 2)
		require.Equal(t, []string{"'=1+1", "500", "JPY", "77", ""}, []string{rows[0]["provider_ref"], rows[0]["amount"], rows[0]["currency"], rows[0]["order_id"], rows[0]["voucher_id"]})
		require.Equal(t, []string{paid.ID, other.ID, "pending"}, []string{rows[1]["order_id"], rows[1]["voucher_id"], rows[1]["status"]})
		require.Len(t, viewer.get("/api/v1/admin/payments.csv?voucher_id="+other.ID).file(), 1)
		require.Empty(t, viewer.get("/api/v1/admin/payments.csv?voucher_id="+v.ID).file())

		rows = viewer.get("/api/v1/admin/audit.csv?voucher_id=" + v.ID).file()
		require.Equal(t, "create_voucher", rows[len(rows)-1]["action"])
		rows = viewer.get("/api/v1/admin/audit.csv?kind=request").file()
		require.Equal(t, []string{"/api/v1/admin/audit.csv", "viewer"}, []string{rows[0]["route"], rows[0]["role"]})
		exports := 0
		for _, row := range rows {
			if strings.HasSuffix(row["route"], ".csv") && row["user_id"] == viewer.login.User.ID {
				exports++
			}
		}
		require.Equal(t, 7, exports, "every export is recorded, before it runs")
		viewer.bad().get("/api/v1/admin/audit.csv?kind=request&voucher_id=1").problem(http.StatusBadRequest, "invalid_request")
	})
}

// TestUnfinishedExport: an export that fails before its first row has an error answer. Later its connection is closed, so
// that no client takes a part for the whole.
func TestUnfinishedExport(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	viewer, v := e.staff("13900000003", domain.RoleViewer), e.sale(300)
	for n := range domain.MaxPageSize + 1 {
		e.buyer(n).place(v)
	}
	for calls := int64(1); ; calls++ {
		e.store.failFrom(calls)
		res, err := e.http.Do(viewer.request(e.url, http.MethodGet, "/api/v1/admin/orders.csv", nil))
		require.NoError(t, err)
		_, err = io.ReadAll(res.Body)
		require.NoError(t, res.Body.Close())
		if res.StatusCode == http.StatusOK {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, fmt.Sprint(calls))
			break
		}
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	}
	e.store.fail(nil)
	require.Len(t, viewer.get("/api/v1/admin/orders.csv").file(), domain.MaxPageSize+1)
}
