package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Cancel gives an unpaid order's unit back; the user may buy again at once. The unit returns exactly once. An order
// that is still queued cannot be cancelled yet.
// Errors: ErrNotFound (also for another user's order), ErrInvalidState, ErrUnavailable.
func (s *Orders) Cancel(ctx context.Context, userID, id int64) (Order, error) {
	return s.cancel(ctx, OrderMove{OrderID: id, UserID: userID, By: Actor{ActorBuyer, userID}})
}

// CancelFor is Cancel by an admin, of anybody's order. Errors: ErrNotFound, ErrInvalidState, ErrUnavailable.
func (s *Orders) CancelFor(ctx context.Context, admin, id int64) (Order, error) {
	return s.cancel(ctx, OrderMove{OrderID: id, By: Actor{ActorAdmin, admin}})
}

func (s *Orders) cancel(ctx context.Context, m OrderMove) (Order, error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	m.Move, m.At = MoveCancel, Moment(s.cfg.Now())
	o, err := s.cfg.Store.MoveOrder(ctx, m)
	if _, done := DoneBefore(err); done {
		o, err = s.cfg.Store.Order(ctx, m.UserID, m.OrderID)
	}
	returns := s.returns()
	if err != nil {
		return Order{}, returns.notYet(ctx, m.UserID, m.OrderID, err)
	}
	returns.Back(ctx, o)
	return o, nil
}

// Redeem takes a paid order for used, once. code is what the buyer shows; if it is empty, the admin vouches for him.
// Errors: *InvalidError (the code is not that of the order), ErrNotFound, ErrInvalidState, ErrUnavailable.
func (s *Orders) Redeem(ctx context.Context, admin, id int64, code string) (Order, error) {
	detail := "without a code"
	if code != "" {
		if of, ok := s.cfg.Codes.Parse(code); !ok || of != id {
			return Order{}, Invalid("code", "is not the code of this order")
		}
		detail = "by its code"
	}
	o, err := s.cfg.Store.MoveOrder(ctx, OrderMove{
		Move: MoveRedeem, OrderID: id, By: Actor{ActorAdmin, admin}, At: Moment(s.cfg.Now()), Detail: detail,
	})
	if _, done := DoneBefore(err); done {
		o, err = s.cfg.Store.Order(ctx, 0, id)
	}
	if err == nil {
		s.returns().moved(id)
	}
	return o, err
}

func (s *Orders) returns() Returns {
	return Returns{Sales: s.cfg.Sales, Queue: s.cfg.Queue, Moved: s.cfg.Moved}
}

// RedeemCode takes the paid order whose code the buyer shows for used, once.
// Errors: *InvalidError (no code of ours), ErrInvalidState, ErrUnavailable.
func (s *Orders) RedeemCode(ctx context.Context, admin int64, code string) (Order, error) {
	id, ok := s.cfg.Codes.Parse(code)
	if !ok {
		return Order{}, Invalid("code", "is not a code of this shop")
	}
	return s.Redeem(ctx, admin, id, code)
}

// shown adds what only the owner of an order may see.
func (s *Orders) shown(o Order) Order {
	if o.Status == OrderPaid {
		o.RedeemCode = s.cfg.Codes.Of(o.ID)
	}
	return o
}

// unhurried returns a context that a caller who hangs up does not end, for what must not be left in the middle. It has
// placeTimeout, or what ctx has left of less.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(placeTimeout)
	if end, ok := ctx.Deadline(); ok {
		deadline = earlier(deadline, end)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// Get shows one order to its owner. Errors: ErrNotFound (also for another user's order), ErrUnavailable: also for an order
// that has a ticket while the store does not answer, since it may be stored already.
func (s *Orders) Get(ctx context.Context, userID, id int64) (Order, error) {
	o, err := s.cfg.Store.Order(ctx, userID, id)
	if s.cfg.Queue == nil || !errors.Is(err, ErrNotFound) {
		return s.shown(o), err
	}
	t, err := s.cfg.Queue.Ticket(ctx, userID, id)
	switch {
	case err == nil:
		return t.order(s.cfg.PayTimeout), nil
	case errors.Is(err, ErrNotFound):
		o, err = s.cfg.Store.Order(ctx, userID, id) // it may have been committed between the two reads
		return s.shown(o), err
	}
	return Order{}, err
}

// Follow is Get for a caller that saw the order as was. While it was and is queued, the store is not read.
func (s *Orders) Follow(ctx context.Context, userID int64, was Order) (Order, error) {
	if was.Status == OrderQueued && s.cfg.Queue != nil {
		if t, err := s.cfg.Queue.Ticket(ctx, userID, was.ID); err == nil && t.Failed == "" {
			return t.order(s.cfg.PayTimeout), nil
		}
	}
	return s.Get(ctx, userID, was.ID)
}

// List shows a user's orders from the newest to the oldest.
func (s *Orders) List(ctx context.Context, f OrderFilter) ([]Order, error) {
	stored := f.Status == 0 || f.Status.Stored()
	var waiting []Order
	if s.cfg.Queue != nil && (f.Status == 0 || !stored) {
		// Before the store is asked: what is committed between the two looks is then seen there, and not missed by both.
		var err error
		if waiting, err = s.tickets(ctx, f); err != nil {
			return nil, err
		}
	}
	var orders []Order
	if stored {
		var err error
		if orders, err = s.cfg.Store.ListOrders(ctx, f); err != nil {
			return nil, err
		}
		for i := range orders {
			orders[i] = s.shown(orders[i])
		}
	}
	if len(waiting) == 0 {
		return orders, nil
	}
	waiting, err := s.unstored(ctx, f.UserID, waiting)
	if err != nil {
		return nil, err
	}
	orders = append(orders, waiting...)
	slices.SortFunc(orders, func(a, b Order) int { return cmp.Compare(b.ID, a.ID) })
	return orders[:min(len(orders), f.Page.Limit)], nil
}

// tickets are the user's admissions that fit the filter.
func (s *Orders) tickets(ctx context.Context, f OrderFilter) ([]Order, error) {
	all, err := s.cfg.Queue.Tickets(ctx, f.UserID)
	if err != nil {
		return nil, err
	}
	var orders []Order
	for _, t := range all {
		o := t.order(s.cfg.PayTimeout)
		if (f.Status == 0 || o.Status == f.Status) && (f.Page.Before == 0 || o.ID < f.Page.Before) {
			orders = append(orders, o)
		}
	}
	return orders, nil
}

// unstored drops what is in the store: a ticket may not have heard of it yet.
func (s *Orders) unstored(ctx context.Context, userID int64, orders []Order) ([]Order, error) {
	ids := make([]int64, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	stored, err := s.cfg.Store.StoredOrders(ctx, userID, ids)
	return slices.DeleteFunc(orders, func(o Order) bool { return slices.Contains(stored, o.ID) }), err
}
