package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"seckill/internal/domain"
)

// handle commits and settles entries, which Redis has shown at seen or later. It returns early only if ctx ends; then the
// rest stays pending.
func (r *reader) handle(ctx context.Context, entries []entry, claimed bool, seen time.Time) {
	if len(entries) == 0 {
		return
	}

	todo := r.triage(ctx, entries, claimed)
	var pause backoff
	for len(todo) > 0 {
		// No commit begins later than that after its entries were seen in the stream, not even while Redis is away: the
		// buyers of lost admissions see them as failed after a while.
		if time.Since(seen) > r.w.cfg.MinIdle/4 {
			var err error
			todo, seen, err = r.renewClaims(ctx, todo)
			if err != nil || len(todo) == 0 {
				break
			}
		}

		n := countWithin(todo, r.w.cfg.BatchSize)
		again, replaced, unavailable := r.commitEntries(ctx, todo[:n])
		if len(replaced) > 0 {
			var err error
			replaced, err = r.confirm(ctx, replaced)
			unavailable = cmp.Or(unavailable, err)
		}

		todo = append(append(again, replaced...), todo[n:]...)
		if unavailable == nil {
			pause.reset(ctx, r.log, "queue: database available again")
			continue
		}

		if pause.wait(ctx, r.log, "queue: database unavailable, keeping the batch", unavailable) != nil {
			break
		}
	}
}

func admissions(entries []entry) int {
	n := 0
	for i := range entries {
		n += len(entries[i].Admissions)
	}
	return n
}

// countWithin returns how many of the first entries are committed together. An admission that has failed is committed
// alone: it cannot fail others, and others cannot fail it.
func countWithin(entries []entry, most int) int {
	for i := range entries {
		most -= len(entries[i].Admissions)
		if most < 0 || entries[i].Tries > 0 {
			return max(i, 1)
		}
	}
	return len(entries)
}

// triage parses entries and returns those to be committed. It dead-letters entries that cannot be parsed, and leaves
// retried admissions pending until they are claimed.
func (r *reader) triage(ctx context.Context, entries []entry, claimed bool) []entry {
	todo := make([]entry, 0, len(entries))
	for _, e := range entries {
		p, err := r.w.cfg.Gate.Parse(r.stream, e.Entry, e.fields)
		if err != nil {
			r.deadLetter(ctx, e, err)
			continue
		}

		e.StreamEntry = p
		if e.Tries == 0 || claimed {
			todo = append(todo, e)
		}
	}

	return todo
}

// commitEntries commits and settles entries. It returns those whose gate was replaced, the others for which the database
// was unavailable, and the error of the last of these.
func (r *reader) commitEntries(ctx context.Context, entries []entry) (again, replaced []entry, unavailable error) {
	as := make([]domain.Admission, 0, admissions(entries))
	for i := range entries {
		as = append(as, entries[i].Admissions...)
	}

	errs := r.commit(ctx, as)
	done := make([]domain.StreamEntry, 0, len(entries))
	for _, e := range entries {
		n := len(e.Admissions)
		err := firstTemporary(errs[:n])
		switch {
		case errors.Is(err, domain.ErrGateReplaced):
			replaced = append(replaced, e)
		case err != nil:
			again = append(again, e)
			unavailable = err
		default:
			done = append(done, r.withEnds(ctx, e.StreamEntry, errs[:n]))
		}

		errs = errs[n:]
	}

	r.settle(ctx, done)
	return again, replaced, unavailable
}

// commit calls Config.Commit once. A panic is an error of all admissions.
func (r *reader) commit(ctx context.Context, as []domain.Admission) (errs []error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "queue: panic in a commit", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			errs = slices.Repeat([]error{fmt.Errorf("panic: %v", p)}, len(as))
		}
	}()

	ctx, cancel := context.WithTimeout(ctx, r.w.cfg.CommitTimeout)
	defer cancel()
	return r.w.cfg.Commit(ctx, as)
}

// confirm asks the gate for entries whose generation the database has refused. It returns those that the gate has, with
// its generation. The others were settled, or Redis has lost them: they must not be committed, because the gate may have
// refused their buyers as sold out. The error is that of an entry for which the gate has no other generation: it is not
// loaded yet, or outdated for good, as one in a Redis to which the servers were moved back: that is loaded again after a
// while.
func (r *reader) confirm(ctx context.Context, entries []entry) ([]entry, error) {
	var waits error
	var kept []entry
	for _, e := range entries {
		var generation int64
		err := r.persist(ctx, func() error {
			var err error
			generation, err = r.w.cfg.Gate.Confirm(ctx, e.StreamEntry)
			if errors.Is(err, domain.ErrNotFound) {
				generation = lost
				return nil
			}

			return err
		})
		if err != nil {
			return entries, err
		}

		first := e.Admissions[0]

		switch generation {
		case lost:
			r.log.WarnContext(ctx, "queue: dropping an entry that the present gate does not have", slog.String("entry", e.Entry),
				slog.Int64("voucher_id", first.VoucherID), slog.Int("admissions", len(e.Admissions)))
			continue
		case first.Generation:
			if e.refused.IsZero() {
				e.refused = time.Now()
			}
			waits = r.loadGate(ctx, first.VoucherID, time.Since(e.refused) > r.w.cfg.OutdatedAfter)
		default:
			e.refused = time.Time{}
		}

		for i := range e.Admissions {
			e.Admissions[i].Generation = generation
		}

		kept = append(kept, e)
	}

	return kept, waits
}

// lost is the generation of an entry that is not in the stream.
const lost = -1

// loadGate loads a gate, within the time of a commit, even a complete one if it is outdated. It returns an error in any
// case.
func (r *reader) loadGate(ctx context.Context, voucherID int64, outdated bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.w.cfg.CommitTimeout)
	defer cancel()

	if outdated {
		if err := r.w.cfg.Gate.Outdate(ctx, voucherID); err != nil {
			return err
		}
	}

	return cmp.Or(r.w.cfg.LoadGate(ctx, voucherID), domain.ErrGateReplaced)
}

// settle settles entries in the gate. It retries until ctx ends; then the entries stay pending.
func (r *reader) settle(ctx context.Context, done []domain.StreamEntry) {
	if len(done) == 0 {
		return
	}

	err := r.persist(ctx, func() error { return r.w.cfg.Gate.Settle(ctx, done) })
	if err != nil {
		return
	}

	for _, p := range done {
		r.w.cfg.Settled(p)

		for i, end := range p.Ends {
			if end.Dead != "" {
				r.log.ErrorContext(ctx, "queue: admission dead-lettered", slog.String("entry", p.Entry),
					slog.Int64("order_id", p.Admissions[i].OrderID), slog.Int64("tries", p.Tries), slog.String("err", end.Dead))
			}
		}
	}
}

func (r *reader) deadLetter(ctx context.Context, e entry, cause error) {
	reason := truncated(cause)
	err := r.persist(ctx, func() error {
		return r.w.cfg.Gate.MoveToDeadLetters(ctx, r.stream, e.Entry, reason)
	})
	if err != nil {
		return
	}

	e.Ends = []domain.End{{Dead: reason}}
	r.w.cfg.Settled(e.StreamEntry)
	r.log.ErrorContext(ctx, "queue: unparsable entry dead-lettered", slog.String("entry", e.Entry), slog.Any("err", cause))
}

// persist calls do, which changes the gate or a claim, until it succeeds. It returns an error if ctx ends first; then
// the entry is delivered again.
func (r *reader) persist(ctx context.Context, do func() error) error {
	var pause backoff
	for {
		err := do()
		if err == nil {
			pause.reset(ctx, r.log, "queue: gate available again")
			return nil
		}

		if pause.wait(ctx, r.log, "queue: cannot settle admissions in the gate", err) != nil {
			return fmt.Errorf("queue: stopped before the gate was changed: %w", err)
		}
	}
}
