package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"seckill/internal/kit/loop"
)

const (
	// snapshotInterval is the time between two snapshots of a voucher whose counters agree. The gate can hold wrong
	// orders although all of its counters are right.
	snapshotInterval = time.Minute
	// snapshotTimeFactor and pollTimeFactor bound the cost of large sales: after a snapshot, or a poll of the counters
	// or a rebuild without effect, the next one waits for at least this multiple of its duration.
	snapshotTimeFactor = 100
	pollTimeFactor     = 20
	// readTimeout bounds one snapshot or poll. The snapshot of a sale of 1,000,000 orders takes some seconds.
	readTimeout = 2 * time.Minute
	// rebuildTimeout bounds the wait for a rebuild. The rebuild itself continues.
	rebuildTimeout = 5 * time.Minute
	// rebuildPause is the least pause after a rebuild that did not help, because a rebuild of a gate that admits no buyers
	// keeps them waiting. One that failed at once costs nothing, and free units must be on sale within a minute (I5).
	rebuildPause = time.Minute
)

// Round is the result of one round of Task.
type Round struct {
	At time.Time
	// The number of vouchers with an unrepaired finding.
	Findings map[Kind]int
	// The number of vouchers with a finding that this round repaired.
	Repaired map[Kind]int
	// The last read and repair of every voucher succeeded.
	OK bool
}

// Violation is a violated invariant of a sale.
type Violation struct {
	VoucherID int64 `json:"voucher_id,string"`
	// KindI1 to KindI5.
	Invariant Kind   `json:"invariant"`
	Detail    string `json:"detail"`
}

// Checks are what the rounds of Task know about the invariants of sales.
type Checks struct {
	Violations []Violation
	// When a round last compared everything; the zero time stands for never.
	At time.Time
	// The vouchers of that round.
	Vouchers map[int64]bool
}

// Checks returns the results of the last rounds of Task.
func (r *Reconciler) Checks() Checks {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checks
}

// Watch makes the rounds of Task check vouchers besides those that they would check, such as sales that are over and had a
// violation when another process checked them. It replaces those of the last call.
func (r *Reconciler) Watch(ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = ids
}

func (r *Reconciler) watchedVouchers() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watched
}

func (r *Reconciler) publish(round Round, states map[int64]*voucherState) {
	var found []Violation
	for id, state := range states {
		for _, f := range state.findings {
			if f.Kind.invariant() {
				found = append(found, Violation{id, f.Kind, f.Detail})
			}
		}
	}

	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(b.VoucherID, a.VoucherID), cmp.Compare(a.Invariant, b.Invariant))
	})

	r.mu.Lock()
	defer r.mu.Unlock()

	for _, v := range found {
		if !slices.ContainsFunc(r.checks.Violations, func(w Violation) bool { return w.VoucherID == v.VoucherID && w.Invariant == v.Invariant }) {
			r.cfg.Log.Error("an invariant is violated", "voucher_id", v.VoucherID, "invariant", string(v.Invariant), "detail", v.Detail)
		}
	}

	r.checks.Violations = found
	if round.OK {
		r.checks.At = round.At
		r.checks.Vouchers = make(map[int64]bool, len(states))
		for id := range states {
			r.checks.Vouchers[id] = true
		}
	}
}

// voucherState is what Task remembers of a voucher between rounds.
type voucherState struct {
	// The last snapshot if it contained a difference, else nil.
	suspect  *snapshot
	findings []Finding // unrepaired
	// The failed of the last read or repair.
	failed error

	nextPoll, nextSnapshot, nextRebuild time.Time // not before
}

// Every returns the time between two rounds of Task.
func (r *Reconciler) Every() time.Duration { return r.cfg.Every }

// Task reconciles the vouchers that this process sells and the newest other sales. In each round it compares counters. If
// they differ, and once a minute in any case, it takes a snapshot. It repairs the differences that two snapshots in a row
// contain. Several processes may run it at the same time.
func (r *Reconciler) Task() loop.Task {
	states := map[int64]*voucherState{}

	return loop.Every(r.cfg.Every, "reconcile", func(ctx context.Context) error {
		round, err := r.round(ctx, states)
		if ctx.Err() == nil {
			r.publish(round, states)
			r.cfg.Observe(round)
		}
		return err
	})
}

// UnloadTask removes the gates of sales that ended a day ago or earlier from Redis, where each has its buyers. If such a sale
// is prolonged, its next buyer loads the gate again. Several processes may run it at the same time.
func (r *Reconciler) UnloadTask() loop.Task {
	// The first run removes the gates of all such sales: no process may have run a day after their end.
	since := time.Unix(0, 0)

	return loop.Every(time.Hour, "remove gates of ended sales", func(ctx context.Context) error {
		until := r.cfg.Now().Add(-gateLife)
		ids, err := r.cfg.Store.SalesEnded(ctx, since, until)
		if err != nil {
			return err
		}

		for _, id := range ids {
			if err := r.cfg.Gate.Unload(ctx, id); err != nil {
				return err
			}
		}

		since = until
		return nil
	})
}

func (r *Reconciler) round(ctx context.Context, states map[int64]*voucherState) (Round, error) {
	round := Round{
		At:       r.cfg.Now(),
		Findings: map[Kind]int{},
		Repaired: map[Kind]int{},
	}

	ids, _, err := r.recent(ctx)
	if err != nil {
		return round, err
	}

	// A violation is not forgotten when its sale is over.
	for id, state := range states {
		if !slices.Contains(ids, id) && slices.ContainsFunc(state.findings, func(f Finding) bool { return f.Kind.invariant() }) {
			ids = append(ids, id)
		}
	}

	maps.DeleteFunc(states, func(id int64, _ *voucherState) bool { return !slices.Contains(ids, id) })

	var errs []error
	for _, id := range ids {
		state := states[id]
		if state == nil {
			state = &voucherState{}
			states[id] = state
		}

		findings, err := r.check(ctx, id, state)
		errs = append(errs, err)

		for _, f := range findings {
			if f.Repaired {
				round.Repaired[f.Kind]++
			}
		}

		for _, f := range state.findings {
			round.Findings[f.Kind]++
		}
	}

	err = errors.Join(errs...)
	round.OK = err == nil
	return round, err
}

// check polls one voucher or takes a snapshot of it, if either is due. It returns the findings of this call, repaired
// or not, and stores the unrepaired ones in state. If nothing is due it returns the error of the last check.
func (r *Reconciler) check(ctx context.Context, id int64, state *voucherState) (found []Finding, err error) {
	start := time.Now()
	snapshotDue := state.suspect != nil || !start.Before(state.nextSnapshot)
	if !snapshotDue && (!r.cfg.Queue || r.cfg.Gate == nil || start.Before(state.nextPoll)) {
		return nil, state.failed
	}
	defer func() { state.failed = err }()

	if !snapshotDue {
		differ, err := r.countersDiffer(ctx, id)
		state.nextPoll = time.Now().Add(pollTimeFactor * time.Since(start))
		if err != nil || !differ {
			return nil, err
		}
	}

	s, err := r.takeSnapshot(ctx, id)
	if err != nil {
		return nil, err
	}

	state.nextSnapshot = time.Now().Add(max(snapshotInterval, snapshotTimeFactor*time.Since(start)))
	var findings []Finding
	if state.suspect != nil && s.suspect() {
		findings = r.corroborate(state.suspect, s)
	}

	state.suspect = nil
	if s.suspect() {
		state.suspect = s
	}

	if len(findings) > 0 && !time.Now().Before(state.nextRebuild) {
		began := time.Now()
		err := r.repair(ctx, s, findings)
		pause := pollTimeFactor * time.Since(began)
		if err != nil {
			state.nextRebuild = time.Now().Add(pause)
			return nil, err
		}

		state.nextRebuild = time.Now().Add(max(rebuildPause, pause))
		if !slices.ContainsFunc(findings, func(f Finding) bool { return !f.Repaired }) {
			state.suspect = nil
			state.nextRebuild = time.Time{}
		}
	}

	findings = append(findings, r.definite(s)...)
	state.findings = state.findings[:0]
	for _, f := range findings {
		if !f.Repaired {
			state.findings = append(state.findings, f)
		}
	}

	return findings, nil
}
