package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type rushHandler struct{ rush domain.Rusher }

func (h *rushHandler) requireDemo(*gin.Context) error {
	if h.rush == nil {
		return domain.ErrNoDemo
	}
	return nil
}

func writeRush(c *gin.Context, status int, r domain.Rush) error {
	if r.Outcomes == nil {
		r.Outcomes = map[string]int{}
	}
	if r.Verdicts == nil {
		r.Verdicts = []domain.Verdict{}
	}
	return writeJSON(c, status, r)
}

func (h *rushHandler) start(c *gin.Context, claim *domain.Claim) error {
	var plan domain.RushPlan
	if err := bind(c, &plan); err != nil {
		return err
	}
	if err := plan.Check(); err != nil {
		return err
	}

	r, err := h.rush.Start(c.Request.Context(), claim, caller(c).UserID, plan)
	if err != nil {
		return err
	}

	return writeRush(c, http.StatusAccepted, r)
}

func (h *rushHandler) show(c *gin.Context) error {
	return writeRush(c, http.StatusOK, h.rush.Last())
}

func (h *rushHandler) stop(c *gin.Context) error {
	h.rush.Stop(c.Request.Context())
	return writeNoContent(c, nil)
}
