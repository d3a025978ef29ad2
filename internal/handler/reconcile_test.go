package handler_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/reconcile"
)

const reconcilePath = "/api/v1/admin/reconcile"

type reconcileView struct {
	Reports []struct {
		VoucherID string    `json:"voucher_id"`
		CheckedAt time.Time `json:"checked_at"`
		Findings  []struct {
			Kind   string
			Count  int64
			Orders []struct {
				OrderID string `json:"order_id"`
				UserID  string `json:"user_id"`
			}
			OldestAt   *time.Time `json:"oldest_at"`
			Repairable bool
			Repaired   bool
		}
	}
	LeftOut int64 `json:"left_out"`
}

// gateKey returns a Redis key of the voucher's gate.
func (v voucherView) gateKey(t testing.TB, name string) string {
	return strings.TrimSuffix(admission.Streams()[v.number(t)%16], "orders") + v.ID + ":" + name
}

// TestReconcileRoutes reports drift of a gate and repairs it.
func TestReconcileRoutes(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	v, other := e.sale(5), e.sale(5)
	id := e.buyer(1).queue(v)
	e.work()
	me := decode[struct{ ID string }](e.buyer(1).get("/api/v1/me").want(http.StatusOK)).ID
	get := func(query string) reconcileView {
		return decode[reconcileView](e.admin().get(reconcilePath + query).want(http.StatusOK))
	}
	all := get("")
	require.Len(t, all.Reports, 2)
	assert.Equal(t, other.ID, all.Reports[0].VoucherID, "newest first")
	assert.Zero(t, all.LeftOut)
	for _, r := range all.Reports {
		assert.Empty(t, r.Findings)
		assert.Equal(t, e.clock.now(), r.CheckedAt)
	}

	require.NoError(t, e.rdb.HDel(t.Context(), v.gateKey(t, "buyers"), me).Err())
	require.NoError(t, e.rdb.Incr(t.Context(), v.gateKey(t, "stock")).Err())
	found := get("?voucher_id=" + v.ID).Reports[0].Findings
	require.Len(t, found, 2)
	assert.Equal(t, "stock_high", found[0].Kind)
	assert.EqualValues(t, 1, found[0].Count)
	assert.Empty(t, found[0].Orders)
	assert.Nil(t, found[0].OldestAt)
	assert.Equal(t, "buyer_missing", found[1].Kind)
	require.Len(t, found[1].Orders, 1)
	assert.Equal(t, id, found[1].Orders[0].OrderID)
	assert.Equal(t, me, found[1].Orders[0].UserID)
	assert.True(t, found[1].OldestAt.Equal(e.clock.now().Add(-time.Hour)))
	assert.True(t, found[1].Repairable)
	assert.False(t, found[1].Repaired)

	before := e.dump()
	repaired := decode[reconcileView](e.admin().post(reconcilePath, map[string]any{}).want(http.StatusOK))
	found = repaired.Reports[1].Findings
	require.Len(t, found, 2)
	assert.True(t, found[0].Repaired && found[1].Repaired)
	assert.Empty(t, get("?voucher_id=" + v.ID).Reports[0].Findings)
	again := decode[reconcileView](e.admin().post(reconcilePath, map[string]any{"voucher_id": v.ID}).want(http.StatusOK))
	assert.Len(t, again.Reports, 1)
	assert.Equal(t, id, e.buyer(1).post("/api/v1/vouchers/"+v.ID+"/orders", nil).problem(http.StatusConflict, "duplicate_order").OrderID)
	assert.Equal(t, rows(before, "voucher_orders"), rows(e.dump(), "voucher_orders"), "the database is unchanged")
}

// rows returns the lines of one table.
func rows(dump, table string) (kept []string) {
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, table+" ") {
			kept = append(kept, line)
		}
	}
	return kept
}

// TestReconcileErrors covers invalid requests, an unknown voucher and an outage of Redis.
func TestReconcileErrors(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	admin := e.admin()
	admin.bad().get(reconcilePath+"?voucher_id=nonsense").problem(http.StatusBadRequest, "invalid_request")
	admin.bad().post(reconcilePath, map[string]any{"voucher_id": "x"}).problem(http.StatusBadRequest, "invalid_request")
	admin.bad().post(reconcilePath, map[string]any{"what": 1}).problem(http.StatusBadRequest, "invalid_request")
	admin.get(reconcilePath+"?voucher_id=999").problem(http.StatusNotFound, "not_found")
	admin.post(reconcilePath, map[string]any{"voucher_id": "999"}).problem(http.StatusNotFound, "not_found")
	v := e.sale(1)
	require.NoError(t, e.rdb.Close())
	admin.get(reconcilePath+"?voucher_id="+v.ID).problem(http.StatusServiceUnavailable, "unavailable")
}

// TestEveryFindingIsDocumented: the API document and docs/reconcile.md have every kind of finding.
func TestEveryFindingIsDocumented(t *testing.T) {
	t.Parallel()
	k, err := theContract()
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/reconcile.md")
	require.NoError(t, err)
	var words []any
	for _, kind := range reconcile.Kinds() {
		words = append(words, string(kind))
		assert.Contains(t, string(page), "`"+string(kind)+"`")
	}
	assert.Equal(t, words, k.doc.Components.Schemas["Finding"].Value.Properties["kind"].Value.Enum)
}
