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

// demoRenewal moves the demo's sales that have ended to their next window, so that one is always running and one upcoming.
// Sales that were renamed or unpublished are left alone.
type demoRenewal struct {
	store voucherChanger
	// Is called after a sale was moved.
	changed func(id int64)
	now     func() time.Time
}

// errNotEnded ends a change of a sale that need not be moved.
var errNotEnded = errors.New("the sale has not ended")

func (r demoRenewal) run(ctx context.Context) error {
	for _, id := range []int64{dimSumID, hotPotID} {
		err := r.move(ctx, id)

		switch {
		case err == nil:
			r.changed(id)
		case !errors.Is(err, errNotEnded) && !errors.Is(err, domain.ErrNotFound):
			return err
		}
	}

	return nil
}

func (r demoRenewal) move(ctx context.Context, id int64) error {
	_, err := r.store.ChangeVoucher(ctx, id, domain.Actor{Kind: domain.ActorSystem}, func(v *domain.Voucher) (string, error) {
		if !isRenewed(v.Title) || v.Status != domain.VoucherOn || v.State(r.now()) != domain.StateEnded {
			return "", errNotEnded
		}

		before := v.Copy()
		v.UpdatedAt = domain.Moment(r.now())
		moveToNextWindow(v.Sale, r.now())
		return before.Changes(v), nil
	})

	return err
}

func moveToNextWindow(s *domain.Sale, now time.Time) {
	by := (now.Sub(s.EndAt)/demoPeriod + 1) * demoPeriod
	s.BeginAt = s.BeginAt.Add(by)
	s.EndAt = s.EndAt.Add(by)
}
