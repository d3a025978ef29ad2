package sim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// bank is the payment provider. It records which money was received and returned. Two provider names share its
// accounts.
type bank struct {
	mu       sync.Mutex
	accounts []*account // in creation order
	notices  []*notice  // sent and unsent
	w        *world

	createFault  string // for every payment that is begun
	refundFaults map[string]string
	refunds      []refundCall // of the current step
}

// account is a payment as the bank records it.
type account struct {
	provider, ref string
	order, amount int64
	taken         bool // the money was received
	returned      bool // the money was returned
	reversed      bool // without a request of the product
}

// notice is a call of the webhook. It may be delivered any number of times.
type notice struct {
	domain.PaymentNotice
	provider  string
	delivered atomic.Bool // a delivery was acknowledged
}

// refundCall is one refund request and its result.
type refundCall struct {
	ref       string
	confirmed bool // the caller received a confirmation
}

// Faults of calls to the bank.
const (
	bankRefuses    = "refuses"
	bankLosesReply = "reply lost"
)

// errBank is the error that callers receive from a failing bank.
var errBank = errors.New("bank_unavailable")

func (b *bank) find(ref string) *account {
	i := slices.IndexFunc(b.accounts, func(a *account) bool { return a.ref == ref })
	if i < 0 {
		return nil
	}
	return b.accounts[i]
}

// branch is the bank under one of its provider names. It implements domain.PaymentProvider.
type branch struct {
	*bank
	name string
}

func (b branch) Create(_ context.Context, p *domain.Payment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w.crashed.Load() || b.createFault == bankRefuses {
		return errBank
	}
	if b.find(p.Ref) == nil {
		b.accounts = append(b.accounts, &account{provider: b.name, ref: p.Ref, order: p.OrderID, amount: p.Amount})
	}
	if b.createFault == bankLosesReply {
		return errBank
	}
	return nil
}

func (b branch) Refund(_ context.Context, p domain.Payment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w.crashed.Load() {
		return errBank
	}
	fault := b.refundFaults[p.Ref]
	b.refunds = append(b.refunds, refundCall{p.Ref, fault == ""})
	if fault == bankRefuses {
		return errBank
	}
	a := b.find(p.Ref)
	if a == nil || a.provider != b.name || !a.taken {
		return errors.New("the bank received no such payment")
	}
	a.returned = true // idempotent
	if fault == bankLosesReply {
		return errBank
	}
	return nil
}

// Notice accepts "signed" as a valid signature.
func (branch) Notice(signature string, body []byte) (domain.PaymentNotice, error) {
	if signature != "signed" {
		return domain.PaymentNotice{}, domain.ErrUnauthenticated
	}
	var m noticeMessage
	err := json.Unmarshal(body, &m)
	m.PaymentNotice.Result = domain.PaymentStatus(m.Result)
	return m.PaymentNotice, err
}

// noticeMessage is the form in which the bank sends a notice.
type noticeMessage struct {
	domain.PaymentNotice
	Result int8
}
