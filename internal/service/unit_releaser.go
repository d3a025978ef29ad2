package service

import (
	"context"
	"errors"
	"time"

	"seckill/internal/domain"
)

// returnTimeout bounds the calls to the gate, so that a Redis that does not answer does not delay the buyer or the
// closer for long.
const returnTimeout = time.Second

// UnitReleaser propagates committed moves of orders: it returns units to the gate, invalidates snapshots, and publishes
// the new status. It is safe for concurrent use.
type UnitReleaser struct {
	Sales *Sales
	// Nil outside lane queue.
	Queue ReservationStore
	// Publishes that the order has a new status, to all processes.
	Moved func(orderID int64)
}

// Release propagates that these orders have returned their units. It is called after the commit. The end of ctx does
// not stop it. It takes at most about 1 s and reports no error: the reconciler corrects a gate that was not reached,
// and snapshots expire within a second without an invalidation message.
func (r UnitReleaser) Release(ctx context.Context, orders ...domain.Order) {
	ctx, cancel := afterCommit(ctx)
	defer cancel()

	byVoucher := map[int64][]domain.Holder{}
	for _, o := range orders {
		r.Moved(o.ID)
		byVoucher[o.VoucherID] = append(byVoucher[o.VoucherID], domain.Holder{OrderID: o.ID, UserID: o.UserID})
	}

	for voucher, held := range byVoucher {
		if r.Queue != nil {
			_ = r.Queue.Release(ctx, voucher, held...)
		}
		r.Sales.Change(voucher)
	}
}

// notYet returns ErrInvalidState in place of ErrNotFound if the order is queued: its moves are possible after its
// commit. It returns any other err unchanged.
func (r UnitReleaser) notYet(ctx context.Context, userID, orderID int64, err error) error {
	if !errors.Is(err, domain.ErrNotFound) || r.Queue == nil {
		return err
	}
	if _, ticketErr := r.Queue.Ticket(ctx, userID, orderID, 0); ticketErr == nil {
		return domain.ErrInvalidState
	}
	return err
}
