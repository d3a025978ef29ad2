package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"seckill/internal/domain"
)

// commit returns the result of each admission. It tries admissions that failed for an unknown reason again in halves,
// so that one of them cannot fail the others.
//
// The database layer halves a batch, too, but only after an error of its transaction. It does not isolate an admission
// that makes Config.Commit panic or return too few results, for which try reports one error for the whole batch.
// Without the halving here, the admissions of that batch would be retried together and dead-lettered together, because
// a reader claims many entries at once and commits them as one batch.
func (r *reader) commit(ctx context.Context, as []domain.Admission) []error {
	errs := r.try(ctx, as)
	if len(as) == 1 {
		return errs
	}

	var suspects []int
	for i, err := range errs {
		if _, final := refusalCode(err); !final && !isTemporary(err) {
			suspects = append(suspects, i)
		}
	}

	for half := range slices.Chunk(suspects, max(1, (len(suspects)+1)/2)) {
		some := make([]domain.Admission, len(half))
		for i, at := range half {
			some[i] = as[at]
		}

		for i, err := range r.commit(ctx, some) {
			errs[half[i]] = err
		}
	}

	return errs
}

// try calls Config.Commit once. A panic, or a wrong number of results, is an error of all admissions.
func (r *reader) try(ctx context.Context, as []domain.Admission) (errs []error) {
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
		err := fmt.Errorf("queue: %d results for %d admissions", len(errs), len(as))
		return slices.Repeat([]error{err}, len(as))
	}

	return errs
}
