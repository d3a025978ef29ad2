package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"seckill/internal/service"
)

// commit answers for each admission. Those that fail for a reason of their own, as it seems, are tried again in halves:
// one that spoils a transaction for all must not take the others with it.
func (r *reader) commit(ctx context.Context, as []service.Admission) []error {
	errs := r.try(ctx, as)
	if len(as) == 1 {
		return errs
	}
	var suspects []int
	for i, err := range errs {
		if _, final := reason(err); !final && !temporary(err) {
			suspects = append(suspects, i)
		}
	}
	for half := range slices.Chunk(suspects, max(1, (len(suspects)+1)/2)) {
		some := make([]service.Admission, len(half))
		for i, at := range half {
			some[i] = as[at]
		}
		for i, err := range r.commit(ctx, some) {
			errs[half[i]] = err
		}
	}
	return errs
}

// try calls Commit once. A panic is an error of all.
func (r *reader) try(ctx context.Context, as []service.Admission) (errs []error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "queue: panic in a commit", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			errs = slices.Repeat([]error{fmt.Errorf("panic: %v", p)}, len(as))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, r.w.cfg.CommitTimeout)
	defer cancel()
	errs = r.w.cfg.Commit(ctx, as)
	if len(errs) != len(as) {
		err := fmt.Errorf("queue: %d answers for %d admissions", len(errs), len(as))
		return slices.Repeat([]error{err}, len(as))
	}
	return errs
}
