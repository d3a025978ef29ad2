package handler

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/reconcile"
	"seckill/internal/service"
)

// EventFailures counts events of orders that do not reach their receiver. Error: domain.ErrUnavailable.
type EventFailures interface {
	// FailingEvents returns the number of events whose last delivery failed, at most about most.
	FailingEvents(ctx context.Context, most int) (int, error)
}

// alertsPath is the pattern of the route.
const alertsPath = "/api/v1/admin/alerts"

// maxFailing bounds the events that an alert counts.
const maxFailing = 1000

// alertHandler reports what needs the attention of an operator. It reads little, because every page of the console polls
// it.
type alertHandler struct {
	reconciler  *reconcile.Reconciler
	deadLetters *service.DeadLetters
	events      EventFailures
}

// alertsOut is the JSON form of the alerts.
type alertsOut struct {
	Violations    []violationOut `json:"violations"`
	CheckedAt     *time.Time     `json:"checked_at"`   // null: not yet
	DeadLetters   *int64         `json:"dead_letters"` // null: Redis does not answer
	FailingEvents int            `json:"failing_events"`
}

type violationOut struct {
	VoucherID ID     `json:"voucher_id"`
	Invariant string `json:"invariant"`
	Detail    string `json:"detail"`
}

// deadLetterWait bounds the wait for Redis.
const deadLetterWait = 500 * time.Millisecond

func (h *alertHandler) list(c *gin.Context) error {
	ctx := c.Request.Context()
	out := alertsOut{Violations: []violationOut{}}
	violations, checkedAt := h.reconciler.Violations()
	for _, v := range violations {
		out.Violations = append(out.Violations, violationOut{ID(v.VoucherID), string(v.Invariant), v.Detail})
	}
	if !checkedAt.IsZero() {
		checkedAt = domain.Moment(checkedAt)
		out.CheckedAt = &checkedAt
	}
	var err error
	if out.FailingEvents, err = h.events.FailingEvents(ctx, maxFailing); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deadLetterWait)
	defer cancel()
	if n, err := h.deadLetters.Store.CountDeadLetters(ctx); err == nil {
		out.DeadLetters = &n
	}
	return writeJSON(c, http.StatusOK, out)
}
