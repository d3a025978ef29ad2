package service

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"seckill/internal/domain"
)

// VoucherStore stores vouchers. Each method is one transaction. Its errors are those of package domain. If an earlier run
// of the request with a claim had the effect, nothing changes and the voucher is the present one.
type VoucherStore interface {
	// CreateVoucher stores the voucher and sets its id. Error: ErrUnavailable.
	CreateVoucher(ctx context.Context, claim *domain.Claim, v *domain.Voucher, by domain.Actor) error
	// ChangeVoucher locks and reads the voucher, calls change, and stores the changed voucher, but not its stock. The
	// detail goes to the audit log. An error of change rolls back and is returned.
	ChangeVoucher(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (detail string, err error)) (domain.Voucher, error)
	// DeleteDraft removes a draft. Errors: ErrNotFound, ErrInvalidState (not a draft, or it has orders), ErrUnavailable.
	DeleteDraft(ctx context.Context, id int64, by domain.Actor, at time.Time) error
	// ChangeStock adds units to a sale or removes units that are left, and records the change.
	// Errors: ErrNotFound, ErrInvalidState (no sale, or not enough units left), ErrUnavailable.
	ChangeStock(ctx context.Context, c domain.StockChange) (domain.Voucher, error)
	// ChangeRoom applies a change to the entry of a sale. Errors: those of domain.RoomChange.Apply, ErrNotFound,
	// ErrUnavailable.
	ChangeRoom(
		ctx context.Context, claim *domain.Claim, id int64, by domain.Actor, at time.Time, ch domain.RoomChange,
	) (domain.Voucher, error)
	Voucher(ctx context.Context, id int64) (domain.Voucher, error)
	ListVouchers(ctx context.Context, f domain.VoucherFilter) ([]domain.Voucher, error)
	// Shop returns a shop. Errors: ErrNotFound, ErrUnavailable.
	Shop(ctx context.Context, id int64) (domain.Shop, error)
}

// VouchersConfig configures Vouchers.
type VouchersConfig struct {
	Store VoucherStore
	// Its cached vouchers are invalidated after every change.
	Sales *Sales
	// Nil except in lane queue.
	Queue ReservationStore
	Now   func() time.Time
	// The time to pay of sales without one of their own.
	PayTimeout time.Duration
}

// Vouchers creates, checks, publishes, changes and reads vouchers. It is safe for concurrent use.
type Vouchers struct {
	cfg VouchersConfig
	// Lists that are being read from the database.
	deep *semaphore.Weighted
}

// maxDeep bounds the concurrent reads of lists that the catalog does not contain.
const maxDeep = 2

// NewVouchers returns Vouchers.
func NewVouchers(cfg VouchersConfig) *Vouchers {
	return &Vouchers{cfg: cfg, deep: semaphore.NewWeighted(maxDeep)}
}

// Create validates and stores a voucher. One that is published at once is checked like a draft, unless it has Force.
// Errors: *InvalidError, ErrUnavailable.
func (s *Vouchers) Create(ctx context.Context, claim *domain.Claim, admin int64, in domain.VoucherInput) (domain.Voucher, error) {
	v, err := in.Voucher(domain.Moment(s.cfg.Now()))
	if err != nil {
		return domain.Voucher{}, err
	}

	if !in.Draft && !in.Force {
		exists, err := s.shopExists(ctx, v.ShopID)
		if err != nil {
			return domain.Voucher{}, err
		}
		if problems := s.check(&v, exists).Problems; len(problems) > 0 {
			return domain.Voucher{}, &domain.InvalidError{Fields: problems}
		}
	}

	err = s.cfg.Store.CreateVoucher(ctx, claim, &v, domain.Actor{Kind: domain.ActorAdmin, ID: admin})
	s.cfg.Sales.catalog.Outdate()
	if err != nil {
		return domain.Voucher{}, err
	}

	return v, nil
}

// segmentsFixed is the time before the start of a sale from which its segments cannot be changed: every server must know
// their number before the first buyer comes.
const segmentsFixed = time.Minute

// Change changes a voucher. The change is visible at once in this process and within a second in the others. The limit
// per user can be raised but not lowered, because a user may already have as many active orders as it allows. The
// segments can be changed until a minute before the sale begins; the gate is then loaded anew.
// Errors: *InvalidError, ErrInvalidState (a lower limit, or segments of a sale that begins), ErrNotFound, ErrUnavailable.
func (s *Vouchers) Change(ctx context.Context, admin, id int64, ch domain.VoucherChange) (domain.Voucher, error) {
	reload := false
	v, err := s.cfg.Store.ChangeVoucher(ctx, id, domain.Actor{Kind: domain.ActorAdmin, ID: admin}, func(v *domain.Voucher) (string, error) {
		before := v.Copy()
		if err := ch.Apply(v, s.cfg.Now()); err != nil {
			return "", err
		}

		reload = before.Sale != nil && v.Sale.Segments != before.Sale.Segments
		// Nobody buys a draft, whose window may not be known yet.
		sold := before.Sale != nil && v.Status != domain.VoucherDraft
		if sold && v.Sale.LimitPerUser < before.Sale.LimitPerUser {
			return "", domain.ErrInvalidState
		}

		if sold && reload {
			fixed := s.cfg.Now().Add(segmentsFixed)
			if !fixed.Before(before.Sale.BeginAt) || !fixed.Before(v.Sale.BeginAt) {
				return "", domain.ErrInvalidState
			}
		}

		v.UpdatedAt = domain.Moment(s.cfg.Now())
		return before.Changes(v), nil
	})

	s.Changed(ctx, id)

	if err == nil && reload && s.cfg.Queue != nil {
		ctx, cancel := afterCommit(ctx)
		defer cancel()
		// After an error, reconciliation repairs the gate when the sale is open.
		_ = s.cfg.Queue.Unload(ctx, id)
	}

	return v, err
}

// Delete removes a draft that has no orders. Errors: ErrInvalidState (any other voucher), ErrNotFound, ErrUnavailable.
func (s *Vouchers) Delete(ctx context.Context, admin, id int64) error {
	by := domain.Actor{Kind: domain.ActorAdmin, ID: admin}
	err := s.cfg.Store.DeleteDraft(ctx, id, by, domain.Moment(s.cfg.Now()))
	s.Changed(ctx, id)
	return err
}

// Changed replaces the cached copies of a voucher, so that later purchases and reads in this process see the change.
func (s *Vouchers) Changed(ctx context.Context, id int64) {
	s.cfg.Sales.Change(id)
	s.cfg.Sales.catalog.Outdate()

	// A purchase would soon use the old copy if the database is slow. After an error the next read has the change.
	_, _ = s.cfg.Sales.Fresh(ctx, id)
}

// ChangeStock adds units to a sale, or removes units that neither an active order nor a reservation holds. The change
// is visible everywhere within a second.
// Errors: *InvalidError, ErrInvalidState (no sale, or not enough units left), ErrNotFound, ErrUnavailable.
func (s *Vouchers) ChangeStock(
	ctx context.Context, claim *domain.Claim, admin, id, delta int64, reason string,
) (domain.Voucher, error) {
	change := domain.StockChange{
		VoucherID: id,
		Delta:     delta,
		Reason:    reason,
		By:        domain.Actor{Kind: domain.ActorAdmin, ID: admin},
		At:        domain.Moment(s.cfg.Now()),
		Claim:     claim,
	}
	if err := change.Validate(); err != nil {
		return domain.Voucher{}, err
	}

	v, err := s.changeGateAndStock(ctx, change)
	s.Changed(ctx, id)
	return v, err
}

// ChangeRoom changes the waiting room of a sale or voids its entry passes, in this process at once and in the others
// within a second. Errors: *InvalidError, ErrInvalidState (the sale has no room, or needs no passes), ErrNotFound,
// ErrUnavailable.
func (s *Vouchers) ChangeRoom(
	ctx context.Context, claim *domain.Claim, admin, id int64, ch domain.RoomChange,
) (domain.Voucher, error) {
	by := domain.Actor{Kind: domain.ActorAdmin, ID: admin}
	v, err := s.cfg.Store.ChangeRoom(ctx, claim, id, by, domain.Moment(s.cfg.Now()), ch)
	s.Changed(ctx, id)
	return v, err
}

// changeGateAndStock removes units from the gate first and adds them to the gate last, so that the gate does not offer
// units that the database does not have. An earlier run of the request may have done either, or only the first step: after
// another run the gate is discarded, and the next purchase loads it. There are two exceptions, after which orders for units
// that are gone fail as sold_out: a rebuild of the gate that reads the database between the two steps of a decrease, and
// purchases between the commit of a decrease that ran again and the end of the old gate. Reconciliation repairs a gate whose
// change was cut short.
func (s *Vouchers) changeGateAndStock(ctx context.Context, c domain.StockChange) (domain.Voucher, error) {
	if s.cfg.Queue == nil {
		return s.cfg.Store.ChangeStock(ctx, c)
	}

	again := c.Claim != nil && c.Claim.Again
	take := c.Delta < 0 && !again
	if take {
		if err := s.cfg.Queue.AddStock(ctx, c.VoucherID, c.Delta); err != nil {
			return domain.Voucher{}, err
		}
	}

	v, err := s.cfg.Store.ChangeStock(ctx, c)
	refused := errors.Is(err, domain.ErrInvalidState) || errors.Is(err, domain.ErrNotFound)
	added := err == nil && c.Delta > 0

	ctx, cancel := afterCommit(ctx)
	defer cancel()

	// After an error, reconciliation repairs the gate.
	switch {
	case again:
		_ = s.cfg.Queue.Unload(ctx, c.VoucherID)
	case added || refused && take:
		_ = s.cfg.Queue.AddStock(ctx, c.VoucherID, max(c.Delta, -c.Delta))
	}

	return v, err
}

// afterCommit returns a context for a step that must follow a commit, for returnTimeout, even without the caller.
func afterCommit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
}

// Get returns a voucher as Sales.Fresh does. The result is shared and must not be modified.
func (s *Vouchers) Get(ctx context.Context, id int64) (*domain.Voucher, error) {
	return s.cfg.Sales.Fresh(ctx, id)
}

// Catalog returns the newest vouchers as Sales.Catalog does. The result is shared and must not be modified.
func (s *Vouchers) Catalog(ctx context.Context) (*Catalog, error) {
	return s.cfg.Sales.Catalog(ctx)
}

// Older reads a list that the catalog does not contain (Catalog.List) from the database. At most maxDeep such reads run
// at a time. Errors: ErrOverloaded (maxDeep reads are running), ErrUnavailable.
func (s *Vouchers) Older(ctx context.Context, f domain.VoucherFilter, now time.Time) ([]*domain.Voucher, error) {
	if !s.deep.TryAcquire(1) {
		return nil, domain.ErrOverloaded
	}
	defer s.deep.Release(1)

	ctx, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()

	f.Now = now
	vouchers, err := s.cfg.Store.ListVouchers(ctx, f)
	page := make([]*domain.Voucher, len(vouchers))
	for i := range vouchers {
		page[i] = &vouchers[i]
	}

	return page, err
}
