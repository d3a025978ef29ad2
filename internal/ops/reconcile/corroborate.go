package reconcile

import (
	"cmp"
	"slices"
	"strings"

	"seckill/internal/domain"
)

// corroborate returns the findings that two snapshots agree about, a being the earlier one. A rebuild can remove them.
func (r *Reconciler) corroborate(a, b *snapshot) []Finding {
	var found []Finding
	if a.cold && b.cold {
		found = append(found, r.newFinding(
			KindGateCold, "the gate is not loaded while the sale is open; the next buyer, or a repair, loads it", domain.Named{},
		))
	}

	if a.broken() && b.broken() {
		found = append(found, r.newFinding(
			KindGateBroken, "a key of the gate has the wrong type or holds no number; another program wrote it", domain.Named{},
		))
	}

	orders, words := a.buyers.lasting(b.buyers,
		"the gate does not have orders of the database: it may admit their users again, and the database then refuses them",
		"the gate holds orders that have ended or do not exist: their users cannot buy")

	counters := drift{
		stock:  ifEqual(a.drift.stock, b.drift.stock),
		held:   ifEqual(a.drift.held, b.drift.held),
		sum:    ifEqual(a.drift.sum, b.drift.sum),
		queued: ifEqual(a.drift.queued, b.drift.queued),
	}
	if len(orders) > 0 {
		// These orders are what the counters differ in.
		counters.held = 0
		counters.sum = 0
	}

	if words = append(counters.words(), words...); len(words) > 0 {
		f := r.newFinding(KindGateDiffers, strings.Join(words, "; "), domain.NewNamed(orders))
		f.Count = cmp.Or(f.Count, counters.size())
		found = append(found, f)
	}

	orders, words = a.stream.lasting(b.stream,
		"buyers see orders as queued that the stream does not contain: it was trimmed",
		"orders wait in the stream that their buyers cannot see")
	if len(words) > 0 {
		found = append(found, r.newFinding(KindQueueDiffers, strings.Join(words, "; "), domain.NewNamed(orders)))
	}

	for i := range found {
		found[i].Repairable = true
	}

	return found
}

// lasting returns the orders that a later comparison has as well, and what that means.
func (d difference) lasting(later difference, missing, surplus string) ([]domain.Holder, []string) {
	var words []string
	lack := intersect(d.missing, later.missing)
	if len(lack) > 0 {
		words = append(words, missing)
	}

	extra := intersect(d.surplus, later.surplus)
	if len(extra) > 0 {
		words = append(words, surplus)
	}

	return sorted(slices.Concat(lack, extra)), words
}

func ifEqual(a, b int64) int64 {
	if a == b {
		return b
	}
	return 0
}

// definite returns the findings for which one snapshot is enough. A repair of the gate does not remove them.
func (r *Reconciler) definite(s *snapshot) []Finding {
	var found []Finding
	add := func(kind Kind, orders domain.Named, detail string) {
		if orders.Count > 0 {
			found = append(found, r.newFinding(kind, detail, orders))
		}
	}

	var waiting []domain.Holder
	for _, q := range s.gate.Queue {
		if s.at.Sub(q.Since) > stuckAfter {
			waiting = append(waiting, q.Holder)
		}
	}

	stuck := "these orders have waited in the queue for more than a minute"
	if !r.cfg.Queue {
		stuck += ", and no server in lane queue runs to confirm them"
	}

	add(KindStuck, domain.NewNamed(waiting), stuck)
	add(KindDeadLetters, domain.NewNamed(s.gate.Letters), "orders that could not be stored wait for your decision: replay or discard")

	for _, v := range s.facts.Check() {
		found = append(found, r.newFinding(Kind(v.Invariant), v.Detail, v.Orders))
	}

	add(KindUnpaid, s.facts.Expired, "these unpaid orders expired more than a minute ago and still hold their units")
	add(KindRefunding, s.facts.Refunding, "these refunds began more than ten minutes ago and are not finished")
	return found
}

func (r *Reconciler) newFinding(kind Kind, detail string, orders domain.Named) Finding {
	f := Finding{
		Kind:   kind,
		Detail: detail,
		Count:  orders.Count,
		Orders: append([]domain.Holder{}, orders.Orders...),
	}

	for _, h := range orders.Orders {
		if made := r.cfg.OrderTime(h.OrderID); f.Oldest == nil || made.Before(*f.Oldest) {
			f.Oldest = &made
		}
	}

	return f
}
