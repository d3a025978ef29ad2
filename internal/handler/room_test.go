package handler_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roomSale publishes a sale with a waiting room, which begins after a time, by the clock of the database.
func (e *env) roomSale(stock int, after time.Duration, change ...func(map[string]any)) voucherView {
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

// A pass buys once, whatever becomes of its order: the unit that comes back belongs to the next buyer in the line.
func TestPassOfReturnedUnit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.runRooms()
	noLimit := func(b map[string]any) { b["unpaid_limit"] = 0 }
	cancelled := e.roomSale(1, -time.Hour, noLimit)
	refunded := e.roomSale(1, -time.Hour)
	for _, v := range []voucherView{cancelled, refunded} {
		first := e.buyer(1).admitted(v)
		second := e.buyer(2)
		second.post(v.path()+"/entry", nil).want(http.StatusAccepted)
		if v.ID == cancelled.ID {
			o := first.place(v)
			first.post(o.path()+"/cancel", nil).want(http.StatusOK)
		} else {
			p := first.paid(v)
			first.post(p.Order.path()+"/refund", nil).want(http.StatusOK)
			require.NoError(t, e.payments.RefundDue(t.Context()))
		}
		second = second.admitted(v)
		first.post(v.orders(), nil).problem(http.StatusForbidden, "entry_required")
		second.place(v)
	}
	e.checkInvariants()
}

// A buyer who holds an order takes no pass, which would hold a unit for nothing.
func TestHolderTakesNoPass(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.runRooms()
	v := e.roomSale(2, -time.Hour)
	holder := e.buyer(1).admitted(v)
	o := holder.place(v)
	p := holder.post(v.path()+"/entry", nil).problem(http.StatusConflict, "duplicate_order")
	require.Equal(t, o.ID, p.OrderID)
	e.buyer(2).admitted(v).place(v)
}

// A room is drawn at the start of its sale, and serves no later start. Before the draw the sale can be postponed, and
// afterwards it can be brought forward or end at another time.
func TestDrawnRoomServesNoLaterStart(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.runRooms()
	admin := e.admin()
	at := func(after time.Duration) string { return time.Now().Add(after).Format(time.RFC3339Nano) }
	v := e.roomSale(5, 5*time.Minute)
	e.buyer(1).post(v.path()+"/entry", nil).want(http.StatusAccepted)
	admin.patch(v.adminPath(), map[string]any{"begin_at": at(6 * time.Minute)}).want(http.StatusOK)

	admin.patch(v.adminPath(), map[string]any{"begin_at": at(-time.Minute)}).want(http.StatusOK)
	e.buyer(1).admitted(v)
	for _, change := range []map[string]any{
		{"begin_at": at(time.Minute)},
		{"begin_at": at(time.Hour), "end_at": at(5 * time.Hour)},
	} {
		p := admin.patch(v.adminPath(), change).problem(http.StatusConflict, "invalid_state")
		require.Contains(t, p.Detail, "create a new sale")
	}
	admin.patch(v.adminPath(), map[string]any{"begin_at": at(-2 * time.Minute), "end_at": at(3 * time.Hour)}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]any{"entry": map[string]any{"mode": "open"}, "begin_at": at(time.Minute)}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]any{"entry": map[string]any{"mode": "room"}}).problem(http.StatusConflict, "invalid_state")

	// A week after its end the places are deleted: without them an account could have two.
	old := e.roomSale(5, -time.Minute)
	e.buyer(1).admitted(old)
	e.exec("UPDATE seckill_vouchers SET begin_at = ?, end_at = ? WHERE voucher_id = ?",
		time.Now().UTC().AddDate(0, 0, -9), time.Now().UTC().AddDate(0, 0, -8), old.ID)
	admin.patch(old.adminPath(), map[string]any{"end_at": at(time.Hour)}).problem(http.StatusConflict, "invalid_state")
}

// To buyers, the room of a sale that is not published does not exist.
func TestUnpublishedRoomIsInvisible(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	room := func(b map[string]any) { b["entry"] = map[string]any{"mode": "room"} }
	published := e.sale(5, room)
	ticket := decode[struct{ Ticket string }](e.buyer(1).post(e.roomSale(5, time.Minute).path()+"/entry", nil).want(http.StatusAccepted)).Ticket
	e.admin().patch(published.adminPath(), map[string]any{"status": "off"}).want(http.StatusOK)
	for _, v := range []voucherView{{ID: "77"}, published, e.draft(room), e.draft()} {
		for _, c := range []client{e.buyer(1).bad(), e.buyer(1).with("X-Entry-Ticket", ticket)} {
			c.get(v.path()+"/entry").problem(http.StatusNotFound, "not_found")
			c.get(v.path()+"/entry/events").problem(http.StatusNotFound, "not_found")
			c.post(v.path()+"/entry", nil).problem(http.StatusNotFound, "not_found")
		}
	}
}

// An account that lets its pass expire waits behind a buyer who comes later, and cannot escape that by leaving, neither
// the place of the pass nor the next one.
func TestUnusedPassWaitsBehindNewcomers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.runRooms()
	admin := e.admin()
	v := e.roomSale(1, -time.Hour)
	passTTL := func(seconds int) {
		admin.patch(v.adminPath(), map[string]any{"entry": map[string]any{"mode": "room", "pass_ttl": seconds}}).want(http.StatusOK)
	}
	type place struct {
		Pass   string
		Ticket string
		Ahead  *int
	}
	passTTL(1)
	idle := e.buyer(1)
	var first place
	require.Eventually(t, func() bool {
		first = decode[place](idle.post(v.path()+"/entry", nil))
		return first.Pass != ""
	}, time.Minute, 50*time.Millisecond)
	admin.post(v.adminPath()+"/room", map[string]any{"paused": true}).want(http.StatusOK)
	passTTL(3600)
	leave := func(ticket string) {
		t.Helper()
		idle.with("X-Entry-Ticket", ticket).do("DELETE", v.path()+"/entry", nil).want(http.StatusNoContent)
	}
	waiting := func(c client) (p place) {
		t.Helper()
		require.Eventually(t, func() bool {
			p = decode[place](c.post(v.path()+"/entry", nil))
			return p.Ahead != nil
		}, time.Minute, 50*time.Millisecond)
		return p
	}
	require.Eventually(t, func() bool {
		return idle.with("X-Entry-Ticket", first.Ticket).get(v.path()+"/entry").status == http.StatusForbidden
	}, time.Minute, 50*time.Millisecond, "the pass expires")
	leave(first.Ticket)
	again := waiting(idle)
	leave(again.Ticket)
	require.NotEqual(t, again.Ticket, waiting(idle).Ticket)
	newcomer := e.buyer(2)
	require.Eventually(t, func() bool { return *waiting(newcomer).Ahead == 0 }, time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool { return *waiting(idle).Ahead == 1 }, time.Minute, 50*time.Millisecond)

	admin.post(v.adminPath()+"/room", map[string]any{"paused": false}).want(http.StatusOK)
	newcomer.admitted(v).place(v)
}
