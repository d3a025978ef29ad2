package service

import (
	"context"
	"errors"

	"seckill/internal/domain"
)

// Checklist returns what a voucher lacks. Errors: ErrNotFound, ErrUnavailable.
func (s *Vouchers) Checklist(ctx context.Context, id int64) (domain.Checklist, error) {
	v, err := s.cfg.Store.Voucher(ctx, id)
	if err != nil {
		return domain.Checklist{}, err
	}
	exists, err := s.shopExists(ctx, v.ShopID)
	return s.check(&v, exists), err
}

func (s *Vouchers) shopExists(ctx context.Context, id int64) (bool, error) {
	_, err := s.cfg.Store.Shop(ctx, id)
	if errors.Is(err, domain.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *Vouchers) check(v *domain.Voucher, shopExists bool) domain.Checklist {
	return v.Checklist(shopExists, s.cfg.PayTimeout, s.cfg.Now())
}

// errPublished means that the voucher is on already.
var errPublished = errors.New("published before")

// Publish publishes a draft whose checklist has no problems. Publishing it again has no effect. The change is visible at
// once in this process and within a second in the others.
// Errors: *ChecklistError, ErrInvalidState (the voucher is off or expired), ErrNotFound, ErrUnavailable.
func (s *Vouchers) Publish(ctx context.Context, by domain.Actor, id int64) (domain.Voucher, error) {
	draft, err := s.cfg.Store.Voucher(ctx, id)
	if err != nil {
		return domain.Voucher{}, err
	}

	exists, err := s.shopExists(ctx, draft.ShopID)
	if err != nil {
		return domain.Voucher{}, err
	}

	v, err := s.cfg.Store.ChangeVoucher(ctx, id, by, func(v *domain.Voucher) (string, error) {
		switch {
		case v.Status == domain.VoucherOn:
			return "", errPublished
		case v.Status != domain.VoucherDraft || v.ShopID != draft.ShopID:
			return "", domain.ErrInvalidState
		}

		if list := s.check(v, exists); len(list.Problems) > 0 {
			return "", &domain.ChecklistError{Fields: list.Problems}
		}

		before := *v
		v.Status = domain.VoucherOn
		v.UpdatedAt = domain.Moment(s.cfg.Now())
		return before.Changes(v), nil
	})

	s.Changed(ctx, id)
	if errors.Is(err, errPublished) {
		return s.cfg.Store.Voucher(ctx, id)
	}

	return v, err
}
