package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/ops/alerts"
	"seckill/internal/ops/reconcile"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/lane"
	"seckill/internal/service"
	"seckill/test/env"
	"seckill/test/env/servers"
)

type admissionView struct {
	State, Pass string
	ExpiresAt   string `json:"expires_at"`
}

func (c client) withPass(v voucherView) client {
	c.t.Helper()
	a := decode[admissionView](c.post(v.path()+"/entry", nil).want(http.StatusOK))
	require.Equal(c.t, "admitted", a.State)
	require.NotEmpty(c.t, a.Pass)
	return c.with("X-Entry-Pass", a.Pass)
}

func (e *environment) passSale(stock int, change ...func(map[string]any)) voucherView {
	e.t.Helper()
	return e.sale(stock, append(change, func(b map[string]any) { b["entry"] = map[string]any{"mode": "pass", "pass_ttl": 20} })...)
}

// TestPurchaseNeedsPass: package entry has more passes that are refused.
func TestPurchaseNeedsPass(t *testing.T) {
	e := start(t)
	v, buyer := e.passSale(9), e.buyer(1)
	for name, c := range map[string]client{
		"no pass":         buyer,
		"another buyer's": buyer.with("X-Entry-Pass", e.buyer(2).withPass(v).header.Get("X-Entry-Pass")),
	} {
		p := c.post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
		assert.Equal(t, "An entry pass is required", p.Title, name)
		c.key(name).post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
	}
	assert.EqualValues(t, 9, e.stock(v.ID))
	e.pageOf("13800000001").post("/voucher-order/seckill/"+v.ID, nil).fails("该秒杀需要入场凭证，请在秒杀商城页面抢购")
	room := e.roomSale(9, -time.Hour)
	e.pageOf("13800000001").post("/voucher-order/seckill/"+room.ID, nil).fails("该秒杀需要入场凭证，请在秒杀商城页面抢购")

	buyer.withPass(v).place(v)
	buyer.withPass(v).post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order")
}

// TestRevokedPasses: a repeated request returns its order even if its pass was revoked or has expired. Another request does not.
func TestRevokedPasses(t *testing.T) {
	e := start(t)
	v, open, admin := e.passSale(9), e.sale(9), e.admin()
	buyer, early := e.buyer(1).withPass(v), e.buyer(2).withPass(v)
	order := early.key("k").post(v.orders(), nil).want(http.StatusCreated)
	revoke := func(c client, v voucherView) answer {
		return c.post(v.adminPath()+"/room", map[string]any{"revoke": true})
	}
	e.clock.advance(time.Second)
	first := revoke(admin.key("k"), v).want(http.StatusOK)
	buyer.key("k").post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
	early.key("k").post(v.orders(), nil).same(order)
	fresh := buyer.withPass(v)
	revoke(admin.key("k"), v).same(first) // a repetition does not revoke passes that were issued since
	fresh.key("k").place(v)               // the refusal is not stored under the key

	e.clock.advance(time.Minute)
	early.key("k").post(v.orders(), nil).same(order)
	early.key("l").post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
	admin = e.admin()

	revoke(admin, open).problem(http.StatusConflict, "invalid_state")
	admin.post(v.adminPath()+"/room", map[string]any{"paused": true}).problem(http.StatusConflict, "invalid_state")
	for body, field := range map[string]string{`{}`: "revoke", `{"revoke":false}`: "revoke", `{"rate":0}`: "rate", `{"open":true}`: "open"} {
		admin.refusedRequest("POST", v.adminPath()+"/room", body, field)
	}
	log := admin.audit("voucher_id=" + v.ID)
	assert.Equal(t, "revoke_passes", log[0].Action)
	assert.Equal(t, "entry_epoch: 0 -> 1", log[0].Detail)
	assert.Len(t, log, 2)
}

func TestEntryAnswers(t *testing.T) {
	e := start(t)
	now, buyer := e.clock.now(), e.buyer(1)
	later := e.passSale(9, func(b map[string]any) { b["begin_at"] = now.Add(time.Minute).Format(time.RFC3339) })
	soldOut, open := e.passSale(0), e.sale(9)
	enter := func(v voucherView) answer { return buyer.post(v.path()+"/entry", nil) }

	enter(later).problem(http.StatusConflict, "sale_not_started")
	buyer.post(later.orders(), nil).problem(http.StatusConflict, "sale_not_started")
	enter(soldOut).problem(http.StatusConflict, "sold_out")
	buyer.post(soldOut.orders(), nil).problem(http.StatusConflict, "sold_out")
	enter(e.normal()).problem(http.StatusConflict, "invalid_state")
	assert.JSONEq(t, `{"state":"admitted"}`, string(enter(open).want(http.StatusOK).body))
	buyer.place(open)
	buyer.refusedRequest("POST", later.path()+"/entry", `{"solutions":"x"}`, "solutions")

	e.clock.advance(time.Minute)
	got := decode[admissionView](enter(later).want(http.StatusOK))
	assert.Equal(t, e.clock.now().Add(20*time.Second).Format(time.RFC3339Nano), got.ExpiresAt)
	e.clock.advance(2 * time.Hour)
	e.buyer(1).post(later.path()+"/entry", nil).problem(http.StatusConflict, "sale_ended")
}

// A buyer solves a challenge before the start and enters with it after the start, once. Package entry has the cases.
func TestEntryWithChallenge(t *testing.T) {
	env.Full(t)
	e := start(t)
	begin := e.clock.now().Add(time.Minute)
	v := e.sale(9, with("entry", map[string]any{"mode": "pass", "challenge": "on"}), with("begin_at", begin))
	buyer := e.buyer(1)
	enter := func(body any) answer { return buyer.post(v.path()+"/entry", body) }
	demanded := func(a answer, detail string) {
		require.Equal(t, "this sale needs a solved challenge: "+detail, a.problem(http.StatusForbidden, "challenge_required").Detail)
	}

	a := enter(nil)
	demanded(a, "the request has no solution")
	text := env.Must(env.SolveChallenge(decode[struct{ Challenge json.RawMessage }](a).Challenge))(t)
	solution := map[string]any{"solution": text}
	enter(solution).problem(http.StatusConflict, "sale_not_started")
	e.clock.advance(time.Minute)
	buyer.with("X-Entry-Pass", decode[admissionView](enter(solution).want(http.StatusOK)).Pass).place(v)
	demanded(enter(solution), "the solution was used before")
}

// The entry of a sale is stored and returned. TestEntryChange of package domain has the changes.
func TestEntryOfVoucher(t *testing.T) {
	e := start(t)
	type view struct{ Entry map[string]any }
	admin, v, buyer := e.admin(), e.sale(9), e.buyer(1)
	check := func(want map[string]any, change map[string]any) {
		assert.Equal(t, want, decode[view](admin.patch(v.adminPath(), map[string]any{"entry": change}).want(http.StatusOK)).Entry)
		assert.Equal(t, want, decode[view](e.guest().get(v.path()).want(http.StatusOK)).Entry) // purchases see it now
	}
	pass := map[string]any{"mode": "pass", "pass_ttl": 60.0}
	check(pass, pass)
	buyer.post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
	check(map[string]any{"mode": "pass", "pass_ttl": 60.0, "challenge": "on"}, map[string]any{"mode": "pass", "challenge": "on"})
	open := map[string]any{"mode": "open"}
	check(open, open)
	buyer.place(v)
	log := admin.audit("voucher_id=" + v.ID)
	assert.Equal(t, "entry: open -> pass, passes for 1m0s", log[len(log)-2].Detail)

	for body, field := range map[string]string{ // package domain has the values that are out of range
		`{}`: "entry.mode", `{"mode":1}`: "entry.mode", `{"mode":"pass","pass_ttl":"5"}`: "entry.pass_ttl",
		`{"mode":"room","paused":true}`: "paused", `"pass"`: "entry",
	} {
		admin.refusedRequest("PATCH", v.adminPath(), fmt.Sprintf(`{"entry":%s}`, body), field)
	}
}

// roomSale publishes a sale with a waiting room, which begins after a time, by the clock of the database.
func (e *environment) roomSale(stock int, after time.Duration, change ...func(map[string]any)) voucherView {
	e.t.Helper()
	return e.sale(stock, append(change, func(b map[string]any) {
		begin := time.Now().Add(after)
		b["begin_at"] = begin.Format(time.RFC3339Nano)
		b["end_at"] = begin.Add(2 * time.Hour).Format(time.RFC3339Nano)
		b["entry"] = map[string]any{"mode": "room"}
	})...)
}

// admitted returns the client with the pass that the room of the voucher gives.
func (c client) admitted(v voucherView) client {
	c.t.Helper()
	var a admissionView
	require.Eventually(c.t, func() bool {
		a = decode[admissionView](c.post(v.path()+"/entry", nil))
		return a.Pass != ""
	}, time.Minute, 50*time.Millisecond)
	return c.with("X-Entry-Pass", a.Pass)
}

// A room is drawn at the start of its sale, and serves no later start. Package domain has the cases.
func TestDrawnRoomServesNoLaterStart(t *testing.T) {
	e := start(t)
	e.runRooms()
	admin := e.admin()
	at := func(after time.Duration) string { return time.Now().Add(after).Format(time.RFC3339Nano) }
	v := e.roomSale(5, 5*time.Minute)
	e.buyer(1).post(v.path()+"/entry", nil).want(http.StatusAccepted)
	admin.patch(v.adminPath(), map[string]any{"begin_at": at(6 * time.Minute)}).want(http.StatusOK)

	admin.patch(v.adminPath(), map[string]any{"begin_at": at(-time.Minute)}).want(http.StatusOK)
	e.buyer(1).admitted(v)
	p := admin.patch(v.adminPath(), map[string]any{"begin_at": at(time.Minute)}).problem(http.StatusConflict, "invalid_state")
	require.Contains(t, p.Detail, "create a new sale")
	admin.patch(v.adminPath(), map[string]any{"entry": map[string]any{"mode": "open"}, "begin_at": at(time.Minute)}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]any{"entry": map[string]any{"mode": "room"}}).problem(http.StatusConflict, "invalid_state")
}

// What an operator does to a sale costs no admitted buyer the turn. Source: intechnicauk.wordpress.com/tag/ticketing.
func TestOperatorKeepsTurns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string // after that of the sale
		change map[string]any
		status int
	}{
		"pause":          {"/room", map[string]any{"paused": true, "message": "The kitchen is on fire."}, http.StatusOK},
		"slower":         {"/room", map[string]any{"rate": 1}, http.StatusOK},
		"more units":     {"/stock", map[string]any{"delta": 3, "reason": "more"}, http.StatusOK},
		"later start":    {"", map[string]any{"begin_at": time.Now().Add(10 * time.Minute).UTC()}, http.StatusConflict},
		"later end":      {"", map[string]any{"end_at": time.Now().Add(10 * time.Hour).UTC()}, http.StatusOK},
		"shorter passes": {"", map[string]any{"entry": map[string]any{"mode": "room", "pass_ttl": 1}}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t)
			e.runRooms()
			v := e.roomSale(1, -time.Minute)
			buyer := e.buyer(1).admitted(v)
			if c.path == "" {
				e.admin().patch(v.adminPath(), c.change).want(c.status)
			} else {
				e.admin().post(v.adminPath()+c.path, c.change).want(c.status)
			}
			buyer.place(v)
		})
	}
}

// queueEnv is an environment in lane queue with a separate Redis. The test acts as the worker.
type queueEnv struct {
	*environment
	rdb       env.RedisClient
	gate      *admission.Gate
	committer *lane.Committer
}

func startQueue(t *testing.T, options ...option) *queueEnv {
	t.Helper()
	t.Parallel()
	return newQueueEnv(t, options...)
}

func newQueueEnv(t *testing.T, options ...option) *queueEnv {
	t.Helper()
	m := env.StartMiniredis(t)
	rdb := servers.NewRedisClient(t, m.Addr(), 0)
	var store *faultyDB
	gate := admission.New(admission.Config{
		Redis: rdb, Segments: func(ctx context.Context, voucherID int64) (int, error) {
			v, err := store.Voucher(ctx, voucherID)
			if err != nil || v.Sale == nil {
				return 1, nil //nolint:nilerr // the tests of the gate's own errors need no segments
			}
			return v.Sale.Segments, nil
		},
	})
	ids := newIDs()
	q := &queueEnv{rdb: rdb, gate: gate}
	q.environment = newEnv(t, append(options, func(s *setup) {
		s.ids = ids
		s.queue = func(faulty *faultyDB) (service.Lane, service.ReservationStore) {
			store = faulty
			return patientLane{lane.NewQueue(gate, ids, faulty, nil)}, gate
		}
		s.change = func(cfg *handler.Config) {
			cfg.DeadLetters = &service.DeadLetters{Store: gate, Log: store, Now: func() time.Time { return q.clock.now() }}
			cfg.Rush = &fakeRusher{}
			cfg.Reconciler = reconcile.New(reconcile.Config{
				Gate: gate, Store: store, Queue: true, Now: func() time.Time { return q.clock.now() }, Pause: time.Millisecond, Every: 20 * time.Millisecond,
				OrderTime: func(int64) time.Time { return q.clock.now().Add(-time.Hour) }, // the ids of these tests contain no time
			})
			cfg.Alerts = alerts.Collector{Reconciler: cfg.Reconciler, Lag: gate.Lag, Failures: store}.Read
		}
	})...)
	m.SetTime(q.clock.now()) // the gate checks the window of a sale by the clock of Redis
	q.committer = &lane.Committer{Orders: q.store, IDs: ids, Now: q.clock.now, PayTimeout: payTimeout}
	return q
}

func (q *queueEnv) waiting() []domain.StreamEntry {
	q.t.Helper()
	var all []domain.StreamEntry
	for _, stream := range admission.Streams() {
		messages := env.Must(q.rdb.XRange(context.Background(), stream, "-", "+").Result())(q.t)
		for _, m := range messages {
			all = append(all, env.Must(q.gate.Parse(stream, m.ID, m.Values))(q.t))
		}
	}
	return all
}

func (q *queueEnv) work() {
	q.t.Helper()
	for _, p := range q.waiting() {
		q.commit(p)
	}
}

// commit commits an entry as a worker does that has asked the gate, which may have been loaded since the admission.
func (q *queueEnv) commit(p domain.StreamEntry) {
	q.t.Helper()
	generation := env.Must(q.gate.Confirm(context.Background(), p))(q.t)
	for i := range p.Admissions {
		p.Admissions[i].Generation = generation
	}
	errs := q.committer.Commit(context.Background(), p.Admissions)
	require.Equal(q.t, make([]error, len(errs)), errs)
	q.settle(p, domain.End{})
}

func (q *queueEnv) deadLetter(reason string) {
	q.t.Helper()
	for _, p := range q.waiting() {
		p.Tries = 5
		q.settle(p, domain.End{Dead: reason})
	}
}

func (q *queueEnv) settle(p domain.StreamEntry, end domain.End) {
	q.t.Helper()
	p.Ends = slices.Repeat([]domain.End{end}, len(p.Admissions))
	require.NoError(q.t, q.gate.Settle(context.Background(), []domain.StreamEntry{p}))
}

type queuedView struct {
	OrderID string `json:"order_id"`
	Status  string
}

func (c client) queue(v voucherView) string {
	c.t.Helper()
	return decode[queuedView](c.post(v.orders(), nil).want(http.StatusAccepted)).OrderID
}

func orderPath(id string) string { return "/api/v1/orders/" + id }

func TestQueuedOrder(t *testing.T) {
	e := startQueue(t)
	v, buyer := e.sale(2), e.buyer(1)
	a := buyer.post(v.orders(), nil).want(http.StatusAccepted)
	id := decode[queuedView](a).OrderID
	assert.Equal(t, map[string]any{"id": id, "order_id": id, "status": "queued"}, decode[map[string]any](a))
	assert.Equal(t, orderPath(id), a.header.Get("Location"))

	shown := orderView{
		ID: id, VoucherID: v.ID, UserID: buyer.login.User.ID, Status: "queued", Amount: 8000,
		CreatedAt: "2026-11-11T12:00:00Z", ExpiresAt: "2026-11-11T12:15:00Z", Ahead: new(int64),
	}
	assert.Equal(t, shown, decode[orderView](buyer.get(orderPath(id)).want(http.StatusOK)))
	e.buyer(2).get(orderPath(id)).problem(http.StatusNotFound, "not_found")
	for _, move := range []string{"/cancel", "/pay", "/refund"} {
		buyer.post(orderPath(id)+move, nil).problem(http.StatusConflict, "invalid_state")
		e.buyer(2).post(orderPath(id)+move, nil).problem(http.StatusNotFound, "not_found")
	}
	assert.Equal(t, id, buyer.post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order").OrderID)
	assert.EqualValues(t, 2, e.stock(v.ID), "nothing is committed")

	e.work()
	shown.Status, shown.Ahead = "pending_payment", nil
	assert.Equal(t, shown, decode[orderView](buyer.get(orderPath(id)).want(http.StatusOK)))
	assert.EqualValues(t, 1, e.stock(v.ID))
	buyer.post(orderPath(id)+"/cancel", nil).want(http.StatusOK)
	assert.NotEqual(t, id, buyer.queue(v), "the unit is for sale again, and the user can buy again")
}

// TestQueuedOrdersInLists: lists merge queued, failed and committed orders, newest first.
func TestQueuedOrdersInLists(t *testing.T) {
	e := startQueue(t)
	buyer := e.buyer(1)
	var want []string // id and status
	for _, status := range []string{"pending_payment", "failed", "failed", "cancelled", "queued", "queued"} {
		id := buyer.queue(e.sale(1))
		want = slices.Insert(want, 0, id+" "+status)
		switch status {
		case "pending_payment":
			e.work()
		case "cancelled":
			e.work()
			buyer.post(orderPath(id)+"/cancel", nil).want(http.StatusOK)
		case "failed":
			e.deadLetter("poison")
		}
	}
	for _, limit := range []int{1, 3, 6, 50} {
		_, all := walk[orderView](buyer, "/api/v1/orders", limit)
		assert.Equal(t, want, statuses(all), "limit %d", limit)
	}

	queries := 0
	e.store.fail(func() error { queries++; return nil })
	buyer.get("/api/v1/orders").want(http.StatusOK)
	e.store.fail(nil)
	assert.LessOrEqual(t, queries, 3, "no query for each ticket")

	for status, some := range map[string][]string{
		"queued": want[:2], "cancelled": want[2:3], "failed": want[3:5], "pending_payment": want[5:],
	} {
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

// TestWaitForOutcome: a purchase with Prefer: wait returns the order or the error.
func TestWaitForOutcome(t *testing.T) {
	e := startQueue(t)
	answered := func(n int, v voucherView, decide func()) answer {
		done := make(chan answer, 1)
		buyer := e.buyer(n).with("Prefer", "wait=60")
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
		e.settle(e.waiting()[0], domain.End{Failed: "sold_out"})
	}).problem(http.StatusConflict, "sold_out")
	answered(3, e.sale(1), func() { e.deadLetter("poison") }).problem(http.StatusServiceUnavailable, "unavailable")
}

// TestRedisOutageInLaneQueue: only requests that need data from Redis fail.
func TestRedisOutageInLaneQueue(t *testing.T) {
	e := startQueue(t)
	v, buyer := e.sale(2), e.buyer(1)
	id := buyer.queue(v)
	e.work()
	require.NoError(t, e.rdb.Close())
	e.buyer(2).post(v.orders(), nil).problem(http.StatusServiceUnavailable, "unavailable")
	buyer.get(orderPath(id)).want(http.StatusOK)
	buyer.get("/api/v1/orders?status=pending_payment").want(http.StatusOK)
	buyer.get("/api/v1/orders").problem(http.StatusServiceUnavailable, "unavailable")
	e.admin().get(deadLettersPath).problem(http.StatusServiceUnavailable, "unavailable")
	buyer.post(orderPath(id)+"/cancel", nil).want(http.StatusOK)
}

// Redis has lost the gate of a sale that is sold out, and nothing loads it again. The holder of an order is answered from the
// database.
func TestHolderAfterLossOfTheGate(t *testing.T) {
	e := startQueue(t)
	v := e.sale(1)
	buyer, now := e.buyer(1), e.clock.now()
	userID := mustID(t, buyer.login.User.ID)
	placed := e.store.PlaceOrders(t.Context(), []domain.NewOrder{{Limit: 1, Order: domain.Order{ // by another server
		ID: 4711, UserID: userID, VoucherID: v.number(), Status: domain.OrderPendingPayment, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
	}}})
	require.NoError(t, placed[0].Err)
	e.clock.advance(2 * time.Second)
	e.seen(v)
	buyer.post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order")
	e.buyer(2).post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
}

func segmentsOf(a answer) int {
	return decode[struct{ Segments int }](a.want(http.StatusOK)).Segments
}

// The segments of a sale can be changed until a minute before it begins.
func TestSegmentsCanBeChangedBeforeSale(t *testing.T) {
	e := startQueue(t)
	admin, at := e.admin(), func(d time.Duration) string { return e.clock.now().Add(d).Format(time.RFC3339) }
	v := e.sale(9, with("segments", 4), with("begin_at", at(10*time.Minute)))
	assert.Equal(t, 4, segmentsOf(e.guest().get(v.path())))
	assert.Equal(t, 16, segmentsOf(admin.patch(v.adminPath(), map[string]any{"segments": 16})))
	assert.Equal(t, 0, segmentsOf(admin.patch(v.adminPath(), map[string]any{"segments": 1})), "absent: 1")
	admin.patch(v.adminPath(), map[string]any{"segments": 2, "begin_at": at(time.Minute)}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), map[string]any{"begin_at": at(time.Minute)}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]any{"segments": 2, "begin_at": at(time.Hour / 2)}).problem(http.StatusConflict, "invalid_state")
	admin.patch(v.adminPath(), map[string]any{"segments": 1}).want(http.StatusOK)
	normal := map[string]any{"shop_id": "1", "title": "n", "pay_value": 1, "actual_value": 1, "segments": 2}
	admin.refusedRequest("POST", "/api/v1/admin/vouchers", normal, "stock", "begin_at", "end_at")
}
