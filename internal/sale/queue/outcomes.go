package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"

	"seckill/internal/domain"
)

// maxReason bounds the error text in a dead letter, in bytes.
const maxReason = 500

func (r *reader) withEnds(ctx context.Context, p domain.StreamEntry, errs []error) domain.StreamEntry {
	p.Tries++
	p.Ends = make([]domain.End, len(errs))
	for i, err := range errs {
		failed, final := refusalCode(err)
		switch {
		case final:
			p.Ends[i].Failed = failed
		case p.Tries >= r.w.cfg.MaxTries:
			p.Ends[i].Dead = truncated(err)
		default:
			p.Ends[i].Again = true
			r.log.WarnContext(ctx, "queue: admission failed and will be retried", slog.String("entry", p.Entry),
				slog.Int64("order_id", p.Admissions[i].OrderID), slog.Int64("tries", p.Tries), slog.Any("err", err))
		}
	}

	return p
}

// truncated returns the text of an error for a dead letter. It is never empty: an empty reason would mean a committed
// order.
func truncated(err error) string {
	text := cmp.Or(err.Error(), "error without text")
	return text[:min(len(text), maxReason)]
}

// refusalCode converts a final result of Commit to an error code of the API. The code is empty if the order is
// committed.
func refusalCode(err error) (string, bool) {
	var duplicate *domain.DuplicateOrderError
	switch {
	case err == nil:
		return "", true
	case errors.Is(err, domain.ErrSoldOut):
		return domain.ReasonSoldOut, true
	case errors.As(err, &duplicate):
		return domain.ReasonDuplicate, true
	case errors.Is(err, domain.ErrIdempotencyMismatch):
		return domain.ReasonMismatch, true
	case errors.Is(err, domain.ErrPassExpired):
		return domain.ReasonPassUsed, true
	case errors.Is(err, domain.ErrIDTaken):
		return domain.ReasonInternal, true
	}

	return "", false
}

func isTemporary(err error) bool {
	return err != nil && (errors.Is(err, domain.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

func firstTemporary(errs []error) error {
	if i := slices.IndexFunc(errs, isTemporary); i >= 0 {
		return errs[i]
	}
	return nil
}
