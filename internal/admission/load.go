package admission

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

const (
	loadPoll = 20 * time.Millisecond
	// loadLease is how long others wait for a loader that died. It is renewed three times within it.
	loadLease = 10 * time.Second
	// loadTimeout bounds a load. One of 1,000,000 orders takes some seconds.
	loadTimeout = 5 * time.Minute
	// loadPatience is after which time a cold gate counts as cold although a loader is at work.
	loadPatience = time.Minute
	// tableTTL is how long an unfinished table stays.
	tableTTL = time.Minute
	// cleanupTimeout bounds what is done after the load's context may have ended.
	cleanupTimeout = time.Second
)

var (
	//go:embed load_take.lua
	loadTakeSource string
	//go:embed load_mark.lua
	loadMarkSource string
	//go:embed load_sweep.lua
	loadSweepSource string
	//go:embed load_restore.lua
	loadRestoreSource string
	//go:embed load_renew.lua
	loadRenewSource string
	//go:embed load_finish.lua
	loadFinishSource string
	//go:embed load_drop.lua
	loadDropSource string

	loadTakeScript    = script(loadTakeSource)
	loadMarkScript    = script(loadMarkSource)
	loadSweepScript   = script(loadSweepSource)
	loadRestoreScript = script(loadRestoreSource)
	loadRenewScript   = script(loadRenewSource)
	loadFinishScript  = script(loadFinishSource)
	loadDropScript    = script(loadDropSource)
)

// errStale says that a load is not its loader's any more: Redis lost it, the lease ran out, or the stock was changed
// in the meantime. The load begins again.
var errStale = errors.New("admission: the load is stale")

// Load makes sure that the gate of a voucher is loaded. If it is not, one process reads the database through read,
// and the others wait for it.
//
// The work is done in the background, once per process and voucher, for at most 5 minutes. When ctx ends, only the caller
// stops waiting for it: the next one finds it further along, or done. Errors: those of read, and service.ErrUnavailable.
//
// What it builds is exact although nothing stands still meanwhile:
//
//  1. Take the load (the key "loading"). From here on, scripts append notes to a list: which orders buyers came to hold,
//     which were released, which entries left the stream, and how many rows were queued.
//  2. Read the entries of this voucher in the stream, page by page.
//  3. Mark, in one script: read the entries that were added to the stream since, take the notes and clear them. The
//     entries that were read, less those that left according to the notes, are exactly those in the stream at this moment;
//     their admissions: A. Tickets that say otherwise are dropped, and those that are missing put back.
//  4. Read the database in one snapshot, later than the mark: stock S, holders H, and E, those of A that exist there.
//     A release noted before the mark was committed before it too, so that the snapshot has it.
//  5. A - E is in flight: it holds units that S still counts. stock = S - |A - E|, buyers = H + (A - E), queued = |A|.
//  6. Finish: apply the notes since the mark to that, in their order, and put it in place, in one script. (Where there are
//     many notes, all but the last are applied by scripts before it.) An order that a buyer came to hold after the mark
//     takes a unit, unless it is in the table: then the snapshot has both. A released order is in the table if it held a
//     unit at the snapshot or since, and gives it back; else S has its unit already. An order that was committed and
//     ended between mark and snapshot does both: it is not in the table, so its first note takes a unit which its second
//     gives back, now or by the release that follows.
//
// Nothing of this needs the gate to be cold. On a cold gate nobody is admitted meanwhile; beside a loaded one buyers are,
// and the finish swaps the tables (see Rebuild).
//
// Whatever spoils this (the data of Redis lost, the lease run out, AddStock, Unload) also takes the token away, and
// without it neither the mark nor the finish succeeds.
func (g *Gate) Load(ctx context.Context, voucherID int64, read service.GateReader) error {
	return g.share(ctx, loadKey{voucherID, ""}, read)
}

// Rebuild loads the gate of a voucher anew beside the one that is loaded, which goes on admitting buyers until the new
// one takes its place. A gate that is cold is loaded; one that was built at another time than built (GateLevel.Built) is
// left alone, since somebody else has rebuilt it. Like Load it works in the background, and ctx bounds the waiting only.
func (g *Gate) Rebuild(ctx context.Context, voucherID, built int64, read service.GateReader) error {
	return g.share(ctx, loadKey{voucherID, strconv.FormatInt(built, 10)}, read)
}

// loadKey says what is loaded, and, for a rebuild, when the gate to be replaced was built.
type loadKey struct {
	voucherID int64
	built     string
}

// running is a load in the background.
type running struct {
	done chan struct{} // closed when err is set
	err  error
}

// share waits for a load, which it begins if this process is not at it.
func (g *Gate) share(ctx context.Context, key loadKey, read service.GateReader) error {
	g.mu.Lock()
	r := g.loads[key]
	if r == nil {
		r = &running{done: make(chan struct{})}
		begun := g.spawn(func() { //nolint:contextcheck // its callers do not end it
			ctx, cancel := context.WithTimeout(g.working, loadTimeout)
			defer cancel()
			r.err = g.load(ctx, key, read)
			g.mu.Lock()
			delete(g.loads, key)
			g.mu.Unlock()
			close(r.done)
		})
		if !begun {
			g.mu.Unlock()
			return unavailable(redis.ErrClosed, "load voucher %d", key.voucherID)
		}
		g.loads[key] = r
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return unavailable(ctx.Err(), "voucher %d is being loaded", key.voucherID)
	}
}

// load loads a gate, from the beginning as often as it has to.
func (g *Gate) load(ctx context.Context, key loadKey, read service.GateReader) error {
	for {
		l := newLoad(g, key, read)
		state, err := l.take(ctx)
		if err != nil {
			return err
		}
		switch state {
		case "loaded":
			return nil
		case "taken":
			if err := l.run(ctx); !errors.Is(err, errStale) {
				return err
			}
			g.cfg.Log.WarnContext(ctx, "gate: the load is stale and begins again", slog.Int64("voucher_id", key.voucherID))
		}
		if err := wait(ctx, loadPoll); err != nil {
			return unavailable(err, "wait for the gate of voucher %d", key.voucherID)
		}
	}
}

// load is one attempt to load a gate.
type load struct {
	gate      *Gate
	voucherID int64
	keys      gateKeys
	token     string
	built     string // of the gate to be replaced; empty: a cold gate is loaded
	read      service.GateReader
}

// newLoad gives a load its token, which begins with the time, in milliseconds.
func newLoad(g *Gate, key loadKey, read service.GateReader) *load {
	token := strconv.FormatInt(time.Now().UnixMilli(), 10) + "-" + rand.Text()
	return &load{gate: g, voucherID: key.voucherID, keys: keysOf(key.voucherID), token: token, built: key.built, read: read}
}

// loadingSince returns when the load with a token began; the zero time if there is none.
func loadingSince(token string) time.Time {
	ms, err := strconv.ParseInt(strings.SplitN(token, "-", 2)[0], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func (l *load) take(ctx context.Context) (string, error) {
	state, err := l.gate.run(ctx, loadTakeScript, l.keys.list(), l.token, loadLease.Milliseconds(), l.built).Text()
	if err != nil {
		l.drop(ctx) // it may be taken without our having heard of it
		return "", unavailable(err, "load voucher %d", l.voucherID)
	}
	return state, nil
}

// run does the work while the lease is kept up beside it.
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
		err = errStale // whatever broke because of it
	}
	stop(nil)
	<-renewed
	if err != nil {
		l.drop(ctx)
		return err
	}
	l.gate.cfg.Log.InfoContext(ctx, "gate: loaded", slog.Int64("voucher_id", l.voucherID),
		slog.Int64("stock", t.stock), slog.Int64("held", t.held), slog.Int64("queued", t.queued),
		slog.Duration("took", time.Since(start)))
	return nil
}

// renew keeps the lease until ctx ends or the load turns out to be stale. An error is no proof of that; the next
// try or the finish will know.
func (l *load) renew(ctx context.Context, stop context.CancelCauseFunc) {
	for wait(ctx, loadLease/4) == nil {
		kept, err := l.gate.run(ctx, loadRenewScript, l.keys.list(l.keys.table(l.token)),
			l.token, loadLease.Milliseconds(), tableTTL.Milliseconds()).Bool()
		if err == nil && !kept {
			stop(errStale)
			return
		}
	}
}

// drop lets others begin. If it fails they wait for the lease to end.
func (l *load) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := l.gate.run(ctx, loadDropScript, l.keys.list(l.keys.table(l.token)), l.token).Err()
	if err != nil {
		l.gate.cfg.Log.WarnContext(ctx, "gate: an abandoned load stays until its lease ends",
			slog.Int64("voucher_id", l.voucherID), slog.Any("error", err))
	}
}
