package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/domain"
)

// Cancel cancels an unpaid order and returns its unit, exactly once. The user may buy again at once. A queued order
// cannot be cancelled before it is committed.
// Errors: ErrNotFound (even if another buyer has the order), ErrInvalidState, ErrUnavailable.
func (s *Orders) Cancel(ctx context.Context, claim *domain.Claim, by domain.Actor, id int64) (domain.Order, error) {
	o, err := s.cfg.Store.MoveOrder(ctx, domain.OrderMove{
		Move:    domain.MoveCancel,
		OrderID: id,
		By:      by,
		At:      domain.Moment(s.cfg.Now()),
		Claim:   claim,
	})
	if err != nil {
		return domain.Order{}, s.cfg.Returns.notYet(ctx, by.Owner(), id, err)
	}

	s.cfg.Returns.Release(ctx, o)
	return o, nil
}

// CancelUnpaid cancels all unpaid orders of a user, as Cancel does. Orders that are paid or closed meanwhile are left
// alone. An order that is still queued expires after its time to pay. Error: ErrUnavailable.
func (s *Orders) CancelUnpaid(ctx context.Context, userID int64) error {
	buyer := domain.Actor{Kind: domain.ActorBuyer, ID: userID}
	q := SearchQuery{
		Users:  []int64{userID},
		Status: domain.OrderPendingPayment,
		Page:   domain.Page{Limit: domain.MaxPageSize},
	}

	for {
		orders, err := s.cfg.Store.FindOrders(ctx, q)
		if err != nil {
			return err
		}

		for _, o := range orders {
			if _, err := s.Cancel(ctx, nil, buyer, o.ID); err != nil && !errors.Is(err, domain.ErrInvalidState) {
				return err
			}
			q.Page.Before = o.ID
		}

		if len(orders) < domain.MaxPageSize {
			return nil
		}
	}
}

// Redeem marks a paid order as used. code is the redeem code that the buyer shows. If it is empty, the admin redeems
// the order without proof. Errors: ErrUnknownCode (the code does not belong to the order), ErrNotFound,
// *OtherShopError, *NotRedeemableError, ErrUnavailable.
func (s *Orders) Redeem(ctx context.Context, claim *domain.Claim, admin, id int64, code string) (domain.Order, error) {
	detail := "without a code"
	if code != "" {
		of, err := s.cfg.Codes.Parse(code)
		if err != nil || of != id {
			return domain.Order{}, domain.UnknownCode("is not the code of this order")
		}
		detail = "by its code"
	}

	return s.moveAtCounter(ctx, domain.OrderMove{
		Move:    domain.MoveRedeem,
		OrderID: id,
		By:      domain.Actor{Kind: domain.ActorAdmin, ID: admin},
		Detail:  detail,
		Claim:   claim,
	}, (*domain.Order).CheckRedeem)
}

// UndoRedeem takes back a redemption by mistake: the order is paid again, and its code valid. code is its redeem code; if it
// is empty, id alone names the order. Errors: ErrUnknownCode, *InvalidError (reason), ErrNotFound, *OtherShopError,
// ErrInvalidState (it is not redeemed, was redeemed longer ago than UndoTime, or its money has gone back), ErrUnavailable.
func (s *Orders) UndoRedeem(ctx context.Context, claim *domain.Claim, admin, id int64, code, reason string) (domain.Order, error) {
	if code != "" {
		var err error
		if id, err = s.cfg.Codes.Parse(code); err != nil {
			return domain.Order{}, err
		}
	}

	if err := domain.CheckReason(&reason); err != nil {
		return domain.Order{}, err
	}

	return s.moveAtCounter(ctx, domain.OrderMove{
		Move:    domain.MoveUndoRedeem,
		OrderID: id,
		By:      domain.Actor{Kind: domain.ActorAdmin, ID: admin},
		Detail:  reason,
		Claim:   claim,
	}, (*domain.Order).CheckUndo)
}

func (s *Orders) moveAtCounter(ctx context.Context, m domain.OrderMove, check func(*domain.Order, time.Time) error) (domain.Order, error) {
	shops, err := s.cfg.Store.ShopsOf(ctx, m.By.ID)
	if err != nil {
		return domain.Order{}, err
	}

	m.At = domain.Moment(s.cfg.Now())
	m.Check = func(before *domain.Order) error {
		if err := shops.Check(before); err != nil {
			return err
		}
		return check(before, m.At)
	}

	o, err := s.cfg.Store.MoveOrder(ctx, m)
	if err != nil {
		return domain.Order{}, err
	}

	s.cfg.Returns.Moved(o.ID)
	return o, nil
}

// RedeemCode marks the paid order with the given redeem code as used.
// Errors: those of Redeem.
func (s *Orders) RedeemCode(ctx context.Context, claim *domain.Claim, admin int64, code string) (domain.Order, error) {
	id, err := s.cfg.Codes.Parse(code)
	if err != nil {
		return domain.Order{}, err
	}
	return s.Redeem(ctx, claim, admin, id, code)
}

func (s *Orders) withRedeemCode(o domain.Order) domain.Order {
	if o.Status == domain.OrderPaid {
		o.RedeemCode = s.cfg.Codes.Of(o.ID)
	}
	return o
}

// Get returns an order of the user, or a stored one of any user if userID is 0. Errors: ErrNotFound (even if another user
// has the order), ErrUnavailable. If the store cannot be read, a ticket of the order is not enough, because the order may
// be stored already.
func (s *Orders) Get(ctx context.Context, userID, id int64) (domain.Order, error) {
	o, err := s.cfg.Store.Order(ctx, userID, id)
	if s.cfg.Queue == nil || userID == 0 || !errors.Is(err, domain.ErrNotFound) {
		return s.withRedeemCode(o), err
	}

	t, err := s.cfg.Queue.Ticket(ctx, userID, id, 0)
	switch {
	case err == nil:
		waiting := []domain.Order{t.Order(s.cfg.PayTimeout)}
		err = s.cfg.Store.AddOffers(ctx, waiting)
		return waiting[0], err
	case errors.Is(err, domain.ErrNotFound):
		// It may have been committed between the two reads.
		o, err = s.cfg.Store.Order(ctx, userID, id)
		return s.withRedeemCode(o), err
	}

	return domain.Order{}, err
}

// Follow is Get for a caller that polls the order and last received was. As long as the order is queued, Follow does
// not read the store.
func (s *Orders) Follow(ctx context.Context, userID int64, was domain.Order) (domain.Order, error) {
	if was.Status == domain.OrderQueued && s.cfg.Queue != nil {
		if t, err := s.cfg.Queue.Ticket(ctx, userID, was.ID, was.VoucherID); err == nil && t.Failed == "" {
			o := t.Order(s.cfg.PayTimeout)
			o.Offer = was.Offer
			return o, nil
		}
	}
	return s.Get(ctx, userID, was.ID)
}

// List returns a page of a user's orders, newest first; of any status if that is 0. Error: ErrUnavailable.
func (s *Orders) List(ctx context.Context, userID int64, status domain.OrderStatus, page domain.Page) ([]domain.Order, error) {
	orders, err := s.Find(ctx, SearchQuery{
		Users:  []int64{userID},
		Status: status,
		Page:   page,
	})

	for i := range orders {
		orders[i] = s.withRedeemCode(orders[i])
	}
	return orders, err
}

// Find returns a page of the orders that match q, newest first, without redeem codes. Queued and failed admissions are included
// only if q selects a single user, because Redis stores them by user. Errors: *InvalidError (the page), ErrUnavailable.
func (s *Orders) Find(ctx context.Context, q SearchQuery) ([]domain.Order, error) {
	var waiting, stored []domain.Order
	var err error
	if len(q.Users) == 1 && (q.Status == 0 || !q.Status.Stored()) {
		// Tickets are read before the store, so that an order committed between the two reads is in the second.
		if waiting, err = s.unstored(ctx, &q); err != nil {
			return nil, err
		}
	}

	if q.Status == 0 || q.Status.Stored() {
		if stored, err = s.cfg.Store.FindOrders(ctx, q); err != nil {
			return nil, err
		}
	}

	if len(waiting) == 0 {
		return stored, nil
	}
	return mergeOrders(stored, waiting, q.Page.Limit), nil
}

// unstored returns the matching orders of the user that wait in the queue or have failed, newest first.
func (s *Orders) unstored(ctx context.Context, q *SearchQuery) ([]domain.Order, error) {
	if s.cfg.Queue == nil {
		return nil, nil
	}

	all, err := s.cfg.Queue.Tickets(ctx, q.Users[0])
	if err != nil {
		return nil, err
	}

	var orders []domain.Order
	for i := range all {
		if o := all[i].Order(s.cfg.PayTimeout); q.matches(&o) {
			orders = append(orders, o)
		}
	}

	if len(orders) == 0 {
		return nil, nil
	}

	return orders, s.cfg.Store.AddOffers(ctx, orders)
}

// mergeOrders adds the waiting orders to the stored ones, newest first. An order that was stored meanwhile is in both.
func mergeOrders(stored, waiting []domain.Order, limit int) []domain.Order {
	all := slices.Concat(stored, waiting)
	slices.SortStableFunc(all, func(a, b domain.Order) int { return cmp.Compare(b.ID, a.ID) })
	all = slices.CompactFunc(all, func(a, b domain.Order) bool { return a.ID == b.ID })
	return all[:min(len(all), limit)]
}
