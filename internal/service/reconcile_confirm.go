package service

import (
	"fmt"
	"slices"
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
	c := counters{a: a, b: b}
	counted := c.explainedBy(missing, append(slices.Clone(phantom), notReleased...))
	for _, f := range c.findings() {
		add(f)
	}
	units := ""
	if counted {
		units = "; its counters say the same, so their units are not offered"
	}
	for _, group := range []struct {
		kind   Kind
		orders []Holder
		detail string
	}{
		{KindBuyerMissing, missing, "the gate does not know these orders: it may admit their users again, and the database refuses them"},
		{KindPhantom, phantom, "the gate holds admissions that are neither in the queue nor in the database: their users cannot buy" + units},
		{KindNotReleased, notReleased, "the gate still holds orders that were cancelled or refunded: their users cannot buy again" + units},
		{KindTicketStray, both(a.stray, b.stray), "buyers see these orders as queued, but the stream does not have them: it was cut"},
		{KindTicketMissing, both(a.ticketless, b.ticketless), "these orders wait in the stream, but their buyers cannot see them"},
	} {
		if len(group.orders) > 0 {
			add(r.about(group.kind, group.detail, named(group.orders)))
		}
	}
	return found
}

// counters finds out which of the gate's numbers are off in two looks, by the same amount in both.
type counters struct {
	a, b      *look
	held, sum int64 // what orders explain that are named anyway
}

func (c *counters) exact() bool { return c.a.exact && c.b.exact }

// explainedBy says whether the counters are off because these orders are missing and those too much: then only they are
// told, since they are the reason.
func (c *counters) explainedBy(missing, extra []Holder) bool {
	held, sum := int64(len(extra)-len(missing)), int64(0)
	for _, h := range extra {
		sum += h.OrderID % LevelDigits
	}
	for _, h := range missing {
		sum -= h.OrderID % LevelDigits
	}
	if !c.exact() || c.b.sum == 0 || c.b.sum != sum || c.b.held != held || c.b.stock != -held {
		return false
	}
	c.held, c.sum = held, sum
	return true
}

// stockAndHeld says by how much each is off. Units and orders together are known at any moment; which of them it is, is
// known where the gate was quiet, and else by the orders that there were meanwhile.
func (c *counters) stockAndHeld() (stock, held int64) {
	a, b := c.a, c.b
	switch {
	case c.exact():
		if a.stock == b.stock {
			stock = b.stock + c.held
		}
		if a.held == b.held {
			held = b.held - c.held
		}
		return stock, held
	case !a.counted() || !b.counted() || a.units != b.units:
		return 0, 0
	case b.heldLeast <= 0 && b.heldMax >= 0:
		return b.units, 0
	}
	return 0, b.units
}

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
	if !c.exact() {
		return found
	}
	if c.b.queued != 0 && c.a.queued == c.b.queued {
		add(KindQueuedOff, c.b.queued, "the gate's count of the admissions in the queue is off by %+d")
	}
	if sum := c.b.sum - c.sum; sum != 0 && c.a.sum == c.b.sum && held == 0 {
		add(KindSumOff, sum, "the gate's checksum of the orders held is off by %+d")
	}
	return found
}

// certain returns what one look is enough for.
func (r *Reconciler) certain(l *look) []Finding {
	var found []Finding
	var waiting []Holder
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
		found = append(found, r.about(KindStuck, detail, named(waiting)))
	}
	if n := len(l.view.Letters); n > 0 {
		found = append(found, r.about(KindDeadLetters, "orders that could not be stored wait for a decision: replay or discard", named(l.view.Letters)))
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
func (r *Reconciler) about(kind Kind, detail string, orders Named) Finding {
	f := Finding{Kind: kind, Detail: detail, Count: orders.Count, Orders: orders.Orders}
	for _, h := range orders.Orders {
		if made := r.cfg.OrderTime(h.OrderID); f.Oldest.IsZero() || made.Before(f.Oldest) {
			f.Oldest = made
		}
	}
	return f
}
