package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/alerts"
	"seckill/internal/ops/reconcile"
	"seckill/internal/out/webhook"
	"seckill/internal/sale/admission"
	"seckill/test/env"
)

type deadLetterView struct {
	ID, Reason string
	OrderID    string `json:"order_id"`
	UserID     string `json:"user_id"`
	VoucherID  string `json:"voucher_id"`
	Tries      int
	Fields     map[string]string
}

const deadLettersPath = "/api/v1/admin/dead-letters"

// TestDeadLetterPages reads dead letters of several shards page by page.
func TestDeadLetterPages(t *testing.T) {
	e := startQueue(t)
	var want []string
	for i := range 3 {
		want = append([]string{e.buyer(i).queue(e.sale(1))}, want...)
		e.deadLetter(fmt.Sprintf("poison %d", i))
	}
	sizes, all := walk[deadLetterView](e.admin(), deadLettersPath, 2)
	require.Equal(t, []int{2, 1}, sizes)
	for i, l := range all {
		assert.Equal(t, []any{want[i], want[i], 5}, []any{l.OrderID, l.Fields["order"], l.Tries})
		assert.Equal(t, "poison "+strconv.Itoa(2-i), l.Reason, "newest first")
	}
}

// TestReplayDeadLetter queues an order again, unless the sale is sold out or the buyer has another order.
func TestReplayDeadLetter(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		v, buyer, other := e.sale(1), e.buyer(1), e.buyer(2)
		id := buyer.queue(v)
		e.deadLetter("poison")
		letter := decode[listView[deadLetterView]](e.admin().get(deadLettersPath).want(http.StatusOK)).Items[0]
		replay := func() answer { return e.admin().post(deadLettersPath+"/"+letter.ID+"/replay", nil) }

		taken := other.queue(v)
		replay().problem(http.StatusConflict, "sold_out")
		e.work()
		other.post(orderPath(taken)+"/cancel", nil).want(http.StatusOK)
		again := buyer.queue(v)
		assert.Equal(t, again, replay().problem(http.StatusConflict, "duplicate_order").OrderID)
		e.work()
		buyer.post(orderPath(again)+"/cancel", nil).want(http.StatusOK)
		require.NoError(t, e.gate.Unload(t.Context(), v.number())) // the replay loads the gate

		admin := e.admin()
		assert.Empty(t, admin.audit("order_id="+id), "nothing was done")
		assert.Equal(t, queuedView{OrderID: id, Status: "queued"}, decode[queuedView](replay().want(http.StatusAccepted)))
		assert.Equal(t, []auditEntry{{"admin", "replay_dead_letter", letter.ID, admin.login.User.ID, v.ID}}, admin.audit("order_id="+id))
		replay().problem(http.StatusNotFound, "not_found")
		e.work()
		assert.Equal(t, "pending_payment", buyer.status(orderView{ID: id}))
	})
}

func TestUnparsableDeadLetterCanOnlyBeDiscarded(t *testing.T) {
	e := startQueue(t)
	stream := admission.Streams()[3]
	entryID := env.Must(e.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"what", "ever"}}).Result())(t)
	require.NoError(t, e.gate.MoveToDeadLetters(t.Context(), stream, entryID, "no order", 1))
	letter := decode[listView[deadLetterView]](e.admin().get(deadLettersPath).want(http.StatusOK)).Items[0]
	assert.Equal(t, deadLetterView{ID: letter.ID, Reason: "no order", Tries: 1, Fields: map[string]string{"what": "ever"}}, letter)
	path := deadLettersPath + "/" + letter.ID
	e.admin().post(path+"/replay", nil).problem(http.StatusConflict, "invalid_state")
	e.admin().post(path+"/discard", nil).want(http.StatusNoContent)
	e.admin().post(path+"/discard", nil).problem(http.StatusNotFound, "not_found")
	log := string(e.admin().get("/api/v1/admin/audit").want(http.StatusOK).body)
	assert.Equal(t, 1, strings.Count(log, "discard_dead_letter"))
	assert.NotContains(t, log, "replay_dead_letter")
}

// TestAlerts: the routes report violated invariants, dead letters and events that do not arrive.
func TestAlerts(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		v := e.sale(5)
		viewer := e.staff("13900000007", domain.RoleViewer)
		get := func() (a alerts.Alerts) {
			for try := 0; try < 20 && a.DeadLetters == nil; try++ { // it is absent if Redis does not answer in half a second
				a = decode[alerts.Alerts](viewer.get("/api/v1/admin/alerts").want(http.StatusOK))
			}
			return a
		}
		a, none := get(), int64(0)
		require.Equal(t, alerts.Alerts{DeadLetters: &none, Violations: a.Violations[:0], FailingRefunds: a.FailingRefunds[:0]}, a)

		e.notify(e.noticeOf(paymentView{Ref: "unknown"}, orderView{ID: "12345", Amount: 1}, "refunded")).problem(http.StatusNotFound, "not_found")
		for i, columns := range []string{ // status, tries, error
			"4, 5, 'card closed'",
			"4, 4, 'card closed'", // may still succeed
			"5, 9, 'card closed'", // has been refunded
			"4, 5, ''",            // the request is running
		} {
			e.exec(fmt.Sprintf("INSERT INTO payments (order_id, provider, provider_ref, amount, created_at, updated_at, status, refund_tries, refund_error) "+
				"VALUES (%d, 'bank', 'pay_%d', 8000, '2026-11-09', '2026-11-09', %s)", i+1, i+1, columns))
		}
		e.buyer(1).queue(v)
		e.deadLetter("poison")
		e.damaged = true
		e.exec("UPDATE seckill_vouchers SET stock = stock + 3 WHERE voucher_id = " + v.ID)
		for i, columns := range []string{ // status, tries, answered_at, repeated_at
			"3, 9, '2026-11-10', NULL",         // given up
			"1, 2, '2026-11-10', NULL",         // failing
			"1, 1, NULL, NULL",                 // the first delivery is running
			"1, 1, '2026-11-09', '2026-11-10'", // sent again, the delivery is running
			"2, 1, '2026-11-10', NULL",         // delivered
		} {
			e.exec(fmt.Sprintf("INSERT INTO order_events (order_id, type, created_at, status, tries, answered_at, repeated_at) VALUES (%d, 'order.paid', '2026-11-09', %s)", i+1, columns))
		}
		env.InBackground(t, func(ctx context.Context) { loop.Run(ctx, slog.New(slog.DiscardHandler), e.Reconciler.Task()) })
		require.Eventually(t, func() bool { a = get(); return a.CheckedAt != nil && len(a.Violations) > 0 }, time.Minute, 20*time.Millisecond)
		require.Equal(t, v.number(), a.Violations[0].VoucherID)
		require.Equal(t, reconcile.KindI3, a.Violations[0].Invariant)
		require.EqualValues(t, 1, *a.DeadLetters)
		require.Equal(t, 2, a.FailingEvents)
		require.EqualValues(t, 1, a.UnreadNotices)
		require.Equal(t, []alerts.FailingRefund{{OrderID: 1, Ref: "pay_1", Tries: 5, Error: "card closed"}}, a.FailingRefunds)
		log := string(e.admin().get("/api/v1/admin/audit?kind=request").want(http.StatusOK).body)
		require.Contains(t, log, "/auth/login")
		require.NotContains(t, log, "/admin/alerts", "polls fill no log")
	})
}

// fakeRusher is a domain.Rusher without buyers.
type fakeRusher struct {
	last    domain.Rush
	started int
}

func (r *fakeRusher) Start(_ context.Context, _ *domain.Claim, _ int64, plan domain.RushPlan) (domain.Rush, error) {
	if r.last.State == domain.RushRunning {
		return domain.Rush{}, domain.ErrInvalidState
	}
	r.started++
	r.last = domain.Rush{State: domain.RushRunning, VoucherID: 7, Buyers: plan.Buyers, Stock: plan.Stock}
	return r.last, nil
}

func (r *fakeRusher) Last() domain.Rush { return r.last }

func (r *fakeRusher) Stop(context.Context) {
	r.last = domain.Rush{
		State: domain.RushDone, VoucherID: 7, Buyers: 2, Stock: 1, Answered: 2, Orders: 1, Took: domain.Milliseconds(time.Second), P50: 1234567, P99: 2e6,
		Outcomes: map[string]int{"ok": 1}, Verdicts: []domain.Verdict{domain.NewVerdict("I1", true, "1 sold of 1")},
	}
}

// TestRushRoutes covers the routes only, with a fake load simulation.
func TestRushRoutes(t *testing.T) {
	t.Parallel()
	r := &fakeRusher{last: domain.Rush{State: domain.RushIdle}}
	e := newEnv(t, configured(func(cfg *handler.Config) { cfg.Rush = r }))
	admin, path := e.admin(), "/api/v1/admin/rush"
	assert.Equal(t, "idle", decode[map[string]any](admin.get(path).want(http.StatusOK))["state"])
	for _, body := range []string{
		``, `{}`, `{"buyers":0,"stock":1}`, `{"buyers":1,"stock":0}`, `{"buyers":5001,"stock":1}`, `{"buyers":1,"stock":10001}`,
		`{"buyers":1,"stock":1,"for":61}`, `{"buyers":1,"stock":1,"for":-1}`, `{"buyers":1,"stock":1,"for":"20s"}`,
		`{"buyers":1,"stock":1,"more":1}`, `{"buyers":"1","stock":1}`,
	} {
		admin.bad().post(path, body).problem(http.StatusBadRequest, "invalid_request")
	}
	assert.Zero(t, r.started)
	body := map[string]any{"buyers": 5000, "stock": 10000}
	once := admin.with("Idempotency-Key", "rush")
	for range 2 {
		got := decode[map[string]any](once.post(path, body).want(http.StatusAccepted))
		assert.Equal(t, "running", got["state"])
		assert.Equal(t, "7", got["voucher_id"])
	}
	assert.Equal(t, 1, r.started)
	admin.post(path, body).problem(http.StatusConflict, "invalid_state")
	admin.do(http.MethodDelete, path, nil).want(http.StatusNoContent)
	done := decode[map[string]any](admin.get(path).want(http.StatusOK))
	assert.InDelta(t, 1.23, done["p50_ms"], 0.001)
	assert.Len(t, done["verdicts"], 1)

	admin = newEnv(t).admin() // outside demo mode, the answer names the setting
	for method, body := range map[string]any{http.MethodPost: map[string]any{"buyers": 1, "stock": 1}, http.MethodGet: nil, http.MethodDelete: nil} {
		p := admin.do(method, "/api/v1/admin/rush", body).problem(http.StatusForbidden, "forbidden")
		assert.Contains(t, p.Detail, "SECKILL_DEMO")
	}
}

const reconcilePath = "/api/v1/admin/reconcile"

type reconcileView struct {
	Reports []reconcile.Report
	LeftOut int64 `json:"left_out"`
}

func (v voucherView) gateKey(t testing.TB, name string) string {
	return strings.TrimSuffix(admission.Streams()[v.number()%16], "orders") + v.ID + ":" + name
}

func TestReconcileRoutes(t *testing.T) {
	e := startQueue(t)
	v, other := e.sale(5), e.sale(5)
	id := e.buyer(1).queue(v)
	e.work()
	me := e.buyer(1).login.User.ID
	get := func(query string) reconcileView {
		return decode[reconcileView](e.admin().get(reconcilePath + query).want(http.StatusOK))
	}
	all := get("")
	require.Len(t, all.Reports, 2)
	assert.Equal(t, other.number(), all.Reports[0].VoucherID, "newest first")
	assert.Zero(t, all.LeftOut)
	assert.Empty(t, all.Reports[1].Findings)
	assert.Equal(t, e.clock.now(), all.Reports[1].CheckedAt)

	require.NoError(t, e.rdb.HDel(t.Context(), v.gateKey(t, "buyers"), me).Err())
	require.NoError(t, e.rdb.Incr(t.Context(), v.gateKey(t, "stock")).Err())
	found := get("?voucher_id=" + v.ID).Reports[0].Findings
	require.Len(t, found, 1)
	oldest := e.clock.now().Add(-time.Hour)
	assert.Contains(t, found[0].Detail, "the gate offers 1 nonexistent unit; ")
	assert.Equal(t, reconcile.Finding{
		Kind: reconcile.KindGateDiffers, Detail: found[0].Detail, Count: 1, Oldest: &oldest, Repairable: true,
		Orders: []domain.Holder{{OrderID: mustID(t, id), UserID: mustID(t, me)}},
	}, found[0])

	before := e.dump()
	repaired := decode[reconcileView](e.admin().post(reconcilePath, map[string]any{}).want(http.StatusOK))
	require.Len(t, repaired.Reports[1].Findings, 1)
	assert.True(t, repaired.Reports[1].Findings[0].Repaired)
	again := decode[reconcileView](e.admin().post(reconcilePath, map[string]any{"voucher_id": v.ID}).want(http.StatusOK))
	require.Len(t, again.Reports, 1)
	assert.Empty(t, again.Reports[0].Findings)
	assert.Equal(t, id, e.buyer(1).post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order").OrderID)
	assert.Equal(t, rows(before, "voucher_orders"), rows(e.dump(), "voucher_orders"), "the database is unchanged")
}

func rows(dump, table string) (kept []string) {
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, table+" ") {
			kept = append(kept, line)
		}
	}
	return kept
}

// TestEveryFindingIsDocumented: the API document and docs/operations.md have every kind of finding.
func TestEveryFindingIsDocumented(t *testing.T) {
	t.Parallel()
	k := env.Must(theContract())(t)
	page := env.Must(os.ReadFile("../../docs/operations.md"))(t)
	var words []any
	for _, kind := range reconcile.Kinds() {
		words = append(words, string(kind))
		assert.Contains(t, string(page), "\n| `"+string(kind)+"` |")
	}
	assert.Equal(t, words, k.doc.Components.Schemas["Finding"].Value.Properties["kind"].Value.Enum)
}

// The events of an order are delivered in order, shown with their body and the last answer, and repeated by an operator.
func TestOrderEvents(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		e.store.RecordEvents()
		type event struct {
			ID, Type string
			Data     orderView
		}
		status, bodies := 0, []event(nil)
		sender := &webhook.Outbox{
			Store: e.store, Encode: handler.EncodeEvent, Now: e.clock.now, Log: slog.New(slog.DiscardHandler),
			Post: func(_ context.Context, text []byte) (webhook.Answer, error) {
				if status == 0 {
					return webhook.Answer{}, errors.New("connection refused")
				}
				var body event
				err := json.Unmarshal(text, &body)
				bodies = append(bodies, body)
				return webhook.Answer{Status: status, Body: []byte("noted")}, err
			},
		}
		buyer, admin := e.buyer(1), e.admin()
		p := buyer.paid(e.sale(1))

		type item struct {
			ID, Status, Answer string
			Tries              int
			AnswerStatus       int `json:"answer_status"`
			Payload            event
		}
		list := func(query string) []item {
			return decode[struct{ Items []item }](admin.get("/api/v1/admin/events?" + query).want(http.StatusOK)).Items
		}
		require.ErrorContains(t, sender.SendDue(t.Context()), "connection refused")
		pending := list("status=pending&order_id=" + p.Order.ID)
		require.Len(t, pending, 2)
		first := pending[1]
		assert.Equal(t, []any{"pending", "connection refused", 1, 0}, []any{first.Status, first.Answer, first.Tries, first.AnswerStatus})
		assert.Zero(t, pending[0].Tries, "the later events wait")

		status = http.StatusAccepted
		admin.post("/api/v1/admin/events/"+first.ID+"/repeat", nil).want(http.StatusNoContent)
		require.NoError(t, sender.SendDue(t.Context()))
		require.Len(t, bodies, 2)
		paid := bodies[1]
		assert.Equal(t, []any{"order.paid", "paid", p.Order.ID}, []any{paid.Type, paid.Data.Status, paid.Data.ID})
		assert.Empty(t, paid.Data.RedeemCode, "the code is the buyer's")
		delivered := list("status=delivered&limit=1")
		require.Len(t, delivered, 1)
		assert.Equal(t, []any{"noted", http.StatusAccepted, paid}, []any{delivered[0].Answer, delivered[0].AnswerStatus, delivered[0].Payload})
		assert.Empty(t, list("status=failed"))

		admin.post("/api/v1/admin/events/"+first.ID+"/repeat", nil).want(http.StatusNoContent)
		require.NoError(t, sender.SendDue(t.Context()))
		require.Len(t, bodies, 3)
		assert.Equal(t, bodies[0], bodies[2], "a repeated event has the same id and body")
	})
}
