package rush

import (
	"context"
	"net/http"
	"time"
)

// simulatePoll is the interval between reads of a running simulation.
const simulatePoll = 500 * time.Millisecond

// Simulation is the state of a load simulation that a server runs itself.
type Simulation struct {
	State    string  `json:"state"`
	Buyers   int     `json:"buyers"`
	Answered int     `json:"answered"`
	Orders   int     `json:"orders"`
	TookMS   float64 `json:"took_ms"`
	P50MS    float64 `json:"p50_ms"`
	P99MS    float64 `json:"p99_ms"`
	// The detail of a failed one.
	Detail string `json:"detail"`
	// Since its start, as seen by this client.
	Elapsed  time.Duration `json:"-"`
	Verdicts []struct {
		ID, Title string
		OK        *bool
		Detail    string
	} `json:"verdicts"`
}

// Reach returns an error if no server answers.
func (c *Client) Reach(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/healthz", "", nil, nil)
	return err
}

// Simulate has the server run a load simulation and returns its result. progress is called when further buyers were answered. Only servers in
// demo mode do this, one simulation at a time.
func (c *Client) Simulate(ctx context.Context, adminToken string, buyers int, stock int64, progress func(Simulation)) (Simulation, error) {
	var s Simulation
	began := time.Now()
	_, err := c.do(ctx, http.MethodPost, "/api/v1/admin/rush", adminToken, map[string]any{"buyers": buyers, "stock": stock}, &s)
	for err == nil && s.State == "running" {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(simulatePoll):
		}

		before := s
		s = Simulation{}
		_, err = c.do(ctx, http.MethodGet, "/api/v1/admin/rush", adminToken, nil, &s)
		s.Elapsed = time.Since(began)

		if s.Answered != before.Answered {
			progress(s)
		}
	}

	return s, err
}
