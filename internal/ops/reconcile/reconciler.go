// Package reconcile compares Redis with the database during sales, and repairs Redis.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// Gate is the admission gate as the reconciler uses it.
type Gate interface {
	// Inspect reads everything in Redis about a voucher. If it has more than most buyers, only their number is read.
	Inspect(ctx context.Context, voucherID int64, most int) (domain.GateView, error)
	// Level reads the counters at one moment. Errors: ErrGateCold, ErrGateBroken, ErrUnavailable.
	Level(ctx context.Context, voucherID int64) (domain.GateLevel, error)
	// Unload makes the gate cold.
	Unload(ctx context.Context, voucherID int64) error
	// Rebuild replaces the gate while it continues to admit buyers. It does nothing if the gate was loaded since
	// version built.
	Rebuild(ctx context.Context, voucherID, built int64, store domain.GateStore) error
	// Load loads the gate unless it is loaded.
	Load(ctx context.Context, voucherID int64, store domain.GateStore) error
}

// Store is the database as the reconciler uses it: for reads, and to load gates.
type Store interface {
	domain.GateStore
	// SaleLevel reads units and active orders in one database snapshot. Error: ErrNotFound.
	SaleLevel(ctx context.Context, voucherID int64) (SaleLevel, error)
	// SaleFacts reads everything that must be consistent, in one database snapshot. If there are more than most active
	// orders, only their number is read. A voucher that does not exist is not an error.
	SaleFacts(ctx context.Context, voucherID int64, inFlight []int64, most int, since domain.OverdueSince) (domain.SaleFacts, error)
	// OrderFacts returns those of the ids that are orders of the voucher.
	OrderFacts(ctx context.Context, voucherID int64, ids []int64) ([]domain.OrderFact, error)
	// Sales returns the newest sales that end after endAfter, or of all if that is zero, at most most of them, and the
	// number of all such sales.
	Sales(ctx context.Context, endAfter time.Time, most int) (ids []int64, all int64, err error)
	// SalesEnded returns the sales that ended after one time and until another.
	SalesEnded(ctx context.Context, after, until time.Time) ([]int64, error)
}

// SaleLevel contains the units and orders of a voucher in the database at one moment.
type SaleLevel struct {
	Stock  int64 // units left
	Active int64 // active orders
	// The sum of their ids modulo domain.LevelDigits.
	Sum int64
}

const (
	// defaultEvery is the time between two rounds of Task. A difference must be present in two snapshots, so a unit
	// whose return did not reach the gate is on sale again after 10 to 15 s.
	defaultEvery = 5 * time.Second
	// defaultMinAge is longer than the time that any operation in progress takes.
	defaultMinAge = 10 * time.Second
	defaultPause  = time.Second
	// maxCompared is the largest number of active orders that are compared one by one. Of larger sales only the
	// counters are compared.
	maxCompared = 2_000_000
	// maxVouchers bounds the vouchers of one call of Reconcile.
	maxVouchers = 20
	// endedFor is how long after its end a sale is still reconciled.
	endedFor = time.Hour
	// gateLife is how long after its end a sale keeps its gate.
	gateLife = 24 * time.Hour

	stuckAfter     = time.Minute      // since the admission entered the stream
	unpaidAfter    = time.Minute      // since the order expired
	refundingAfter = 10 * time.Minute // since the refund began
)

// Config configures a Reconciler.
type Config struct {
	// Nil: only the database is checked.
	Gate  Gate
	Store Store
	// Returns when an order id was generated.
	OrderTime func(orderID int64) time.Time
	Now       func() time.Time
	// Queue reports that a server in lane queue runs, so buyers depend on the gate. Otherwise the data left in the gate
	// has no effect, except on the orders that wait in the stream.
	Queue bool
	// Returns the vouchers that this process sells; nil: none.
	InUse func() []int64
	// Between two rounds of Task; default 5 s.
	Every time.Duration
	// Younger orders count as in progress, by the time in their ids; default 10 s.
	MinAge time.Duration
	// Between the two snapshots of Reconcile; default 1 s.
	Pause time.Duration
	// Called after every round of Task; may be nil.
	Observe func(Round)
	Log     *slog.Logger // default: slog.Default()
}

// Reconciler compares the database, which decides, with the data in Redis: counters, buyers, tickets, stream and dead
// letters. It also checks the invariants within the database. It reports the differences, and rebuilds the gate of a
// voucher on demand. In the database it only raises the generation of a gate. It is safe for concurrent use.
//
// # Why there are no false alarms
//
// Buyers purchase, workers commit and orders are cancelled while the reconciler reads one source after the other.
// Three rules keep such changes apart from real differences:
//
//   - The order of the reads is gate, stream, database. An admission in progress is found in at least one of them.
//   - An order counts as missing or as extra only if its id is older than 10 s.
//   - A difference is reported only if two snapshots, at least a second apart, contain it: the same orders, or the same
//     number.
//
// The sum of the units in the gate and the orders that it counts equals the units left plus the active orders in the
// database at any time. An admission or a release moves a unit from one term to the other, and a commit changes neither
// sum. This total is therefore compared at any load. Which of its two terms is wrong is seen by the buyers of the gate: its
// other counters are compared with these and with the queue if the gate's version did not change during the reads. In a rush
// it changes all the time. But a gate that is sold out by mistake admits no buyers and is quiet at once, and one with too many
// units is quiet after it has offered them.
//
// # Why the repair is safe
//
// A new gate is built beside the loaded one and replaces it in one step; package admission explains why the result is
// exact. Buyers are admitted all the time. A gate that is cold or unreadable admits no buyers anyway, and is loaded
// like one that Redis lost. Neither way offers more units than the database has. Admissions in the stream stay. If a
// worker commits an admission that was trimmed from the stream meanwhile, the unique index and the stock in the
// database decide, as for every order.
type Reconciler struct {
	cfg Config
	// running is a semaphore of one for ReconcileAll: a snapshot of a large sale costs as much as a load of its gate.
	running chan struct{}

	// Guards the results of Task.
	mu     sync.Mutex
	checks Checks
	// See Watch.
	watched []int64
}

// New returns a Reconciler. It reads nothing yet.
func New(cfg Config) *Reconciler {
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	cfg.MinAge = cmp.Or(cfg.MinAge, defaultMinAge)
	cfg.Pause = cmp.Or(cfg.Pause, defaultPause)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())

	if cfg.InUse == nil {
		cfg.InUse = func() []int64 { return nil }
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Round) {}
	}

	return &Reconciler{cfg: cfg, running: make(chan struct{}, 1)}
}

// Reconciliation is the result of Reconcile.
type Reconciliation struct {
	Reports []Report `json:"reports"`
	// The approximate number of sales that were not checked.
	LeftOut int64 `json:"left_out"`
}

// Reconcile checks one voucher. If voucherID is 0 it checks the vouchers that this process sells and then the newest
// sales that are open or ended less than an hour ago, at most 20 in total. With apply it repairs what can be repaired,
// and checks again.
// Errors: ErrNotFound, ErrUnavailable (also if ctx ends first).
func (r *Reconciler) Reconcile(ctx context.Context, voucherID int64, apply bool) (Reconciliation, error) {
	ids := []int64{voucherID}
	var leftOut int64
	if voucherID == 0 {
		var err error
		if ids, leftOut, err = r.recent(ctx); err != nil {
			return Reconciliation{}, err
		}

		few := ids[:min(len(ids), maxVouchers)]
		leftOut += int64(len(ids) - len(few))
		ids = few
	}

	reports, err := r.ReconcileAll(ctx, ids, apply)
	return Reconciliation{Reports: reports, LeftOut: leftOut}, err
}

func (r *Reconciler) recent(ctx context.Context) ([]int64, int64, error) {
	newest, all, err := r.cfg.Store.Sales(ctx, r.cfg.Now().Add(-endedFor), maxVouchers)
	if err != nil {
		return nil, 0, err
	}

	ids := r.cfg.InUse()
	for _, id := range slices.Concat(r.watchedVouchers(), newest) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}

	return ids, all - int64(len(newest)), nil
}

// ReconcileAll checks the vouchers, and with apply repairs what can be repaired. Calls run one after the other.
// Errors: ErrNotFound (one of the vouchers), ErrUnavailable.
func (r *Reconciler) ReconcileAll(ctx context.Context, ids []int64, apply bool) ([]Report, error) {
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: reconcile: waiting for another reconciliation: %w", domain.ErrUnavailable, ctx.Err())
	}

	first := make([]*snapshot, len(ids))
	suspect := false
	for i, id := range ids {
		s, err := r.takeSnapshot(ctx, id)
		if err != nil {
			return nil, err
		}
		if s.facts.Voucher.ID == 0 && s.facts.Active == 0 && len(s.gate.Queue) == 0 {
			return nil, fmt.Errorf("%w: voucher %d", domain.ErrNotFound, id)
		}

		first[i] = s
		suspect = suspect || s.suspect()
	}

	if suspect {
		if err := loop.Sleep(ctx, r.cfg.Pause); err != nil {
			return nil, fmt.Errorf("%w: reconcile: %w", domain.ErrUnavailable, err)
		}
	}

	reports := make([]Report, len(ids))
	for i, s := range first {
		var err error
		if reports[i], err = r.report(ctx, s, apply); err != nil {
			return nil, err
		}
	}

	return reports, nil
}

func (r *Reconciler) report(ctx context.Context, first *snapshot, apply bool) (Report, error) {
	last := first
	findings := []Finding{}
	if first.suspect() {
		var err error
		if last, err = r.takeSnapshot(ctx, first.facts.VoucherID); err != nil {
			return Report{}, err
		}
		findings = append(findings, r.corroborate(first, last)...)
	}

	if apply {
		if err := r.repair(ctx, last, findings); err != nil {
			return Report{}, err
		}
	}

	return Report{
		VoucherID: first.facts.VoucherID,
		CheckedAt: domain.Moment(last.at),
		Busy:      last.busy(),
		Findings:  append(findings, r.definite(last)...),
	}, nil
}

// repair rebuilds the gate if two snapshots agree about findings, of which s is the later one, and marks those that a new
// snapshot no longer contains as repaired.
func (r *Reconciler) repair(ctx context.Context, s *snapshot, findings []Finding) error {
	if len(findings) == 0 {
		return nil
	}

	id := s.facts.VoucherID
	r.cfg.Log.Warn("the gate differs from the database and is rebuilt", "voucher_id", id, "found", findings[0].Detail)

	if err := r.rebuild(ctx, s); err != nil {
		return err
	}

	after, err := r.takeSnapshot(ctx, id)
	if err != nil {
		return err
	}

	left := r.corroborate(s, after)
	for i := range findings {
		f := &findings[i]
		f.Repaired = !slices.ContainsFunc(left, func(other Finding) bool { return other.Kind == f.Kind })
	}

	return nil
}

func (r *Reconciler) rebuild(ctx context.Context, s *snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, rebuildTimeout)
	defer cancel()

	id := s.facts.VoucherID
	if !s.gate.Broken {
		return r.cfg.Gate.Rebuild(ctx, id, s.gate.Level.Built, r.cfg.Store)
	}
	if err := r.cfg.Gate.Unload(ctx, id); err != nil {
		return err
	}

	return r.cfg.Gate.Load(ctx, id, r.cfg.Store)
}

// countersDiffer compares counters only, and reports whether a snapshot is needed. It reports false for a cold gate,
// which the next buyer loads.
func (r *Reconciler) countersDiffer(ctx context.Context, voucherID int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	c, err := compare(ctx, r.cfg.Gate, r.cfg.Store, voucherID)
	switch {
	case errors.Is(err, domain.ErrGateCold):
		return false, nil
	case errors.Is(err, domain.ErrGateBroken):
		return true, nil
	}

	return c.total != 0 || c.drift != drift{}, err
}
