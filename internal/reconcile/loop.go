package reconcile

import (
	"context"
	"errors"
	"time"
)

const (
	// lookEvery is how often a voucher is looked at in detail without a reason: who holds what can be wrong although
	// all numbers are right.
	lookEvery = time.Minute
	// lookShare bounds what the looks at a large sale cost: they take one of so many parts of the time.
	lookShare = 100
	// glanceShare is the same for the numbers.
	glanceShare = 20
	// lookTimeout bounds one look. At a sale of 1,000,000 orders it takes some seconds.
	lookTimeout = 2 * time.Minute
	// rebuildTimeout bounds the wait for a rebuild, which goes on without.
	rebuildTimeout = 5 * time.Minute
	// rebuildPause is how long a gate is left alone after a rebuild that did not help; it doubles each time.
	rebuildPause = time.Minute
	rebuildRest  = time.Hour
)

// Round is what one round of Run came to.
type Round struct {
	At       time.Time
	Findings map[Kind]int // vouchers with a finding that is there still
	Repaired map[Kind]int // vouchers of which one was repaired in this round
	OK       bool         // the last reads of every voucher succeeded
}

// watch is what Run knows of a voucher.
type watch struct {
	doubts   *look     // the last look, if it had doubts
	findings []Finding // that are there still
	failed   error     // of the last read or repair

	nextGlance, nextLook, nextRebuild time.Time // not before
	rebuildPause                      time.Duration
}

// Run reconciles until ctx ends the vouchers that this process sells and those that are on sale, and repairs what it
// can. Every few seconds it compares numbers; where they differ, and once a minute, it looks in detail; what it sees
// in two looks it repairs. Other processes may do the same.
func (r *Reconciler) Run(ctx context.Context) {
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	watches := map[int64]*watch{}
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		round, err := r.round(ctx, watches)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			r.cfg.Log.Warn("cannot reconcile", "err", err)
		}
		failing = err != nil
		r.cfg.Observe(round)
	}
}

// round looks once at every voucher. It returns what failed.
func (r *Reconciler) round(ctx context.Context, watches map[int64]*watch) (Round, error) {
	round := Round{At: r.cfg.Now(), Findings: map[Kind]int{}, Repaired: map[Kind]int{}}
	ids, _, err := r.recent(ctx)
	if err != nil {
		return round, err
	}
	current := make(map[int64]bool, len(ids))
	var errs []error
	for _, id := range ids {
		current[id] = true
		w := watches[id]
		if w == nil {
			w = &watch{}
			watches[id] = w
		}
		findings, err := r.watch(ctx, id, w)
		errs = append(errs, err)
		for _, f := range findings {
			if f.Repaired {
				round.Repaired[f.Kind]++
			}
		}
		for _, f := range w.findings {
			round.Findings[f.Kind]++
		}
	}
	for id := range watches {
		if !current[id] {
			delete(watches, id)
		}
	}
	err = errors.Join(errs...)
	round.OK = err == nil
	return round, err
}

// watch looks at one voucher, if it is time. It returns what it found and repaired now; w keeps what is there still. While
// it is not time it returns the last error, if nothing succeeded since.
func (r *Reconciler) watch(ctx context.Context, id int64, w *watch) (found []Finding, err error) {
	start := time.Now()
	looks := w.doubts != nil || !start.Before(w.nextLook)
	if !looks && (!r.cfg.Queue || r.cfg.Gate == nil || start.Before(w.nextGlance)) {
		return nil, w.failed
	}
	defer func() { w.failed = err }()
	if !looks {
		differs, err := r.glance(ctx, id)
		w.nextGlance = time.Now().Add(glanceShare * time.Since(start))
		if err != nil || !differs {
			return nil, err
		}
	}
	l, err := r.look(ctx, id)
	if err != nil {
		return nil, err
	}
	w.nextLook = time.Now().Add(max(lookEvery, lookShare*time.Since(start)))
	var findings []Finding
	if w.doubts != nil && l.doubtful() {
		findings = r.confirm(w.doubts, l)
	}
	if w.doubts = nil; l.doubtful() {
		w.doubts = l
	}
	if len(findings) > 0 && !time.Now().Before(w.nextRebuild) {
		if err := r.repair(ctx, l, findings); err != nil {
			return nil, err
		}
		w.repaired(findings)
	}
	findings = append(findings, r.certain(l)...)
	w.findings = w.findings[:0]
	for _, f := range findings {
		if !f.Repaired {
			w.findings = append(w.findings, f)
		}
	}
	return findings, nil
}

// repaired notes how a repair went. One that did not help is not tried again at once: buyers wait while the gate loads.
func (w *watch) repaired(findings []Finding) {
	for _, f := range findings {
		if !f.Repaired {
			w.rebuildPause = min(max(rebuildPause, 2*w.rebuildPause), rebuildRest)
			w.nextRebuild = time.Now().Add(w.rebuildPause)
			return
		}
	}
	w.doubts, w.rebuildPause, w.nextRebuild = nil, 0, time.Time{}
}
