package sim_test

import (
	"context"
	"slices"
	"time"

	"seckill/internal/service"
)

// lifeStore is the part of the store that the services use.
type lifeStore interface {
	service.GateStore
	service.PaymentStore
	service.CloserStore
	service.VoucherStore
	service.SaleLoader
}

// serverStore is the store as the servers call it, with a fault injected into one transaction.
type serverStore struct {
	lifeStore
	w *world
}

func (s serverStore) PlaceOrders(ctx context.Context, orders []service.NewOrder) []service.Placed {
	var placed []service.Placed
	err := s.w.transact(func() error {
		placed = s.lifeStore.PlaceOrders(ctx, orders)
		return nil
	})
	if err != nil {
		return slices.Repeat([]service.Placed{{Err: err}}, len(orders))
	}
	return placed
}

func (s serverStore) MoveOrder(ctx context.Context, m service.OrderMove) (o service.Order, err error) {
	err = s.w.transact(func() error { o, err = s.lifeStore.MoveOrder(ctx, m); return err })
	return o, err
}

func (s serverStore) BeginPayment(ctx context.Context, userID int64, p service.Payment) (o service.Order, began service.Payment, err error) {
	err = s.w.transact(func() error { o, began, err = s.lifeStore.BeginPayment(ctx, userID, p); return err })
	return o, began, err
}

func (s serverStore) SettlePayment(
	ctx context.Context, provider string, n service.PaymentNotice, at time.Time,
) (settled service.Settled, err error) {
	err = s.w.transact(func() error { settled, err = s.lifeStore.SettlePayment(ctx, provider, n, at); return err })
	return settled, err
}

func (s serverStore) BeginRefund(ctx context.Context, m service.OrderMove) (o service.Order, err error) {
	err = s.w.transact(func() error { o, err = s.lifeStore.BeginRefund(ctx, m); return err })
	return o, err
}

func (s serverStore) DueRefunds(ctx context.Context, limit int, wait func(int) time.Duration) (due []service.Payment, err error) {
	err = s.w.transact(func() error { due, err = s.lifeStore.DueRefunds(ctx, limit, wait); return err })
	if err != nil {
		return nil, err
	}
	return due, nil
}

func (s serverStore) FinishRefund(ctx context.Context, paymentID int64, at time.Time) (o *service.Order, err error) {
	err = s.w.transact(func() error { o, err = s.lifeStore.FinishRefund(ctx, paymentID, at); return err })
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (s serverStore) CloseExpired(ctx context.Context, limit int) (closed []service.Order, err error) {
	err = s.w.transact(func() error { closed, err = s.lifeStore.CloseExpired(ctx, limit); return err })
	if err != nil {
		return nil, err
	}
	return closed, nil
}

func (s serverStore) ChangeVoucher(
	ctx context.Context, id int64, by service.Actor, change func(*service.Voucher) (string, error),
) (v service.Voucher, err error) {
	err = s.w.transact(func() error { v, err = s.lifeStore.ChangeVoucher(ctx, id, by, change); return err })
	return v, err
}

func (s serverStore) ChangeStock(ctx context.Context, c service.StockChange) (v service.Voucher, err error) {
	err = s.w.transact(func() error { v, err = s.lifeStore.ChangeStock(ctx, c); return err })
	return v, err
}
