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
	Voucher(ctx context.Context, id int64) (domain.Voucher, error)
	ChangeVoucher(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error)) (domain.Voucher, error)
}

// demoRenewal moves the demo's sales that have ended to their next window, so that one is always running and one upcoming.
// Sales that were renamed or unpublished are left alone.
type demoRenewal struct {
	store renewalStore
	// Is called after a sale was moved.
	changed func(id int64)
	now     func() time.Time

	// Ids; nil until they are read.
	sales []int64
}

// errNotEnded ends a change of a sale that need not be moved.
var errNotEnded = errors.New("the sale has not ended")

// run moves the sales that have ended. It must not be called concurrently; several servers may call it.
func (r *demoRenewal) run(ctx context.Context) error {
	if r.sales == nil {
		if err := r.find(ctx); err != nil {
			return err
		}
	}

	for _, id := range r.sales {
		v, err := r.store.Voucher(ctx, id)
		if err != nil {
			return err
		}
		if !r.ended(&v) {
			continue
		}

		_, err = r.store.ChangeVoucher(ctx, id, domain.Actor{Kind: domain.ActorSystem}, func(v *domain.Voucher) (string, error) {
			// Another server has moved it.
			if !r.ended(v) {
				return "", errNotEnded
			}

			before := *v
			sale := *v.Sale
			before.Sale = &sale

			v.UpdatedAt = domain.Moment(r.now())
			moveToNextWindow(v.Sale, r.now())

			return before.Changes(v), nil
		})

		switch {
		case errors.Is(err, errNotEnded):
		case err != nil:
			return err
		default:
			r.changed(id)
		}
	}

	return nil
}

func (r *demoRenewal) find(ctx context.Context) error {
	found := []int64{}
	page := domain.Page{Limit: domain.MaxPageSize}
	for {
		vouchers, err := r.store.ListVouchers(ctx, domain.VoucherFilter{Now: r.now(), Page: page})
		if err != nil {
			return err
		}

		for _, v := range vouchers {
			if isRenewed(v.Title) && v.Sale != nil {
				found = append(found, v.ID)
			}
		}

		if len(vouchers) < page.Limit {
			r.sales = found
			return nil
		}

		page.Before = vouchers[len(vouchers)-1].ID
	}
}

func (r *demoRenewal) ended(v *domain.Voucher) bool {
	return isRenewed(v.Title) && v.Sale != nil && v.Status == domain.VoucherOn && !r.now().Before(v.Sale.EndAt)
}

func moveToNextWindow(s *domain.Sale, now time.Time) {
	by := (now.Sub(s.EndAt)/demoPeriod + 1) * demoPeriod
	s.BeginAt = s.BeginAt.Add(by)
	s.EndAt = s.EndAt.Add(by)
}
