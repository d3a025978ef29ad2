package handler

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
	"seckill/internal/service"
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

// alertsPath is the pattern of the route.
const alertsPath = "/api/v1/admin/alerts"

const (
	// maxFailing bounds the events that an alert counts.
	maxFailing = 1000
	// maxFailingRefunds bounds the refunds that an alert lists.
	maxFailingRefunds = 20
)

// alertHandler reports what needs the attention of an operator. It reads little, because every page of the console polls
// it.
type alertHandler struct {
	reconciler  *reconcile.Reconciler
	deadLetters *service.DeadLetters
	failures    Failures
}

// alertsOut is the JSON form of the alerts.
type alertsOut struct {
	Violations []reconcile.Violation `json:"violations"`
	// Null: not yet.
	CheckedAt *time.Time `json:"checked_at"`
	// Null: Redis does not answer.
	DeadLetters    *int64             `json:"dead_letters"`
	FailingEvents  int                `json:"failing_events"`
	FailingRefunds []failingRefundOut `json:"failing_refunds"`
	UnreadNotices  int64              `json:"unread_notices"`
}

type failingRefundOut struct {
	OrderID ID     `json:"order_id"`
	Ref     string `json:"provider_ref"`
	Tries   int    `json:"tries"`
	Error   string `json:"error"`
}

// deadLetterWait bounds the wait for Redis.
const deadLetterWait = 500 * time.Millisecond

func (h *alertHandler) list(c *gin.Context) error {
	ctx := c.Request.Context()
	out := alertsOut{FailingRefunds: []failingRefundOut{}}
	violations, checkedAt := h.reconciler.Violations()
	out.Violations = append([]reconcile.Violation{}, violations...)

	if !checkedAt.IsZero() {
		checkedAt = domain.Moment(checkedAt)
		out.CheckedAt = &checkedAt
	}

	var err error
	if out.FailingEvents, err = h.failures.FailingEvents(ctx, maxFailing); err != nil {
		return err
	}

	if out.UnreadNotices, err = h.failures.OpenNotices(ctx); err != nil {
		return err
	}

	refunds, err := h.failures.FailingRefunds(ctx, maxFailingRefunds)
	if err != nil {
		return err
	}

	for _, p := range refunds {
		out.FailingRefunds = append(out.FailingRefunds, failingRefundOut{ID(p.OrderID), p.Ref, p.RefundTries, p.RefundError})
	}

	ctx, cancel := context.WithTimeout(ctx, deadLetterWait)
	defer cancel()

	if n, err := h.deadLetters.Store.CountDeadLetters(ctx); err == nil {
		out.DeadLetters = &n
	}

	return writeJSON(c, http.StatusOK, out)
}
