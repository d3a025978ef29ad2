package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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
	// maxLoadingAge is the age from which a running load does not excuse a cold gate any more.
	maxLoadingAge = time.Minute
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
//
// The result is exact although orders keep changing during the load:
//
//  1. Take the load (the key "loading"). From now on, scripts append notes to a list: which orders buyers came to hold,
//     which were released, which entries left the stream, and how many rows were queued.
//  2. Read the entries of this voucher in the stream, page by page.
//  3. Mark, in one script: read the entries that were added to the stream since, take the notes and clear them. The
//     entries that were read, less those that left according to the notes, are exactly those in the stream at this
//     moment; their admissions are A. Tickets of other admissions are removed, and missing ones restored.
//  4. Unless the gate to be replaced has all admissions, raise the generation in the database. From then on, workers
//     commit no admission that Redis has lost.
//     Read the database in one snapshot, later than the mark: stock S, active orders H, and E, the part of A that
//     exists in the database. A release noted before the mark was also committed before it, so the snapshot contains
//     it.
//  5. A - E is in flight: it holds units that S still counts. stock = S - |A - E|, buyers = H + (A - E), queued = |A|.
//  6. Finish: apply the notes since the mark in their order, and put the result in place, in one script. (If there are
//     many notes, earlier calls of the script apply all but the last.) An order that a buyer came to hold after the
//     mark takes a unit, unless it is in the table: then the snapshot contains both. A released order is in the table
//     if it held a unit at the snapshot or later, and returns it; otherwise S already contains its unit. An order that
//     was committed and ended between mark and snapshot does both: it is not in the table, so its first note takes a
//     unit which its second note returns, now or with the release that follows.
//
// All segments of a gate are loaded together: steps 1 to 3 in each, one read of the database, and a finish of each. See
// load.share for how they divide the stock.
//
// None of this requires a cold gate. A cold gate admits no buyer during the load. A loaded one goes on admitting, and
// the finish swaps the tables (see Rebuild).
//
// Every event that would make the result wrong (data loss in Redis, expiry of the lease, AddStock, Unload) also removes
// the token, without which neither the mark nor the finish succeeds. The exception is a load that lies between AddStock
// and its change in the database, see there.
//
// The generation is raised from a value that was read before step 1. So a load that has lost its lease cannot raise that
// of the gate which another load has put in place since.
func (g *Gate) Load(ctx context.Context, voucherID int64, store domain.GateStore) error {
	return g.joinLoad(ctx, loadKey{voucherID, ""}, store)
}

// Rebuild replaces the loaded gate of a voucher by a new one. The old one admits buyers until then. Rebuild does
// nothing if the loaded gate is not the one that was built at built (GateLevel.Built): another process has already
// replaced it. It loads a gate that Load would load. Like Load, it works in the background, and ctx bounds only the
// wait. Errors: those of store, and domain.ErrUnavailable.
func (g *Gate) Rebuild(ctx context.Context, voucherID, built int64, store domain.GateStore) error {
	return g.joinLoad(ctx, loadKey{voucherID, strconv.FormatInt(built, 10)}, store)
}

// loadKey identifies a load: the voucher and, for a rebuild, when the gate to be replaced was built.
type loadKey struct {
	voucherID int64
	built     string
}

// joinLoad waits for the load with a key. It starts it if this process is not running it.
func (g *Gate) joinLoad(ctx context.Context, key loadKey, store domain.GateStore) error {
	//nolint:contextcheck // the load outlives the caller's context
	loaded := g.loads.DoChan(fmt.Sprint(key), func() (any, error) {
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			return nil, unavailable(redis.ErrClosed, "load voucher %d", key.voucherID)
		}
		g.done.Add(1)
		g.mu.Unlock()
		defer g.done.Done()

		ctx, cancel := context.WithTimeout(g.working, loadTimeout)
		defer cancel()
		return nil, g.load(ctx, key, store)
	})

	select {
	case r := <-loaded:
		return r.Err
	case <-ctx.Done():
		return unavailable(ctx.Err(), "voucher %d is being loaded", key.voucherID)
	}
}

// load loads a gate. It starts over when the load becomes stale.
func (g *Gate) load(ctx context.Context, key loadKey, store domain.GateStore) error {
	for {
		segments, err := g.segments(ctx, key.voucherID)
		if err != nil {
			return err
		}

		generation, err := store.GateGeneration(ctx, key.voucherID)
		if err != nil {
			return err
		}

		l := newLoad(g, key, segments, store, generation)
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
			g.cfg.Log.WarnContext(ctx, "gate: load is stale, starting over", slog.Int64("voucher_id", key.voucherID))
		}

		if err := loop.Sleep(ctx, loadPoll); err != nil {
			return unavailable(err, "wait for the gate of voucher %d", key.voucherID)
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

// loadingSince returns when the load with a token began, or the zero time for an empty token.
func loadingSince(token string) time.Time {
	ms, err := strconv.ParseInt(strings.SplitN(token, "-", 2)[0], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// take begins the load of a segment, unless it needs none or another load is running. It returns the answer of
// load_take.lua.
func (l *segmentLoad) take(ctx context.Context) (string, error) {
	reply, err := l.runTake(ctx, loadLease)
	if err != nil {
		// The reply may be lost after the script took the load.
		l.drop(ctx)
		return "", err
	}

	l.history = reply[1]
	return reply[0], nil
}

// mayLackAdmissions reports whether a load of the segment would have to raise the generation. It begins no load.
func (l *segmentLoad) mayLackAdmissions(ctx context.Context) (bool, error) {
	reply, err := l.runTake(ctx, 0)
	if err != nil {
		return false, err
	}
	return reply[0] == loadFences, nil
}

// runTake returns the answer of load_take.lua and the history of the server. Without a lease the script changes nothing.
func (l *segmentLoad) runTake(ctx context.Context, lease time.Duration) ([]string, error) {
	reply, err := l.gate.run(ctx, loadTakeScript, l.keys.list(),
		l.token, lease.Milliseconds(), l.replaces, l.generation).StringSlice()
	if err != nil {
		return nil, unavailable(err, "load voucher %d", l.voucherID)
	}
	return reply, nil
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
