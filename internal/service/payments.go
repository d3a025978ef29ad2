package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// DefaultProvider is asked for the money if the buyer names none.
	DefaultProvider = "sandbox"

	// refundEvery is how often refunds are looked for of which nobody here told: another instance began them, or a try
	// failed.
	refundEvery = time.Second
	// refundBatch bounds the refunds that one look claims. They are asked for together.
	refundBatch = 16
	// refundTimeout bounds one question to a provider. A claim lasts longer: nobody else asks meanwhile.
	refundTimeout = 5 * time.Second
	// The pause before a refund is tried again doubles from the first to the last of these.
	refundWait    = 10 * time.Second
	maxRefundWait = 10 * time.Minute
)

// PaymentsConfig is what Payments needs.
type PaymentsConfig struct {
	Store     PaymentStore
	Providers map[string]PaymentProvider // by name
	Returns   Returns
	Now       func() time.Time
	Log       *slog.Logger
	Observe   func(provider, event string) // told of created, succeeded, failed, refunding, refunded, refund_failed; may be nil
}

// Payments takes the money for orders and gives it back. It is safe for concurrent use, and so are several instances.
//
// The order of things makes a crash harmless: a payment is stored before the provider hears of it, and the provider
// knows it by our reference, so asking again is the same payment. A refund is stored before the provider is asked, and
// asked until the provider has said yes. What a provider tells is stored in the transaction that moves the order.
type Payments struct {
	cfg  PaymentsConfig
	kick chan struct{} // has an element if a refund was begun here
}

// NewPayments makes the service.
func NewPayments(cfg PaymentsConfig) *Payments {
	if cfg.Observe == nil {
		cfg.Observe = func(string, string) {}
	}
	return &Payments{cfg: cfg, kick: make(chan struct{}, 1)}
}

// Pay asks a provider (empty: DefaultProvider) for the money of the user's unpaid order. The order is paid when the
// provider says so by its webhook. Paying again while that is not known is the same payment.
// Errors: ErrNotFound, ErrInvalidState, *InvalidError (provider), ErrUnavailable.
func (s *Payments) Pay(ctx context.Context, userID, orderID int64, provider string) (Order, Payment, error) {
	if provider == "" {
		provider = DefaultProvider
	}
	p, ok := s.cfg.Providers[provider]
	if !ok {
		return Order{}, Payment{}, Invalid("provider", "is not a payment provider of this shop")
	}
	at := Moment(s.cfg.Now())
	order, payment, err := s.cfg.Store.BeginPayment(ctx, userID, Payment{
		OrderID: orderID, Provider: provider, Ref: "pay_" + rand.Text(), Status: PaymentPending, CreatedAt: at, UpdatedAt: at,
	})
	if err != nil {
		return Order{}, Payment{}, s.cfg.Returns.notYet(ctx, userID, orderID, err)
	}
	if payment.Status != PaymentPending { // an earlier run of the request began it, and it has ended since
		return order, payment, nil
	}
	if err := p.Create(ctx, payment); err != nil {
		return Order{}, Payment{}, fmt.Errorf("%w: payment provider %s: %w", ErrUnavailable, provider, err)
	}
	s.cfg.Observe(provider, "created")
	return order, payment, nil
}

// Webhook stores a provider's notice; repeating it changes nothing. Money that no order waits for is returned: the order
// was cancelled or paid otherwise, the amount is another one, or the order does not exist (a failover of the database can
// lose it).
// Errors: ErrNotFound (no such provider, or a failure for no order), ErrUnauthenticated (signature), *InvalidError,
// ErrUnavailable.
func (s *Payments) Webhook(ctx context.Context, provider, signature string, body []byte) (Settled, error) {
	p, ok := s.cfg.Providers[provider]
	if !ok {
		return Settled{}, ErrNotFound
	}
	notice, err := p.Notice(signature, body)
	if err != nil {
		return Settled{}, err
	}
	if notice.Currency != "" && !isCurrency(notice.Currency) {
		return Settled{}, Invalid("currency", "must be a currency of ISO 4217, such as CNY")
	}
	settled, err := s.cfg.Store.SettlePayment(ctx, provider, notice, Moment(s.cfg.Now()))
	if err != nil {
		return Settled{}, err
	}
	if settled.Changed {
		s.cfg.Returns.moved(settled.Order.ID)
		s.cfg.Observe(provider, settled.Payment.Status.String())
	}
	if settled.Payment.Status == PaymentRefunding {
		s.hurry()
	}
	if settled.Changed && settled.Payment.Status == PaymentRefunding {
		s.cfg.Log.Warn("money came that no order waits for; it is returned", "provider", provider, "provider_ref", notice.Ref,
			"order_id", notice.OrderID, "order_status", settled.Order.Status.String(), "amount", settled.Payment.Amount, "currency", settled.Payment.Currency)
	}
	return settled, nil
}

// Refund gives a paid order back: the money goes back to the buyer, and then the unit on sale.
// Errors: ErrNotFound, ErrInvalidState, ErrUnavailable.
func (s *Payments) Refund(ctx context.Context, userID, orderID int64) (Order, error) {
	return s.beginRefund(ctx, OrderMove{OrderID: orderID, UserID: userID, By: Actor{ActorBuyer, userID}})
}

// RefundFor is Refund by an admin, of anybody's order. Errors: as Refund.
func (s *Payments) RefundFor(ctx context.Context, admin, orderID int64) (Order, error) {
	return s.beginRefund(ctx, OrderMove{OrderID: orderID, By: Actor{ActorAdmin, admin}})
}

func (s *Payments) beginRefund(ctx context.Context, m OrderMove) (Order, error) {
	m.At = Moment(s.cfg.Now())
	o, err := s.cfg.Store.BeginRefund(ctx, m)
	if err != nil {
		return Order{}, s.cfg.Returns.notYet(ctx, m.UserID, m.OrderID, err)
	}
	if o.Status == OrderRefunded { // nothing was paid: nobody need be asked
		s.cfg.Returns.Back(ctx, o)
	} else {
		s.cfg.Returns.moved(o.ID)
		s.hurry()
	}
	return o, nil
}

// List shows the payments of the user's order, the oldest first. Errors: ErrNotFound, ErrUnavailable.
func (s *Payments) List(ctx context.Context, userID, orderID int64) ([]Payment, error) {
	return s.cfg.Store.Payments(ctx, userID, orderID)
}

func (s *Payments) hurry() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Run returns money until ctx ends.
func (s *Payments) Run(ctx context.Context) {
	tick := time.NewTicker(refundEvery)
	defer tick.Stop()
	failing := false
	for {
		err := s.RefundDue(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			s.cfg.Log.Warn("cannot return money; trying again", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.kick:
		}
	}
}

// RefundDue returns the money that is to go back now. What fails is put off, and its first error returned when all
// others were asked for.
func (s *Payments) RefundDue(ctx context.Context) (failed error) {
	for ctx.Err() == nil {
		due, err := s.cfg.Store.DueRefunds(ctx, refundBatch, refundPause)
		if err != nil {
			return cmp.Or(failed, err)
		}
		errs := make([]error, len(due))
		var asked sync.WaitGroup
		for i, p := range due {
			asked.Go(func() { errs[i] = s.refund(ctx, p) })
		}
		asked.Wait()
		failed = cmp.Or(failed, cmp.Or(errs...))
		if len(due) < refundBatch {
			return failed
		}
	}
	return ctx.Err()
}

// refundPause is how long to wait before the next try. The first pause is also the lease of who is at it.
func refundPause(tries int) time.Duration {
	return min(refundWait<<min(tries, 10), maxRefundWait)
}

func (s *Payments) refund(ctx context.Context, p Payment) error {
	ctx, cancel := context.WithTimeout(ctx, refundTimeout)
	defer cancel()
	provider, ok := s.cfg.Providers[p.Provider]
	if !ok {
		return fmt.Errorf("payment %s: there is no provider %q to return its money", p.Ref, p.Provider)
	}
	if err := provider.Refund(ctx, p); err != nil {
		s.cfg.Observe(p.Provider, "refund_failed")
		return fmt.Errorf("refund of payment %s by %s: %w", p.Ref, p.Provider, err)
	}
	order, err := s.cfg.Store.FinishRefund(ctx, p.ID, Moment(s.cfg.Now()))
	if err != nil {
		return fmt.Errorf("refund of payment %s, whose money is back: %w", p.Ref, err)
	}
	s.cfg.Observe(p.Provider, "refunded")
	if order != nil {
		s.cfg.Returns.Back(ctx, *order)
	}
	return nil
}
