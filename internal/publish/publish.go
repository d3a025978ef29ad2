// Package publish checks drafts of vouchers and publishes them.
package publish

import (
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
)

// Store has the vouchers and shops. Errors: domain.ErrNotFound, ErrUnavailable.
type Store interface {
	Voucher(ctx context.Context, id int64) (domain.Voucher, error)
	// ChangeVoucher is that of service.VoucherStore.
	ChangeVoucher(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (detail string, err error)) (domain.Voucher, error)
	Shop(ctx context.Context, id int64) (domain.Shop, error)
}

// Service checks and publishes drafts. It is safe for concurrent use.
type Service struct {
	Store      Store
	Changed    func(voucherID int64) // invalidates the cached copies of a voucher
	Now        func() time.Time
	PayTimeout time.Duration // of sales without one of their own
}

// Checklist is what an operator should know before publishing a draft. Problems prevent it, warnings do not. Each names
// a field of the voucher.
type Checklist struct{ Problems, Warnings []domain.FieldError }

// Check returns the checklist of a voucher. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) Check(ctx context.Context, id int64) (Checklist, error) {
	v, err := s.Store.Voucher(ctx, id)
	if err != nil {
		return Checklist{}, err
	}
	exists, err := s.shopExists(ctx, v.ShopID)
	return s.check(&v, exists), err
}

func (s *Service) shopExists(ctx context.Context, id int64) (bool, error) {
	_, err := s.Store.Shop(ctx, id)
	if errors.Is(err, domain.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *Service) check(v *domain.Voucher, shopExists bool) Checklist {
	list := CheckOffer(v, shopExists)
	if v.Sale != nil {
		s.checkSale(v, &list)
	}
	return list
}

// CheckOffer returns the checklist of a voucher apart from its sale: shop, prices, currency and picture.
func CheckOffer(v *domain.Voucher, shopExists bool) Checklist {
	var problems, warnings domain.InvalidError
	if !shopExists {
		problems.Add("shop_id", "is not the id of a shop")
	}
	switch {
	case v.ActualValue == 0:
		problems.Add("actual_value", "must be more than 0")
	case v.PayValue > v.ActualValue:
		problems.Add("pay_value", "must not be higher than actual_value")
	case v.PayValue == v.ActualValue:
		warnings.Add("pay_value", "is not lower than actual_value: there is no discount")
	}
	if v.Currency == "XXX" || v.Currency == "XTS" { // "no currency" and "for tests" of ISO 4217
		problems.Add("currency", "is not a currency in which buyers can pay")
	}
	if v.ImageID == "" {
		warnings.Add("image_id", "is missing: the sale has no picture")
	}
	return Checklist{problems.Fields, warnings.Fields}
}

// checkSale adds what concerns the sale of a voucher.
func (s *Service) checkSale(v *domain.Voucher, list *Checklist) {
	problems, warnings := domain.InvalidError{Fields: list.Problems}, domain.InvalidError{Fields: list.Warnings}
	now := s.Now()
	switch {
	case !v.Sale.EndAt.After(now):
		problems.Add("end_at", "is over")
	case !v.Sale.BeginAt.After(now):
		warnings.Add("begin_at", "is over: the sale begins at once")
	}
	draft := *v // that a sale is off is not the fault of its fields
	draft.Status = domain.VoucherDraft
	failure, warning := draft.CheckSale(s.PayTimeout)
	switch {
	case v.Sale.Stock < 1:
		problems.Add("stock", "must be more than 0")
	case failure != "":
		problems.Add("sale", "%s", failure)
	case warning != "":
		warnings.Add("sale", "%s", warning)
	}
	list.Problems, list.Warnings = problems.Fields, warnings.Fields
}

// errPublished means that the voucher is on already.
var errPublished = errors.New("published before")

// Publish publishes a draft whose checklist has no problems. Publishing it again has no effect. The change is visible at
// once in this process and within a second in the others.
// Errors: *ChecklistError, ErrInvalidState (the voucher is off or expired), ErrNotFound, ErrUnavailable.
func (s *Service) Publish(ctx context.Context, by domain.Actor, id int64) (domain.Voucher, error) {
	draft, err := s.Store.Voucher(ctx, id)
	if err != nil {
		return domain.Voucher{}, err
	}
	exists, err := s.shopExists(ctx, draft.ShopID)
	if err != nil {
		return domain.Voucher{}, err
	}
	v, err := s.Store.ChangeVoucher(ctx, id, by, func(v *domain.Voucher) (string, error) {
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
		v.Status, v.UpdatedAt = domain.VoucherOn, domain.Moment(s.Now())
		return before.Changes(v), nil
	})
	s.Changed(id)
	if errors.Is(err, errPublished) {
		return s.Store.Voucher(ctx, id)
	}
	return v, err
}
