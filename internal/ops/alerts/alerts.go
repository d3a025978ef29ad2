// Package alerts collects what needs the attention of an operator, for the console and for a receiver of the operator.
package alerts

import (
	"context"
	"fmt"
	"time"

	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
)

// Failures returns what cannot be done at the systems of merchant and bank. Error: domain.ErrUnavailable.
type Failures interface {
	// FailingEvents returns the number of events whose last delivery failed, at most about most.
	FailingEvents(ctx context.Context, most int) (int, error)
	// FailingRefunds returns at most most payments whose refund has failed several times.
	FailingRefunds(ctx context.Context, most int) ([]domain.Payment, error)
	// OpenNotices returns the number of notices of providers that could not be processed.
	OpenNotices(ctx context.Context) (int64, error)
}

const (
	// maxFailing bounds the events that are counted.
	maxFailing = 1000
	// maxFailingRefunds bounds the refunds that are listed.
	maxFailingRefunds = 20
	// lagWait bounds the wait for Redis.
	lagWait = 500 * time.Millisecond
)

// Collector reads the alerts. It reads little, because every page of the console polls it.
type Collector struct {
	Reconciler *reconcile.Reconciler
	Lag        func(context.Context) (domain.QueueLag, error)
	Failures   Failures
}

// Alerts are the present alerts, in their JSON form.
type Alerts struct {
	Violations []reconcile.Violation `json:"violations"`
	// Null: not yet.
	CheckedAt *time.Time `json:"checked_at"`
	// Null: Redis does not answer.
	DeadLetters    *int64          `json:"dead_letters"`
	FailingEvents  int             `json:"failing_events"`
	FailingRefunds []FailingRefund `json:"failing_refunds"`
	UnreadNotices  int64           `json:"unread_notices"`

	// The sales whose violations are known.
	checked map[int64]bool
}

// FailingRefund is a refund that the provider has refused several times.
type FailingRefund struct {
	OrderID int64  `json:"order_id,string"`
	Ref     string `json:"provider_ref"`
	Tries   int    `json:"tries"`
	Error   string `json:"error"`
}

// Read returns the present alerts. Error: domain.ErrUnavailable (the database).
func (c Collector) Read(ctx context.Context) (Alerts, error) {
	checks := c.Reconciler.Checks()
	a := Alerts{
		Violations:     append([]reconcile.Violation{}, checks.Violations...),
		FailingRefunds: []FailingRefund{},
		checked:        checks.Vouchers,
	}

	if !checks.At.IsZero() {
		a.CheckedAt = new(domain.Moment(checks.At))
	}

	var err error
	if a.FailingEvents, err = c.Failures.FailingEvents(ctx, maxFailing); err != nil {
		return Alerts{}, err
	}

	if a.UnreadNotices, err = c.Failures.OpenNotices(ctx); err != nil {
		return Alerts{}, err
	}

	refunds, err := c.Failures.FailingRefunds(ctx, maxFailingRefunds)
	if err != nil {
		return Alerts{}, err
	}

	for _, p := range refunds {
		a.FailingRefunds = append(a.FailingRefunds, FailingRefund{p.OrderID, p.Ref, p.RefundTries, p.RefundError})
	}

	ctx, cancel := context.WithTimeout(ctx, lagWait)
	defer cancel()

	if lag, err := c.Lag(ctx); err == nil {
		a.DeadLetters = &lag.DeadLetters
	}

	return a, nil
}

// Kind is what an alert is about.
type Kind string

// The kinds of alerts.
const (
	KindViolation      Kind = "violation"
	KindDeadLetters    Kind = "dead_letters"
	KindFailingEvents  Kind = "failing_events"
	KindFailingRefunds Kind = "failing_refunds"
	KindUnreadNotices  Kind = "unread_notices"
)

// Alert is one of Alerts, as it is posted.
type Alert struct {
	Kind Kind `json:"kind"`
	// Of a violation.
	VoucherID int64          `json:"voucher_id,omitempty,string"`
	Invariant reconcile.Kind `json:"invariant,omitempty"`
	// Of any other kind.
	Count int64 `json:"count,omitempty"`
	// A sentence for people.
	Text string `json:"text"`
}

func (a Alert) key() string {
	if a.Kind == KindViolation {
		return fmt.Sprintf("%s %d %s", a.Kind, a.VoucherID, a.Invariant)
	}
	return string(a.Kind)
}

func (a Alerts) each() []Alert {
	var all []Alert
	for _, v := range a.Violations {
		all = append(all, Alert{
			Kind:      KindViolation,
			VoucherID: v.VoucherID,
			Invariant: v.Invariant,
			Text:      fmt.Sprintf("Sale %d violates the invariant %s: %s.", v.VoucherID, v.Invariant, v.Detail),
		})
	}

	add := func(kind Kind, n int64, format string, args ...any) {
		if n > 0 {
			all = append(all, Alert{Kind: kind, Count: n, Text: fmt.Sprintf(format, args...)})
		}
	}

	if a.DeadLetters != nil {
		add(KindDeadLetters, *a.DeadLetters, "Dead letters, orders that could not be stored: %d.", *a.DeadLetters)
	}

	add(KindFailingEvents, int64(a.FailingEvents), "Events of orders that are not delivered: %d.", a.FailingEvents)
	add(KindUnreadNotices, a.UnreadNotices, "Payment notices that could not be processed: %d.", a.UnreadNotices)

	if n := len(a.FailingRefunds); n > 0 {
		first := a.FailingRefunds[0]
		add(KindFailingRefunds, int64(n), "Refunds that the provider does not make: %d, such as that of order %d: %s.", n, first.OrderID, first.Error)
	}

	return all
}

// knows reports whether the absence of an alert means that it has ended.
func (a Alerts) knows(alert Alert) bool {
	switch alert.Kind {
	case KindViolation:
		return a.checked[alert.VoucherID]
	case KindDeadLetters:
		return a.DeadLetters != nil
	case KindFailingEvents, KindFailingRefunds, KindUnreadNotices:
	}
	return true
}
