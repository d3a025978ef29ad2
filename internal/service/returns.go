package service

import (
	"context"
	"errors"
	"time"
)

// returnTimeout bounds the telling: a Redis that does not answer holds up neither the buyer nor the closer for long.
const returnTimeout = time.Second

// Returns tells the rest of the system of orders that gave up their unit. Queue is nil outside the lane queue.
type Returns struct {
	Sales *Sales
	Queue Queue
	Moved func(orderID int64) // tells everybody who watches the order, in all processes; may be nil
}

// moved tells that orders have another status.
func (r Returns) moved(orderIDs ...int64) {
	if r.Moved == nil {
		return
	}
	for _, id := range orderIDs {
		r.Moved(id)
	}
}

// Back is called when the moves of these orders are committed and stay so, whether or not somebody still waits. If the
// gate does not hear of them, the audit will find out; the snapshots would see it within a second by themselves.
func (r Returns) Back(ctx context.Context, orders ...Order) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	byVoucher := map[int64][]Holder{}
	for _, o := range orders {
		r.moved(o.ID)
		byVoucher[o.VoucherID] = append(byVoucher[o.VoucherID], Holder{OrderID: o.ID, UserID: o.UserID})
	}
	for voucher, held := range byVoucher {
		if r.Queue != nil {
			_ = r.Queue.Release(ctx, voucher, held...)
		}
		r.Sales.Change(voucher)
	}
}

// notYet tells an order that does not exist from one that waits in the queue, with which nothing can be done yet.
func (r Returns) notYet(ctx context.Context, userID, orderID int64, err error) error {
	if !errors.Is(err, ErrNotFound) || r.Queue == nil {
		return err
	}
	if _, ticketErr := r.Queue.Ticket(ctx, userID, orderID); ticketErr == nil {
		return ErrInvalidState
	}
	return err
}
