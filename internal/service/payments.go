package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// refundEvery is the interval between searches for due refunds, those that have just begun and those to retry.
	refundEvery = time.Second
	// refundBatch bounds the refunds that one search claims. They run concurrently.
	refundBatch = 16
	// refundTimeout bounds one refund request to a provider, and resultTimeout the storing of its result. Together they are
	// shorter than refundWait, the lease of the refund.
	refundTimeout = 5 * time.Second
	resultTimeout = 3 * time.Second
	// The delay before a refund is retried doubles from refundWait up to maxRefundWait.
	refundWait    = 10 * time.Second
	maxRefundWait = 10 * time.Minute
)

// Payments takes the money for orders and refunds it. It is safe for concurrent use, and several instances may run.
//
// A crash at any point loses no money. A payment is stored before it is created at the provider, under a reference that
// makes a repeated creation the same payment. A refund is stored before it is requested from the provider, and
// requested until it succeeds. A notice is stored in the transaction that moves the order.
type Payments struct {
	Store     domain.PaymentStore
	Providers map[string]domain.PaymentProvider // by name
	// The provider of a request that names none.
	Default string
	Returns UnitReleaser
	Now     func() time.Time
	Log     *slog.Logger
	// Observe receives the events of payments: created, succeeded, failed, refunding, refunded, disputed,
	// refund_failed, unread.
	Observe func(provider, event string)
}

// Pay begins a payment of the user's unpaid order at a provider; "" selects the default. The order is paid when the
// provider reports the success to Webhook. Until then, a repeated Pay returns the same payment. An order that costs nothing is
// paid at once, and no provider is asked: many refuse a payment of zero.
// Errors: ErrNotFound, ErrInvalidState, *InvalidError (provider), ErrUnavailable.
func (s *Payments) Pay(
	ctx context.Context, claim *domain.Claim, userID, orderID int64, provider string,
) (domain.Order, domain.Payment, error) {
	provider = cmp.Or(provider, s.Default)
	p, ok := s.Providers[provider]
	if !ok {
		return domain.Order{}, domain.Payment{}, domain.Invalid("provider", "is not a configured payment provider")
	}

	at := domain.Moment(s.Now())
	order, payment, err := s.Store.BeginPayment(ctx, claim, userID, domain.Payment{
		OrderID:   orderID,
		Provider:  provider,
		Ref:       "pay_" + rand.Text(),
		Status:    domain.PaymentPending,
		CreatedAt: at,
		UpdatedAt: at,
	})
	if err != nil {
		return domain.Order{}, domain.Payment{}, s.Returns.notYet(ctx, userID, orderID, err)
	}

	// Begun by an earlier run of the request, and completed since.
	if payment.Status != domain.PaymentPending {
		return order, payment, nil
	}
	if payment.Amount == 0 {
		settled, err := s.settle(ctx, payment.Provider, domain.PaymentNotice{
			Ref:      payment.Ref,
			OrderID:  orderID,
			Currency: payment.Currency,
			Result:   domain.PaymentSucceeded,
		})
		settled.Order.Offer = order.Offer
		return settled.Order, settled.Payment, err
	}
	if err := p.Create(ctx, &payment); err != nil {
		return domain.Order{}, domain.Payment{}, fmt.Errorf("%w: payment provider %s: %w", domain.ErrUnavailable, provider, err)
	}

	s.Observe(provider, "created")
	return order, payment, nil
}

// Webhook processes a provider's notice. Repeating a notice changes nothing. An unmatched payment is refunded: Pay did not
// begin it, the order was cancelled or paid by another payment, the amount differs, or the order does not exist (a
// failover of the database can lose it).
// Errors: ErrNotFound (unknown provider, or the failure of an unknown payment), ErrUnauthenticated (signature),
// *InvalidError, ErrUnavailable.
func (s *Payments) Webhook(ctx context.Context, provider, signature string, body []byte) (domain.Settled, error) {
	p, ok := s.Providers[provider]
	if !ok {
		return domain.Settled{}, domain.ErrNotFound
	}
	notice, err := p.Notice(signature, body)
	if errors.Is(err, domain.ErrUnauthenticated) {
		return domain.Settled{}, err
	}
	notice.Source = domain.SourceNotice
	return s.Settle(ctx, provider, notice, err)
}

// Settle processes what a provider reports about a payment, by a notice or when it is queried; unread is the error of
// reading it. What cannot be read or matched is kept for an operator, because money may have moved. If it cannot be kept
// either, the error is ErrUnavailable, so that the provider repeats it. Errors: those of Webhook.
func (s *Payments) Settle(ctx context.Context, provider string, notice domain.PaymentNotice, unread error) (domain.Settled, error) {
	settled := domain.Settled{}
	err := unread
	if err == nil {
		settled, err = s.settle(ctx, provider, notice)
	}

	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) && !errors.Is(err, domain.ErrNotFound) {
		return settled, err
	}

	at := domain.Moment(s.Now())
	kept := s.Store.KeepNotice(ctx, domain.UnreadNotice{
		Provider:      provider,
		PaymentNotice: notice,
		Reason:        err.Error(),
		ReceivedAt:    at,
	})
	if kept != nil {
		return domain.Settled{}, kept
	}

	s.Observe(provider, "unread")
	s.Log.Error("a payment notice could not be processed; it is kept", "provider", provider, "provider_ref", notice.Ref,
		"order_id", notice.OrderID, "err", err)

	return domain.Settled{}, err
}

func (s *Payments) settle(ctx context.Context, provider string, notice domain.PaymentNotice) (domain.Settled, error) {
	settled, err := s.Store.SettlePayment(ctx, provider, notice, domain.Moment(s.Now()))
	if err != nil {
		return domain.Settled{}, err
	}

	s.publish(ctx, settled)
	if settled.Changed && settled.Payment.Status == domain.PaymentRefunding {
		s.Log.Warn("unmatched payment; refunding it", "provider", provider, "provider_ref", notice.Ref,
			"order_id", notice.OrderID, "order_status", settled.Order.Status.String(), "amount", settled.Payment.Amount, "currency", settled.Payment.Currency)
	}

	return settled, nil
}

// Refund begins the refund of a paid order. Its unit goes back on sale when the money has been returned.
// Errors: ErrNotFound (even if another buyer has the order), ErrInvalidState, ErrUnavailable.
func (s *Payments) Refund(ctx context.Context, claim *domain.Claim, by domain.Actor, orderID int64) (domain.Order, error) {
	o, err := s.Store.BeginRefund(ctx, domain.OrderMove{
		OrderID: orderID,
		By:      by,
		At:      domain.Moment(s.Now()),
		Claim:   claim,
	})
	if err != nil {
		return domain.Order{}, s.Returns.notYet(ctx, by.Owner(), orderID, err)
	}

	// Nothing was paid, so no provider is involved.
	if o.Status == domain.OrderRefunded {
		s.Returns.Release(ctx, o)
	} else {
		s.Returns.Moved(o.ID)
	}

	return o, nil
}

// ReturnOutside records that the money of a payment was returned without its provider, which is not requested to do so
// again. Errors: *InvalidError, ErrNotFound, ErrInvalidState (the money is not being returned), ErrUnavailable.
func (s *Payments) ReturnOutside(ctx context.Context, r domain.OutsideReturn) (domain.Payment, error) {
	r.At = domain.Moment(s.Now())
	if err := r.Validate(); err != nil {
		return domain.Payment{}, err
	}

	settled, err := s.Store.ReturnOutside(ctx, r)
	if err != nil {
		return domain.Payment{}, err
	}

	s.publish(ctx, settled)
	return settled.Payment, nil
}

func (s *Payments) publish(ctx context.Context, settled domain.Settled) {
	if settled.Freed {
		s.Returns.Release(ctx, settled.Order)
	} else if settled.Changed {
		s.Returns.Moved(settled.Order.ID)
	}
	if settled.Changed {
		s.Observe(settled.Payment.Provider, settled.Payment.Status.String())
	}
}

// Task processes due refunds.
func (s *Payments) Task() loop.Task {
	return loop.Every(refundEvery, "refund payments", s.RefundDue)
}

// RefundDue requests all due refunds from their providers. A failed refund is retried later. RefundDue returns the
// first error after it has processed the other refunds.
func (s *Payments) RefundDue(ctx context.Context) error {
	claim := func(ctx context.Context, most int) ([]domain.Payment, error) {
		return s.Store.DueRefunds(ctx, most, refundBackoff)
	}
	return loop.EachDue(ctx, refundBatch, claim, s.refund)
}

// refundBackoff returns the delay until the next try after the given number of earlier tries. Until then the refund is
// leased to this process.
func refundBackoff(tries int) time.Duration { return loop.Backoff(refundWait, maxRefundWait, tries) }

func (s *Payments) requestRefund(ctx context.Context, p domain.Payment) error {
	// Nothing was paid, so no provider is involved.
	if p.Amount == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, refundTimeout)
	defer cancel()
	provider, ok := s.Providers[p.Provider]
	if !ok {
		return errors.New("the provider is not configured")
	}
	return provider.Refund(ctx, p)
}

func (s *Payments) refund(ctx context.Context, p domain.Payment) error {
	failed := s.requestRefund(ctx, p)
	ctx, cancel := context.WithTimeout(ctx, resultTimeout)
	defer cancel()

	if failed != nil {
		s.Observe(p.Provider, "refund_failed")
		stored := s.Store.FailRefund(ctx, p.ID, failed.Error())
		return errors.Join(fmt.Errorf("refund of payment %s by provider %s: %w", p.Ref, p.Provider, failed), stored)
	}

	settled, err := s.Store.FinishRefund(ctx, p, domain.Moment(s.Now()))
	if err != nil {
		return fmt.Errorf("store the completed refund of payment %s: %w", p.Ref, err)
	}

	s.publish(ctx, settled)
	return nil
}
