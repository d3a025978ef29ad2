package admission

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"seckill/internal/domain"
)

// load is one attempt to load all segments of a gate, with one token and one read of the database.
type load struct {
	gate      *Gate
	voucherID int64
	store     domain.GateStore
	token     string
	// built is when the gate to be replaced was built; empty: load a cold gate, or one that may lack admissions.
	built string
	// epoch is that of the loans between the segments; empty for a gate of one segment.
	epoch    string
	segments []*segmentLoad

	// generation is that of the sale before the load was taken.
	generation int64
	// fence means that the load raises the generation.
	fence bool
}

// newLoad returns an attempt with a new token, which begins with the time in milliseconds. generation was read before.
func newLoad(g *Gate, key loadKey, segments []gateKeys, store domain.GateStore, generation int64) *load {
	l := &load{
		gate:       g,
		voucherID:  key.voucherID,
		store:      store,
		token:      strconv.FormatInt(time.Now().UnixMilli(), 10) + "-" + rand.Text(),
		built:      key.built,
		generation: generation,
	}

	if len(segments) > 1 {
		l.epoch = epochPrefix(len(segments)) + l.token
	}
	for _, k := range segments {
		l.segments = append(l.segments, &segmentLoad{load: l, keys: k, replaces: key.built})
	}

	return l
}

// take takes the load of every segment, or of none. Their order is the same in all processes, so the first segment
// decides which process loads the gate.
func (l *load) take(ctx context.Context) (string, error) {
	if len(l.segments) > 1 {
		needless, err := l.compareBuilt(ctx)
		if err != nil || needless {
			return loadNeedless, err
		}
	}

	for i, s := range l.segments {
		state, err := s.take(ctx)
		if err == nil && (state == loadTaken || state == loadFences) {
			l.fence = l.fence || state == loadFences
			continue
		}

		for _, taken := range l.segments[:i] {
			taken.drop(ctx)
		}

		// A segment has changed since compareBuilt.
		if len(l.segments) > 1 {
			state = loadBusy
		}
		return state, err
	}

	return loadTaken, nil
}

// compareBuilt reports whether the gate needs no load: it is loaded, has all admissions, and is not the one to be
// replaced. Otherwise each segment gets the version that is to be replaced.
func (l *load) compareBuilt(ctx context.Context) (bool, error) {
	keys := make([]gateKeys, len(l.segments))
	for i, s := range l.segments {
		keys[i] = s.keys
	}

	all, err := l.gate.readSegments(ctx, l.voucherID, keys)
	if err != nil && !errors.Is(err, domain.ErrGateBroken) {
		return false, err
	}

	var built int64
	for i, s := range all {
		built += s.level.Built
		l.segments[i].replaces = ""
		if !s.cold {
			l.segments[i].replaces = strconv.FormatInt(s.level.Built, 10)
		}
	}

	needless := err == nil && !isCold(all) && strconv.FormatInt(built, 10) != l.built
	for i := 0; needless && i < len(l.segments); i++ {
		lacking, err := l.segments[i].mayLackAdmissions(ctx)
		if err != nil {
			return false, err
		}
		needless = !lacking
	}

	return needless, nil
}

func (l *load) run(ctx context.Context) error {
	start := time.Now()
	working, stop := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		l.renew(working, stop)
	}()

	t, err := l.rebuild(working)
	if errors.Is(context.Cause(working), errStale) && err != nil {
		// The rebuild failed because its context was cancelled.
		err = errStale
	}

	stop(nil)
	<-renewed

	if err != nil {
		for _, s := range l.segments {
			s.drop(ctx)
		}
		return err
	}

	l.gate.cfg.Log.InfoContext(ctx, "gate: loaded", slog.Int64("voucher_id", l.voucherID),
		slog.Int64("stock", t.stock), slog.Int64("held", t.held), slog.Int64("queued", t.queued),
		slog.Int("segments", len(l.segments)), slog.Duration("took", time.Since(start)))

	return nil
}

// rebuild does steps 2 to 6 of Load. It returns the sum of the segments.
func (l *load) rebuild(ctx context.Context) (table, error) {
	queues := make([]queuedEntries, len(l.segments))
	last := make([]string, len(l.segments))
	for i, s := range l.segments {
		var err error
		if queues[i], last[i], err = s.readStream(ctx); err != nil {
			return table{}, err
		}
	}

	for i, s := range l.segments {
		var err error
		if last[i], err = s.mark(ctx, queues[i], last[i]); err != nil {
			return table{}, err
		}
	}

	var inFlight []int64
	for i, s := range l.segments {
		if err := s.repairTickets(ctx, queues[i], last[i]); err != nil {
			return table{}, err
		}
		inFlight = append(inFlight, queues[i].orderIDs()...)
	}

	generation := ""
	if l.fence {
		fenced, err := l.store.FenceGate(ctx, l.voucherID, l.generation)
		if err == nil && !fenced {
			// Another load has raised it.
			err = errStale
		}
		if err != nil {
			return table{}, err
		}
		generation = strconv.FormatInt(l.generation+1, 10)
	}

	state, err := l.store.GateState(ctx, l.voucherID, inFlight)
	if err != nil {
		return table{}, err
	}

	tables := l.share(queues, state)
	for i, s := range l.segments {
		if err := s.write(ctx, tables[i]); err != nil {
			return table{}, err
		}
	}

	var all table
	for i, s := range l.segments {
		if err := s.finish(ctx, tables[i], generation); err != nil {
			return table{}, err
		}
		all.stock += tables[i].stock
		all.held += tables[i].held
		all.queued += tables[i].queued
	}

	return all, nil
}

// share divides the state of the database among the segments. Each active order goes to the home of its user, and each
// admission stays where it is queued. Every segment keeps the units that it offered at the mark, because it may admit
// that many buyers until the finish; the rest is divided evenly. The rest is what a cold segment offered, units on their
// way between segments, and whatever the old gate had too many or too few.
func (l *load) share(queues []queuedEntries, state domain.GateState) []*table {
	if len(l.segments) == 1 {
		return []*table{newTable(queues[0], state)}
	}

	n := len(l.segments)
	holders := make([][]domain.Holder, n)
	for _, h := range state.Holders {
		at := home(h.UserID, n)
		holders[at] = append(holders[at], h)
	}

	tables := make([]*table, n)
	shares := make([]int64, n)
	free := state.Stock
	for i, s := range l.segments {
		tables[i] = newTable(queues[i], domain.GateState{Holders: holders[i], Settled: state.Settled})
		// The stock of the table is minus the units of the admissions in flight.
		free += tables[i].stock

		shares[i] = max(0, s.free)
		free -= shares[i]
	}

	spread(shares, free)
	for i := range tables {
		tables[i].stock = shares[i]
	}

	return tables
}

// spread adds units to shares evenly. If units is negative, it takes them from the largest shares first; the first share
// becomes negative if there are not enough.
func spread(shares []int64, units int64) {
	n := int64(len(shares))
	if units >= 0 {
		for i := range shares {
			shares[i] += units / n
			if int64(i) < units%n {
				shares[i]++
			}
		}

		return
	}

	order := make([]int, len(shares))
	for i := range order {
		order[i] = i
	}

	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(shares[b], shares[a]) })
	for _, i := range order {
		taken := min(shares[i], -units)
		shares[i] -= taken
		units += taken
	}

	shares[0] += units
}

// epochPrefix begins the epochs of gates with n segments, so that a gate that was loaded with another number counts as
// cold.
func epochPrefix(n int) string { return strconv.Itoa(n) + ":" }
