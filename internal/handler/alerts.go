package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/ops/alerts"
)

// alertsPath is the pattern of the route.
const alertsPath = "/api/v1/admin/alerts"

// alertHandler reports what needs the attention of an operator.
type alertHandler struct{ *api }

func (h *alertHandler) list(c *gin.Context) error {
	present, err := alerts.Collector{
		Reconciler:  h.Reconciler,
		DeadLetters: h.DeadLetters.Store,
		Failures:    h.Store,
	}.Read(c.Request.Context())
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusOK, present)
}
