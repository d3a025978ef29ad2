package app

import (
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
)

// renewalStore reads and changes vouchers.
type renewalStore interface {
	ListVouchers(ctx context.Context, f domain.VoucherFilter) ([]domain.Voucher, error)
	ChangeVoucher(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error)) (domain.Voucher, error)
}

// demoRenewal moves the demo's sales that have ended to their next window, so that one is always running and one upcoming.
// Sales that were renamed or unpublished are left alone.
type demoRenewal struct {
	store renewalStore
	// Is called after a sale was moved.
	changed func(id int64)
	now     func() time.Time
}

// errNotEnded ends a change of a sale that need not be moved.
var errNotEnded = errors.New("the sale has not ended")

func (r demoRenewal) run(ctx context.Context) error {
	page := domain.Page{Limit: domain.MaxPageSize}
	for {
		ended, err := r.store.ListVouchers(ctx, domain.VoucherFilter{
			Status: domain.VoucherOn,
			State:  domain.StateEnded,
			Now:    r.now(),
			Page:   page,
		})
		if err != nil {
			return err
		}

		for _, v := range ended {
			if !isRenewed(v.Title) {
				continue
			}
			if err := r.move(ctx, v.ID); err != nil {
				return err
			}
		}

		if len(ended) < page.Limit {
			return nil
		}
		page.Before = ended[len(ended)-1].ID
	}
}

func (r demoRenewal) move(ctx context.Context, id int64) error {
	_, err := r.store.ChangeVoucher(ctx, id, domain.Actor{Kind: domain.ActorSystem}, func(v *domain.Voucher) (string, error) {
		// It was unpublished meanwhile, or another server has moved it.
		if v.Status != domain.VoucherOn || v.State(r.now()) != domain.StateEnded {
			return "", errNotEnded
		}

		before := v.Copy()
		v.UpdatedAt = domain.Moment(r.now())
		moveToNextWindow(v.Sale, r.now())
		return before.Changes(v), nil
	})

	switch {
	case errors.Is(err, errNotEnded):
		return nil
	case err == nil:
		r.changed(id)
	}
	return err
}

func moveToNextWindow(s *domain.Sale, now time.Time) {
	by := (now.Sub(s.EndAt)/demoPeriod + 1) * demoPeriod
	s.BeginAt = s.BeginAt.Add(by)
	s.EndAt = s.EndAt.Add(by)
}
