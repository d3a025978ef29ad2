package reconcile

import (
	"fmt"
	"seckill/internal/service"
)

// confirm returns what two looks agree about.
func (r *Reconciler) confirm(a, b *look) []Finding {
	var found []Finding
	add := func(f Finding) {
		f.Repairable = true
		found = append(found, f)
	}
	if a.cold && b.cold {
		add(Finding{Kind: KindGateCold, Detail: "the gate is not loaded while the sale is open; the next buyer, or a repair, loads it"})
	}
	if a.broken() && b.broken() {
		add(Finding{Kind: KindGateBroken, Detail: "somebody else wrote keys of the gate: one is of another kind, or holds no number"})
	}
	missing, phantom, notReleased := both(a.missing, b.missing), both(a.phantom, b.phantom), both(a.notReleased, b.notReleased)
	c := counters{exact: a.exact && b.exact, live: a.counted() && b.counted(), units: a.units, last: b}
	c.compare(a, b)
	for _, f := range c.findings() {
		add(f)
	}
	units := ""
	if c.explained {
		units = "; its counters say the same, so their units are not offered"
	}
	for _, group := range []struct {
		kind   Kind
		orders []service.Holder
		detail string
	}{
		{KindBuyerMissing, missing, "the gate does not know these orders: it may admit their users again, and the database refuses them"},
		{KindPhantom, phantom, "the gate holds admissions that are neither in the queue nor in the database: their users cannot buy" + units},
		{KindNotReleased, notReleased, "the gate still holds orders that were cancelled or refunded: their users cannot buy again" + units},
		{KindTicketStray, both(a.stray, b.stray), "buyers see these orders as queued, but the stream does not have them: it was cut"},
		{KindTicketMissing, both(a.ticketless, b.ticketless), "these orders wait in the stream, but their buyers cannot see them"},
	} {
		if len(group.orders) > 0 {
			add(r.about(group.kind, group.detail, service.NewNamed(group.orders)))
		}
	}
	return found
}

// numbers are what the gate has too much of each.
type numbers struct{ stock, held, sum, queued int64 }

// withoutOrders takes out what orders explain that the gate has too much or does not know: an order that it holds and
// should not is one more that it holds, and a unit less that it offers.
func (n numbers) withoutOrders(unknown, extra []service.Holder) numbers {
	for _, h := range extra {
		n.stock, n.held, n.sum = n.stock+1, n.held-1, n.sum-h.OrderID%service.LevelDigits
	}
	for _, h := range unknown {
		n.stock, n.held, n.sum = n.stock-1, n.held+1, n.sum+h.OrderID%service.LevelDigits
	}
	return n
}

// counters finds out which of the gate's numbers are off in two looks, by the same amount in both.
type counters struct {
	exact     bool // both looks were
	live      bool // both could at least count
	units     int64
	last      *look
	off       numbers // if exact
	explained bool    // by the orders that are named, so that only they are told: they are the reason
}

// compare looks at numbers that are exact. A cancellation that is committed and of which the gate has not heard yet is
// in the numbers, too; there may be as many in each look. So orders that differ in one look only are taken out first.
// Those that differ in both are told as orders, or will be when they are old enough; where they explain the numbers these
// are not told again.
func (c *counters) compare(a, b *look) {
	if !c.exact {
		return
	}
	unknown, extra := both(a.unknown, b.unknown), both(a.extra, b.extra)
	lasting := func(l *look) numbers {
		n := numbers{stock: l.stock, held: l.held, sum: l.sum, queued: l.queued}
		return n.withoutOrders(without(l.unknown, unknown), without(l.extra, extra))
	}
	was, is := lasting(a), lasting(b)
	same := func(a, b int64) int64 {
		if a == b {
			return b
		}
		return 0
	}
	c.off = numbers{
		stock: same(was.stock, is.stock), held: same(was.held, is.held), sum: same(was.sum, is.sum), queued: same(was.queued, is.queued),
	}
	rest := c.off.withoutOrders(unknown, extra)
	if c.off != rest && rest == (numbers{queued: rest.queued}) {
		c.off, c.explained = rest, true
	}
}

// stockAndHeld says by how much each is off. Units and orders together are known at any moment; which of them it is, is
// known where the gate was quiet. Else it is the one that fits better to the orders that there were meanwhile, of which
// some came and went: of a small number that is a guess.
func (c *counters) stockAndHeld() (stock, held int64) {
	switch {
	case c.exact:
		return c.off.stock, c.off.held
	case !c.live || c.units != c.last.units:
		return 0, 0
	case c.last.heldMisses(0) <= c.last.heldMisses(c.units):
		return c.units, 0
	}
	return 0, c.units
}

// heldMisses says how far it is from what was seen that the gate counts n orders too much.
func (l *look) heldMisses(n int64) int64 { return max(0, l.heldLeast-n, n-l.heldMax) }

func (c *counters) findings() []Finding {
	var found []Finding
	add := func(kind Kind, n int64, format string) {
		found = append(found, Finding{Kind: kind, Count: max(n, -n), Detail: fmt.Sprintf(format, n)})
	}
	stock, held := c.stockAndHeld()
	switch {
	case stock > 0:
		add(KindStockHigh, stock, "the gate offers %d units that are not there: as many buyers are admitted whose orders fail")
	case stock < 0:
		add(KindStockLow, stock, "the gate offers units that nobody holds only in part: %+d")
	}
	if held != 0 {
		add(KindHeldOff, held, "the gate's count of the orders that buyers hold is off by %+d")
	}
	if n := c.off.queued; n != 0 {
		add(KindQueuedOff, n, "the gate's count of the admissions in the queue is off by %+d")
	}
	if n := c.off.sum; n != 0 && held == 0 {
		add(KindSumOff, n, "the gate's checksum of the orders held is off by %+d")
	}
	return found
}

// certain returns what one look is enough for.
func (r *Reconciler) certain(l *look) []Finding {
	var found []Finding
	var waiting []service.Holder
	for _, q := range l.view.Queue {
		if l.at.Sub(q.Since) > stuckAfter {
			waiting = append(waiting, q.Holder)
		}
	}
	if len(waiting) > 0 {
		detail := "these orders wait in the queue for more than " + stuckAfter.String()
		if !r.cfg.Queue {
			detail += ", and no server in the lane queue runs to confirm them"
		}
		found = append(found, r.about(KindStuck, detail, service.NewNamed(waiting)))
	}
	if n := len(l.view.Letters); n > 0 {
		found = append(found, r.about(KindDeadLetters, "orders that could not be stored wait for a decision: replay or discard", service.NewNamed(l.view.Letters)))
	}
	for _, v := range l.facts.Check() {
		found = append(found, r.about(Kind(v.Invariant), v.Detail, v.Orders))
	}
	if l.facts.Expired.Count > 0 {
		found = append(found, r.about(KindUnpaid, "unpaid orders past their time are not closed", l.facts.Expired))
	}
	if l.facts.Refunding.Count > 0 {
		found = append(found, r.about(KindRefunding, "refunds are not finished", l.facts.Refunding))
	}
	return found
}

// about makes a finding about orders.
func (r *Reconciler) about(kind Kind, detail string, orders service.Named) Finding {
	f := Finding{Kind: kind, Detail: detail, Count: orders.Count, Orders: orders.Orders}
	for _, h := range orders.Orders {
		if made := r.cfg.OrderTime(h.OrderID); f.Oldest.IsZero() || made.Before(f.Oldest) {
			f.Oldest = made
		}
	}
	return f
}
