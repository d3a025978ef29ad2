package handler_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// stream is an open event stream.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
	retry string // the pause that the server gave, in milliseconds
}

// event is one event of a stream.
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

// follow opens the stream at path.
func (c client) follow(t *testing.T, path, last string) (*stream, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	req := c.request(c.env.url, http.MethodGet, path, nil).WithContext(ctx)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := c.env.http.Do(req)
	require.NoError(t, err)
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
	t.Parallel()
	e := newEnv(t)
	v, buyer := e.sale(2), e.buyer(1)
	p := buyer.pay(buyer.place(v))
	s, res := buyer.watch(t, p.Order, "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
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

func TestOrderStreamEndsInFinalState(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.sale(2)
	one, two := e.buyer(1), e.buyer(2)
	cancelled, redeemed := one.place(v), two.paid(v).Order
	a, _ := one.watch(t, cancelled, "")
	b, _ := two.watch(t, redeemed, "")
	a.wantStatus("pending_payment", "2000000000")
	b.wantStatus("paid", "3000000000")
	one.post(cancelled.path()+"/cancel", nil).want(http.StatusOK)
	e.admin().post("/api/v1/admin/orders/"+redeemed.ID+"/redeem", nil).want(http.StatusOK)
	a.wantStatus("cancelled", "5000000000")
	b.wantStatus("redeemed", "5000000000")
	assert.Nil(t, a.next())
	assert.Nil(t, b.next())
}

func TestOrderStreamRefusals(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, buyer := e.sale(2), e.buyer(1)
	o := buyer.place(v)
	status := func(c client, o orderView) int {
		_, res := c.watch(t, o, "")
		return res.StatusCode
	}
	assert.Equal(t, http.StatusUnauthorized, status(e.guest(), o))
	assert.Equal(t, http.StatusNotFound, status(e.buyer(2), o), "the order of another user")
	assert.Equal(t, http.StatusNotFound, status(buyer, orderView{ID: "12345"}))
	assert.Equal(t, http.StatusBadRequest, status(buyer, orderView{ID: "x"}))
	for range 8 {
		assert.Equal(t, http.StatusOK, status(buyer, o))
	}
	assert.Equal(t, http.StatusTooManyRequests, status(buyer, o), "streams are limited per user")
	assert.Equal(t, 8, e.subscribers.Count())
}

// TestOrderStreamEndsWithClientOrServer also checks that no watcher remains.
func TestOrderStreamEndsWithClientOrServer(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
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
	retry, err := strconv.Atoi(s.retry)
	require.NoError(t, err)
	assert.True(t, 500 <= retry && retry < 4500, "retry after %d ms", retry)
	_, res := buyer.watch(t, o, "")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
}

// TestOrderStreamOfQueuedOrder: without a wake-up from the worker, the stream reports the committed order by polling.
// An order that Redis lost is reported as failed.
func TestOrderStreamOfQueuedOrder(t *testing.T) {
	t.Parallel()
	q := newQueueEnv(t)
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
	s.wantStatus("failed", "5000000000")
	assert.Nil(t, s.next())
}

// TestOrderStreamReportsQueuePosition: the stream of a queued order sends each new position, and a resumed stream the
// positions after Last-Event-ID.
func TestOrderStreamReportsQueuePosition(t *testing.T) {
	t.Parallel()
	q := newQueueEnv(t)
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

// TestFinalStatuses checks the statuses that end a stream, and that every move increases the progress.
func TestFinalStatuses(t *testing.T) {
	t.Parallel()
	for status, final := range map[domain.OrderStatus]bool{
		domain.OrderQueued: false, domain.OrderPendingPayment: false, domain.OrderPaid: false, domain.OrderRefunding: false,
		domain.OrderRedeemed: true, domain.OrderCancelled: true, domain.OrderRefunded: true, domain.OrderFailed: true,
	} {
		assert.Equal(t, final, status.Final(), status)
	}
	for _, m := range domain.Moves() {
		assert.Less(t, m.From.Progress(), m.To.Progress(), m.Name)
	}
}
