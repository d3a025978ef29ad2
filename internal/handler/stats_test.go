package handler_test

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/ops/salestats"
	"seckill/test/env"
)

// statsView is the answer about a sale. Its room and its orders are compared as the client sees them.
type statsView struct {
	salestats.SaleStats

	Voucher voucherView    `json:"voucher"`
	Orders  map[string]int `json:"orders"`
	Room    map[string]any `json:"room"`
}

// nextStats returns the next event of a sale's stream, validated against the document, and its id.
func (s *stream) nextStats() (statsView, int64) {
	s.t.Helper()
	e := s.next()
	require.NotNil(s.t, e, "the stream ended")
	require.Equal(s.t, "stats", e.Kind)
	var value any
	require.NoError(s.t, json.Unmarshal(e.Data, &value))
	k := env.Must(theContract())(s.t)
	require.NoError(s.t, k.doc.Components.Schemas["SaleStats"].Value.VisitJSON(value, openapi3.MultiErrors()), string(e.Data))
	var v statsView
	require.NoError(s.t, json.Unmarshal(e.Data, &v))
	id := env.Must(strconv.ParseInt(e.ID, 10, 64))(s.t)
	return v, id
}

// TestStatsCountEveryAnswer: the totals count every answer to a buyer once, on both APIs, those of the rate limit as well.
func TestStatsCountEveryAnswer(t *testing.T) {
	e := start(t, limited)
	v, admin := e.sale(3), e.admin()
	ann, bob := e.buyer(1), e.buyer(2)
	keyed := ann.with("Idempotency-Key", "once")
	keyed.post(v.orders(), nil).want(http.StatusCreated)
	keyed.post(v.orders(), nil).want(http.StatusCreated)
	_, repeated := untilLimited(t, 200, func() answer { return ann.direct(http.MethodPost, v.orders(), nil) })
	cancelled := bob.place(v)
	bob.post(cancelled.path()+"/cancel", nil).want(http.StatusOK)
	p := e.pageOf("13800000003")
	p.post("/voucher-order/seckill/"+v.ID, nil).text()
	p.post("/voucher-order/seckill/"+v.ID, nil).fails("用户已经购买过一次了")
	bob.bad().with("Idempotency-Key", strings.Repeat("x", 300)).post(v.orders(), nil).want(http.StatusBadRequest)
	e.guest().bad().post(v.orders(), nil).want(http.StatusUnauthorized)
	admin.post(v.adminPath()+"/stock", map[string]any{"delta": 2, "reason": "more"}).want(http.StatusOK)

	var s statsView
	require.Eventually(t, func() bool {
		s = decode[statsView](admin.get(v.adminPath() + "/stats").want(http.StatusOK))
		return s.Totals.Answers["unauthenticated"] == 1 && s.Orders["pending_payment"] == 2 && s.Stock.Added == 2
	}, time.Minute, 50*time.Millisecond)
	assert.Equal(t, map[string]int64{
		"ok": 3, "replayed": 1, "duplicate_order": 1 + int64(repeated), "invalid_request": 1, "unauthenticated": 1, "rate_limited": 1,
	}, s.Totals.Answers)
	assert.Equal(t, map[string]int64{"ok": 3}, s.Totals.Settled, "a replay is not another order")
	var orders, refused int64
	for _, p := range s.Hour {
		orders += p.Orders
		refused += p.Refused
	}
	assert.Equal(t, []int64{3, 4 + int64(repeated)}, []int64{orders, refused}, "of the last hour")
	assert.Positive(t, s.Totals.P50)
	assert.Equal(t, []any{"lock", 1, v.ID}, []any{s.Lane, s.Instances, s.Voucher.ID})
	assert.Equal(t, salestats.Stock{Initial: 3, Added: 2, Database: 3}, s.Stock)
	assert.True(t, s.Queue == nil && s.Room == nil, "this sale has none of them")
	assert.Equal(t, 1, s.Orders["cancelled"])
	var held []string
	for _, i := range s.Invariants {
		if i.OK != nil && *i.OK {
			held = append(held, i.ID)
		}
	}
	assert.Equal(t, []string{"I1", "I2", "I3", "I5"}, held)

	normal := e.normal()
	admin.get(normal.adminPath()+"/stats").problem(http.StatusConflict, "invalid_state")
	admin.get(normal.adminPath()+"/events").problem(http.StatusConflict, "invalid_state")
}

// TestHourOfStats: the first event of a stream has the last hour, and an answer has it unless the client declines.
func TestHourOfStats(t *testing.T) {
	e := start(t)
	v, admin := e.sale(3), e.admin()
	e.buyer(1).place(v)

	stream, _ := admin.follow(t, v.adminPath()+"/events", "")
	event, _ := stream.nextStats()
	for len(event.Seconds) == 0 { // no second is over yet
		event, _ = stream.nextStats()
	}
	assert.NotEmpty(t, event.Hour)
	assert.NotEmpty(t, decode[statsView](admin.get(v.adminPath()+"/stats").want(http.StatusOK)).Seconds)

	short := decode[statsView](admin.get(v.adminPath() + "/stats?hour=false").want(http.StatusOK))
	assert.Empty(t, short.Hour)
	assert.Equal(t, []salestats.Second{}, short.Seconds)
	event, _ = stream.nextStats()
	assert.Empty(t, event.Hour, "sent once")
}

// TestStatsOfRoom: the figures of a waiting room, which package entry counts, in the answer and in the stream.
func TestStatsOfRoom(t *testing.T) {
	e := start(t)
	e.runRooms()
	admin := e.admin()
	v := e.roomSale(3, 5*time.Minute)
	want := map[string]any{
		"lobby": 1.0, "waiting": 0.0, "present": 1.0, "admitted": 0.0, "outstanding": 0.0, "used": 0.0, "left": 0.0, "rate": 100.0, "paused": true,
	}
	e.buyer(1).post(v.path()+"/entry", nil).want(http.StatusAccepted)
	admin.post(v.adminPath()+"/room", map[string]any{"paused": true}).want(http.StatusOK)
	require.Eventually(t, func() bool {
		return assert.ObjectsAreEqual(want, decode[statsView](admin.get(v.adminPath()+"/stats").want(http.StatusOK)).Room)
	}, time.Minute, 50*time.Millisecond)

	watch, _ := admin.follow(t, v.adminPath()+"/events", "")
	event, _ := watch.nextStats()
	for event.Room["paused"] == false { // the sale as of the last second
		event, _ = watch.nextStats()
	}
	require.Equal(t, want, event.Room)
}

// TestSaleStream: the first event has all seconds, later events have new seconds only, and none is missing after a
// reconnect.
func TestSaleStream(t *testing.T) {
	e := start(t)
	v, admin := e.sale(50), e.admin()
	path := v.adminPath() + "/events"
	watch, res := admin.follow(t, path, "")
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	first, last := watch.nextStats()
	assert.Empty(t, first.Totals.Answers)
	seen, orders, withStock := map[time.Time]bool{}, 0, 0
	for n := 1; orders < 3; n++ {
		if n <= 3 {
			e.buyer(n).place(v)
		}
		s, id := watch.nextStats()
		require.Greater(t, id, last)
		last = id
		for _, second := range s.Seconds {
			require.False(t, seen[second.At], "a second is sent once")
			seen[second.At] = true
			orders += int(second.Settled["ok"])
			if second.Stock != nil {
				withStock++
			}
		}
		if orders == 3 {
			assert.EqualValues(t, 3, s.Totals.Answers["ok"])
		}
	}
	require.Positive(t, withStock, "the stock is read while a stream is open")
	watch.close()
	e.buyer(4).place(v) // no stream is open
	again, _ := admin.follow(t, path, strconv.FormatInt(last, 10))
	var sum int64
	var s statsView
	for sum < 4 {
		s, _ = again.nextStats()
		for _, second := range s.Seconds {
			sum += second.Answers["ok"]
		}
	}
	assert.EqualValues(t, 4, s.Totals.Answers["ok"])

	e.saleSubscribers.Close() // as when the process stops
	for ev := again.next(); ev != nil; ev = again.next() {
		require.Equal(t, "stats", ev.Kind)
	}
	assert.NotEmpty(t, again.retry)
	_, res = admin.follow(t, path, "")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
}

// TestSlowStreamClientIsDisconnected: a client that does not read is disconnected when the socket buffers are full.
func TestSlowStreamClientIsDisconnected(t *testing.T) {
	env.Full(t)
	e := start(t)
	v, admin := e.sale(5), e.admin()
	conn := env.Must(new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.url, "http://")))(t)
	defer func() { _ = conn.Close() }()
	env.Must(conn.Write([]byte("GET " + v.adminPath() + "/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + admin.token + "\r\n\r\n")))(t)
	require.Eventually(t, func() bool { return e.saleSubscribers.Count() == 1 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		e.saleSubscribers.NotifyAll() // thousands of events
		return e.saleSubscribers.Count() == 0
	}, time.Minute, 100*time.Microsecond)
}

// TestFiguresOfSale: orders, revenue and conversion, and their curve, which the stream leaves out.
func TestFiguresOfSale(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, admin, began := e.sale(9), e.admin(), e.clock.now()
		e.buyer(1).paid(v)
		e.clock.advance(10 * time.Minute)
		e.buyer(2).paid(v)
		refunded := e.buyer(3).paid(v).Order
		e.buyer(3).post(refunded.path()+"/refund", nil).want(http.StatusOK)
		e.buyer(4).place(v)
		var s statsView
		require.Eventually(t, func() bool {
			s = decode[statsView](admin.get(v.adminPath() + "/stats").want(http.StatusOK))
			return s.Figures != nil && s.Figures.Orders == 4
		}, time.Minute, 50*time.Millisecond)
		require.Equal(t, &salestats.Figures{
			Orders: 4, Paid: 3, Unpaid: 1, Refunded: 1, Revenue: 16000, RefundedAmount: 8000, Conversion: 0.75,
			Curve: []salestats.Sold{{At: began, Orders: 1, Revenue: 8000}, {At: began.Add(10 * time.Minute), Orders: 3, Revenue: 8000}},
		}, s.Figures)
	})
}

// TestSumsBeyondInt64: the orders of a sale can be worth more than an int64 only if a hundred million of them have the highest
// price. There is no answer then, rather than a wrong one.
func TestSumsBeyondInt64(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, admin := e.sale(9), e.admin()
		for n := range 2 {
			e.buyer(n).paid(v)
		}
		admin.patch(v.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
		e.exec("UPDATE voucher_orders SET amount = ?", int64(1)<<62)
		admin.get(v.adminPath()+"/refunds").problem(http.StatusInternalServerError, "internal")
		s := decode[statsView](admin.get(v.adminPath() + "/stats").want(http.StatusOK))
		require.EqualValues(t, 7, s.Stock.Database)
		require.Nil(t, s.Figures)
	})
}
