package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
	"seckill/test/e2e/rig"
)

// TestSaleStatsOfAllServers: every server reports the purchases of all servers exactly, and the seconds add up to the
// totals.
func TestSaleStatsOfAllServers(t *testing.T) {
	t.Parallel()
	rig.Full("lock/embedded", "lock/mariadb", "queue/mariadb", "batch/mariadb").Raced("lock/embedded").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		const buyers, stock = 60, 40
		tokens := s.Tokens(t, buyers)
		a, b := s.Serve(t), s.Serve(t)
		admin, sale := a.Admin(t), a.Sale(t, stock)
		events := b.WatchSale(t, admin, sale)
		load := &rush.Buyers{Clients: []*rush.Client{a.Client, b.Client}, VoucherID: sale, Stock: stock, Tokens: tokens, Parallel: 16}
		r := load.Run(t.Context())
		require.Len(t, rig.OrdersIn(r), stock)
		stored, last := 0, rig.SaleStats{}
		deadline := time.Now().Add(time.Minute)
		for stored < stock || last.Instances < 2 || last.Totals.Settled["ok"] < stock || last.Totals.Outcomes["ok"] < r.Codes["ok"] ||
			last.Stock.Database == nil || *last.Stock.Database > 0 || s.Lane == "queue" && (last.Queue == nil || last.Stock.Gate == nil) {
			require.True(t, time.Now().Before(deadline), "the last event: %+v", last)
			var more bool
			last, more = next(t, events)
			require.True(t, more, "the stream ended")
			for _, second := range last.Seconds {
				stored += second.Settled["ok"]
			}
		}
		require.Equal(t, stock, stored, "the seconds add up to the total")
		require.Equal(t, r.Codes["ok"], last.Totals.Outcomes["ok"])
		require.Equal(t, stock, last.Totals.Settled["ok"], "each order is counted once")
		require.Equal(t, s.Lane == "queue", last.Queue != nil)
		require.Equal(t, s.Lane == "queue", last.Stock.Gate != nil)
		require.GreaterOrEqual(t, last.Totals.BatchRows, stock)
		for _, i := range last.Invariant {
			require.True(t, i.OK == nil || *i.OK, last)
		}
		rig.RequireProblem(t, http.StatusForbidden, "forbidden", b.Do(t, rig.Get("/admin/vouchers/"+sale+"/stats", tokens[0])))
		require.Zero(t, b.Stop(t), "shutdown does not wait for streams")
		for range events { //nolint:revive // drains the stream
		}
	})
}
