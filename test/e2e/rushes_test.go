package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// waitForRush polls the load simulation until it ends.
func (p *server) waitForRush(t *testing.T, admin string) map[string]any {
	t.Helper()
	var last answer
	eventually(t, "the rush has ended", func() bool {
		last = p.answered(t, http.MethodGet, "/api/v1/admin/rush", admin)
		require.Equal(t, http.StatusOK, last.status, last.body)
		return last.body["state"] != "running"
	})
	return last.body
}

// TestAdminRush starts the load simulation through the admin API. Its buyers pass the rate limits, appear in the sale
// statistics and get correct answers. The simulation ends when it is stopped and when the server stops.
func TestAdminRush(t *testing.T) {
	t.Parallel()
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.with("SECKILL_RATE_LIMIT=on").serve(t)
		admin, path := p.admin(t), "/admin/rush"
		start := func(buyers, stock int) answer { // a start that is answered 503 leaves no rush
			return p.reply(t, http.MethodPost, path, admin, map[string]any{"buyers": buyers, "stock": stock})
		}
		require.Equal(t, "idle", p.must(t, http.MethodGet, path, admin, nil)["state"])

		began := start(300, 40)
		require.Equal(t, http.StatusAccepted, began.status, began.body)
		sale := began.body["voucher_id"].(string)
		events := p.watchSale(t, admin, sale)
		done := p.waitForRush(t, admin)
		require.Equal(t, "done", done["state"], done)
		require.Equal(t, sale, done["voucher_id"])
		require.EqualValues(t, 300, done["answered"])
		require.EqualValues(t, 40, done["orders"])
		outcomes := done["outcomes"].(map[string]any)
		placed, _ := outcomes["ok"].(float64)
		seen, _ := outcomes["duplicate_order"].(float64) // after a 503, on a busy machine
		require.EqualValues(t, 40, placed+seen)
		require.NotContains(t, outcomes, "rate_limited")
		require.Positive(t, done["p99_ms"])
		verdicts := done["verdicts"].([]any)
		require.Len(t, verdicts, 6)
		for _, v := range verdicts {
			require.Equal(t, true, v.(map[string]any)["ok"], v)
		}
		for last := range events {
			if last.Totals.Settled["ok"] == 40 {
				break
			}
		}
		require.Equal(t, "ended", p.must(t, http.MethodGet, "/vouchers/"+sale, admin, nil)["state"],
			"units of unpaid orders return later and must not be sold")
		log := p.must(t, http.MethodGet, "/admin/audit?voucher_id="+sale, admin, nil)["items"].([]any)
		require.NotEmpty(t, log)
		require.Equal(t, "admin", log[len(log)-1].(map[string]any)["actor"])

		require.Equal(t, http.StatusAccepted, start(5000, 10000).status)
		requireProblem(t, http.StatusConflict, "invalid_state", start(1, 1))
		require.Equal(t, http.StatusNoContent, p.reply(t, http.MethodDelete, path, admin, nil).status)
		stopped := p.waitForRush(t, admin)
		require.Equal(t, "failed", stopped["state"])
		require.Equal(t, "the rush was stopped", stopped["detail"])
		require.Equal(t, http.StatusNoContent, p.reply(t, http.MethodDelete, path, admin, nil).status, "stopping without a rush succeeds")

		require.Equal(t, http.StatusAccepted, start(5000, 10000).status)
		require.Zero(t, p.stop(t), "shutdown ends the rush")
		s.verify(t)
	})
}
