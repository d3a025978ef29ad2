package service

import (
	"context"
	"time"
)

// VoucherFilter selects vouchers for a list. Zero fields select nothing away, except that a list without a
// Status shows only vouchers that are on.
type VoucherFilter struct {
	ShopID int64
	Status VoucherStatus
	State  SaleState
	Now    time.Time // the moment that State is about
	Page   Page
}

// Page is one step through a list that runs from the newest id to the oldest.
type Page struct {
	Before int64 // ids below this one; 0 starts at the newest
	Limit  int
}

// The size of a page.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
)

// VoucherStore keeps vouchers. Its methods are transactions; errors are those of this package.
type VoucherStore interface {
	CreateVoucher(ctx context.Context, v *Voucher) error
	// ChangeVoucher reads the voucher for update, lets change work on it, and writes the result.
	ChangeVoucher(ctx context.Context, id int64, change func(*Voucher) error) (Voucher, error)
	Voucher(ctx context.Context, id int64) (Voucher, error)
	ListVouchers(ctx context.Context, f VoucherFilter) ([]Voucher, error)
}

// Vouchers publishes and shows vouchers. It is safe for concurrent use.
type Vouchers struct {
	store VoucherStore
	sales *Sales
	now   func() time.Time
}

// NewVouchers makes the voucher service. sales is told about every change at once.
func NewVouchers(store VoucherStore, sales *Sales, now func() time.Time) *Vouchers {
	return &Vouchers{store: store, sales: sales, now: now}
}

// Create publishes a voucher. Errors: *InvalidError, ErrUnavailable.
func (s *Vouchers) Create(ctx context.Context, in VoucherInput) (Voucher, error) {
	v, err := in.voucher(Moment(s.now()))
	if err != nil {
		return Voucher{}, err
	}
	if err := s.store.CreateVoucher(ctx, &v); err != nil {
		return Voucher{}, err
	}
	return v, nil
}

// Change changes a voucher; this process follows at once, the others within a second.
// The limit per user can be raised but not lowered: somebody may hold as many orders as it allowed.
// Errors: *InvalidError, ErrInvalidState, ErrNotFound, ErrUnavailable.
func (s *Vouchers) Change(ctx context.Context, id int64, ch VoucherChange) (Voucher, error) {
	v, err := s.store.ChangeVoucher(ctx, id, func(v *Voucher) error {
		v.UpdatedAt = Moment(s.now())
		before := 0
		if v.Sale != nil {
			before = v.Sale.LimitPerUser
		}
		if err := ch.Apply(v); err != nil {
			return err
		}
		if v.Sale != nil && v.Sale.LimitPerUser < before {
			return ErrInvalidState
		}
		return nil
	})
	s.sales.Change(id)
	return v, err
}

// Get shows one voucher, with the units left as the database has them. Errors: ErrNotFound, ErrUnavailable.
func (s *Vouchers) Get(ctx context.Context, id int64) (Voucher, error) {
	return s.store.Voucher(ctx, id)
}

// List shows vouchers from the newest to the oldest.
func (s *Vouchers) List(ctx context.Context, f VoucherFilter) ([]Voucher, error) {
	f.Now = Moment(s.now())
	return s.store.ListVouchers(ctx, f)
}
