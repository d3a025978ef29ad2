package reconcile

import (
	"cmp"
	"fmt"
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

	found = append(found, r.gateDiffers(a, b)...)
	found = append(found, r.queueDiffers(a, b)...)

	for i := range found {
		found[i].Repairable = true
	}

	return found
}

// gateDiffers returns the finding that counters or buyers of the gate differ from the database, or none.
func (r *Reconciler) gateDiffers(a, b *snapshot) []Finding {
	drift, total := lastingDrift(a, b)
	words := drift.words()
	if total != 0 && len(words) == 0 {
		words = append(words, fmt.Sprintf("units and orders of the gate are off by %+d together", total))
	}

	missing := intersect(a.missing, b.missing)
	if len(missing) > 0 {
		words = append(words, "the gate does not have orders of the database: it may admit their users again, and the database then refuses them")
	}

	surplus := intersect(a.surplus, b.surplus)
	if len(surplus) > 0 {
		words = append(words, "the gate holds orders that have ended or do not exist: their users cannot buy")
	}

	if len(words) == 0 {
		return nil
	}

	f := r.newFinding(KindGateDiffers, strings.Join(words, "; "), domain.NewNamed(sorted(slices.Concat(missing, surplus))))
	if f.Count == 0 {
		f.Count = cmp.Or(drift.size(), max(total, -total))
	}

	return []Finding{f}
}

// queueDiffers returns the finding that what buyers see of the queue differs from the stream, or none.
func (r *Reconciler) queueDiffers(a, b *snapshot) []Finding {
	var words []string
	stray := intersect(a.stray, b.stray)
	if len(stray) > 0 {
		words = append(words, "buyers see orders as queued that the stream does not contain: it was trimmed")
	}

	ticketless := intersect(a.ticketless, b.ticketless)
	if len(ticketless) > 0 {
		words = append(words, "orders wait in the stream that their buyers cannot see")
	}

	if len(words) == 0 {
		return nil
	}

	orders := domain.NewNamed(sorted(slices.Concat(stray, ticketless)))
	return []Finding{r.newFinding(KindQueueDiffers, strings.Join(words, "; "), orders)}
}

// plusOrders returns the drift of the same gate after it drops the extra orders and adds the unknown ones: each extra
// order counts as one order too many and one unit too few.
func (d drift) plusOrders(unknown, extra []domain.Holder) drift {
	for _, h := range extra {
		d.stock++
		d.held--
		d.sum -= h.OrderID % domain.LevelDigits
	}

	for _, h := range unknown {
		d.stock--
		d.held++
		d.sum += h.OrderID % domain.LevelDigits
	}

	return d
}

// lastingDrift returns the drift of each counter that is present, with the same value, in both snapshots, and that of
// units and orders together, which is all that is known if the gate changed during the reads.
//
// A cancellation that is committed and not yet released at the gate shows as drift too, and there may be as many of them
// in each snapshot. Orders that differ in only one snapshot are therefore subtracted first.
func lastingDrift(a, b *snapshot) (drift, int64) {
	var total int64
	if a.hasCounters() && b.hasCounters() {
		total = ifEqual(a.total, b.total)
	}

	if !a.exact || !b.exact {
		return drift{}, total
	}

	unknown := intersect(a.unknown, b.unknown)
	extra := intersect(a.extra, b.extra)
	steady := func(s *snapshot) drift {
		return s.drift.plusOrders(subtract(s.unknown, unknown), subtract(s.extra, extra))
	}

	was := steady(a)
	is := steady(b)

	return drift{
		stock:  ifEqual(was.stock, is.stock),
		held:   ifEqual(was.held, is.held),
		sum:    ifEqual(was.sum, is.sum),
		queued: ifEqual(was.queued, is.queued),
	}, 0
}

func ifEqual(a, b int64) int64 {
	if a == b {
		return b
	}
	return 0
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
