package queue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"seckill/internal/service"
)

// maxDeliveries is for an entry that kills every process before it can say why.
const maxDeliveries = 100

// handle brings entries to their end. It returns early only when ctx ends; then the rest stays pending.
func (r *reader) handle(ctx context.Context, entries []entry, claimed bool) {
	if len(entries) == 0 {
		return
	}
	b := &Batch{Stream: r.stream, Entries: len(entries), Claimed: claimed, Failed: map[string]int{}}
	start := time.Now()
	todo := r.triage(ctx, entries, b)
	var pause backoff
	for kept := start; len(todo) > 0; {
		n := fitting(todo, r.w.cfg.BatchSize)
		again, unavailable := r.conclude(ctx, todo[:n], b)
		todo = append(again, todo[n:]...)
		if unavailable == nil {
			pause.reset(ctx, r.log, "queue: the database is back")
		} else {
			pause.failed(ctx, r.log, "queue: the database is unavailable, the batch is kept in hand", unavailable)
			if pause.wait(ctx) != nil {
				b.Pending += admissions(todo)
				break
			}
		}
		if time.Since(kept) > r.w.cfg.MinIdle/4 {
			todo = r.keep(ctx, todo)
			kept = time.Now()
		}
	}
	b.Took = time.Since(start)
	r.w.cfg.Observe(*b)
}

// admissions counts what is in entries.
func admissions(entries []entry) int {
	n := 0
	for i := range entries {
		n += len(entries[i].Admissions)
	}
	return n
}

// fitting says how many of the first entries have no more than most admissions together; at least one.
func fitting(entries []entry, most int) int {
	for i := range entries {
		if most -= len(entries[i].Admissions); most < 0 {
			return max(i, 1)
		}
	}
	return len(entries)
}

// triage parses entries and returns those to be committed. What cannot be read is buried, what was delivered too often
// is dead, and what was put back has its pause.
func (r *reader) triage(ctx context.Context, entries []entry, b *Batch) []entry {
	todo := make([]entry, 0, len(entries))
	var dead []service.Parcel
	for _, e := range entries {
		p, err := r.w.cfg.Gate.Parse(r.stream, e.Entry, e.fields)
		if err != nil {
			r.bury(ctx, e, err, b)
			continue
		}
		e.Parcel = p
		switch {
		case e.deliveries > maxDeliveries:
			p.Tries = e.deliveries
			p.Ends = slices.Repeat([]service.End{{Dead: "delivered too often"}}, len(p.Admissions))
			dead = append(dead, p)
		case e.Tries > 0 && !b.Claimed:
			b.Pending += len(e.Admissions)
		default:
			todo = append(todo, e)
		}
	}
	r.settle(ctx, dead, b)
	return todo
}

// conclude tries to commit entries and does what has to be done about their admissions. It returns the entries for
// which the database was unavailable, and one of the errors.
func (r *reader) conclude(ctx context.Context, entries []entry, b *Batch) (again []entry, unavailable error) {
	as := make([]service.Admission, 0, admissions(entries))
	for i := range entries {
		as = append(as, entries[i].Admissions...)
	}
	errs := r.commit(ctx, as)
	done := make([]service.Parcel, 0, len(entries))
	for _, e := range entries {
		n := len(e.Admissions)
		if err := firstTemporary(errs[:n]); err != nil {
			again, unavailable = append(again, e), err
		} else {
			done = append(done, r.end(ctx, e.Parcel, errs[:n]))
		}
		errs = errs[n:]
	}
	r.settle(ctx, done, b)
	return again, unavailable
}

func (r *reader) settle(ctx context.Context, done []service.Parcel, b *Batch) {
	if len(done) == 0 {
		return
	}
	err := r.persist(ctx, func() error { return r.w.cfg.Gate.Settle(ctx, done) })
	for _, p := range done {
		if err != nil {
			b.Pending += len(p.Admissions)
		} else {
			r.count(ctx, p, b)
		}
	}
}

// count notes how the admissions of a parcel ended.
func (r *reader) count(ctx context.Context, p service.Parcel, b *Batch) {
	r.w.cfg.Settled(p)
	for i, end := range p.Ends {
		switch {
		case end.Again:
			b.Pending++
		case end.Dead != "":
			b.Buried++
			r.log.ErrorContext(ctx, "queue: an admission was buried", slog.String("entry", p.Entry),
				slog.Int64("order_id", p.Admissions[i].OrderID), slog.Int64("tries", p.Tries), slog.String("error", end.Dead))
		case end.Failed != "":
			b.Failed[end.Failed]++
		default:
			b.Committed++
		}
	}
}

// bury gives up an entry that cannot be read.
func (r *reader) bury(ctx context.Context, e entry, why error, b *Batch) {
	err := r.persist(ctx, func() error {
		return r.w.cfg.Gate.Bury(ctx, r.stream, e.Entry, shortened(why), e.deliveries)
	})
	if err != nil {
		b.Pending++
		return
	}
	b.Buried++
	r.log.ErrorContext(ctx, "queue: an entry that cannot be read was buried", slog.String("entry", e.Entry),
		slog.Int64("tries", e.deliveries), slog.Any("error", why))
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
