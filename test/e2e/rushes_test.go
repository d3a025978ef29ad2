package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// TestAdminRush starts the load simulation through the admin API. Its buyers pass the rate limits, appear in the sale
// statistics and get correct answers. The simulation ends when it is stopped and when the server stops.
func TestAdminRush(t *testing.T) {
	t.Parallel()
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb").Raced("lock/embedded").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.With("SECKILL_RATE_LIMIT=on").Serve(t)
		admin, path := p.Admin(t), "/admin/rush"
		start := func(buyers, stock int) rig.Answer { // a start that is answered 503 leaves no rush
			return p.Do(t, rig.Post(path, admin, map[string]any{"buyers": buyers, "stock": stock}))
		}
		require.Equal(t, "idle", p.Must(t, rig.Get(path, admin))["state"])

		began := start(300, 40)
		require.Equal(t, http.StatusAccepted, began.Status, began.Body)
		sale := began.Body["voucher_id"].(string)
		events := p.WatchSale(t, admin, sale)
		done := p.WaitForRush(t, admin)
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
		require.Equal(t, "ended", p.Must(t, rig.Get("/vouchers/"+sale, admin))["state"],
			"units of unpaid orders return later and must not be sold")
		log := p.Must(t, rig.Get("/admin/audit?voucher_id="+sale, admin))["items"].([]any)
		require.NotEmpty(t, log)
		require.Equal(t, "admin", log[len(log)-1].(map[string]any)["actor"])

		require.Equal(t, http.StatusAccepted, start(5000, 10000).Status)
		rig.RequireProblem(t, http.StatusConflict, "invalid_state", start(1, 1))
		require.Equal(t, http.StatusNoContent, p.Do(t, rig.Delete(path, admin)).Status)
		stopped := p.WaitForRush(t, admin)
		require.Equal(t, "failed", stopped["state"])
		require.Equal(t, "the rush was stopped", stopped["detail"])
		require.Equal(t, http.StatusNoContent, p.Do(t, rig.Delete(path, admin)).Status, "stopping without a rush succeeds")

		require.Equal(t, http.StatusAccepted, start(5000, 10000).Status)
		require.Zero(t, p.Stop(t), "shutdown ends the rush")
		s.Verify(t)
	})
}
