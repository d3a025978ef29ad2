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

// loads is one attempt to load all segments of a gate, with one token and one read of the database. A gate of one
// segment has one element.
type loads struct {
	gate      *Gate
	voucherID int64
	// built is when the gate to be replaced was built; empty: load a cold gate, or one that may lack admissions.
	built    string
	store    domain.GateStore
	segments []*load

	// generation is that of the sale before the load was taken.
	generation int64
	// fence means that the load raises the generation.
	fence bool
}

// newLoads returns an attempt with a new token, which begins with the time in milliseconds. generation was read before.
func newLoads(g *Gate, key loadKey, segments []gateKeys, store domain.GateStore, generation int64) *loads {
	token := strconv.FormatInt(time.Now().UnixMilli(), 10) + "-" + rand.Text()
	ls := &loads{
		gate:       g,
		voucherID:  key.voucherID,
		built:      key.built,
		store:      store,
		generation: generation,
	}

	epoch := ""
	if len(segments) > 1 {
		epoch = epochPrefix(len(segments)) + token
	}

	for _, k := range segments {
		ls.segments = append(ls.segments, &load{
			gate:      g,
			voucherID: key.voucherID,
			keys:      k,
			token:     token,
			built:     key.built,
			epoch:     epoch,
		})
	}

	return ls
}

// take takes the load of every segment, or of none. Their order is the same in all processes, so the first segment
// decides which process loads the gate.
func (ls *loads) take(ctx context.Context) (string, error) {
	if len(ls.segments) > 1 {
		needless, err := ls.compareBuilt(ctx)
		if err != nil || needless {
			return loadNeedless, err
		}
	}

	for i, l := range ls.segments {
		state, err := l.take(ctx, ls.generation)
		if err == nil && (state == loadTaken || state == loadFences) {
			ls.fence = ls.fence || state == loadFences
			continue
		}

		for _, taken := range ls.segments[:i] {
			taken.drop(ctx)
		}

		// A segment has changed since compareBuilt.
		if len(ls.segments) > 1 {
			state = loadBusy
		}
		return state, err
	}

	return loadTaken, nil
}

// compareBuilt reports whether the gate needs no load: it is loaded, has all admissions, and is not the one to be
// replaced. Otherwise each segment gets the version that is to be replaced.
func (ls *loads) compareBuilt(ctx context.Context) (bool, error) {
	keys := make([]gateKeys, len(ls.segments))
	for i, l := range ls.segments {
		keys[i] = l.keys
	}

	all, err := ls.gate.readSegments(ctx, ls.voucherID, keys)
	if err != nil && !errors.Is(err, domain.ErrGateBroken) {
		return false, err
	}

	var built int64
	for i, s := range all {
		built += s.level.Built
		ls.segments[i].built = ""
		if !s.cold {
			ls.segments[i].built = strconv.FormatInt(s.level.Built, 10)
		}
	}

	needless := err == nil && !isCold(all) && strconv.FormatInt(built, 10) != ls.built
	for i := 0; needless && i < len(ls.segments); i++ {
		lacking, err := ls.segments[i].mayLackAdmissions(ctx, ls.generation)
		if err != nil {
			return false, err
		}
		needless = !lacking
	}

	return needless, nil
}

// run does the work of a load, and renews its lease meanwhile.
func (ls *loads) run(ctx context.Context) error {
	start := time.Now()
	working, stop := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		ls.renew(working, stop)
	}()

	t, err := ls.rebuild(working)
	if errors.Is(context.Cause(working), errStale) && err != nil {
		// The rebuild failed because its context was cancelled.
		err = errStale
	}

	stop(nil)
	<-renewed

	if err != nil {
		for _, l := range ls.segments {
			l.drop(ctx)
		}
		return err
	}

	ls.gate.cfg.Log.InfoContext(ctx, "gate: loaded", slog.Int64("voucher_id", ls.voucherID),
		slog.Int64("stock", t.stock), slog.Int64("held", t.held), slog.Int64("queued", t.queued),
		slog.Int("segments", len(ls.segments)), slog.Duration("took", time.Since(start)))

	return nil
}

// rebuild does steps 2 to 6 of Load. It returns the sum of the segments.
func (ls *loads) rebuild(ctx context.Context) (table, error) {
	queues := make([]queuedEntries, len(ls.segments))
	last := make([]string, len(ls.segments))
	for i, l := range ls.segments {
		var err error
		if queues[i], last[i], err = l.readStream(ctx); err != nil {
			return table{}, err
		}
	}

	for i, l := range ls.segments {
		var err error
		if last[i], err = l.mark(ctx, queues[i], last[i]); err != nil {
			return table{}, err
		}
	}

	var inFlight []int64
	for i, l := range ls.segments {
		if err := l.repairTickets(ctx, queues[i], last[i]); err != nil {
			return table{}, err
		}
		inFlight = append(inFlight, queues[i].orderIDs()...)
	}

	generation := ""
	if ls.fence {
		fenced, err := ls.store.FenceGate(ctx, ls.voucherID, ls.generation)
		if err == nil && !fenced {
			// Another load has raised it.
			err = errStale
		}
		if err != nil {
			return table{}, err
		}
		generation = strconv.FormatInt(ls.generation+1, 10)
	}

	state, err := ls.store.GateState(ctx, ls.voucherID, inFlight)
	if err != nil {
		return table{}, err
	}

	tables := ls.share(queues, state)
	for i, l := range ls.segments {
		if err := l.write(ctx, tables[i]); err != nil {
			return table{}, err
		}
	}

	var all table
	for i, l := range ls.segments {
		if err := l.finish(ctx, tables[i], generation); err != nil {
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
func (ls *loads) share(queues []queuedEntries, state domain.GateState) []*table {
	if len(ls.segments) == 1 {
		return []*table{newTable(queues[0], state)}
	}

	n := len(ls.segments)
	holders := make([][]domain.Holder, n)
	for _, h := range state.Holders {
		at := home(h.UserID, n)
		holders[at] = append(holders[at], h)
	}

	tables := make([]*table, n)
	shares := make([]int64, n)
	free := state.Stock
	for i, l := range ls.segments {
		tables[i] = newTable(queues[i], domain.GateState{Holders: holders[i], Settled: state.Settled})
		// The stock of the table is minus the units of the admissions in flight.
		free += tables[i].stock

		shares[i] = max(0, l.free)
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
