package handler_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/test/env"
)

type stream struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
	retry string // the pause that the server gave, in milliseconds
}

type event struct {
	Kind, ID string
	Data     []byte
	Order    orderView // set in streams of orders
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
	s := &stream{t: t, lines: bufio.NewScanner(res.Body), close: func() { cancel(); _ = res.Body.Close() }}
	s.lines.Buffer(nil, 1<<20)
	t.Cleanup(s.close)
	return s, res
}

// next returns the next event, or nil at the end of the stream.
func (s *stream) next() *event {
	s.t.Helper()
	var e event
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "event":
			e.Kind = value
		case "id":
			e.ID = value
		case "retry":
			s.retry = value
		case "data":
			e.Data = []byte(value)
		case "":
			if e.Kind == "order" {
				require.NoError(s.t, json.Unmarshal(e.Data, &e.Order))
			}
			if e.Kind != "" {
				return &e
			}
		}
	}
	require.NoError(s.t, s.lines.Err())
	return nil
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
	require.True(t, s.lines.Scan())
	assert.Equal(t, ":", s.lines.Text(), "a comment that comes at once, even without an event")
	s.wantStatus("pending_payment", "2000000000")
	e.notify(e.noticeOf(p.Payment, p.Order, "succeeded")).want(http.StatusOK)
	s.wantStatus("paid", "3000000000")
	buyer.post(p.Order.path()+"/refund", nil).want(http.StatusOK)
	s.wantStatus("refunding", "4000000000")
	s.close() // the connection breaks
	again, _ := buyer.watch(t, p.Order, "4000000000")
	require.NoError(t, e.payments.RefundDue(t.Context()))
	again.wantStatus("refunded", "5000000000")
	assert.Nil(t, again.next(), "the stream ends in a final state")

	late, _ := buyer.watch(t, p.Order, "")
	late.wantStatus("refunded", "5000000000")
	assert.Nil(t, late.next())
	_, res = buyer.watch(t, p.Order, "5000000000")
	assert.Equal(t, http.StatusNoContent, res.StatusCode, "the status stops a browser from reconnecting")
}

func TestOrderStreamRefusals(t *testing.T) {
	e := start(t)
	buyer := e.buyer(1)
	o := buyer.place(e.sale(2))
	_, foreign := e.buyer(2).watch(t, o, "")
	assert.Equal(t, http.StatusNotFound, foreign.StatusCode, "the order of another user")
	for range 8 {
		_, res := buyer.watch(t, o, "")
		assert.Equal(t, http.StatusOK, res.StatusCode)
	}
	_, refused := buyer.watch(t, o, "")
	assert.Equal(t, http.StatusTooManyRequests, refused.StatusCode, "streams are limited per user")
	assert.Equal(t, 8, e.subscribers.Count())
}

// TestOrderStreamEndsWithClientOrServer also checks that no watcher remains.
func TestOrderStreamEndsWithClientOrServer(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(2), e.buyer(1)
	o := buyer.place(v)
	for range 5 {
		s, _ := buyer.watch(t, o, "")
		s.wantStatus("pending_payment", "2000000000")
		s.close()
	}
	require.Eventually(t, func() bool { return e.subscribers.Count() == 0 }, time.Minute, 10*time.Millisecond)
	s, _ := buyer.watch(t, o, "")
	s.wantStatus("pending_payment", "2000000000")
	e.subscribers.Close() // as when the process stops
	assert.Zero(t, e.subscribers.Count())
	assert.Nil(t, s.next())
	retry := env.Must(strconv.Atoi(s.retry))(t)
	assert.True(t, 500 <= retry && retry < 4500, "retry after %d ms", retry)
	_, res := buyer.watch(t, o, "")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
}

// advancing lets time pass in steps, after each of which the streams read their orders, until the returned function is called.
func (q *queueEnv) advancing(step time.Duration) func() {
	ctx, stop := context.WithCancel(q.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			q.clock.advance(step)
			q.subscribers.NotifyAll()
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() { stop(); running.Wait() }
}

// TestOrderStreamOfQueuedOrder: without a wake-up from the worker, the stream reports the committed order by polling.
// An order that Redis lost is reported as failed.
func TestOrderStreamOfQueuedOrder(t *testing.T) {
	q := startQueue(t)
	v, buyer := q.sale(2), q.buyer(1)
	queued := orderView{ID: buyer.queue(v)}
	s, _ := buyer.watch(t, queued, "")
	s.wantStatus("queued", "1999999999")
	q.work()
	s.wantStatus("pending_payment", "2000000000")

	lost := orderView{ID: q.buyer(2).queue(v)}
	s, _ = q.buyer(2).watch(t, lost, "")
	s.wantStatus("queued", "1999999999")
	require.NoError(t, q.rdb.FlushAll(t.Context()).Err())
	stop := q.advancing(10 * time.Second)
	s.wantStatus("failed", "5000000000")
	stop()
	assert.Nil(t, s.next())
}

// TestOrderStreamReportsQueuePosition: the stream of a queued order sends each new position, and a resumed stream the
// positions after Last-Event-ID.
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
		q.workOne()
	}
	s.wantStatus("pending_payment", "2000000000")
}

// TestMovesIncreaseProgress: the ids of the events of an order grow, until the order has ended.
func TestMovesIncreaseProgress(t *testing.T) {
	t.Parallel()
	for _, m := range domain.Moves() {
		if m == domain.MoveUndoRedeem {
			continue
		}
		assert.Less(t, m.From.Progress(), m.To.Progress(), m.Name)
	}
}

func (e *environment) runRooms() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx, slog.New(slog.DiscardHandler), e.rooms.Tasks()...) })
	e.t.Cleanup(func() { stop(); running.Wait() })
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
	token := env.Must(tokens.Access(auth.Identity{UserID: id, SessionID: session, Role: domain.RoleAdmin}, ttl))(r.t)
	return token
}

// shake gives all streams of a server a reason for an event. The order is paid by another session.
func (r *streamRig) shake(e *environment) {
	r.t.Helper()
	r.one.notify(r.one.noticeOf(r.payment, r.order, "succeeded")).want(http.StatusOK)
	for range 3 {
		e.subscribers.NotifyAll()
		e.saleSubscribers.NotifyAll()
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
	require.Eventually(t, func() bool { return r.one.subscribers.Count()+r.two.subscribers.Count() == 0 }, time.Minute, time.Millisecond)
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
		require.Equal(t, &event{Kind: "reauth", Data: []byte("{}")}, e)
		require.Nil(t, s.next(), kind)
	}
	fresh := r.one.as(r.tokenFor(session, time.Minute))
	resumed, _ := fresh.watch(t, r.order, "2000000000")
	r.shake(r.one)
	resumed.wantStatus("paid", "3000000000")
}

// TestSaleStreamEndsWithTheRole: an admin receives no further statistics after losing the role.
func TestSaleStreamEndsWithTheRole(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	s := r.open(r.one, r.one.login(r.phone).token)["stats"]
	r.one.exec("UPDATE users SET role = 'buyer' WHERE id = ?", r.userID)
	r.one.clock.advance(time.Second) // the age up to which a role is used
	r.wantSilence(r.one, map[string]*stream{"stats": s})
}
