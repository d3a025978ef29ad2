package handler_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
	"seckill/test/env"
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

func TestPurchaseNeedsPass(t *testing.T) {
	e := start(t)
	v, other, buyer := e.passSale(9), e.passSale(9), e.buyer(1)
	forged := entry.NewPasses(domain.NewKeyring([]byte("a secret that this server does not use")))
	for name, c := range map[string]client{
		"no pass":         buyer,
		"empty pass":      buyer.with("X-Entry-Pass", ""),
		"forged pass":     buyer.with("X-Entry-Pass", forged.Issue(v.number(), v.number(), 0, 0, e.clock.now().Add(time.Hour))),
		"long pass":       buyer.with("X-Entry-Pass", strings.Repeat("A", 4000)),
		"another buyer's": buyer.with("X-Entry-Pass", e.buyer(2).withPass(v).header.Get("X-Entry-Pass")),
		"another sale's":  buyer.withPass(other),
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
	e.buyer(3).withPass(other).place(other)
	e.checkInvariants()
}

// A repeated request returns its order even if its pass has expired or was revoked. Another request does not.
func TestRepeatedPurchaseWithExpiredPass(t *testing.T) {
	e := start(t)
	v := e.passSale(9)
	buyer, idle := e.buyer(1).withPass(v), e.buyer(2).withPass(v)
	first := buyer.key("k").post(v.orders(), nil).want(http.StatusCreated)
	e.clock.advance(time.Minute)
	admin := e.admin()
	admin.post(v.adminPath()+"/room", map[string]any{"revoke": true}).want(http.StatusOK)
	buyer.key("k").post(v.orders(), nil).same(first)
	buyer.key("l").post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
	idle.key("k").post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
	idle.key("k").withPass(v).place(v) // the refusal is not stored under the key
	e.checkInvariants()
}

func TestRevokedPasses(t *testing.T) {
	e := start(t)
	v, open, admin := e.passSale(9), e.sale(9), e.admin()
	buyer := e.buyer(1).withPass(v)
	revoke := func(c client, v voucherView) answer {
		return c.post(v.adminPath()+"/room", map[string]any{"revoke": true})
	}
	e.clock.advance(time.Second)
	first := revoke(admin.key("k"), v).want(http.StatusOK)
	buyer.post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
	fresh := buyer.withPass(v)
	revoke(admin.key("k"), v).same(first) // a repetition does not revoke passes that were issued since
	fresh.place(v)

	revoke(admin, open).problem(http.StatusConflict, "invalid_state")
	admin.post(v.adminPath()+"/room", map[string]any{"paused": true}).problem(http.StatusConflict, "invalid_state")
	for body, field := range map[string]string{`{}`: "revoke", `{"revoke":false}`: "revoke", `{"rate":0}`: "rate", `{"open":true}`: "open"} {
		p := admin.bad().post(v.adminPath()+"/room", body).problem(http.StatusBadRequest, "invalid_request")
		assert.Equal(t, []string{field}, p.fields())
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
	normal := e.normal()
	enter(normal).problem(http.StatusConflict, "invalid_state")
	a := enter(open).want(http.StatusOK)
	assert.JSONEq(t, `{"state":"admitted"}`, string(a.body))
	buyer.place(open)
	p := buyer.bad().post(later.path()+"/entry", `{"solutions":"x"}`).problem(http.StatusBadRequest, "invalid_request")
	assert.Equal(t, []string{"solutions"}, p.fields())

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
		t.Helper()
		require.Equal(t, "this sale needs a solved challenge: "+detail, a.problem(http.StatusForbidden, "challenge_required").Detail)
	}

	a := enter(nil)
	demanded(a, "the request has no solution")
	text := env.Must(env.SolveChallenge(decode[struct{ Challenge json.RawMessage }](a).Challenge))(t)
	solution := map[string]any{"solution": text}
	enter(solution).problem(http.StatusConflict, "sale_not_started")
	e.clock.advance(time.Minute)
	pass := decode[admissionView](enter(solution).want(http.StatusOK)).Pass
	buyer.with("X-Entry-Pass", pass).place(v)
	demanded(enter(solution), "the solution was used before")
}

// The entry of a sale is stored and returned. TestEntryChangeKeepsWhatItDoesNotName of package domain has the changes.
func TestEntryOfVoucher(t *testing.T) {
	e := start(t)
	type view struct{ Entry map[string]any }
	admin, v, buyer := e.admin(), e.sale(9), e.buyer(1)
	check := func(want map[string]any, change map[string]any) {
		t.Helper()
		patched := admin.patch(v.adminPath(), map[string]any{"entry": change}).want(http.StatusOK)
		assert.Equal(t, want, decode[view](patched).Entry)
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
