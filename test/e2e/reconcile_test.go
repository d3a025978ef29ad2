package e2e

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/idgen"
	"seckill/internal/rush"
	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

func orderNames(orders ...rush.Order) (names []string) {
	for _, o := range orders {
		names = append(names, "order "+o.ID+" of user "+o.UserID)
	}
	return names
}

// damages has one of each sort. internal/reconcile shows all findings, and internal/admission how a damaged gate reads.
var damages = []rig.Damage{
	{Name: "stock up", Kind: "gate_differs", Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
		require.NoError(t, rdb.IncrBy(t.Context(), l.Key("stock"), 500).Err())
	}},
	{
		Name: "buyers missing", Kind: "gate_differs",
		Want: func(l *rig.LiveSale) []string { return orderNames(l.Buyers[0], l.Buyers[1]) },
		Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
			require.NoError(t, rdb.HDel(t.Context(), l.Key("buyers"), l.Buyers[0].UserID, l.Buyers[1].UserID).Err())
		},
	},
	{Name: "counter off", Kind: "gate_differs", Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
		require.NoError(t, rdb.HIncrBy(t.Context(), l.Key("meta"), "held", 500).Err())
	}},
	{Name: "stock not a number", Kind: "gate_broken", Do: func(t *testing.T, l *rig.LiveSale, rdb redis.UniversalClient) {
		require.NoError(t, rdb.Set(t.Context(), l.Key("stock"), "many", 0).Err())
	}},
}

// TestReconcileCommandRepairsGate damages the gate during a sale: the command names and repairs each damage, and the
// sale does not oversell.
func TestReconcileCommandRepairsGate(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	l := rig.StartLiveSale(t, rig.WithoutBackgroundRepair(s), 4, 50*time.Millisecond)
	waitUntilAged(t, l)
	l.RequireSound(t)
	for _, d := range damages {
		d.Do(t, l, l.Rdb)
		l.RequireNamed(t, d)
		l.RequireRepaired(t, d)
		l.RequireSound(t)
	}
	l.SellOut(t)
}

// waitUntilAged waits until the orders are old enough to be reported as missing.
func waitUntilAged(t *testing.T, l *rig.LiveSale) {
	t.Helper()
	last, err := strconv.ParseInt(l.Buyers[len(l.Buyers)-1].ID, 10, 64)
	require.NoError(t, err)
	rig.Eventually(t, "the orders are old enough", func() bool { return time.Since(idgen.Time(last)) > 3*time.Second })
}

// TestBackgroundReconcileRepairsGate: the server repairs each damage without a command.
func TestBackgroundReconcileRepairsGate(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t).In("queue").With(rig.EnvEvery+"=200ms", rig.EnvMinAge+"=2s", rig.EnvPause+"=500ms", "SECKILL_OPS_ADDR="+rig.FreeAddr(t))
	l := rig.StartLiveSale(t, s, 4, 50*time.Millisecond)
	ops := "http://" + s.Setting("SECKILL_OPS_ADDR") + "/metrics"
	waitUntilAged(t, l)
	for _, d := range damages {
		before := metric(t, ops, `seckill_reconcile_repairs_total{kind="`+d.Kind+`"}`)
		d.Do(t, l, l.Rdb)
		rig.Eventually(t, d.Name+" is repaired", func() bool {
			return metric(t, ops, `seckill_reconcile_repairs_total{kind="`+d.Kind+`"}`) > before
		})
		l.RequireSound(t)
	}
	require.Positive(t, metric(t, ops, "seckill_reconcile_last_success_timestamp_seconds"))
	l.SellOut(t)
}

// TestReconcileTruncatedStream removes tickets and stream entries while the workers are held. The buyers get 404 for
// the lost orders, the units are on sale again, and the entries that a worker already held do not oversell.
func TestReconcileTruncatedStream(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	held, release := rig.HoldWorkers(t, rig.WithoutBackgroundRepair(s))
	p := held.Serve(t)
	l := &rig.LiveSale{Stack: held, P: p, Sale: p.Sale(t, 20), Rdb: nil, Stop: func() {}}
	tokens := s.Tokens(t, 60)
	l.Rdb, l.NewTokens = held.Client(t), tokens[8:]
	var ids []string
	for _, token := range tokens[:8] {
		ids = append(ids, p.Queue(t, token, l.Sale))
	}
	last, err := strconv.ParseInt(ids[7], 10, 64)
	require.NoError(t, err)
	rig.Eventually(t, "the orders are old enough", func() bool { return time.Since(idgen.Time(last)) > 3*time.Second })
	rig.RequireNoFindings(t, l.Stack)

	require.NoError(t, l.Rdb.Del(t.Context(), l.ShardKey("queued")).Err())
	tickets := rig.Damage{Name: "tickets gone", Kind: "queue_differs", Want: func(*rig.LiveSale) []string { return []string{"order " + ids[0]} }}
	require.Equal(t, http.StatusNotFound, p.Do(t, rig.Get("/orders/"+ids[0], tokens[0])).Status)
	l.RequireNamed(t, tickets)
	l.RequireRepaired(t, tickets)
	require.Equal(t, "queued", p.Do(t, rig.Get("/orders/"+ids[0], tokens[0])).Body["status"])

	entries, err := l.Rdb.XRange(t.Context(), l.ShardKey("orders"), "-", "+").Result()
	require.NoError(t, err)
	require.Len(t, entries, 8)
	for _, e := range entries[:5] {
		require.NoError(t, l.Rdb.XDel(t.Context(), l.ShardKey("orders"), e.ID).Err())
	}
	cut := rig.Damage{Name: "stream entries removed", Kind: "queue_differs", Want: func(*rig.LiveSale) []string { return []string{"order " + ids[0]} }}
	l.RequireNamed(t, cut)
	_, out := l.Check(t, "reconcile", "--voucher", l.Sale)
	require.Regexp(t, rig.Finding("gate_differs"), out)
	l.RequireRepaired(t, cut)
	require.Equal(t, http.StatusNotFound, p.Do(t, rig.Get("/orders/"+ids[0], tokens[0])).Status)
	require.Equal(t, "queued", p.Do(t, rig.Get("/orders/"+ids[7], tokens[7])).Body["status"])

	release() // workers may hold and commit the removed entries
	for i, id := range ids[5:] {
		rig.RequireOrdered(t, p, tokens[5+i], id)
	}
	rig.RequireSettled(t, l.Stack)
	rig.Eventually(t, "no differences remain", func() bool {
		code, _ := l.Run(t, "reconcile", "--apply")
		_, out := l.Run(t, "reconcile")
		return code == 0 && strings.Contains(out, ": 0 findings repaired, 0 left")
	})
	l.SellOut(t)
}

// TestReconcileReportsNothingForHealthySale: neither the command nor the route reports a healthy sale under load.
func TestReconcileReportsNothingForHealthySale(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	l := rig.StartLiveSale(t, s.In("queue"), 24, time.Millisecond)
	admin := l.P.Admin(t)
	for range 8 {
		_, out := l.Check(t, "reconcile")
		require.Contains(t, out, "sales reconciled")
		for _, row := range regexp.MustCompile(`(?m)^\d+ +\w+ +\d+ .*`).FindAllString(out, -1) {
			l.RequireUnconfirmed(t, row)
		}
		report := l.P.Must(t, rig.Get("/admin/reconcile?voucher_id="+l.Sale, admin))
		for _, f := range report["reports"].([]any)[0].(map[string]any)["findings"].([]any) {
			for _, o := range f.(map[string]any)["orders"].([]any) {
				l.RequireUnconfirmed(t, "order "+o.(map[string]any)["order_id"].(string))
			}
			require.NotEmpty(t, f.(map[string]any)["orders"], f)
		}
	}
	if strings.Contains(l.P.Log.String(), "is rebuilt") {
		l.RequireUnconfirmed(t, "the background repaired something")
	}
	l.SellOut(t)
}

// TestReconcileDoesNotChangeDatabase: errors in the database are reported with the order and not repaired.
func TestReconcileDoesNotChangeDatabase(t *testing.T) {
	t.Parallel()
	rig.Full("mariadb", "mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		for _, lane := range []string{"lock", "queue"} {
			s := rig.WithoutBackgroundRepair(s).In(lane).With(rig.EnvLasting + "=1s")
			p := s.Serve(t)
			sale, tokens := p.Sale(t, 2), s.Tokens(t, 2)
			l := &rig.LiveSale{Stack: s, P: p, Sale: sale}
			l.Order(t, tokens[0])
			second := l.Order(t, tokens[1])
			extra := second.ID[:len(second.ID)-3] + "999" // the newest order
			s.Exec(t, `INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at)
				SELECT `+extra+`, 424242, voucher_id, 1, 1, amount, created_at, expires_at, updated_at FROM voucher_orders WHERE id = `+second.ID)
			rows := s.Count(t, "SELECT COUNT(*) FROM voucher_orders")
			name := "order " + extra + " of user 424242"
			code, out := s.Check(t, "verify")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Contains(t, out, name)
			code, out = s.Check(t, "reconcile", "--apply")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Regexp(t, rig.Finding("I1").String()+".*manual.*"+name, out)
			require.Equal(t, rows, s.Count(t, "SELECT COUNT(*) FROM voucher_orders"))
			s.Exec(t, "DELETE FROM voucher_orders WHERE id = "+extra)

			s.Exec(t, "UPDATE seckill_vouchers SET stock = stock + 1 WHERE voucher_id = "+sale)
			code, out = s.Check(t, "verify")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Contains(t, out, "order "+second.ID+" of user "+second.UserID)
			code, out = s.Check(t, "reconcile", "--apply")
			require.Equal(t, rig.ExitViolation, code, out)
			require.Regexp(t, rig.Finding("I3").String()+".*manual.*order "+second.ID, out)
			require.EqualValues(t, 1, s.Count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+sale))
			s.Exec(t, "UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = "+sale)
			_, out = s.Check(t, "reconcile", "--apply") // the gate had followed the database
			require.Contains(t, out, ", 0 left")
			s.Verify(t)
			require.Zero(t, p.Stop(t))
		}
	})
}

// TestReconcileExitCodeWhenUnchecked: an incomplete check has an exit code of its own, different from that of a
// finding.
func TestReconcileExitCodeWhenUnchecked(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	code, out := rig.EmbeddedStack(t).OnEmptyDatabase(t).Run(t, "reconcile")
	require.Equal(t, rig.ExitUnchecked, code, out)
	require.Contains(t, out, "could not check the database")
	code, out = rig.EmbeddedStack(t).Run(t, "reconcile", "--nonsense")
	require.Equal(t, rig.ExitUnchecked, code, out)

	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	code, out = s.Run(t, "reconcile", "--voucher", "999")
	require.Equal(t, rig.ExitUnchecked, code, out)
	require.Contains(t, out, "not found")
	code, out = s.With("SECKILL_REDIS_ADDRS="+rig.FreeAddr(t)).Run(t, "reconcile")
	require.Equal(t, rig.ExitUnchecked, code, out)
	require.Contains(t, out, "could not check Redis")
	require.Zero(t, p.Stop(t))
	code, out = s.Check(t, "reconcile")
	require.Zero(t, code, out)
	require.Contains(t, out, "the embedded server is not running")
}

// metric returns the value of a metric, or NaN if it is missing.
func metric(t *testing.T, url, name string) float64 {
	t.Helper()
	for line := range strings.Lines(rig.Fetch(t, url).Text) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			require.NoError(t, err)
			return n
		}
	}
	return math.NaN()
}
