package rush

import (
	"context"
	"net/http"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// simulatePoll is the interval between reads of a running simulation.
const simulatePoll = 500 * time.Millisecond

// Reach returns an error if no server answers.
func (c *Client) Reach(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/healthz", "", nil, nil)
	return err
}

// Simulate has the server run a load simulation and returns its result. progress is called when further buyers were answered. Only servers in
// demo mode do this, one simulation at a time.
func (c *Client) Simulate(ctx context.Context, adminToken string, plan domain.RushPlan, progress func(domain.Rush, time.Duration)) (domain.Rush, error) {
	var s domain.Rush
	began := time.Now()
	_, err := c.do(ctx, http.MethodPost, "/api/v1/admin/rush", adminToken, plan, &s)
	for err == nil && s.State == domain.RushRunning {
		if loop.Sleep(ctx, simulatePoll) != nil {
			return s, ctx.Err()
		}

		before := s
		s = domain.Rush{}
		_, err = c.do(ctx, http.MethodGet, "/api/v1/admin/rush", adminToken, nil, &s)

		if s.Answered != before.Answered {
			progress(s, time.Since(began))
		}
	}

	return s, err
}
