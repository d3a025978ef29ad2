package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
)

// saleStats is an event of the sale statistics.
type saleStats struct {
	Instances int
	Stock     struct{ Database, Gate *int64 }
	Queue     *struct{ Lag int64 }
	Totals    saleCounters
	Seconds   []saleCounters
	Invariant []struct{ OK *bool } `json:"invariants"`
}

type saleCounters struct {
	At                string
	Outcomes, Settled map[string]int
	BatchRows         int `json:"batch_rows"`
}

// watchSale opens the event stream of a sale and returns its events until the stream ends.
func (p *server) watchSale(t *testing.T, admin, sale string) <-chan saleStats {
	t.Helper()
	stream := p.openEvents(t, "/admin/vouchers/"+sale+"/events", admin)
	events := make(chan saleStats, 256)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var s saleStats
				_ = json.Unmarshal([]byte(data), &s)
				events <- s
			}
		}
	}()
	return events
}

// TestSaleStatsOfAllServers: every server reports the purchases of all servers exactly, and the seconds add up to the
// totals.
func TestSaleStatsOfAllServers(t *testing.T) {
	t.Parallel()
	onEach(t, append(eachLaneVariants, "batch/mariadb"), true, func(t *testing.T, s *stack) {
		const buyers, stock = 60, 40
		tokens := s.tokens(t, buyers)
		a, b := s.serve(t), s.serve(t)
		admin, sale := a.admin(t), a.sale(t, stock)
		events := b.watchSale(t, admin, sale)
		load := &rush.Buyers{Clients: []*rush.Client{a.Client, b.Client}, VoucherID: sale, Stock: stock, Tokens: tokens, Parallel: 16}
		r := load.Run(t.Context())
		require.Len(t, ordersIn(r), stock)
		stored, last := 0, saleStats{}
		deadline := time.Now().Add(time.Minute)
		for stored < stock || last.Instances < 2 || last.Totals.Settled["ok"] < stock || last.Totals.Outcomes["ok"] < r.Codes["ok"] ||
			last.Stock.Database == nil || *last.Stock.Database > 0 || s.lane == "queue" && (last.Queue == nil || last.Stock.Gate == nil) {
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
		require.Equal(t, s.lane == "queue", last.Queue != nil)
		require.Equal(t, s.lane == "queue", last.Stock.Gate != nil)
		require.GreaterOrEqual(t, last.Totals.BatchRows, stock)
		for _, i := range last.Invariant {
			require.True(t, i.OK == nil || *i.OK, last)
		}
		requireProblem(t, http.StatusForbidden, "forbidden", b.answered(t, http.MethodGet, "/api/v1/admin/vouchers/"+sale+"/stats", tokens[0]))
		require.Zero(t, b.stop(t), "shutdown does not wait for streams")
		for range events { //nolint:revive // drains the stream
		}
	})
}
