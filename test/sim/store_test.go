package sim

import (
	"context"
	"slices"
	"time"

	"seckill/internal/domain"
	"seckill/internal/lane"
	"seckill/internal/service"
)

// lifeStore is the part of the store that the services use.
type lifeStore interface {
	service.OrderStore
	lane.OrderPlacer
	lane.GateStore
	domain.PaymentStore
	service.CloserStore
	service.VoucherStore
	service.SaleLoader
}

// serverStore is the store as the servers call it, with a fault injected into one transaction.
type serverStore struct {
	lifeStore
	w *world
}

func (s serverStore) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	var placed []domain.Placed
	err := s.w.transact(func() error {
		placed = s.lifeStore.PlaceOrders(ctx, orders)
		return nil
	})
	if err != nil {
		return slices.Repeat([]domain.Placed{{Err: err}}, len(orders))
	}
	return placed
}

func (s serverStore) MoveOrder(ctx context.Context, m domain.OrderMove) (o domain.Order, err error) {
	err = s.w.transact(func() error { o, err = s.lifeStore.MoveOrder(ctx, m); return err })
	return o, err
}

func (s serverStore) BeginPayment(
	ctx context.Context, claim *domain.Claim, userID int64, p domain.Payment,
) (o domain.Order, began domain.Payment, err error) {
	err = s.w.transact(func() error { o, began, err = s.lifeStore.BeginPayment(ctx, claim, userID, p); return err })
	return o, began, err
}

func (s serverStore) SettlePayment(
	ctx context.Context, provider string, n domain.PaymentNotice, at time.Time,
) (settled domain.Settled, err error) {
	err = s.w.transact(func() error { settled, err = s.lifeStore.SettlePayment(ctx, provider, n, at); return err })
	return settled, err
}

func (s serverStore) BeginRefund(ctx context.Context, m domain.OrderMove) (o domain.Order, err error) {
	err = s.w.transact(func() error { o, err = s.lifeStore.BeginRefund(ctx, m); return err })
	return o, err
}

func (s serverStore) DueRefunds(ctx context.Context, limit int, wait func(int) time.Duration) (due []domain.Payment, err error) {
	err = s.w.transact(func() error { due, err = s.lifeStore.DueRefunds(ctx, limit, wait); return err })
	if err != nil {
		return nil, err
	}
	return due, nil
}

func (s serverStore) FinishRefund(ctx context.Context, paymentID int64, at time.Time) (o *domain.Order, err error) {
	err = s.w.transact(func() error { o, err = s.lifeStore.FinishRefund(ctx, paymentID, at); return err })
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (s serverStore) CloseExpired(ctx context.Context, limit int) (closed []domain.Order, err error) {
	err = s.w.transact(func() error { closed, err = s.lifeStore.CloseExpired(ctx, limit); return err })
	if err != nil {
		return nil, err
	}
	return closed, nil
}

func (s serverStore) ChangeVoucher(
	ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error),
) (v domain.Voucher, err error) {
	err = s.w.transact(func() error { v, err = s.lifeStore.ChangeVoucher(ctx, id, by, change); return err })
	return v, err
}

func (s serverStore) ChangeStock(ctx context.Context, c domain.StockChange) (v domain.Voucher, err error) {
	err = s.w.transact(func() error { v, err = s.lifeStore.ChangeStock(ctx, c); return err })
	return v, err
}
