package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

func (a *api) requireDemo(*gin.Context) error {
	if a.Rush == nil {
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

func (a *api) startRush(c *gin.Context, claim *domain.Claim) error {
	var plan domain.RushPlan
	if err := bind(c, &plan); err != nil {
		return err
	}
	if err := plan.Check(); err != nil {
		return err
	}

	r, err := a.Rush.Start(c.Request.Context(), claim, caller(c).UserID, plan)
	if err != nil {
		return err
	}

	return writeRush(c, http.StatusAccepted, r)
}

func (a *api) showRush(c *gin.Context) error {
	return writeRush(c, http.StatusOK, a.Rush.Last())
}

func (a *api) stopRush(c *gin.Context) error {
	a.Rush.Stop(c.Request.Context())
	return writeNoContent(c, nil)
}
