package admission

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"log/slog"
	"time"

	"seckill/internal/service"
)

const (
	loadPoll = 20 * time.Millisecond
	// loadLease is how long others wait for a loader that died. It is renewed three times within it.
	loadLease = 10 * time.Second
	// tableTTL is how long an unfinished table stays.
	tableTTL = time.Minute
	// cleanupTimeout bounds what is done after the caller's context may have ended.
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
// and the others wait for it, until ctx ends. Errors: those of read, and service.ErrUnavailable.
//
// What it builds is exact although nothing stands still meanwhile:
//
//  1. Take the load (the key "loading"). A cold gate admits nobody, so that the stream gets no new entries of this
//     voucher; they only leave it, but for admissions that are put back to be tried again: then the load begins again,
//     too. From here on, scripts note which entries left and which orders were released.
//  2. Read the entries of this voucher in the stream, page by page.
//  3. Mark: take the notes and clear them, in one script. The entries that were read, less those noted, are exactly
//     those in the stream at this moment; their admissions: A. Tickets that say otherwise are dropped, and those that
//     are missing put back.
//  4. Read the database in one snapshot, later than the mark: stock S, holders H, and E, those of A that exist there.
//     A release noted before the mark was committed before it too, so that the snapshot has it.
//  5. A - E is in flight: it holds units that S still counts. stock = S - |A - E|, buyers = H + (A - E), queued = |A|.
//  6. Finish, in one script: put that in place, less the notes since the mark. What left was in A. A released
//     order is in the table if it held a unit at the snapshot, and gives it back; else S has its unit already.
//
// Whatever spoils this (the data of Redis lost, the lease run out, AddStock, Unload, an admission put back) also takes
// the token away, and without it neither the mark nor the finish succeeds.
func (g *Gate) Load(ctx context.Context, voucherID int64, read service.GateReader) error {
	for {
		l := &load{gate: g, voucherID: voucherID, keys: keysOf(voucherID), token: rand.Text(), read: read}
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
			g.cfg.Log.WarnContext(ctx, "gate: the load is stale and begins again", slog.Int64("voucher_id", voucherID))
		}
		if err := wait(ctx, loadPoll); err != nil {
			return unavailable(err, "wait for the gate of voucher %d", voucherID)
		}
	}
}

// load is one attempt to load a gate.
type load struct {
	gate      *Gate
	voucherID int64
	keys      gateKeys
	token     string
	read      service.GateReader
}

func (l *load) take(ctx context.Context) (string, error) {
	state, err := l.gate.run(ctx, loadTakeScript, l.keys.list(), l.token, loadLease.Milliseconds()).Text()
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
		slog.Int64("stock", t.stock), slog.Int("held", t.held), slog.Int("queued", t.queued),
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
