package demo

import (
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
)

// Store reads and changes vouchers.
type Store interface {
	ListVouchers(ctx context.Context, f domain.VoucherFilter) ([]domain.Voucher, error)
	Voucher(ctx context.Context, id int64) (domain.Voucher, error)
	ChangeVoucher(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error)) (domain.Voucher, error)
}

// Renewal moves the demo's sales that have ended to their next window, so that one is always running and one upcoming.
// Sales that were renamed or unpublished are left alone.
type Renewal struct {
	Store Store
	// Is called after a sale was moved.
	Changed func(id int64)
	Now     func() time.Time

	// Ids; nil until they are read.
	sales []int64
}

// errCurrent ends a change of a sale that need not be moved.
var errCurrent = errors.New("the sale has not ended")

// Run moves the sales that have ended. It must not be called concurrently; several servers may call it.
func (r *Renewal) Run(ctx context.Context) error {
	if r.sales == nil {
		if err := r.find(ctx); err != nil {
			return err
		}
	}

	for _, id := range r.sales {
		v, err := r.Store.Voucher(ctx, id)
		if err != nil {
			return err
		}
		if !r.ended(&v) {
			continue
		}

		_, err = r.Store.ChangeVoucher(ctx, id, domain.Actor{Kind: domain.ActorSystem}, func(v *domain.Voucher) (string, error) {
			// Another server has moved it.
			if !r.ended(v) {
				return "", errCurrent
			}

			before := *v
			sale := *v.Sale
			before.Sale = &sale

			v.UpdatedAt = domain.Moment(r.Now())
			next(v.Sale, r.Now())

			return before.Changes(v), nil
		})

		switch {
		case errors.Is(err, errCurrent):
		case err != nil:
			return err
		default:
			r.Changed(id)
		}
	}

	return nil
}

func (r *Renewal) find(ctx context.Context) error {
	found := []int64{}
	page := domain.Page{Limit: domain.MaxPageSize}
	for {
		vouchers, err := r.Store.ListVouchers(ctx, domain.VoucherFilter{Now: r.Now(), Page: page})
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

func (r *Renewal) ended(v *domain.Voucher) bool {
	return isRenewed(v.Title) && v.Sale != nil && v.Status == domain.VoucherOn && !r.Now().Before(v.Sale.EndAt)
}

func next(s *domain.Sale, now time.Time) {
	by := (now.Sub(s.EndAt)/period + 1) * period
	s.BeginAt = s.BeginAt.Add(by)
	s.EndAt = s.EndAt.Add(by)
}
