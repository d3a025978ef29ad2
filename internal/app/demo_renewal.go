package app

import (
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
)

// voucherChanger changes vouchers.
type voucherChanger interface {
	ChangeVoucher(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error)) (domain.Voucher, error)
}

// errNotEnded ends a change of a sale that need not be moved.
var errNotEnded = errors.New("the sale has not ended")

// renewDemo moves the demo's sales that have ended at now to their next window, so that one is always running and one
// upcoming, and calls changed after each. Sales that were renamed or unpublished are left alone.
func renewDemo(ctx context.Context, store voucherChanger, now time.Time, changed func(ctx context.Context, id int64)) error {
	renew := func(v *domain.Voucher) (string, error) {
		if !isRenewed(v.Title) || v.Status != domain.VoucherOn || v.State(now) != domain.StateEnded {
			return "", errNotEnded
		}

		before := v.Copy()
		v.UpdatedAt = domain.Moment(now)
		moveToNextWindow(v.Sale, now)
		return before.Changes(v), nil
	}

	for _, id := range []int64{dimSumID, hotPotID} {
		_, err := store.ChangeVoucher(ctx, id, domain.Actor{Kind: domain.ActorSystem}, renew)

		switch {
		case err == nil:
			changed(ctx, id)
		case !errors.Is(err, errNotEnded) && !errors.Is(err, domain.ErrNotFound):
			return err
		}
	}

	return nil
}

func moveToNextWindow(s *domain.Sale, now time.Time) {
	by := (now.Sub(s.EndAt)/demoPeriod + 1) * demoPeriod
	s.BeginAt = s.BeginAt.Add(by)
	s.EndAt = s.EndAt.Add(by)
}
