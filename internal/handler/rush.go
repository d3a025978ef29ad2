package handler

import (
	"math"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type rushHandler struct{ rush domain.Rusher }

type rushOut struct {
	State     domain.RushState `json:"state"`
	VoucherID *ID              `json:"voucher_id,omitempty"`
	Buyers    int              `json:"buyers"`
	Stock     int64            `json:"stock"`
	Answered  int              `json:"answered"`
	Orders    int              `json:"orders"`
	Took      float64          `json:"took_ms"`
	P50       float64          `json:"p50_ms"`
	P99       float64          `json:"p99_ms"`
	Outcomes  map[string]int   `json:"outcomes"`
	Verdicts  []verdictOut     `json:"verdicts"`
	Detail    string           `json:"detail,omitempty"`
}

type verdictOut struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Null: could not be checked.
	OK     *bool  `json:"ok"`
	Detail string `json:"detail"`
}

func newVerdictsOut(verdicts []domain.Verdict) []verdictOut {
	// [] rather than null.
	out := make([]verdictOut, len(verdicts))
	for i, v := range verdicts {
		out[i] = verdictOut(v)
	}
	return out
}

// milliseconds converts a duration, rounded to two decimals.
func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds())/10) / 100 }

func newRushOut(r *domain.Rush) rushOut {
	out := rushOut{
		State:    r.State,
		Buyers:   r.Buyers,
		Stock:    r.Stock,
		Answered: r.Answered,
		Orders:   r.Orders,
		Took:     milliseconds(r.Took),
		P50:      milliseconds(r.P50),
		P99:      milliseconds(r.P99),
		Outcomes: r.Outcomes,
		Verdicts: newVerdictsOut(r.Verdicts),
		Detail:   r.Detail,
	}

	if r.VoucherID != 0 {
		out.VoucherID = (*ID)(&r.VoucherID)
	}

	// {} rather than null.
	if out.Outcomes == nil {
		out.Outcomes = map[string]int{}
	}

	return out
}

func (h *rushHandler) requireDemo(*gin.Context) error {
	if h.rush == nil {
		return domain.ErrNoDemo
	}
	return nil
}

func (h *rushHandler) start(c *gin.Context, claim *domain.Claim) error {
	var in struct {
		Buyers int   `json:"buyers"`
		Stock  int64 `json:"stock"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	if err := domain.CheckRush(in.Buyers, in.Stock); err != nil {
		return err
	}

	r, err := h.rush.Start(c.Request.Context(), claim, caller(c).UserID, in.Buyers, in.Stock)
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusAccepted, newRushOut(&r))
}

func (h *rushHandler) show(c *gin.Context) error {
	r := h.rush.Last()
	return writeJSON(c, http.StatusOK, newRushOut(&r))
}

func (h *rushHandler) stop(c *gin.Context) error {
	h.rush.Stop(c.Request.Context())
	c.Status(http.StatusNoContent)
	return nil
}
