package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// ReconcileGate is the gate as the reconciler sees it.
type ReconcileGate interface {
	// Inspect reads all that Redis holds of a voucher; of more than most buyers only how many they are.
	Inspect(ctx context.Context, voucherID int64, most int) (GateView, error)
	// Level reads the numbers, all of one moment. Errors: ErrGateCold, ErrGateBroken, ErrUnavailable.
	Level(ctx context.Context, voucherID int64) (GateLevel, error)
	// Unload makes the gate cold.
	Unload(ctx context.Context, voucherID int64) error
	// Rebuild loads the gate anew while it goes on admitting buyers, unless it was built at another time than built.
	Rebuild(ctx context.Context, voucherID, built int64, read GateReader) error
	// Load makes sure that it is loaded, from what read says if need be.
	Load(ctx context.Context, voucherID int64, read GateReader) error
}

// ReconcileStore is what the reconciler reads in the database. It writes nothing there.
type ReconcileStore interface {
	// GateState is a GateReader.
	GateState(ctx context.Context, voucherID int64, inFlight []int64) (GateState, error)
	// SaleLevel reads units and active orders, in one snapshot. Error: ErrNotFound.
	SaleLevel(ctx context.Context, voucherID int64) (SaleLevel, error)
	// SaleFacts reads all that must fit together, in one snapshot; of more than most active orders only how many. A
	// voucher that is not there is no error.
	SaleFacts(ctx context.Context, voucherID int64, inFlight []int64, most int, since OverdueSince) (SaleFacts, error)
	// OrderFacts finds those of the ids that are orders of the voucher.
	OrderFacts(ctx context.Context, voucherID int64, ids []int64) ([]OrderFact, error)
	// Sales names the newest sales, at most most, of those that end after a moment, and counts these.
	Sales(ctx context.Context, endAfter time.Time, most int) (ids []int64, all int64, err error)
}

// SaleLevel is what the database says about a voucher at one moment, in numbers.
type SaleLevel struct {
	Stock  int64 // units left
	Limit  int   // active orders that a user may hold
	Active int64 // active orders
	Sum    int64 // of their ids modulo LevelDigits
}

const (
	// reconcileEvery is how often the background looks at the gates that this process uses. A difference must be seen
	// twice, so a unit that the gate forgot to give back is on sale again after 10 to 15 s.
	reconcileEvery = 5 * time.Second
	// reconcileMinAge is how old an order must be, by its id, to count as missing or as too much: it is longer than
	// anything that is under way takes.
	reconcileMinAge = 10 * time.Second
	// maxCompared is the largest number of active orders that are compared one by one. Of larger sales only the totals are.
	maxCompared = 2_000_000
	// reconcilePause is how long Reconcile waits between its two looks.
	reconcilePause = time.Second
	// reconcileMost is how many vouchers one request is about.
	reconcileMost = 20
	// reconcileEnded is how long after its end a sale is looked at.
	reconcileEnded = time.Hour

	stuckAfter     = time.Minute      // an admission waits in the stream
	unpaidAfter    = time.Minute      // past its time
	refundingAfter = 10 * time.Minute // since the refund began
)

// ReconcilerConfig is what a Reconciler needs.
type ReconcilerConfig struct {
	Gate      ReconcileGate // nil: there is none, and only the database is checked
	Store     ReconcileStore
	OrderTime func(orderID int64) time.Time // when an id was made
	Now       func() time.Time
	// Queue says that buyers ask the gate: a server in the lane queue runs. In the other lanes what is left in the gate
	// concerns nobody but the orders that wait in the stream.
	Queue   bool
	InUse   func() []int64 // the vouchers that this process sells; nil: it sells none
	Every   time.Duration  // default 5 s
	MinAge  time.Duration  // default 10 s
	Pause   time.Duration  // default 1 s
	Observe func(Round)    // told of every round of Run; may be nil
	Log     *slog.Logger   // default: slog.Default()
}

// Reconciler compares the database, which is right, with what Redis holds: counters, buyers, tickets, stream and dead
// letters; and it checks the books of the database itself. It explains what differs, and rebuilds the gate of a voucher
// on demand. It never writes to the database. It is safe for concurrent use.
//
// # Why there are no false alarms
//
// Nothing stands still for it: buyers buy, workers commit, buyers cancel while it reads one after the other. So
//
//   - what it reads comes in an order (gate, stream, database) in which an admission on its way is in the one or in the
//     other, and never in neither;
//   - an order counts as missing, or as too much, only if its id is older than 10 s;
//   - every difference must be there in two looks, a second or more apart: the same orders, the same number.
//
// The units that the gate offers and the orders that it counts are, together, always the units left and the active
// orders of the database together, whatever is under way: an admission moves a unit from one side to the other, so does
// a release, and a commit changes neither sum. That is compared at full speed. Which of the two is off, and the other
// counters, can be told exactly when the gate's version did not change while everything was read. In a rush it does; but
// a gate that believes itself sold out admits nobody, and is quiet at once, and one that believes it has units too many
// is quiet when it has offered them. So a wrong counter is found while the sale goes on, or at its end.
//
// # Why the repair is safe
//
// A gate that differs is built anew beside the one that is loaded, and takes its place in one step (admission.Load tells
// why the result is exact). Buyers are admitted all the time. A gate that is cold, or that cannot be read and admits nobody
// anyway, is loaded as one that Redis lost. Neither offers more than the database has. Admissions in the stream stay; a
// worker that is about to commit one that was cut out of the stream meets the unique index and the stock in the database,
// as always.
type Reconciler struct {
	cfg  ReconcilerConfig
	room chan struct{} // of one: a look at large sales costs as much as a load, and those who ask for more wait
}

// NewReconciler makes one. It talks to nobody yet.
func NewReconciler(cfg ReconcilerConfig) *Reconciler {
	for d, def := range map[*time.Duration]time.Duration{
		&cfg.Every: reconcileEvery, &cfg.MinAge: reconcileMinAge, &cfg.Pause: reconcilePause,
	} {
		if *d <= 0 {
			*d = def
		}
	}
	if cfg.InUse == nil {
		cfg.InUse = func() []int64 { return nil }
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Round) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Reconciler{cfg: cfg, room: make(chan struct{}, 1)}
}

// Reconciliation is the answer to a request.
type Reconciliation struct {
	Reports []Report
	LeftOut int64 // about how many sales were not looked at
}

// Reconcile reports about one voucher, or, if voucherID is 0, about those that this process sells and then the newest
// whose sale has not ended an hour ago, at most 20. With apply it repairs what it can, and looks again.
// Errors: ErrNotFound, ErrUnavailable (also when it would take longer than ctx allows).
func (r *Reconciler) Reconcile(ctx context.Context, voucherID int64, apply bool) (Reconciliation, error) {
	ids := []int64{voucherID}
	var leftOut int64
	if voucherID == 0 {
		var err error
		if ids, leftOut, err = r.recent(ctx); err != nil {
			return Reconciliation{}, err
		}
		few := ids[:min(len(ids), reconcileMost)]
		ids, leftOut = few, leftOut+int64(len(ids)-len(few))
	}
	reports, err := r.ReconcileAll(ctx, ids, apply)
	return Reconciliation{Reports: reports, LeftOut: leftOut}, err
}

// recent names the vouchers that are worth a look, and says how many more there are: those that this process sells and
// the newest of the others.
func (r *Reconciler) recent(ctx context.Context) (ids []int64, leftOut int64, err error) {
	newest, all, err := r.cfg.Store.Sales(ctx, r.cfg.Now().Add(-reconcileEnded), reconcileMost)
	if err != nil {
		return nil, 0, err
	}
	ids = r.cfg.InUse()
	for _, id := range newest {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, all - int64(len(newest)), nil
}

// ReconcileAll reports about these vouchers. Errors: ErrNotFound (one is not there), ErrUnavailable.
func (r *Reconciler) ReconcileAll(ctx context.Context, ids []int64, apply bool) ([]Report, error) {
	select {
	case r.room <- struct{}{}:
		defer func() { <-r.room }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: reconcile: others are at it: %w", ErrUnavailable, ctx.Err())
	}
	first := make([]*look, len(ids))
	doubts := false
	for i, id := range ids {
		l, err := r.look(ctx, id)
		if err != nil {
			return nil, err
		}
		if l.facts.Voucher.ID == 0 && l.facts.Active == 0 && len(l.view.Queue) == 0 {
			return nil, fmt.Errorf("%w: voucher %d", ErrNotFound, id)
		}
		first[i], doubts = l, doubts || l.doubtful()
	}
	if doubts {
		if err := pause(ctx, r.cfg.Pause); err != nil {
			return nil, err
		}
	}
	reports := make([]Report, len(ids))
	for i, l := range first {
		var err error
		if reports[i], err = r.report(ctx, l, apply); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: reconcile: %w", ErrUnavailable, ctx.Err())
	}
}

// report looks a second time where the first look left doubts, and repairs.
func (r *Reconciler) report(ctx context.Context, first *look, apply bool) (Report, error) {
	last := first
	var findings []Finding
	if first.doubtful() {
		var err error
		if last, err = r.look(ctx, first.facts.VoucherID); err != nil {
			return Report{}, err
		}
		findings = r.confirm(first, last)
	}
	if apply {
		if err := r.repair(ctx, last, findings); err != nil {
			return Report{}, err
		}
	}
	return Report{
		VoucherID: first.facts.VoucherID, CheckedAt: last.at, Busy: last.busy(), Findings: append(findings, r.certain(last)...),
	}, nil
}

// repair rebuilds the gate if a finding calls for it, and notes in the findings whether they are gone. l is the look
// that confirmed them.
func (r *Reconciler) repair(ctx context.Context, l *look, findings []Finding) error {
	if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Repairable }) {
		return nil
	}
	id := l.facts.VoucherID
	r.cfg.Log.Warn("the gate differs from the database and is rebuilt", "voucher", id, "findings", kindsOf(findings))
	if err := r.rebuild(ctx, l); err != nil {
		return err
	}
	after, err := r.look(ctx, id)
	if err != nil {
		return err
	}
	left := r.confirm(l, after)
	for i := range findings {
		f := &findings[i]
		f.Repaired = f.Repairable && !slices.ContainsFunc(left, func(other Finding) bool { return other.Kind == f.Kind })
	}
	return nil
}

// rebuild makes the gate that was looked at what the database and the stream say.
func (r *Reconciler) rebuild(ctx context.Context, l *look) error {
	ctx, cancel := context.WithTimeout(ctx, rebuildTimeout)
	defer cancel()
	id := l.facts.VoucherID
	if !l.view.Broken {
		return r.cfg.Gate.Rebuild(ctx, id, l.view.Level.Built, r.cfg.Store.GateState)
	}
	if err := r.cfg.Gate.Unload(ctx, id); err != nil {
		return err
	}
	return r.cfg.Gate.Load(ctx, id, r.cfg.Store.GateState)
}

func kindsOf(findings []Finding) []Kind {
	kinds := make([]Kind, len(findings))
	for i, f := range findings {
		kinds[i] = f.Kind
	}
	return kinds
}

// glance compares numbers only, which is cheap, and says whether a look is called for. It says nothing about a gate
// that is cold: who buys will load it.
func (r *Reconciler) glance(ctx context.Context, voucherID int64) (differs bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	before, err := r.cfg.Gate.Level(ctx, voucherID)
	switch {
	case errors.Is(err, ErrGateCold):
		return false, nil
	case errors.Is(err, ErrGateBroken):
		return true, nil
	case err != nil:
		return false, err
	}
	sale, err := r.cfg.Store.SaleLevel(ctx, voucherID)
	if err != nil {
		return false, err
	}
	after, err := r.cfg.Gate.Level(ctx, voucherID)
	if errors.Is(err, ErrGateCold) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if before.Stock+before.Held != sale.Stock+sale.Active ||
		before.Users > before.Held || before.Held > before.Users*int64(sale.Limit) {
		return true, nil
	}
	if after.Version != before.Version || before.Queued > 0 && before.Backlog > 0 {
		return false, nil // nothing can be told from numbers
	}
	return after.Stock != sale.Stock || after.Held != sale.Active || after.Sum != sale.Sum || after.Queued > 0, nil
}
