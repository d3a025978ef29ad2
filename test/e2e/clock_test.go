package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
)

// TestClockIsSetInMidRush sets the clock of one of two servers forward over midnight, and back, while buyers arrive. The
// logins stay valid, every purchase is answered as before, and each order is found on its day.
func TestClockIsSetInMidRush(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		const stock = 200
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		beforeMidnight := time.Until(midnight) - 5*time.Minute
		var servers []*rig.Server
		var set []func(ahead time.Duration)
		for range 2 {
			file := filepath.Join(t.TempDir(), "ahead")
			set = append(set, func(ahead time.Duration) {
				require.NoError(t, os.WriteFile(file+".new", []byte(ahead.String()), 0o600))
				require.NoError(t, os.Rename(file+".new", file))
			})
			set[len(servers)](beforeMidnight)
			servers = append(servers, s.With(rig.EnvClockAhead+"="+file).Serve(t))
		}

		// A buyer logs in at one server and buys at the other, which has not verified the token before.
		tokens := make([]string, 2*stock)
		for i := range tokens {
			tokens[i] = servers[(i+1)%2].LoginToken(t, rig.NewPhone())
		}
		sale := servers[0].Must(t, rig.Post("/admin/vouchers", servers[0].Admin(t), map[string]any{
			"shop_id": "1", "title": "midnight", "pay_value": 100, "actual_value": 200, "stock": stock,
			"begin_at": midnight.Add(-48 * time.Hour), "end_at": midnight.Add(48 * time.Hour),
		}))["id"].(string)
		c := rig.BuyersOf(sale, stock, tokens, servers...)
		c.Parallel = 32
		r := &rush.Report{Codes: map[string]int{}}
		changes := []time.Duration{10 * time.Minute, -10 * time.Minute, 0}
		for i, ahead := range changes {
			part := *c
			part.Tokens = tokens[i*len(tokens)/len(changes) : (i+1)*len(tokens)/len(changes)]
			done := make(chan *rush.Report, 1)
			go func() { done <- part.Run(t.Context()) }()
			set[0](beforeMidnight + ahead)
			answers := (<-done).Answers
			r.Answers = append(r.Answers, answers...)
		}
		rig.RequireSoldOut(t, s, c, r)
		rig.RequireInvariants(t, s, c, r)

		found := ordersBetween(t, servers[1], sale, midnight.Add(-24*time.Hour), midnight)
		next := ordersBetween(t, servers[1], sale, midnight, midnight.Add(24*time.Hour))
		require.NotEmpty(t, next, "orders after midnight")
		require.NotEmpty(t, found, "orders before midnight")
		require.Len(t, append(found, next...), stock)
	})
}

// ordersBetween returns the ids of the orders of a sale that were placed between two times, and requires that they were.
func ordersBetween(t *testing.T, p *rig.Server, sale string, from, to time.Time) (ids []string) {
	t.Helper()
	admin := p.Admin(t)
	query := url.Values{"voucher_id": {sale}, "created_from": {from.Format(time.RFC3339)}, "created_to": {to.Format(time.RFC3339)}, "limit": {"100"}}
	for {
		page := p.Must(t, rig.Get("/admin/orders?"+query.Encode(), admin))
		for _, item := range page["items"].([]any) {
			o := item.(map[string]any)
			created, err := time.Parse(time.RFC3339, o["created_at"].(string))
			require.NoError(t, err)
			require.False(t, created.Before(from) || !created.Before(to), "%s was created at %s", o["id"], created)
			ids = append(ids, o["id"].(string))
		}
		cursor, _ := page["next_cursor"].(string)
		if cursor == "" {
			return ids
		}
		query.Set("cursor", cursor)
	}
}
