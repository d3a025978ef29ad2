package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/domain"
	"seckill/internal/sale/lane"
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

// serverStore is the store as the servers call it, with a fault injected into one transaction. A planted fault replaces one of the
// operations.
type serverStore struct {
	lifeStore
	w *world

	place  func(ctx context.Context, orders []domain.NewOrder) []domain.Placed
	move   func(ctx context.Context, m domain.OrderMove) (domain.Order, error)
	begin  func(ctx context.Context, claim *domain.Claim, userID int64, p domain.Payment) (domain.Order, domain.Payment, error)
	settle func(ctx context.Context, provider string, n domain.PaymentNotice, at time.Time) (domain.Settled, error)
	refund func(ctx context.Context, m domain.OrderMove) (domain.Order, error)
	due    func(ctx context.Context, limit int, wait func(int) time.Duration) ([]domain.Payment, error)
	finish func(ctx context.Context, paymentID int64, at time.Time) (*domain.Order, error)
	close  func(ctx context.Context, limit int) ([]domain.Order, error)
	change func(ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error)) (domain.Voucher, error)
	stock  func(ctx context.Context, c domain.StockChange) (domain.Voucher, error)
	read   func(ctx context.Context, ids []int64) ([]domain.Voucher, error)
}

// newServerStore returns the store of the servers over s, with the planted fault.
func newServerStore(w *world, s lifeStore) *serverStore {
	on := &serverStore{
		lifeStore: s, w: w,
		place: s.PlaceOrders, move: s.MoveOrder, begin: s.BeginPayment, settle: s.SettlePayment, refund: s.BeginRefund, due: s.DueRefunds,
		finish: s.FinishRefund, close: s.CloseExpired, change: s.ChangeVoucher, stock: s.ChangeStock, read: s.Vouchers,
	}
	if w.planted.store != nil {
		w.planted.store(w, s, on)
	}
	return on
}

// transact executes a transaction of a server. With an injected fault the server gets no result.
func transact[T any](w *world, do func() (T, error)) (T, error) {
	var result, none T
	err := w.transact(func() error {
		var err error
		result, err = do()
		return err
	})
	if errors.Is(err, errInjected) {
		return none, err
	}
	return result, err
}

func (s *serverStore) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	placed, err := transact(s.w, func() ([]domain.Placed, error) { return s.place(ctx, orders), nil })
	if err != nil {
		return slices.Repeat([]domain.Placed{{Err: err}}, len(orders))
	}
	return placed
}

func (s *serverStore) MoveOrder(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	return transact(s.w, func() (domain.Order, error) { return s.move(ctx, m) })
}

func (s *serverStore) BeginPayment(
	ctx context.Context, claim *domain.Claim, userID int64, p domain.Payment,
) (o domain.Order, began domain.Payment, err error) {
	err = s.w.transact(func() error {
		o, began, err = s.begin(ctx, claim, userID, p)
		return err
	})
	return o, began, err
}

func (s *serverStore) SettlePayment(ctx context.Context, provider string, n domain.PaymentNotice, at time.Time) (domain.Settled, error) {
	return transact(s.w, func() (domain.Settled, error) { return s.settle(ctx, provider, n, at) })
}

func (s *serverStore) BeginRefund(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	return transact(s.w, func() (domain.Order, error) { return s.refund(ctx, m) })
}

func (s *serverStore) DueRefunds(ctx context.Context, limit int, wait func(int) time.Duration) ([]domain.Payment, error) {
	return transact(s.w, func() ([]domain.Payment, error) { return s.due(ctx, limit, wait) })
}

func (s *serverStore) FinishRefund(ctx context.Context, paymentID int64, at time.Time) (*domain.Order, error) {
	return transact(s.w, func() (*domain.Order, error) { return s.finish(ctx, paymentID, at) })
}

func (s *serverStore) CloseExpired(ctx context.Context, limit int) ([]domain.Order, error) {
	return transact(s.w, func() ([]domain.Order, error) { return s.close(ctx, limit) })
}

func (s *serverStore) ChangeVoucher(
	ctx context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	return transact(s.w, func() (domain.Voucher, error) { return s.change(ctx, id, by, change) })
}

func (s *serverStore) ChangeStock(ctx context.Context, c domain.StockChange) (domain.Voucher, error) {
	return transact(s.w, func() (domain.Voucher, error) { return s.stock(ctx, c) })
}

func (s *serverStore) Vouchers(ctx context.Context, ids []int64) ([]domain.Voucher, error) {
	return s.read(ctx, ids)
}
