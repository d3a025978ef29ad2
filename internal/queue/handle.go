package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/service"
)

const (
	// maxDeliveries is for an entry that kills every process before it can say why.
	maxDeliveries = 100
	// maxReason is how much of an error a dead letter tells, in bytes.
	maxReason = 500
)

// handle brings entries to their end. It returns early only when ctx ends; then the rest stays pending.
func (r *reader) handle(ctx context.Context, entries []entry, claimed bool) {
	if len(entries) == 0 {
		return
	}
	b := &Batch{Stream: r.stream, Entries: len(entries), Claimed: claimed, Failed: map[string]int{}}
	start := time.Now()
	todo := r.readable(ctx, entries, b)
	var pause backoff
	for kept := start; len(todo) > 0; {
		var unavailable error
		if todo, unavailable = r.conclude(ctx, todo, b); len(todo) == 0 {
			pause.reset(ctx, r.log, "queue: the database is back")
			break
		}
		pause.failed(ctx, r.log, "queue: the database is unavailable, the batch is kept in hand", unavailable)
		if pause.wait(ctx) != nil {
			b.Pending += len(todo)
			break
		}
		if time.Since(kept) > r.w.cfg.MinIdle/4 {
			r.keep(ctx, todo)
			kept = time.Now()
		}
	}
	b.Took = time.Since(start)
	r.w.cfg.Observe(*b)
}

// readable buries what cannot be read, or was delivered too often, and returns the others.
func (r *reader) readable(ctx context.Context, entries []entry, b *Batch) []entry {
	todo := make([]entry, 0, len(entries))
	for _, e := range entries {
		a, err := r.w.cfg.Gate.Parse(e.fields)
		e.admission = a
		switch {
		case err != nil:
			r.bury(ctx, e, nil, err, b)
		case e.deliveries > maxDeliveries:
			r.bury(ctx, e, &a, errors.New("delivered too often"), b)
		default:
			todo = append(todo, e)
		}
	}
	return todo
}

// conclude tries to commit entries and does what has to be done about each. It returns those for which the database
// was unavailable, and one of the errors.
func (r *reader) conclude(ctx context.Context, entries []entry, b *Batch) ([]entry, error) {
	var done []service.Settled
	var again []entry
	var unavailable error
	for i, err := range r.commit(ctx, entries) {
		e := entries[i]
		failed, final := reason(err)
		switch {
		case final:
			done = append(done, service.Settled{Entry: e.id, Admission: e.admission, Failed: failed})
		case temporary(err):
			again, unavailable = append(again, e), err
		case e.deliveries >= r.w.cfg.MaxTries:
			r.bury(ctx, e, &e.admission, err, b)
		default:
			b.Pending++
			r.log.WarnContext(ctx, "queue: an entry failed and will be tried again",
				slog.String("entry", e.id), slog.Int64("tries", e.deliveries), slog.Any("error", err))
		}
	}
	r.settle(ctx, done, b)
	return again, unavailable
}

// reason turns the final answers of Commit into the codes of the API. Empty and final: the order is committed.
func reason(err error) (failed string, final bool) {
	var duplicate *service.DuplicateOrderError
	switch {
	case err == nil:
		return "", true
	case errors.Is(err, service.ErrSoldOut):
		return service.ReasonSoldOut, true
	case errors.As(err, &duplicate):
		return service.ReasonDuplicate, true
	case errors.Is(err, service.ErrIDTaken):
		return service.ReasonInternal, true
	}
	return "", false
}

// temporary says whether err says nothing about the admission.
func temporary(err error) bool {
	return errors.Is(err, service.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func (r *reader) settle(ctx context.Context, done []service.Settled, b *Batch) {
	if len(done) == 0 {
		return
	}
	err := r.persist(ctx, func() error { return r.w.cfg.Gate.Settle(ctx, done) })
	if err != nil {
		b.Pending += len(done)
		return
	}
	for _, s := range done {
		if s.Failed == "" {
			b.Committed++
		} else {
			b.Failed[s.Failed]++
		}
	}
}

// bury gives an entry up. a is nil if it cannot be read.
func (r *reader) bury(ctx context.Context, e entry, a *service.Admission, why error, b *Batch) {
	text := why.Error()
	dead := service.Dead{
		Stream: r.stream, Entry: e.id, Admission: a, Reason: text[:min(len(text), maxReason)], Tries: e.deliveries,
	}
	if err := r.persist(ctx, func() error { return r.w.cfg.Gate.Bury(ctx, dead) }); err != nil {
		b.Pending++
		return
	}
	b.Buried++
	r.log.ErrorContext(ctx, "queue: an entry was buried", slog.String("entry", e.id),
		slog.Int64("order_id", e.admission.OrderID), slog.Int64("tries", e.deliveries), slog.Any("error", why))
}

// persist repeats what the gate has to do until it is done or ctx ends. The transaction is committed; if the gate does
// not hear of it now, the entry will be delivered again.
func (r *reader) persist(ctx context.Context, do func() error) error {
	var pause backoff
	for {
		err := do()
		if err == nil {
			pause.reset(ctx, r.log, "queue: the gate is back")
			return nil
		}
		pause.failed(ctx, r.log, "queue: the gate cannot be told how admissions ended", err)
		if pause.wait(ctx) != nil {
			return fmt.Errorf("queue: given up: %w", err)
		}
	}
}
