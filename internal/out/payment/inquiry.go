package payment

import (
	"context"
	"fmt"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// inquiryEvery is the interval between searches for payments without a result.
	inquiryEvery = time.Second
	// inquiryBatch bounds the payments that one search claims. They are queried concurrently.
	inquiryBatch = 16
	// The pause between two queries of a payment is its age, within these limits. It is longer than CallTimeout, because
	// it is also the lease of the payment.
	minInquiryPause = 10 * time.Second
	maxInquiryPause = 10 * time.Minute
	// inquiryEnd is the age from which a payment is not queried.
	inquiryEnd = 72 * time.Hour
)

// Inquiry queries the provider HTTPName for payments whose notice is late, so that a lost notice costs neither the order
// nor the money. Several instances may run.
type Inquiry struct {
	Store interface {
		// DueInquiries returns at most limit pending payments of a provider whose result is to be requested, and delays the
		// next request of each by wait(age), which is also a lease, so concurrent callers get different payments. After a wait
		// of 0 there is none. However many old payments are due, half of the batch is for those whose buyers wait. A payment is
		// also due when the time to pay its order ends, and then every wait(0) until the order is closed.
		DueInquiries(ctx context.Context, provider string, limit int, wait func(age time.Duration) time.Duration) ([]domain.Payment, error)
		// NoteQueried records that the provider has no result of a payment that DueInquiries returned, so that its order can
		// be closed if the time to pay was over.
		NoteQueried(ctx context.Context, p domain.Payment) error
	}
	Query  func(ctx context.Context, p domain.Payment) (*domain.PaymentNotice, error)
	Settle func(ctx context.Context, provider string, n domain.PaymentNotice, unread error) (domain.Settled, error)
}

// Task queries payments.
func (i Inquiry) Task() loop.Task { return loop.Every(inquiryEvery, "query payments", i.QueryDue) }

// QueryDue queries all payments that are due. It returns the first error after it has processed the others.
func (i Inquiry) QueryDue(ctx context.Context) error {
	claim := func(ctx context.Context, most int) ([]domain.Payment, error) {
		return i.Store.DueInquiries(ctx, HTTPName, most, inquiryPause)
	}
	return loop.EachDue(ctx, inquiryBatch, claim, i.query)
}

func (i Inquiry) query(ctx context.Context, p domain.Payment) error {
	n, err := i.Query(ctx, p)
	switch {
	case n != nil:
		_, err = i.Settle(ctx, HTTPName, *n, err)
	case err == nil:
		err = i.Store.NoteQueried(ctx, p)
	}

	if err != nil {
		return fmt.Errorf("query of payment %s: %w", p.Ref, err)
	}

	return nil
}

func inquiryPause(age time.Duration) time.Duration {
	if age >= inquiryEnd {
		return 0
	}
	return min(max(age, minInquiryPause), maxInquiryPause)
}
