package handler_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func segmentsOf(a answer) int {
	return decode[struct{ Segments int }](a.want(http.StatusOK)).Segments
}

// The segments of a sale can be changed until a minute before it begins.
func TestSegmentsCanBeChangedBeforeSale(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	admin, at := e.admin(), func(d time.Duration) string { return e.clock.now().Add(d).Format(time.RFC3339) }
	v := e.sale(9, with("segments", 4), with("begin_at", at(10*time.Minute)))
	assert.Equal(t, 4, segmentsOf(e.guest().get(v.path())))
	assert.Equal(t, 16, segmentsOf(admin.patch(v.adminPath(), map[string]any{"segments": 16})))
	assert.Equal(t, 0, segmentsOf(admin.patch(v.adminPath(), map[string]any{"segments": 1})), "absent: 1")
	admin.bad().patch(v.adminPath(), map[string]any{"segments": 17}).problem(http.StatusBadRequest, "invalid_request")
	admin.patch(v.adminPath(), map[string]any{"segments": 2, "begin_at": at(time.Minute)}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), map[string]any{"begin_at": at(time.Minute)}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]any{"segments": 2, "begin_at": at(time.Hour / 2)}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), map[string]any{"segments": 1}).want(http.StatusOK)
	normal := e.saleBody(0)
	delete(normal, "stock")
	delete(normal, "begin_at")
	delete(normal, "end_at")
	normal["segments"] = 2
	admin.bad().post("/api/v1/admin/vouchers", normal).problem(http.StatusBadRequest, "invalid_request")
}

// A sale of several segments has the answers of any other, from the first unit to the last and for returned ones.
func TestSaleOfSegments(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	v := e.sale(7, with("segments", 4))
	var orders []string
	for n := range 7 {
		buyer := e.buyer(n)
		orders = append(orders, buyer.queue(v))
		buyer.post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order")
		require.Equal(t, "queued", decode[orderView](buyer.get("/api/v1/orders/"+orders[n]).want(http.StatusOK)).Status)
	}
	e.buyer(7).post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
	e.work()
	e.checkInvariants()
	require.Zero(t, e.stock(v.ID))
	e.buyer(7).post(v.orders(), nil).problem(http.StatusConflict, "sold_out")

	e.buyer(0).post("/api/v1/orders/"+orders[0]+"/cancel", nil).want(http.StatusOK)
	e.admin().post(v.adminPath()+"/stock", map[string]any{"delta": 2, "reason": "more"}).want(http.StatusOK)
	e.admin().post(v.adminPath()+"/stock", map[string]any{"delta": -1, "reason": "less"}).want(http.StatusOK)
	e.seen(v)
	e.buyer(8).queue(v)
	e.deadLetter("poison") // and its unit is free again
	e.buyer(9).queue(v)
	e.buyer(0).queue(v)
	e.buyer(10).post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
	e.work()
	e.checkInvariants()
	require.Zero(t, e.stock(v.ID))

	e.rdb.FlushDB(t.Context())
	e.buyer(1).post("/api/v1/orders/"+orders[1]+"/cancel", nil).want(http.StatusOK)
	e.seen(v)
	e.buyer(1).queue(v)
	// Until the loss is over, the gate cannot know that no worker holds a lost admission of this buyer.
	e.buyer(11).post(v.orders(), nil).problem(http.StatusServiceUnavailable, "unavailable")
	metas, err := e.rdb.Keys(t.Context(), "seckill:*:"+v.ID+":meta").Result()
	require.NoError(t, err)
	require.Len(t, metas, 4)
	for _, meta := range metas {
		require.NoError(t, e.rdb.HIncrBy(t.Context(), meta, "lost", -15_000).Err())
	}
	e.buyer(11).post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
	id, err := strconv.ParseInt(v.ID, 10, 64)
	require.NoError(t, err)
	level, err := e.gate.Level(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 8, 1}, []int64{level.Stock, level.Held, level.Queued})
	found, err := e.gate.Inspect(t.Context(), id, 100)
	require.NoError(t, err)
	require.Len(t, found.Buyers, 8)
	require.Len(t, found.Queue, 1)
}
