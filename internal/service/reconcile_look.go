package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// lookTries is how often a look is repeated in the hope that the gate does not change meanwhile.
	lookTries = 5
	// lookPatience is for how long.
	lookPatience = 300 * time.Millisecond
)

// look is what gate and database said at about one moment, and what differed.
type look struct {
	at    time.Time
	view  GateView
	facts SaleFacts

	asked bool // buyers ask the gate about this sale now
	exact bool // the gate did not change while everything was read

	units              int64    // what the gate has too much of units and orders together
	stock, held        int64    // what it has too much of each, if exact
	sum, queued        int64    // likewise
	heldLeast, heldMax int64    // between which held must be, if not exact
	cold               bool     // it should be loaded
	unknown, extra     []Holder // what buyers hold too little and too much, of whatever age
	missing            []Holder // of these, those that are old enough
	phantom            []Holder
	notReleased        []Holder
	stray              []Holder // tickets without an entry
	ticketless         []Holder // entries without a ticket
}

// doubtful says whether there is something that a second look must confirm.
func (l *look) doubtful() bool {
	return l.cold || l.broken() || l.units != 0 || l.stock != 0 || l.held != 0 || l.sum != 0 || l.queued != 0 ||
		len(l.missing)+len(l.phantom)+len(l.notReleased)+len(l.stray)+len(l.ticketless) > 0
}

func (l *look) broken() bool { return l.asked && (l.view.Broken || l.view.Unreadable > 0) }

// counted says whether the gate's numbers could be read.
func (l *look) counted() bool { return l.asked && !l.view.Cold && !l.view.Broken }

func (l *look) busy() bool { return l.counted() && !l.exact }

// look reads everything about a voucher. It does so again for a moment if the gate changed meanwhile.
func (r *Reconciler) look(ctx context.Context, voucherID int64) (*look, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	start := time.Now()
	for try := 1; ; try++ {
		l, err := r.lookOnce(ctx, voucherID)
		if err != nil || !l.busy() || try == lookTries || time.Since(start) > lookPatience {
			return l, err
		}
	}
}

func (r *Reconciler) lookOnce(ctx context.Context, voucherID int64) (_ *look, err error) {
	l := &look{at: r.cfg.Now()}
	if r.cfg.Gate != nil {
		if l.view, err = r.cfg.Gate.Inspect(ctx, voucherID, maxCompared); err != nil {
			return nil, err
		}
	}
	inFlight := make([]int64, len(l.view.Queue))
	for i, q := range l.view.Queue {
		inFlight[i] = q.OrderID
	}
	since := OverdueSince{Expired: l.at.Add(-unpaidAfter), Refunding: l.at.Add(-refundingAfter)}
	l.facts, err = r.cfg.Store.SaleFacts(ctx, voucherID, inFlight, maxCompared, since)
	if err != nil || r.cfg.Gate == nil || !r.cfg.Queue {
		return l, err
	}
	if state := l.facts.Voucher.State(l.at); l.facts.Voucher.Sale != nil {
		l.asked = state == StateOnSale || state == StateSoldOut
	}
	flying := l.flying()
	if l.counted() {
		if err := r.count(ctx, l, flying); err != nil {
			return nil, err
		}
		if err := r.compareBuyers(ctx, l, flying); err != nil {
			return nil, err
		}
	}
	l.cold = l.asked && l.view.Cold && !l.view.Loading &&
		(l.view.Leftovers || l.facts.Active > 0 || len(l.view.Queue)+len(l.view.Tickets) > 0)
	r.compareTickets(l)
	return l, nil
}

// flying are the admissions in the stream that are not in the database. Each order id counts once, as in a load.
func (l *look) flying() []Holder {
	known := make(map[int64]bool, len(l.facts.Settled)+len(l.view.Queue))
	for _, id := range l.facts.Settled {
		known[id] = true
	}
	var flying []Holder
	for _, q := range l.view.Queue {
		if !known[q.OrderID] {
			known[q.OrderID] = true
			flying = append(flying, q.Holder)
		}
	}
	return flying
}

// count compares the gate's numbers with what they must be.
func (r *Reconciler) count(ctx context.Context, l *look, flying []Holder) error {
	after, err := r.cfg.Gate.Level(ctx, l.facts.VoucherID)
	if err != nil && !errors.Is(err, ErrGateCold) && !errors.Is(err, ErrGateBroken) {
		return err
	}
	before, stock := l.view.Level, l.facts.Voucher.Sale.Stock
	held, sum := l.facts.Active+int64(len(flying)), l.facts.Sum
	for _, h := range flying {
		sum += h.OrderID % LevelDigits
	}
	l.exact = err == nil && after.Version == before.Version && !l.view.TooMany && !l.facts.TooMany
	l.units = before.Stock + before.Held - stock - l.facts.Active
	if l.exact {
		l.stock, l.held, l.sum = before.Stock-stock+int64(len(flying)), before.Held-held, before.Sum-sum
		l.queued = before.Queued - int64(len(l.view.Queue))
	}
	l.heldLeast, l.heldMax = min(before.Held, after.Held)-held, max(before.Held, after.Held)-held
	return nil
}

// compareBuyers finds who is missing among the buyers, and who should not be there.
func (r *Reconciler) compareBuyers(ctx context.Context, l *look, flying []Holder) error {
	if l.view.TooMany || l.facts.TooMany {
		return nil
	}
	have := sorted(l.view.Buyers)
	want := sorted(append(flying, l.facts.Holders...))
	l.unknown, l.extra = without(want, have), without(have, want)
	l.missing = r.old(l, l.unknown)
	extra := r.old(l, l.extra)
	if len(extra) == 0 {
		return nil
	}
	ids := make([]int64, len(extra))
	for i, h := range extra {
		ids[i] = h.OrderID
	}
	facts, err := r.cfg.Store.OrderFacts(ctx, l.facts.VoucherID, slices.Compact(ids))
	if err != nil {
		return err
	}
	active := map[Holder]bool{} // of those that exist
	for _, f := range facts {
		active[f.Holder] = f.Active
	}
	for _, h := range extra {
		isActive, exists := active[h]
		switch {
		case !exists:
			l.phantom = append(l.phantom, h)
		case !isActive:
			l.notReleased = append(l.notReleased, h)
		} // else it has been committed since
	}
	return nil
}

// compareTickets compares what buyers see as queued with what is.
func (r *Reconciler) compareTickets(l *look) {
	queue := make([]Holder, len(l.view.Queue))
	for i, q := range l.view.Queue {
		queue[i] = q.Holder
	}
	queue, tickets := sorted(queue), sorted(l.view.Tickets)
	l.stray = r.old(l, without(tickets, queue))
	l.ticketless = r.old(l, without(queue, tickets))
}

// old keeps those whose id was made long enough before the look.
func (r *Reconciler) old(l *look, hs []Holder) []Holder {
	until := l.at.Add(-r.cfg.MinAge)
	return slices.DeleteFunc(slices.Clone(hs), func(h Holder) bool { return !r.cfg.OrderTime(h.OrderID).Before(until) })
}

// compareHolders orders by order id, then by user.
func compareHolders(a, b Holder) int {
	return cmp.Or(cmp.Compare(a.OrderID, b.OrderID), cmp.Compare(a.UserID, b.UserID))
}

// sorted sorts hs in place, and drops what is repeated.
func sorted(hs []Holder) []Holder {
	slices.SortFunc(hs, compareHolders)
	return slices.Compact(hs)
}

// split returns those of a that are in b, and those that are not. Both are sorted.
func split(a, b []Holder) (in, out []Holder) {
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

func without(a, b []Holder) []Holder {
	_, out := split(a, b)
	return out
}

func both(a, b []Holder) []Holder {
	in, _ := split(a, b)
	return in
}
