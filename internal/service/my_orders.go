package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Cancel gives an unpaid order's unit back; the user may buy again at once. The unit returns exactly once. An order
// that is still queued cannot be cancelled yet.
// Errors: ErrNotFound (also for another user's order), ErrInvalidState, ErrUnavailable.
func (s *Orders) Cancel(ctx context.Context, userID, id int64) (Order, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), placeTimeout)
	defer cancel()
	o, err := s.cfg.Store.CancelOrder(ctx, userID, id, Moment(s.cfg.Now()))
	if errors.Is(err, ErrNotFound) && s.cfg.Queue != nil {
		if _, ticketErr := s.cfg.Queue.Ticket(ctx, userID, id); ticketErr == nil {
			err = ErrInvalidState
		}
	}
	if err != nil {
		return Order{}, err
	}
	if s.cfg.Queue != nil {
		// The cancellation is committed and stays so. If the gate does not hear of it, the audit will find out.
		_ = s.cfg.Queue.Release(ctx, o.VoucherID, userID, id)
	}
	s.cfg.Sales.Change(o.VoucherID)
	return o, nil
}

// Get shows one order to its owner. Errors: ErrNotFound (also for another user's order), ErrUnavailable.
func (s *Orders) Get(ctx context.Context, userID, id int64) (Order, error) {
	o, err := s.cfg.Store.Order(ctx, userID, id)
	if err == nil || s.cfg.Queue == nil {
		return o, err
	}
	t, ticketErr := s.cfg.Queue.Ticket(ctx, userID, id)
	switch {
	case ticketErr == nil:
		return t.order(s.cfg.PayTimeout), nil
	case errors.Is(err, ErrNotFound) && errors.Is(ticketErr, ErrNotFound):
		return s.cfg.Store.Order(ctx, userID, id) // it may have been committed between the two looks
	case errors.Is(err, ErrNotFound):
		return Order{}, ticketErr
	}
	return Order{}, err
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
