package service

import (
	"context"
	"errors"
	"time"
)

// VoucherFilter selects vouchers for a list. Zero fields select nothing away, except that a list without a
// Status shows only vouchers that are on.
type VoucherFilter struct {
	ShopID int64
	Status VoucherStatus
	State  SaleState
	Lasts  bool      // only normal vouchers and sales that have not ended
	Now    time.Time // the moment that State and Lasts are about
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
	// CreateVoucher stores the voucher and sets its id. Errors: *DoneBeforeError, ErrUnavailable.
	CreateVoucher(ctx context.Context, v *Voucher, by Actor) error
	// ChangeVoucher reads the voucher for update, lets change work on it, and writes the result. change says what it
	// did, for the audit log.
	ChangeVoucher(ctx context.Context, id int64, by Actor, change func(*Voucher) (detail string, err error)) (Voucher, error)
	// ChangeStock adds units to a sale, or takes away units that nobody holds, and books it.
	// Errors: ErrNotFound, ErrInvalidState (no sale, fewer units left), *DoneBeforeError, ErrUnavailable.
	ChangeStock(ctx context.Context, c StockChange) (Voucher, error)
	Voucher(ctx context.Context, id int64) (Voucher, error)
	ListVouchers(ctx context.Context, f VoucherFilter) ([]Voucher, error)
}

// StockChange is a number of units that come to a sale after it was published, or leave it.
type StockChange struct {
	VoucherID int64
	Delta     int64
	Reason    string
	By        Actor
	At        time.Time
}

// VouchersConfig is what Vouchers needs.
type VouchersConfig struct {
	Store VoucherStore
	Sales *Sales // is told about every change at once
	Queue Queue  // nil outside the lane queue
	Now   func() time.Time
}

// Vouchers publishes and shows vouchers. It is safe for concurrent use.
type Vouchers struct {
	cfg  VouchersConfig
	deep chan struct{} // one element per list that is being read from the database
}

// maxDeep bounds the lists that are read from the database at once: those that the catalog does not reach.
const maxDeep = 2

// NewVouchers makes the voucher service.
func NewVouchers(cfg VouchersConfig) *Vouchers {
	return &Vouchers{cfg: cfg, deep: make(chan struct{}, maxDeep)}
}

// Create publishes a voucher. Errors: *InvalidError, ErrUnavailable.
func (s *Vouchers) Create(ctx context.Context, admin int64, in VoucherInput) (Voucher, error) {
	v, err := in.voucher(Moment(s.cfg.Now()))
	if err != nil {
		return Voucher{}, err
	}
	err = s.cfg.Store.CreateVoucher(ctx, &v, Actor{ActorAdmin, admin})
	if id, done := DoneBefore(err); done {
		return s.cfg.Store.Voucher(ctx, id)
	}
	s.cfg.Sales.catalog.forget()
	if err != nil {
		return Voucher{}, err
	}
	return v, nil
}

// Change changes a voucher; this process follows at once, the others within a second.
// The limit per user can be raised but not lowered: somebody may hold as many orders as it allowed.
// Errors: *InvalidError, ErrInvalidState, ErrNotFound, ErrUnavailable.
func (s *Vouchers) Change(ctx context.Context, admin, id int64, ch VoucherChange) (Voucher, error) {
	v, err := s.cfg.Store.ChangeVoucher(ctx, id, Actor{ActorAdmin, admin}, func(v *Voucher) (string, error) {
		before := *v
		if v.Sale != nil {
			sale := *v.Sale
			before.Sale = &sale
		}
		if err := ch.Apply(v); err != nil {
			return "", err
		}
		if v.Sale != nil && v.Sale.LimitPerUser < before.Sale.LimitPerUser {
			return "", ErrInvalidState
		}
		v.UpdatedAt = Moment(s.cfg.Now())
		return differences(&before, v), nil
	})
	s.changed(id)
	return v, err
}

// changed makes what was changed of a voucher visible, here to whatever is read next.
func (s *Vouchers) changed(id int64) {
	s.cfg.Sales.Change(id)
	s.cfg.Sales.catalog.forget()
}

// ChangeStock adds units to a sale, or takes away units that nobody holds or was promised; everybody follows within a
// second. Errors: *InvalidError, ErrInvalidState (no sale, fewer units left), ErrNotFound, ErrUnavailable.
func (s *Vouchers) ChangeStock(ctx context.Context, admin, id, delta int64, reason string) (Voucher, error) {
	var bad InvalidError
	if delta == 0 || delta < -MaxStock || delta > MaxStock {
		bad.add("delta", "must be between -%d and %d, and not 0", MaxStock, MaxStock)
	}
	setText(new(string), &reason, "reason", 1, maxTitle, &bad)
	if err := bad.orNil(); err != nil {
		return Voucher{}, err
	}
	change := StockChange{VoucherID: id, Delta: delta, Reason: reason, By: Actor{ActorAdmin, admin}, At: Moment(s.cfg.Now())}
	v, err := s.changeStock(ctx, change)
	s.changed(id)
	return v, err
}

// changeStock makes a change once, also if its request is run again.
func (s *Vouchers) changeStock(ctx context.Context, c StockChange) (Voucher, error) {
	v, err := s.changeStockOf(ctx, c)
	if id, done := DoneBefore(err); done {
		return s.cfg.Store.Voucher(ctx, id)
	}
	return v, err
}

// changeStockOf keeps the gate below the database: what is taken away leaves the gate first, and what is added comes to it
// last. Where a process dies in between, the audit makes them agree.
func (s *Vouchers) changeStockOf(ctx context.Context, c StockChange) (Voucher, error) {
	if s.cfg.Queue == nil {
		return s.cfg.Store.ChangeStock(ctx, c)
	}
	if c.Delta < 0 {
		if err := s.takeFromGate(ctx, c); err != nil {
			return Voucher{}, err
		}
	}
	v, err := s.cfg.Store.ChangeStock(ctx, c)
	refused := errors.Is(err, ErrInvalidState) || errors.Is(err, ErrNotFound)
	switch {
	case err == nil && c.Delta > 0:
		ctx, cancel := decided(ctx)
		defer cancel()
		_ = s.cfg.Queue.AddStock(ctx, c.VoucherID, c.Delta)
	case refused && c.Delta < 0:
		s.returnToGate(ctx, c)
	}
	return v, err
}

// decided returns a context for what must follow from a decision even if its caller hung up.
func decided(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
}

// takeFromGate takes the units of a decrease out of the gate. A request with a key notes that, so that another run of it
// does not take them again: they are gone from the gate, whatever became of the earlier run's commit.
func (s *Vouchers) takeFromGate(ctx context.Context, c StockChange) error {
	claim := ClaimOf(ctx)
	if claim != nil && claim.Again && claim.ResourceID == c.VoucherID {
		return nil
	}
	if err := s.cfg.Queue.AddStock(ctx, c.VoucherID, c.Delta); err != nil || claim == nil {
		return err
	}
	err := claim.Note(ctx, c.VoucherID, c.At)
	if errors.Is(err, ErrOrderInProgress) { // the run that has the key now takes its own
		ctx, cancel := decided(ctx)
		defer cancel()
		_ = s.cfg.Queue.AddStock(ctx, c.VoucherID, -c.Delta)
	}
	return err
}

// returnToGate undoes takeFromGate. The note goes first: without it another run takes too much, which the audit returns;
// with it, it would take nothing.
func (s *Vouchers) returnToGate(ctx context.Context, c StockChange) {
	ctx, cancel := decided(ctx)
	defer cancel()
	if claim := ClaimOf(ctx); claim != nil && claim.Note(ctx, 0, c.At) != nil {
		return // the audit returns the units
	}
	_ = s.cfg.Queue.AddStock(ctx, c.VoucherID, -c.Delta)
}

// Get returns one voucher, as Sales.Fresh does: the result is shared.
func (s *Vouchers) Get(ctx context.Context, id int64) (*Voucher, error) {
	return s.cfg.Sales.Fresh(ctx, id)
}

// Catalog returns the newest vouchers, as Sales.Catalog does: the result is shared.
func (s *Vouchers) Catalog(ctx context.Context) (*Catalog, error) {
	return s.cfg.Sales.Catalog(ctx)
}

// Older reads a list that the catalog does not reach (Catalog.List) from the database; more than maxDeep at once are
// refused. Errors: ErrOverloaded, ErrUnavailable.
func (s *Vouchers) Older(ctx context.Context, f VoucherFilter, now time.Time) ([]*Voucher, error) {
	select {
	case s.deep <- struct{}{}:
		defer func() { <-s.deep }()
	default:
		return nil, ErrOverloaded
	}
	ctx, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()
	f.Now = now
	vouchers, err := s.cfg.Store.ListVouchers(ctx, f)
	page := make([]*Voucher, len(vouchers))
	for i := range vouchers {
		page[i] = &vouchers[i]
	}
	return page, err
}
