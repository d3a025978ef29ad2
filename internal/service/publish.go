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

// CheckNew checks a voucher that would be published at once like a draft. Errors: *InvalidError with the problems, ErrUnavailable.
func (s *Vouchers) CheckNew(ctx context.Context, in domain.VoucherInput) error {
	v, err := in.Voucher(domain.Moment(s.cfg.Now()))
	if err != nil {
		return err
	}

	exists, err := s.shopExists(ctx, v.ShopID)
	if err != nil {
		return err
	}

	return (&domain.InvalidError{Fields: s.check(&v, exists).Problems}).Err()
}

func (s *Vouchers) shopExists(ctx context.Context, id int64) (bool, error) {
	_, err := s.cfg.Store.Shop(ctx, id)
	if errors.Is(err, domain.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *Vouchers) check(v *domain.Voucher, shopExists bool) domain.Checklist {
	list := v.CheckOffer(shopExists)
	if v.ValidUntil != nil && !v.ValidUntil.After(s.cfg.Now()) {
		list.Problems = append(list.Problems, domain.FieldError{Field: "valid_until", Detail: "is over"})
	}
	if v.Sale != nil {
		s.checkSale(v, &list)
	}
	return list
}

func (s *Vouchers) checkSale(v *domain.Voucher, list *domain.Checklist) {
	problems := domain.InvalidError{Fields: list.Problems}
	warnings := domain.InvalidError{Fields: list.Warnings}
	now := s.cfg.Now()
	switch {
	case !v.Sale.EndAt.After(now):
		problems.Add("end_at", "is over")
	case !v.Sale.BeginAt.After(now):
		warnings.Add("begin_at", "is over: the sale begins at once")
	}

	// That a sale is off is not the fault of its fields.
	draft := *v
	draft.Status = domain.VoucherDraft
	failure, warning := draft.CheckSale(s.cfg.PayTimeout)
	switch {
	case v.Sale.Stock < 1:
		problems.Add("stock", "must be more than 0")
	case failure != "":
		problems.Add("sale", "%s", failure)
	case warning != "":
		warnings.Add("sale", "%s", warning)
	}

	list.Problems = problems.Fields
	list.Warnings = warnings.Fields
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

	s.Changed(id)
	if errors.Is(err, errPublished) {
		return s.cfg.Store.Voucher(ctx, id)
	}

	return v, err
}
