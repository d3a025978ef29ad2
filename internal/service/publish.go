package service

import (
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
)

// PublishingStore has the vouchers and shops. Errors: domain.ErrNotFound, ErrUnavailable.
type PublishingStore interface {
	Voucher(ctx context.Context, id int64) (domain.Voucher, error)
	// ChangeVoucher is that of VoucherStore.
	ChangeVoucher(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (detail string, err error)) (domain.Voucher, error)
	Shop(ctx context.Context, id int64) (domain.Shop, error)
}

// Publishing checks and publishes drafts. It is safe for concurrent use.
type Publishing struct {
	Store PublishingStore
	// Invalidates the cached copies of a voucher.
	Changed func(voucherID int64)
	Now     func() time.Time
	// The time to pay of sales without one of their own.
	PayTimeout time.Duration
}

// Check returns the checklist of a voucher. Errors: ErrNotFound, ErrUnavailable.
func (p *Publishing) Check(ctx context.Context, id int64) (domain.Checklist, error) {
	v, err := p.Store.Voucher(ctx, id)
	if err != nil {
		return domain.Checklist{}, err
	}
	exists, err := p.shopExists(ctx, v.ShopID)
	return p.check(&v, exists), err
}

// CheckNew checks a voucher that would be published at once like a draft. Errors: *InvalidError with the problems, ErrUnavailable.
func (p *Publishing) CheckNew(ctx context.Context, in domain.VoucherInput) error {
	v, err := in.Voucher(domain.Moment(p.Now()))
	if err != nil {
		return err
	}

	exists, err := p.shopExists(ctx, v.ShopID)
	if err != nil {
		return err
	}

	return (&domain.InvalidError{Fields: p.check(&v, exists).Problems}).Err()
}

func (p *Publishing) shopExists(ctx context.Context, id int64) (bool, error) {
	_, err := p.Store.Shop(ctx, id)
	if errors.Is(err, domain.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (p *Publishing) check(v *domain.Voucher, shopExists bool) domain.Checklist {
	list := v.CheckOffer(shopExists)
	if v.ValidUntil != nil && !v.ValidUntil.After(p.Now()) {
		list.Problems = append(list.Problems, domain.FieldError{Field: "valid_until", Detail: "is over"})
	}
	if v.Sale != nil {
		p.checkSale(v, &list)
	}
	return list
}

func (p *Publishing) checkSale(v *domain.Voucher, list *domain.Checklist) {
	problems := domain.InvalidError{Fields: list.Problems}
	warnings := domain.InvalidError{Fields: list.Warnings}
	now := p.Now()
	switch {
	case !v.Sale.EndAt.After(now):
		problems.Add("end_at", "is over")
	case !v.Sale.BeginAt.After(now):
		warnings.Add("begin_at", "is over: the sale begins at once")
	}

	// That a sale is off is not the fault of its fields.
	draft := *v
	draft.Status = domain.VoucherDraft
	failure, warning := draft.CheckSale(p.PayTimeout)
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
func (p *Publishing) Publish(ctx context.Context, by domain.Actor, id int64) (domain.Voucher, error) {
	draft, err := p.Store.Voucher(ctx, id)
	if err != nil {
		return domain.Voucher{}, err
	}

	exists, err := p.shopExists(ctx, draft.ShopID)
	if err != nil {
		return domain.Voucher{}, err
	}

	v, err := p.Store.ChangeVoucher(ctx, id, by, func(v *domain.Voucher) (string, error) {
		switch {
		case v.Status == domain.VoucherOn:
			return "", errPublished
		case v.Status != domain.VoucherDraft || v.ShopID != draft.ShopID:
			return "", domain.ErrInvalidState
		}

		if list := p.check(v, exists); len(list.Problems) > 0 {
			return "", &domain.ChecklistError{Fields: list.Problems}
		}

		before := *v
		v.Status = domain.VoucherOn
		v.UpdatedAt = domain.Moment(p.Now())
		return before.Changes(v), nil
	})

	p.Changed(id)
	if errors.Is(err, errPublished) {
		return p.Store.Voucher(ctx, id)
	}

	return v, err
}
