package handler_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/handler"
	"seckill/internal/reconcile"
	"seckill/internal/service"
	"seckill/internal/testenv"
)

// queueEnv is an env in the lane queue, on a Redis of its own. Its worker is the test.
type queueEnv struct {
	*env
	rdb       *redis.Client
	gate      testGate
	committer *service.Committer
}

// testGate is the gate as cmd/seckill gives it to the services.
type testGate struct{ *admission.Gate }

func (g testGate) Expect(orderID int64) service.Expectation { return g.Gate.Expect(orderID) }

func (g testGate) DeadLetters(ctx context.Context, before string, limit int) ([]service.DeadLetter, error) {
	found, err := g.Gate.DeadLetters(ctx, before, limit)
	letters := make([]service.DeadLetter, len(found))
	for i, l := range found {
		letters[i] = service.DeadLetter(l)
	}
	return letters, err
}

func (g testGate) DeadLetter(ctx context.Context, id string) (service.DeadLetter, error) {
	l, err := g.Gate.DeadLetter(ctx, id)
	return service.DeadLetter(l), err
}

func newQueueEnv(t *testing.T) *queueEnv {
	t.Helper()
	m := testenv.StartMiniredis(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	gate := testGate{admission.New(admission.Config{Redis: rdb, Instance: "test"})}
	ids := newIDs()
	q := &queueEnv{rdb: rdb, gate: gate}
	var db *faultyStore
	q.env = newEnv(t, func(s *setup) {
		s.ids = ids
		s.queue = func(store *faultyStore) (service.Lane, service.Queue) {
			db = store
			return service.NewQueueLane(gate, ids, store, nil), gate
		}
		s.change = func(cfg *handler.Config) {
			cfg.DeadLetters = &service.DeadLetters{Store: gate, Reader: q.state}
			cfg.Rush, cfg.LostAfter = &rusher{}, time.Second
			cfg.Reconciler = reconcile.New(reconcile.Config{
				Gate: gate, Store: db, Queue: true, Now: func() time.Time { return q.clock.now() }, Pause: time.Millisecond,
				OrderTime: func(int64) time.Time { return q.clock.now().Add(-time.Hour) }, // ids of these tests tell no time
			})
		}
	})
	m.SetTime(q.clock.now()) // the gate asks Redis whether a sale is open
	q.committer = &service.Committer{Orders: q.db, IDs: ids, Now: q.clock.now, PayTimeout: payTimeout}
	return q
}

func (q *queueEnv) state(ctx context.Context, voucherID int64, inFlight []int64) (service.GateState, error) {
	return q.store.GateState(ctx, voucherID, inFlight)
}

// waiting reads all streams.
func (q *queueEnv) waiting() []service.Parcel {
	q.t.Helper()
	var all []service.Parcel
	for _, stream := range admission.Streams() {
		messages, err := q.rdb.XRange(context.Background(), stream, "-", "+").Result()
		require.NoError(q.t, err)
		for _, m := range messages {
			p, err := q.gate.Parse(stream, m.ID, m.Values)
			require.NoError(q.t, err)
			all = append(all, p)
		}
	}
	return all
}

// work makes orders of everything that waits.
func (q *queueEnv) work() {
	q.t.Helper()
	for _, p := range q.waiting() {
		q.commit(p)
	}
}

// workOne makes orders of the entry that has waited longest.
func (q *queueEnv) workOne() {
	q.t.Helper()
	q.commit(q.waiting()[0])
}

func (q *queueEnv) commit(p service.Parcel) {
	q.t.Helper()
	errs := q.committer.Commit(context.Background(), p.Admissions)
	require.Equal(q.t, make([]error, len(errs)), errs)
	q.settle(p, service.End{})
}

// bury gives everything up that waits.
func (q *queueEnv) bury(reason string) {
	q.t.Helper()
	for _, p := range q.waiting() {
		p.Tries = 5
		q.settle(p, service.End{Dead: reason})
	}
}

// settle ends all of a parcel in one way.
func (q *queueEnv) settle(p service.Parcel, end service.End) {
	q.t.Helper()
	p.Ends = slices.Repeat([]service.End{end}, len(p.Admissions))
	require.NoError(q.t, q.gate.Settle(context.Background(), []service.Parcel{p}))
}

type queuedView struct {
	OrderID string `json:"order_id"`
	Status  string
}

// queue has one unit admitted, and returns the order's id.
func (c client) queue(v voucherView) string {
	c.t.Helper()
	return decode[queuedView](c.post(v.orders(), nil).want(http.StatusAccepted)).OrderID
}

func orderPath(id string) string { return "/api/v1/orders/" + id }

// TestQueuedOrder is the life of an order in the lane queue as its owner sees it.
func TestQueuedOrder(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	v, buyer := e.sale(2), e.buyer(1)
	a := buyer.post(v.orders(), nil).want(http.StatusAccepted)
	id := decode[queuedView](a).OrderID
	assert.Equal(t, map[string]any{"order_id": id, "status": "queued"}, decode[map[string]any](a))
	assert.Equal(t, orderPath(id), a.header.Get("Location"))

	shown := orderView{
		ID: id, VoucherID: v.ID, UserID: buyer.login.User.ID, Status: "queued", Amount: 8000,
		CreatedAt: "2026-11-11T12:00:00Z", ExpiresAt: "2026-11-11T12:15:00Z", Ahead: new(int64),
	}
	assert.Equal(t, shown, decode[orderView](buyer.get(orderPath(id)).want(http.StatusOK)))
	e.buyer(2).get(orderPath(id)).problem(http.StatusNotFound, "not_found")
	buyer.post(orderPath(id)+"/cancel", nil).problem(http.StatusConflict, "invalid_state")
	assert.Equal(t, id, buyer.post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order").OrderID)
	assert.EqualValues(t, 2, e.stock(v.ID), "nothing is committed")

	e.work()
	shown.Status, shown.Ahead = "pending_payment", nil
	assert.Equal(t, shown, decode[orderView](buyer.get(orderPath(id)).want(http.StatusOK)))
	assert.EqualValues(t, 1, e.stock(v.ID))
	buyer.post(orderPath(id)+"/cancel", nil).want(http.StatusOK)
	assert.NotEqual(t, id, buyer.queue(v), "the unit and the buyer are free again")
	e.checkBooks()
}

// TestFailedOrder says why there is no order, and what it can be told from.
func TestFailedOrder(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	v, buyer := e.sale(1), e.buyer(1)
	id := buyer.queue(v)
	e.bury("poison")
	body := decode[map[string]any](buyer.get(orderPath(id)).want(http.StatusOK))
	assert.Equal(t, "failed", body["status"])
	assert.Equal(t, "internal", body["reason"], "nothing of the cause")
	buyer.post(orderPath(id)+"/cancel", nil).problem(http.StatusConflict, "invalid_state")
	e.buyer(2).queue(v) // the unit is back
}

// TestQueuedOrdersInLists merges what waits, what failed and what is stored, from the newest to the oldest.
func TestQueuedOrdersInLists(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	buyer := e.buyer(1)
	var want []string // id and status
	for i := range 7 {
		id := buyer.queue(e.sale(1))
		status := "queued"
		switch i {
		case 0, 3:
			e.work()
			status = "pending_payment"
		case 2:
			e.bury("poison")
			status = "failed"
		}
		want = append([]string{id + " " + status}, want...)
	}
	// What waited when work or bury was called did not wait any more.
	want[len(want)-2] = strings.Replace(want[len(want)-2], "queued", "failed", 1)
	for _, limit := range []int{1, 3, 7, 50} {
		_, all := walk[orderView](buyer, "/api/v1/orders", limit)
		assert.Equal(t, want, statuses(all), "limit %d", limit)
	}
	for _, status := range []string{"queued", "failed", "pending_payment"} {
		var some []string
		for _, w := range want {
			if strings.HasSuffix(w, status) {
				some = append(some, w)
			}
		}
		_, all := walk[orderView](buyer, "/api/v1/orders?status="+status, 1)
		assert.Equal(t, some, statuses(all), status)
	}
	_, others := walk[orderView](e.buyer(2), "/api/v1/orders", 50)
	assert.Empty(t, others)
}

func statuses(orders []orderView) []string {
	list := make([]string, len(orders))
	for i, o := range orders {
		list[i] = o.ID + " " + o.Status
	}
	return list
}

// TestTicketOfStoredOrder: an order that is committed but not settled is shown once, as what it is.
func TestTicketOfStoredOrder(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	buyer := e.buyer(1)
	id := buyer.queue(e.sale(1))
	require.NoError(t, e.committer.Commit(t.Context(), e.waiting()[0].Admissions)[0])
	_, all := walk[orderView](buyer, "/api/v1/orders", 50)
	assert.Equal(t, []string{id + " pending_payment"}, statuses(all))
	_, all = walk[orderView](buyer, "/api/v1/orders?status=queued", 50)
	assert.Empty(t, all)
}

// waits is a lane that remembers how long buyers want to wait.
type waits struct {
	service.Lane
	last time.Duration
}

func (w *waits) Place(ctx context.Context, p service.Purchase) (service.Order, bool, error) {
	w.last = p.Wait
	return w.Lane.Place(ctx, p)
}

// TestPreferredWait reads Prefer as RFC 7240 has it, and ignores what it cannot read.
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	lane := &waits{}
	e := newEnv(t, func(s *setup) {
		s.lane = func(l service.Lane) service.Lane { lane.Lane = l; return lane }
	})
	v := e.sale(100)
	for i, tc := range []struct {
		headers []string
		want    time.Duration
	}{
		{nil, 0},
		{[]string{"wait=2"}, 2 * time.Second},
		{[]string{"wait=0"}, 0},
		{[]string{`wait="2"`}, 2 * time.Second},
		{[]string{"Wait = 2"}, 2 * time.Second},
		{[]string{"wait=2; why=because"}, 2 * time.Second},
		{[]string{"respond-async, wait=3"}, 3 * time.Second},
		{[]string{"respond-async", "wait=4"}, 4 * time.Second},
		{[]string{"wait=1, wait=2"}, time.Second},
		{[]string{"wait=1", "wait=2"}, time.Second},
		{[]string{"wait=100000"}, time.Minute},
		{[]string{"wait=99999999999999999999"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=1.5"}, 0},
		{[]string{"wait"}, 0},
		{[]string{"wait="}, 0},
		{[]string{"wait=soon"}, 0},
		{[]string{"awaits=2"}, 0},
		{[]string{",;=,"}, 0},
		{[]string{""}, 0},
	} {
		buyer := e.buyer(i)
		buyer.header = http.Header{"Prefer": tc.headers}
		lane.last = -1
		buyer.bad().post(v.orders(), nil).want(http.StatusCreated)
		assert.Equal(t, tc.want, lane.last, "%q", tc.headers)
	}
}

// TestWaitForOutcome: a buyer who waits hears of the order, or why there is none.
func TestWaitForOutcome(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	answered := func(n int, v voucherView, decide func()) answer {
		done := make(chan answer, 1)
		buyer := e.buyer(n).with("Prefer", "wait=3")
		go func() { done <- buyer.post(v.orders(), nil) }()
		require.Eventually(t, func() bool { return len(e.waiting()) == 1 }, time.Minute, time.Millisecond)
		decide()
		return <-done
	}
	v := e.sale(1)
	a := answered(1, v, e.work).want(http.StatusCreated)
	o := decode[orderView](a)
	assert.Equal(t, "pending_payment", o.Status)
	assert.Equal(t, o.path(), a.header.Get("Location"))
	answered(2, e.sale(1), func() {
		e.settle(e.waiting()[0], service.End{Failed: "sold_out"})
	}).problem(http.StatusConflict, "sold_out")
	answered(3, e.sale(1), func() { e.bury("poison") }).problem(http.StatusServiceUnavailable, "unavailable")
}

// TestQueueWithoutRedis: what only Redis knows is unavailable, and nothing else.
func TestQueueWithoutRedis(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	v, buyer := e.sale(2), e.buyer(1)
	id := buyer.queue(v)
	e.work()
	require.NoError(t, e.rdb.Close())
	e.buyer(2).post(v.orders(), nil).problem(http.StatusServiceUnavailable, "unavailable")
	buyer.get(orderPath(id)).want(http.StatusOK)
	buyer.get("/api/v1/orders?status=pending_payment").want(http.StatusOK)
	buyer.get("/api/v1/orders").problem(http.StatusServiceUnavailable, "unavailable")
	e.admin().get(lettersPath).problem(http.StatusServiceUnavailable, "unavailable")
	buyer.post(orderPath(id)+"/cancel", nil).want(http.StatusOK)
}
