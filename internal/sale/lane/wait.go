package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"seckill/internal/domain"
)

const (
	// recheck is the first pause between two reads of a ticket, which bounds the delay after a lost message. It doubles up
	// to maxRecheck.
	recheck    = 250 * time.Millisecond
	maxRecheck = time.Second
)

// waits are the waits of this process for queued orders. It is safe for concurrent use.
type waits struct {
	mu      sync.Mutex
	byOrder map[int64][]chan struct{}
}

// begin returns a channel that receives a value when the order has moved, until a time. A move before the call is missed.
func (w *waits) begin(orderID int64, until time.Time) <-chan struct{} {
	moved := make(chan struct{}, 1)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.byOrder[orderID] = append(w.byOrder[orderID], moved)

	// Last, because the time may have come.
	time.AfterFunc(time.Until(until), func() { w.end(orderID, moved) })
	return moved
}

func (w *waits) end(orderID int64, moved chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()

	rest := slices.DeleteFunc(w.byOrder[orderID], func(other chan struct{}) bool { return other == moved })
	if len(rest) == 0 {
		delete(w.byOrder, orderID)
		return
	}
	w.byOrder[orderID] = rest
}

// Moved wakes the requests of this process that wait for an order, after a worker of any process committed or failed it.
// Messages may be lost, so waiting buyers also read the ticket from time to time.
func (l *Queue) Moved(orderID int64) {
	l.waits.mu.Lock()
	defer l.waits.mu.Unlock()

	for _, moved := range l.waits.byOrder[orderID] {
		select {
		case moved <- struct{}{}:
		default:
			// It has moved before.
		}
	}
}

// wait returns the order of a reservation as it is when it has moved, or as it is known to be when ctx ends. Its error is
// the reason why there is no order.
func (l *Queue) wait(ctx context.Context, p domain.Purchase, r reservation) (domain.Order, error) {
	pause := recheck
	timer := time.NewTimer(pause)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return r.Order, nil
		case <-r.moved:
			// If Redis lost the id counter, ids are issued twice and the message may be about the order of another user, so
			// the row is read by user.
			if stored, err := l.store.Order(ctx, p.UserID, r.Order.ID); err == nil {
				return stored, nil
			}
		case <-timer.C:
			pause = min(2*pause, maxRecheck)
			timer.Reset(pause)
		}

		t, err := l.gate.Ticket(ctx, p.UserID, r.Order.ID, p.VoucherID)
		switch {
		case errors.Is(err, domain.ErrNotFound):
			// It is committed, or Redis lost its data.
			stored, err := l.store.Order(ctx, p.UserID, r.Order.ID)
			if err != nil {
				return r.Order, nil //nolint:nilerr // as far as known, the user's own order is queued
			}
			return stored, nil
		case err == nil && t.Failed != "":
			return domain.Order{}, l.failure(ctx, p, t.Failed)
		}
	}
}

func (l *Queue) failure(ctx context.Context, p domain.Purchase, reason string) error {
	switch reason {
	case domain.ReasonSoldOut:
		return domain.ErrSoldOut
	case domain.ReasonDuplicate:
		_, newest, err := l.store.ActiveOrders(ctx, p.UserID, p.VoucherID)
		if err != nil {
			return err
		}
		return &domain.DuplicateOrderError{OrderID: newest}
	case domain.ReasonMismatch:
		return domain.ErrIdempotencyMismatch
	case domain.ReasonPassUsed:
		return domain.ErrPassExpired
	}

	return fmt.Errorf("%w: the order could not be stored (%s); its unit was returned", domain.ErrUnavailable, reason)
}
