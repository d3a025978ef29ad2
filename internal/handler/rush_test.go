package handler_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"seckill/internal/domain"
	"seckill/internal/handler"
)

// fakeRusher is a domain.Rusher without buyers.
type fakeRusher struct {
	last    domain.Rush
	started int
}

func (r *fakeRusher) Start(_ context.Context, _ *domain.Claim, _ int64, buyers int, stock int64) (domain.Rush, error) {
	if r.last.State == domain.RushRunning {
		return domain.Rush{}, domain.ErrInvalidState
	}
	r.started++
	r.last = domain.Rush{State: domain.RushRunning, VoucherID: 7, Buyers: buyers, Stock: stock}
	return r.last, nil
}

func (r *fakeRusher) Last() domain.Rush { return r.last }

func (r *fakeRusher) Stop(context.Context) {
	r.last = domain.Rush{
		State: domain.RushDone, VoucherID: 7, Buyers: 2, Stock: 1, Answered: 2, Orders: 1, Took: time.Second, P50: 1234567, P99: 2e6,
		Outcomes: map[string]int{"ok": 1}, Verdicts: []domain.Verdict{domain.NewVerdict("I1", true, "1 sold of 1")},
	}
}

// TestRushRoutes covers the routes only, with a fake load simulation.
func TestRushRoutes(t *testing.T) {
	t.Parallel()
	r := &fakeRusher{last: domain.Rush{State: domain.RushIdle}}
	e := newEnv(t, func(s *setup) { s.change = func(cfg *handler.Config) { cfg.Rush = r } })
	admin, path := e.admin(), "/api/v1/admin/rush"
	assert.Equal(t, "idle", decode[map[string]any](admin.get(path).want(http.StatusOK))["state"])
	for _, body := range []string{
		``, `{}`, `{"buyers":0,"stock":1}`, `{"buyers":1,"stock":0}`, `{"buyers":5001,"stock":1}`, `{"buyers":1,"stock":10001}`,
		`{"buyers":1,"stock":1,"more":1}`, `{"buyers":"1","stock":1}`,
	} {
		admin.bad().post(path, body).problem(http.StatusBadRequest, "invalid_request")
	}
	assert.Zero(t, r.started)
	body := map[string]any{"buyers": 5000, "stock": 10000}
	once := admin.with("Idempotency-Key", "rush")
	for range 2 {
		got := decode[map[string]any](once.post(path, body).want(http.StatusAccepted))
		assert.Equal(t, "running", got["state"])
		assert.Equal(t, "7", got["voucher_id"])
	}
	assert.Equal(t, 1, r.started)
	admin.post(path, body).problem(http.StatusConflict, "invalid_state")
	admin.do(http.MethodDelete, path, nil).want(http.StatusNoContent)
	done := decode[map[string]any](admin.get(path).want(http.StatusOK))
	assert.InDelta(t, 1.23, done["p50_ms"], 0.001)
	assert.Len(t, done["verdicts"], 1)
}

// TestRushRequiresDemoMode: outside demo mode, the answer names the setting.
func TestRushRequiresDemoMode(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin := e.admin()
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		var body any
		if method == http.MethodPost {
			body = map[string]any{"buyers": 1, "stock": 1}
		}
		p := admin.do(method, "/api/v1/admin/rush", body).problem(http.StatusForbidden, "forbidden")
		assert.Contains(t, p.Detail, "SECKILL_DEMO")
	}
}
