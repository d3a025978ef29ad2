package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// loadPoll is the pause before the next attempt to load a gate, or to see the load of another process complete.
	loadPoll = 20 * time.Millisecond
	// loadLease is the time after which another process replaces a loader that died. It is renewed every quarter of it.
	loadLease = 10 * time.Second
	// loadTimeout bounds a load. One of 1,000,000 orders takes some seconds.
	loadTimeout = 5 * time.Minute
	// tableTTL is the time to live of an unfinished table.
	tableTTL = time.Minute
	// cleanupTimeout bounds the cleanup after a failed load, whose context may have ended.
	cleanupTimeout = time.Second
)

var (
	loadTakeScript    = script("load_take")
	loadMarkScript    = script("load_mark")
	loadTicketsScript = script("load_tickets")
	loadRenewScript   = script("load_renew")
	loadFinishScript  = script("load_finish")
	loadDropScript    = script("load_drop")
)

// errStale reports that a load lost its token: Redis lost the data, the lease expired, or the stock changed since the
// load began. The load starts over.
var errStale = errors.New("admission: the load is stale")

// Load ensures that the gate of a voucher is loaded and has all admissions of its generation. If it does not, one
// process reads the database, and the others wait for that process.
//
// The load runs in the background, once per process and voucher, for at most 5 minutes. The end of ctx ends only the
// caller's wait; a later call joins the running load. Errors: those of store, and domain.ErrUnavailable.
func (g *Gate) Load(ctx context.Context, voucherID int64, store domain.GateStore) error {
	return g.join(ctx, voucherID, "", store)
}

// Rebuild replaces the loaded gate of a voucher by a new one. The old one admits buyers until then. Rebuild does
// nothing if the loaded gate is not the one that was built at built (GateLevel.Built): another process has already
// replaced it. It loads a gate that Load would load. Like Load, it works in the background, and ctx bounds only the
// wait. Errors: those of store, and domain.ErrUnavailable.
func (g *Gate) Rebuild(ctx context.Context, voucherID, built int64, store domain.GateStore) error {
	return g.join(ctx, voucherID, strconv.FormatInt(built, 10), store)
}

// join waits for the load of a voucher, which it starts if this process is not running it. built is that of load.
func (g *Gate) join(ctx context.Context, voucherID int64, built string, store domain.GateStore) error {
	//nolint:contextcheck // the load outlives the caller's context
	loaded := g.loads.DoChan(fmt.Sprint(voucherID, " ", built), func() (any, error) {
		g.loading.RLock()
		defer g.loading.RUnlock()

		if err := g.working.Err(); err != nil {
			return nil, unavailable(err, "load voucher %d", voucherID)
		}

		ctx, cancel := context.WithTimeout(g.working, loadTimeout)
		defer cancel()
		return nil, g.load(ctx, voucherID, built, store)
	})

	select {
	case r := <-loaded:
		return r.Err
	case <-ctx.Done():
		return unavailable(ctx.Err(), "voucher %d is being loaded", voucherID)
	}
}

// load loads a gate. It starts over when the load becomes stale.
func (g *Gate) load(ctx context.Context, voucherID int64, built string, store domain.GateStore) error {
	for {
		segments, err := g.segments(ctx, voucherID)
		if err != nil {
			return err
		}

		generation, err := store.GateGeneration(ctx, voucherID)
		if err != nil {
			return err
		}

		l := newLoad(g, voucherID, built, segments, store, generation)
		state, err := l.take(ctx)
		if err != nil {
			return err
		}

		switch state {
		case loadNeedless:
			return nil
		case loadTaken:
			if err := l.run(ctx); !errors.Is(err, errStale) {
				return err
			}
			g.cfg.Log.WarnContext(ctx, "gate: load is stale, starting over", slog.Int64("voucher_id", voucherID))
		}

		if err := loop.Sleep(ctx, loadPoll); err != nil {
			return unavailable(err, "wait for the gate of voucher %d", voucherID)
		}
	}
}

// The answers of load_take.lua.
const (
	loadFences   = "fence"
	loadTaken    = "taken"
	loadNeedless = "loaded"
	loadBusy     = "busy"
)

// segmentLoad is the part of a load that is of one segment.
type segmentLoad struct {
	*load

	keys gateKeys
	// replaces is when the segment to be replaced was built; empty: load a cold one only.
	replaces string
	// free is the number of units that the replaced segment offered at the mark.
	free int64
	// history is that of the server at the beginning of the load.
	history string
}

// take begins the load of a segment, unless it needs none or another load is running. It returns the answer of
// load_take.lua. Without a lease it only returns what the answer would be.
func (l *segmentLoad) take(ctx context.Context, lease time.Duration) (string, error) {
	reply, err := l.gate.run(ctx, loadTakeScript, l.keys.list(),
		l.token, lease.Milliseconds(), l.replaces, l.generation).StringSlice()
	if err != nil {
		// The reply may be lost after the script took the load.
		l.drop(ctx)
		return "", unavailable(err, "load voucher %d", l.voucherID)
	}

	l.history = reply[1]
	return reply[0], nil
}

// renew renews the lease until ctx ends. It stops the load if the load has become stale. An error does not prove that,
// so the next renewal or the finish decides.
func (l *load) renew(ctx context.Context, stop context.CancelCauseFunc) {
	for loop.Sleep(ctx, loadLease/4) == nil {
		for _, s := range l.segments {
			kept, err := l.gate.run(ctx, loadRenewScript, s.keys.list(s.keys.table(l.token)),
				l.token, loadLease.Milliseconds(), tableTTL.Milliseconds()).Bool()
			if err == nil && !kept {
				stop(errStale)
				return
			}
		}
	}
}

// drop abandons the load, so that another one can begin at once. If it fails, the lease has to expire first.
func (l *segmentLoad) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := l.gate.run(ctx, loadDropScript, l.keys.list(l.keys.table(l.token)), l.token).Err()
	if err != nil {
		l.gate.cfg.Log.WarnContext(ctx, "gate: cannot abandon a failed load; its lease has to expire",
			slog.Int64("voucher_id", l.voucherID), slog.Any("err", err))
	}
}

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

// newLoad returns an attempt with a new token. generation was read before.
func newLoad(
	g *Gate, voucherID int64, built string, segments []gateKeys, store domain.GateStore, generation int64,
) *load {
	l := &load{
		gate:       g,
		voucherID:  voucherID,
		store:      store,
		token:      rand.Text(),
		built:      built,
		generation: generation,
	}

	if len(segments) > 1 {
		l.epoch = epochPrefix(len(segments)) + l.token
	}
	for _, k := range segments {
		l.segments = append(l.segments, &segmentLoad{load: l, keys: k, replaces: built})
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
		state, err := s.take(ctx, loadLease)
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
		state, err := l.segments[i].take(ctx, 0)
		if err != nil {
			return false, err
		}
		needless = state != loadFences
	}

	return needless, nil
}

func (l *load) run(ctx context.Context) error {
	start := time.Now()
	working, stop := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { l.renew(working, stop) })

	t, err := l.build(working)
	if errors.Is(context.Cause(working), errStale) && err != nil {
		// The load failed because its context was cancelled.
		err = errStale
	}

	stop(nil)
	renewing.Wait()

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

func (l *load) build(ctx context.Context) (table, error) {
	var err error
	queues := make([]queuedEntries, len(l.segments))
	last := make([]string, len(l.segments))

	// Step 2: read the streams.
	for i, s := range l.segments {
		queues[i] = queuedEntries{}
		if last[i], err = s.readFrom(ctx, queues[i], ""); err != nil {
			return table{}, err
		}
	}

	// Step 3: mark.
	for i, s := range l.segments {
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

	// Step 4: raise the generation, and read the database.
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

	// Step 5: compute what is left.
	tables := l.share(queues, state)
	for i, s := range l.segments {
		if err := s.write(ctx, tables[i]); err != nil {
			return table{}, err
		}
	}

	// Step 6: finish.
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

// spread adds units to shares evenly. If units is negative, it takes them from the first shares that have some; the first
// share becomes negative if there are not enough.
func spread(shares []int64, units int64) {
	for i := range shares {
		part := units / int64(len(shares)-i)
		if units < 0 {
			part = max(units, -shares[i])
		}

		shares[i] += part
		units -= part
	}

	shares[0] += units
}

// epochPrefix begins the epochs of gates with n segments, so that a gate that was loaded with another number counts as
// cold.
func epochPrefix(n int) string { return strconv.Itoa(n) + ":" }
