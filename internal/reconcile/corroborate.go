package reconcile

import (
	"fmt"

	"seckill/internal/domain"
)

// corroborate returns the findings that two snapshots agree about, a being the earlier one. A repair can remove them.
func (r *Reconciler) corroborate(a, b *snapshot) []Finding {
	var found []Finding
	add := func(f Finding) {
		f.Repairable = true
		found = append(found, f)
	}
	if a.cold && b.cold {
		add(Finding{Kind: KindGateCold, Detail: "the gate is not loaded while the sale is open; the next buyer, or a repair, loads it"})
	}
	if a.broken() && b.broken() {
		add(Finding{Kind: KindGateBroken, Detail: "a key of the gate has the wrong type or holds no number; another program wrote it"})
	}
	counters := compareDrift(a, b)
	for _, f := range counters.findings() {
		add(f)
	}
	units := ""
	if counters.explained {
		units = "; the counters include these orders, so their units are not offered"
	}
	for _, group := range []struct {
		kind   Kind
		orders []domain.Holder
		detail string
	}{
		{KindBuyerMissing, intersect(a.missing, b.missing), "the gate does not have these orders: it may admit their users again, and the database then rejects them"},
		{KindPhantom, intersect(a.phantom, b.phantom), "the gate holds orders that are neither in the queue nor in the database: their users cannot buy" + units},
		{KindNotReleased, intersect(a.notReleased, b.notReleased), "the gate still holds orders that were cancelled or refunded: their users cannot buy again" + units},
		{KindTicketStray, intersect(a.stray, b.stray), "buyers see these orders as queued, but the stream does not contain them: it was trimmed"},
		{KindTicketMissing, intersect(a.ticketless, b.ticketless), "these orders wait in the stream, but their buyers cannot see them"},
	} {
		if len(group.orders) > 0 {
			add(r.newFinding(group.kind, group.detail, domain.NewNamed(group.orders)))
		}
	}
	return found
}

// plusOrders returns the drift of the same gate after it drops the extra orders and adds the unknown ones: each extra
// order counts as one order too many and one unit too few.
func (d drift) plusOrders(unknown, extra []domain.Holder) drift {
	for _, h := range extra {
		d.stock, d.held, d.sum = d.stock+1, d.held-1, d.sum-h.OrderID%domain.LevelDigits
	}
	for _, h := range unknown {
		d.stock, d.held, d.sum = d.stock-1, d.held+1, d.sum+h.OrderID%domain.LevelDigits
	}
	return d
}

// driftComparison is the counter drift that two snapshots agree about.
type driftComparison struct {
	last      *snapshot
	exact     bool  // both snapshots are exact: lasting is known
	total     int64 // drift of units and orders together
	lasting   drift
	explained bool // orders in the findings explain all of the drift, so it is not reported again
}

// compareDrift returns the counter drift that is present, with the same value, in both snapshots. A cancellation that
// is committed and not yet released at the gate shows as drift too, and there may be as many of them in each snapshot.
// Orders that differ in only one snapshot are therefore subtracted first. Orders that differ in both are reported as
// orders, at the latest once they are old enough. If they explain the drift, the counters are not reported as well.
func compareDrift(a, b *snapshot) driftComparison {
	c := driftComparison{last: b, exact: a.exact && b.exact}
	if a.hasCounters() && b.hasCounters() && a.total == b.total {
		c.total = b.total
	}
	if !c.exact {
		return c
	}
	unknown, extra := intersect(a.unknown, b.unknown), intersect(a.extra, b.extra)
	lasting := func(s *snapshot) drift {
		return s.drift.plusOrders(subtract(s.unknown, unknown), subtract(s.extra, extra))
	}
	was, is := lasting(a), lasting(b)
	ifEqual := func(a, b int64) int64 {
		if a == b {
			return b
		}
		return 0
	}
	c.lasting = drift{
		stock: ifEqual(was.stock, is.stock), held: ifEqual(was.held, is.held), sum: ifEqual(was.sum, is.sum),
		queued: ifEqual(was.queued, is.queued),
	}
	rest := c.lasting.plusOrders(unknown, extra)
	if c.lasting != rest && rest == (drift{queued: rest.queued}) {
		c.lasting, c.explained = rest, true
	}
	return c
}

// stockAndHeld returns the drift of each of the two counters. Only their sum is known while buyers buy. In that case
// the whole sum is attributed to the counter that fits the orders seen during the reads better. With a small sum that
// is a guess, because some of those orders came and went.
func (c *driftComparison) stockAndHeld() (stock, held int64) {
	switch {
	case c.exact:
		return c.lasting.stock, c.lasting.held
	case c.last.heldDistance(0) <= c.last.heldDistance(c.total):
		return c.total, 0
	}
	return 0, c.total
}

// heldDistance returns how far a drift of n lies outside the bounds of the held counter's drift.
func (s *snapshot) heldDistance(n int64) int64 { return max(0, s.heldMin-n, n-s.heldMax) }

func (c *driftComparison) findings() []Finding {
	var found []Finding
	add := func(kind Kind, n int64, detail string) {
		found = append(found, Finding{Kind: kind, Count: max(n, -n), Detail: detail})
	}
	stock, held := c.stockAndHeld()
	switch {
	case stock > 0:
		add(KindStockHigh, stock, fmt.Sprintf("the gate has %s too many; that many admitted orders will fail", plural(stock, "unit")))
	case stock < 0:
		add(KindStockLow, stock, missingUnits(-stock))
	}
	if held != 0 {
		add(KindHeldOff, held, "the gate counts "+tooManyOrFew(held, "order"))
	}
	if n := c.lasting.queued; n != 0 {
		add(KindQueuedOff, n, "the gate counts "+tooManyOrFew(n, "queued order"))
	}
	if n := c.lasting.sum; n != 0 && held == 0 {
		add(KindSumOff, n, fmt.Sprintf("the gate's checksum of order ids is off by %+d", n))
	}
	return found
}

func tooManyOrFew(n int64, noun string) string {
	if n < 0 {
		return plural(-n, noun) + " too few"
	}
	return plural(n, noun) + " too many"
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// definite returns the findings for which one snapshot is enough. A repair of the gate does not remove them.
func (r *Reconciler) definite(s *snapshot) []Finding {
	var found []Finding
	var waiting []domain.Holder
	for _, q := range s.gate.Queue {
		if s.at.Sub(q.Since) > stuckAfter {
			waiting = append(waiting, q.Holder)
		}
	}
	if len(waiting) > 0 {
		detail := "these orders have waited in the queue for more than a minute"
		if !r.cfg.Queue {
			detail += ", and no server in lane queue runs to confirm them"
		}
		found = append(found, r.newFinding(KindStuck, detail, domain.NewNamed(waiting)))
	}
	if n := len(s.gate.Letters); n > 0 {
		found = append(found, r.newFinding(KindDeadLetters, "orders that could not be stored wait for your decision: replay or discard", domain.NewNamed(s.gate.Letters)))
	}
	for _, v := range s.facts.Check() {
		found = append(found, r.newFinding(Kind(v.Invariant), v.Detail, v.Orders))
	}
	if s.facts.Expired.Count > 0 {
		found = append(found, r.newFinding(KindUnpaid, "these unpaid orders expired more than a minute ago and still hold their units", s.facts.Expired))
	}
	if s.facts.Refunding.Count > 0 {
		found = append(found, r.newFinding(KindRefunding, "these refunds began more than ten minutes ago and are not finished", s.facts.Refunding))
	}
	return found
}

// newFinding returns a finding about orders.
func (r *Reconciler) newFinding(kind Kind, detail string, orders domain.Named) Finding {
	f := Finding{Kind: kind, Detail: detail, Count: orders.Count, Orders: orders.Orders}
	for _, h := range orders.Orders {
		if made := r.cfg.OrderTime(h.OrderID); f.Oldest.IsZero() || made.Before(f.Oldest) {
			f.Oldest = made
		}
	}
	return f
}
