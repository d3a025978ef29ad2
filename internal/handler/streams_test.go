package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/salestats"
	"seckill/test/env"
)

type stream struct {
	t *testing.T
	*env.EventStream
	close func()
}

type event struct {
	env.Event
	Order orderView // set in streams of orders
}

// watch opens the stream of an order; last is the Last-Event-ID, if any.
func (c client) watch(t *testing.T, o orderView, last string) (*stream, *http.Response) {
	t.Helper()
	return c.follow(t, o.path()+"/events", last)
}

func (c client) follow(t *testing.T, path, last string) (*stream, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	req := c.request(c.env.url, http.MethodGet, path, nil).WithContext(ctx)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res := env.Must(c.env.http.Do(req))(t)
	s := &stream{t, env.NewEventStream(res.Body), func() { cancel(); _ = res.Body.Close() }}
	t.Cleanup(s.close)
	return s, res
}

// next returns the next event, or nil at the end of the stream.
func (s *stream) next() *event {
	s.t.Helper()
	sent, err := s.Next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	require.NoError(s.t, err)
	e := event{Event: sent}
	if e.Kind == "order" {
		require.NoError(s.t, json.Unmarshal(e.Data, &e.Order))
	}
	return &e
}

func (s *stream) wantStatus(status, id string) {
	s.t.Helper()
	e := s.next()
	require.NotNil(s.t, e, "the stream ended before %s", status)
	assert.Equal(s.t, "order", e.Kind)
	assert.Equal(s.t, status, e.Order.Status)
	assert.Equal(s.t, id, e.ID)
}

func TestOrderStream(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(2), e.buyer(1)
	p := buyer.pay(buyer.place(v))
	s, res := buyer.watch(t, p.Order, "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.True(t, s.Lines.Scan())
	assert.Equal(t, ":", s.Lines.Text(), "a comment that comes at once, even without an event")
	s.wantStatus("pending_payment", "2000000000")
	e.notify(e.noticeOf(p.Payment, p.Order, "succeeded")).want(http.StatusOK)
	s.wantStatus("paid", "3000000000")
	buyer.post(p.Order.path()+"/refund", nil).want(http.StatusOK)
	s.wantStatus("refunding", "4000000000")
	s.close() // the connection breaks
	again, _ := buyer.watch(t, p.Order, "4000000000")
	require.NoError(t, e.Payments.RefundDue(t.Context()))
	again.wantStatus("refunded", "5000000000")
	assert.Nil(t, again.next(), "the stream ends in a final state")

	late, _ := buyer.watch(t, p.Order, "")
	late.wantStatus("refunded", "5000000000")
	assert.Nil(t, late.next())
	_, res = buyer.watch(t, p.Order, "5000000000")
	assert.Equal(t, http.StatusNoContent, res.StatusCode, "the status stops a browser from reconnecting")
}

// TestOrderStreamEndsWithClientOrServer: streams are limited per user, and none remains.
func TestOrderStreamEndsWithClientOrServer(t *testing.T) {
	e := start(t)
	buyer := e.buyer(1)
	o := buyer.place(e.sale(2))
	_, foreign := e.buyer(2).watch(t, o, "")
	assert.Equal(t, http.StatusNotFound, foreign.StatusCode, "the order of another user")
	var streams [8]*stream
	for i := range streams {
		streams[i], _ = buyer.watch(t, o, "")
		streams[i].wantStatus("pending_payment", "2000000000")
	}
	_, refused := buyer.watch(t, o, "")
	assert.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	assert.Equal(t, 8, e.Subscribers.Count())
	for _, s := range streams {
		s.close()
	}
	require.Eventually(t, func() bool { return e.Subscribers.Count() == 0 }, time.Minute, 10*time.Millisecond)

	s, _ := buyer.watch(t, o, "")
	s.wantStatus("pending_payment", "2000000000")
	e.Subscribers.Close() // as when the process stops
	assert.Zero(t, e.Subscribers.Count())
	assert.Nil(t, s.next())
	retry := env.Must(strconv.Atoi(s.Retry))(t)
	assert.True(t, 500 <= retry && retry < 4500, "retry after %d ms", retry)
	_, res := buyer.watch(t, o, "")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
}

// TestOrderStreamOfLostOrder: an order that Redis lost is reported as failed.
func TestOrderStreamOfLostOrder(t *testing.T) {
	q := startQueue(t)
	buyer := q.buyer(1)
	s, _ := buyer.watch(t, orderView{ID: buyer.queue(q.sale(2))}, "")
	s.wantStatus("queued", "1999999999")
	require.NoError(t, q.rdb.FlushAll(t.Context()).Err())
	env.InBackground(t, func(ctx context.Context) { // time passes in steps, after each of which the streams read their orders
		for ctx.Err() == nil {
			q.clock.advance(10 * time.Second)
			q.Subscribers.NotifyAll()
			time.Sleep(10 * time.Millisecond)
		}
	})
	s.wantStatus("failed", "5000000000")
	assert.Nil(t, s.next())
}

// The stream of a queued order sends each new position, and a resumed stream the positions after Last-Event-ID.
func TestOrderStreamReportsQueuePosition(t *testing.T) {
	q := startQueue(t)
	v := q.sale(5)
	for n := range 3 {
		q.buyer(n + 1).queue(v)
	}
	last := q.buyer(4)
	o := orderView{ID: last.queue(v)}
	s, _ := last.watch(t, o, "")
	for ahead := int64(3); ahead >= 0; ahead-- {
		e := s.next()
		require.NotNil(t, e)
		require.Equal(t, "queued", e.Order.Status)
		require.Equal(t, ahead, *e.Order.Ahead)
		require.Equal(t, fmt.Sprint(1_999_999_999-ahead), e.ID)
		again, _ := last.watch(t, o, fmt.Sprint(1_999_999_998-ahead))
		require.Equal(t, e, again.next())
		again.close()
		q.commit(q.waiting()[0])
	}
	s.wantStatus("pending_payment", "2000000000")
}

func (e *environment) runRooms() {
	env.InBackground(e.t, func(ctx context.Context) { loop.Run(ctx, slog.New(slog.DiscardHandler), e.rooms.Tasks()...) })
}

// streamRig is a user with an order and a place in a waiting room, on two servers with one database.
type streamRig struct {
	t              *testing.T
	one, two       *environment
	phone          string
	sale, room     voucherView
	order          orderView
	payment        paymentView
	ticket, userID string
}

// newStreamRig returns a rig whose user is an admin by the database.
func newStreamRig(t *testing.T) *streamRig {
	r := &streamRig{t: t, one: newEnv(t), phone: "13800000007"}
	r.two = newEnv(t, func(s *setup) { s.store = r.one.store })
	for _, e := range []*environment{r.one, r.two} {
		e.runRooms()
	}
	r.one.login(r.phone)
	r.one.exec("UPDATE users SET role = 'admin' WHERE phone = ?", r.phone)
	c := r.one.login(r.phone)
	r.userID = c.login.User.ID
	r.sale = r.one.sale(5)
	r.room = r.one.roomSale(5, 5*time.Minute)
	p := c.pay(c.place(r.sale))
	r.order, r.payment = p.Order, p.Payment
	r.ticket = decode[struct{ Ticket string }](c.post(r.room.path()+"/entry", nil).want(http.StatusAccepted)).Ticket
	return r
}

func (r *streamRig) open(e *environment, token string) map[string]*stream {
	r.t.Helper()
	streams := r.connect(e, token)
	for kind, s := range streams {
		first := s.next()
		require.NotNil(r.t, first, kind)
		require.Equal(r.t, kind, first.Kind)
	}
	return streams
}

func (r *streamRig) connect(e *environment, token string) map[string]*stream {
	r.t.Helper()
	c, streams := e.as(token), map[string]*stream{}
	for kind, path := range map[string]string{
		"order": r.order.path() + "/events", "entry": r.room.path() + "/entry/events", "stats": r.sale.adminPath() + "/events",
	} {
		s, res := c.with("X-Entry-Ticket", r.ticket).follow(r.t, path, "")
		require.Equal(r.t, http.StatusOK, res.StatusCode, kind)
		streams[kind] = s
	}
	return streams
}

func (r *streamRig) tokenFor(session string, ttl time.Duration) string {
	r.t.Helper()
	tokens := env.Must(auth.NewTokens(domain.NewKeyring(secret), r.one.clock.now))(r.t)
	id := mustID(r.t, r.userID)
	return env.Must(tokens.Access(auth.Identity{UserID: id, SessionID: session, Role: domain.RoleAdmin}, ttl))(r.t)
}

// shake gives all streams of a server a reason for an event. The order is paid by another session.
func (r *streamRig) shake(e *environment) {
	r.t.Helper()
	r.one.notify(r.one.noticeOf(r.payment, r.order, "succeeded")).want(http.StatusOK)
	for range 3 {
		e.Subscribers.NotifyAll()
		e.SaleSubscribers.NotifyAll()
		time.Sleep(10 * time.Millisecond) // wake-ups are coalesced
	}
}

// wantSilence requires that the streams of a server end without an event from now on. Statistics are sent every second, so an
// event from before may not have been read yet.
func (r *streamRig) wantSilence(e *environment, streams map[string]*stream) {
	r.t.Helper()
	ended := time.Now()
	r.shake(e)
	for kind, s := range streams {
		for e := s.next(); e != nil; e = s.next() {
			require.Equal(r.t, "stats", kind, "%s after the end of the session: %s", e.Kind, e.Data)
			var stats struct{ At time.Time }
			require.NoError(r.t, json.Unmarshal(e.Data, &stats))
			require.False(r.t, stats.At.After(ended), "statistics of %s after %s", stats.At, ended)
		}
	}
}

// TestStreamsEndWithTheirSession: nothing is sent after the end of the session is known to the server. What ends a session is in
// TestLogoutEverywhere and TestCopiedRefreshCookieEndsSession.
func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	c := r.one.login(r.phone)
	here, there := r.open(r.one, c.token), r.open(r.two, c.token)
	other, _ := r.one.admin().follow(t, r.sale.adminPath()+"/events", "")
	require.NotNil(t, other.next())

	c.post("/api/v1/auth/logout", nil).want(http.StatusNoContent)
	r.wantSilence(r.one, here)
	require.NoError(t, r.two.revoked.Load(t.Context())) // as the poller does twice per second
	r.wantSilence(r.two, there)

	require.NotNil(t, other.next(), "the stream of another user")
	require.Eventually(t, func() bool { return r.one.Subscribers.Count()+r.two.Subscribers.Count() == 0 }, time.Minute, time.Millisecond)

	// The stream of a sale also ends with the role.
	stats := r.open(r.one, r.one.login(r.phone).token)["stats"]
	r.one.exec("UPDATE users SET role = 'buyer' WHERE id = ?", r.userID)
	r.one.clock.advance(time.Second) // the age up to which a role is used
	r.wantSilence(r.one, map[string]*stream{"stats": stats})
}

// TestStreamsEndWithTheirToken: the last event makes the client reconnect with a new token, and the stream resumes.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	session := auth.NewSessionID()
	for kind, s := range r.connect(r.one, r.tokenFor(session, time.Second)) {
		e := s.next()
		for e != nil && e.Kind == kind {
			e = s.next()
		}
		require.NotNil(t, e, kind)
		require.Equal(t, &event{Event: env.Event{Kind: "reauth", Data: []byte("{}")}}, e)
		require.Nil(t, s.next(), kind)
	}
	resumed, _ := r.one.as(r.tokenFor(session, time.Minute)).watch(t, r.order, "2000000000")
	r.shake(r.one)
	resumed.wantStatus("paid", "3000000000")
}

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
	return v, env.Must(strconv.ParseInt(e.ID, 10, 64))(s.t)
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
	require.EventuallyWithT(t, func(t *assert.CollectT) { // a report is no transaction
		s = decode[statsView](admin.get(v.adminPath() + "/stats").want(http.StatusOK))
		assert.Equal(t, []any{2, int64(2)}, []any{s.Orders["pending_payment"], s.Stock.Added})
		assert.Equal(t, map[string]int64{
			"ok": 3, "replayed": 1, "duplicate_order": 1 + int64(repeated), "invalid_request": 1, "unauthenticated": 1, "rate_limited": 1,
		}, s.Totals.Answers)

		var orders, refused int64
		for _, p := range s.Hour {
			orders += p.Orders
			refused += p.Refused
		}
		assert.Equal(t, []int64{3, 4 + int64(repeated)}, []int64{orders, refused}, "of the last hour")
	}, time.Minute, 50*time.Millisecond)
	assert.Equal(t, map[string]int64{"ok": 3}, s.Totals.Settled, "a replay is not another order")
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

// The first event has all seconds and the last hour, later events have new seconds only, and none is missing after a reconnect. An
// answer has what a first event has, unless the client declines.
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

	whole, _ := admin.follow(t, path, "")
	s, _ = whole.nextStats()
	assert.NotEmpty(t, s.Hour)
	s, _ = whole.nextStats()
	assert.Empty(t, s.Hour, "sent once")
	s = decode[statsView](admin.get(v.adminPath() + "/stats").want(http.StatusOK))
	assert.True(t, len(s.Seconds) > 0 && len(s.Hour) > 0)
	s = decode[statsView](admin.get(v.adminPath() + "/stats?hour=false").want(http.StatusOK))
	assert.Empty(t, s.Hour)
	assert.Equal(t, []salestats.Second{}, s.Seconds)

	e.SaleSubscribers.Close() // as when the process stops
	for ev := again.next(); ev != nil; ev = again.next() {
		require.Equal(t, "stats", ev.Kind)
	}
	assert.NotEmpty(t, again.Retry)
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
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096)) // full sooner
	env.Must(conn.Write([]byte("GET " + v.adminPath() + "/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + admin.token + "\r\n\r\n")))(t)
	require.Eventually(t, func() bool { return e.SaleSubscribers.Count() == 1 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		e.SaleSubscribers.NotifyAll() // thousands of events
		return e.SaleSubscribers.Count() == 0
	}, time.Minute, 100*time.Microsecond)
}

// TestFiguresOfSale: orders, revenue and conversion, and their curve. The orders of a sale can be worth more than an int64 only if a
// hundred million of them have the highest price. There is no answer then, rather than a wrong one.
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

		other := e.sale(9)
		e.buyer(1).paid(other)
		e.buyer(2).paid(other)
		admin.patch(other.adminPath(), map[string]string{"status": "off"}).want(http.StatusOK)
		e.exec("UPDATE voucher_orders SET amount = ?", int64(1)<<62)
		admin.get(other.adminPath()+"/refunds").problem(http.StatusInternalServerError, "internal")
		s = decode[statsView](admin.get(other.adminPath() + "/stats").want(http.StatusOK))
		require.EqualValues(t, 7, s.Stock.Database)
		require.Nil(t, s.Figures)
	})
}
