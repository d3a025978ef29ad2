package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"

	"seckill/internal/service"
)

// maxReason is how much of an error a dead letter tells, in bytes.
const maxReason = 500

// end says what becomes of the admissions of a parcel after the answers of Commit.
func (r *reader) end(ctx context.Context, p service.Parcel, errs []error) service.Parcel {
	p.Tries++
	p.Ends = make([]service.End, len(errs))
	for i, err := range errs {
		failed, final := reason(err)
		switch {
		case final:
			p.Ends[i].Failed = failed
		case p.Tries >= r.w.cfg.MaxTries:
			p.Ends[i].Dead = shortened(err)
		default:
			p.Ends[i].Again = true
			r.log.WarnContext(ctx, "queue: an admission failed and will be tried again", slog.String("entry", p.Entry),
				slog.Int64("order_id", p.Admissions[i].OrderID), slog.Int64("tries", p.Tries), slog.Any("error", err))
		}
	}
	return p
}

// shortened is what a dead letter tells of an error. It is never empty, for that would be the end of a committed order.
func shortened(err error) string {
	text := cmp.Or(err.Error(), "an error without words")
	return text[:min(len(text), maxReason)]
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
	return err != nil && (errors.Is(err, service.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// firstTemporary is the first error that says nothing about its admission.
func firstTemporary(errs []error) error {
	if i := slices.IndexFunc(errs, temporary); i >= 0 {
		return errs[i]
	}
	return nil
}
