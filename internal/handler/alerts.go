package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/ops/alerts"
	"seckill/internal/ops/reconcile"
	"seckill/internal/service"
)

// alertsPath is the pattern of the route.
const alertsPath = "/api/v1/admin/alerts"

// alertHandler reports what needs the attention of an operator.
type alertHandler struct {
	reconciler  *reconcile.Reconciler
	deadLetters *service.DeadLetters
	failures    alerts.Failures
}

func (h *alertHandler) list(c *gin.Context) error {
	present, err := alerts.Collector{
		Reconciler:  h.reconciler,
		DeadLetters: h.deadLetters.Store,
		Failures:    h.failures,
	}.Read(c.Request.Context())
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusOK, present)
}
