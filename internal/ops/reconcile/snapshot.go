package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/domain"
)

// snapshot is what Redis and the database held at about the same time, and the differences between them. Every slice of
// orders is sorted by order id.
type snapshot struct {
	// By Config.Now, before the first read.
	at    time.Time
	gate  domain.GateView
	facts domain.SaleFacts

	// Whether the sale is open and a server runs in lane queue: buyers depend on the gate.
	serving bool
	// Whether the gate did not change during the reads, and no order was left out.
	exact bool

	// Its stock is that of units and orders together, against the database. The other counters are compared with the buyers
	// and the queue of the gate, if the snapshot is exact; otherwise they are zero.
	drift drift

	// Whether the gate is not loaded although it should be.
	cold bool
	// The buyers of the gate, against the active and queued orders. Those besides have ended or do not exist.
	buyers difference
	// The entries of the stream, against the tickets.
	stream difference
}

// difference is what a list does not have of another one, and what it has besides. All orders are older than MinAge.
type difference struct{ missing, surplus []domain.Holder }

func (d difference) some() bool { return len(d.missing)+len(d.surplus) > 0 }

func (s *snapshot) suspect() bool {
	return s.cold || s.broken() || s.drift != drift{} || s.buyers.some() || s.stream.some()
}

func (s *snapshot) broken() bool { return s.serving && (s.gate.Broken || s.gate.Unreadable > 0) }

func (s *snapshot) hasCounters() bool { return s.serving && !s.gate.Cold && !s.gate.Broken }

func (s *snapshot) busy() bool { return s.hasCounters() && !s.exact }

func (r *Reconciler) takeSnapshot(ctx context.Context, voucherID int64) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	s := &snapshot{at: r.cfg.Now()}
	var err error
	if r.cfg.Gate != nil {
		if s.gate, err = r.cfg.Gate.Inspect(ctx, voucherID, maxCompared); err != nil {
			return nil, err
		}
	}

	inFlight := make([]int64, len(s.gate.Queue))
	for i, q := range s.gate.Queue {
		inFlight[i] = q.OrderID
	}

	since := domain.OverdueSince{Expired: s.at.Add(-unpaidAfter), Refunding: s.at.Add(-refundingAfter)}
	s.facts, err = r.cfg.Store.SaleFacts(ctx, voucherID, inFlight, maxCompared, since)
	if err != nil || r.cfg.Gate == nil || !r.cfg.Queue {
		return s, err
	}

	if state := s.facts.Voucher.State(s.at); s.facts.Voucher.Sale != nil {
		s.serving = state == domain.StateOnSale || state == domain.StateSoldOut
	}

	if s.hasCounters() {
		if err := r.compareCounters(ctx, s); err != nil {
			return nil, err
		}
		if err := r.compareBuyers(ctx, s); err != nil {
			return nil, err
		}
	}

	s.cold = s.serving && s.gate.Cold && !s.gate.Loading &&
		(s.facts.Active > 0 || len(s.gate.Queue)+len(s.gate.Tickets) > 0)

	r.compareTickets(s)
	return s, nil
}

// queuedOrders returns the admissions in the stream that are not in the database, each order id once, as a load of the
// gate counts them.
func (s *snapshot) queuedOrders() []domain.Holder {
	seen := make(map[int64]bool, len(s.facts.Settled)+len(s.gate.Queue))
	for _, id := range s.facts.Settled {
		seen[id] = true
	}

	var queued []domain.Holder
	for _, q := range s.gate.Queue {
		if !seen[q.OrderID] {
			seen[q.OrderID] = true
			queued = append(queued, q.Holder)
		}
	}

	return queued
}

func (r *Reconciler) compareCounters(ctx context.Context, s *snapshot) error {
	after, err := r.cfg.Gate.Level(ctx, s.facts.VoucherID)
	if err != nil && !errors.Is(err, domain.ErrGateCold) && !errors.Is(err, domain.ErrGateBroken) {
		return err
	}

	before := s.gate.Level
	s.exact = err == nil && after.Version == before.Version && !s.gate.TooMany && !s.facts.TooMany
	s.drift.stock = totalDrift(before, SaleLevel{Stock: s.facts.Voucher.Sale.Stock, Active: s.facts.Active})

	if s.exact {
		s.drift.held = before.Held - int64(len(s.gate.Buyers))
		s.drift.queued = before.Queued - int64(len(s.gate.Queue))
		s.drift.sum = before.Sum
		for _, h := range s.gate.Buyers {
			s.drift.sum -= h.OrderID % domain.LevelDigits
		}
	}

	return nil
}

func (r *Reconciler) compareBuyers(ctx context.Context, s *snapshot) error {
	if s.gate.TooMany || s.facts.TooMany {
		return nil
	}

	s.buyers = r.compareOrders(s, s.gate.Buyers, append(s.queuedOrders(), s.facts.Holders...))
	extra := s.buyers.surplus
	if len(extra) == 0 {
		return nil
	}

	ids := make([]int64, len(extra))
	for i, h := range extra {
		ids[i] = h.OrderID
	}

	facts, err := r.cfg.Store.OrderFacts(ctx, s.facts.VoucherID, slices.Compact(ids))
	if err != nil {
		return err
	}

	// Committed after SaleFacts.
	active := map[domain.Holder]bool{}
	for _, f := range facts {
		active[f.Holder] = f.Active
	}

	s.buyers.surplus = slices.DeleteFunc(extra, func(h domain.Holder) bool { return active[h] })
	return nil
}

func (r *Reconciler) compareTickets(s *snapshot) {
	queue := make([]domain.Holder, len(s.gate.Queue))
	for i, q := range s.gate.Queue {
		queue[i] = q.Holder
	}

	s.stream = r.compareOrders(s, queue, s.gate.Tickets)
}

// compareOrders sorts both lists and returns how the first differs from the second.
func (r *Reconciler) compareOrders(s *snapshot, have, want []domain.Holder) difference {
	have = sorted(have)
	want = sorted(want)
	return difference{
		missing: r.old(s, subtract(want, have)),
		surplus: r.old(s, subtract(have, want)),
	}
}

// old returns the orders that were MinAge old when the snapshot began, by the time in their ids. If that is as far in the
// future, the clock has been set back since.
func (r *Reconciler) old(s *snapshot, hs []domain.Holder) []domain.Holder {
	return slices.DeleteFunc(slices.Clone(hs), func(h domain.Holder) bool {
		return s.at.Sub(r.cfg.OrderTime(h.OrderID)).Abs() <= r.cfg.MinAge
	})
}

func compareHolders(a, b domain.Holder) int {
	return cmp.Or(cmp.Compare(a.OrderID, b.OrderID), cmp.Compare(a.UserID, b.UserID))
}

func sorted(hs []domain.Holder) []domain.Holder {
	slices.SortFunc(hs, compareHolders)
	return slices.Compact(hs)
}

// split returns the elements of a that are in b, and those that are not. Both slices must be sorted.
func split(a, b []domain.Holder) (in, out []domain.Holder) {
	for _, h := range a {
		for len(b) > 0 && compareHolders(b[0], h) < 0 {
			b = b[1:]
		}

		if len(b) > 0 && b[0] == h {
			in = append(in, h)
		} else {
			out = append(out, h)
		}
	}

	return in, out
}

func subtract(a, b []domain.Holder) []domain.Holder {
	_, out := split(a, b)
	return out
}

func intersect(a, b []domain.Holder) []domain.Holder {
	in, _ := split(a, b)
	return in
}
