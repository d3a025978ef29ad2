package admission

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// voucher is the voucher of most tests. neighbour is in the same shard, stranger in another one.
const (
	voucher   int64 = 7
	neighbour int64 = 23
	stranger  int64 = 8
)

// voucherKeys are the keys of voucher in a gate of one segment.
var voucherKeys = segmentsOf(voucher, 1)[0]

func newGate(rdb env.RedisClient) *Gate { return segmented(rdb, nil) }

// segmented returns a gate whose vouchers have these numbers of segments; the others have one.
func segmented(rdb env.RedisClient, segments map[int64]int) *Gate {
	return New(Config{
		Redis: rdb, Log: slog.New(slog.DiscardHandler),
		Segments: func(_ context.Context, voucherID int64) (int, error) { return max(1, segments[voucherID]), nil },
	})
}

func onSale() domain.Window {
	return domain.Window{Begin: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour)}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func admission(order, user int64) domain.Admission {
	return domain.Admission{
		OrderID: order, UserID: user, VoucherID: voucher, Amount: 100, Currency: "CNY", Limit: 1, At: noon,
	}
}

// admissions returns n admissions, whose users have the ids of the orders, which begin with first.
func admissions(first int64, n int) []domain.Admission {
	as := make([]domain.Admission, n)
	for i := range as {
		id := first + int64(i)
		as[i] = admission(id, id)
	}
	return as
}

// at returns an admission with the queue position that the gate assigned.
func at(place int64, a domain.Admission) domain.Admission {
	a.Place = place
	return a
}

// database is a model of the database, from which gates are rebuilt. mu protects it where it is used concurrently.
type database struct {
	mu          sync.Mutex
	stock       map[int64]int64
	orders      map[int64]dbOrder
	generations map[int64]int64
	beforeFence func() // if not nil
}

type dbOrder struct {
	voucher, user int64
	active        bool
}

func newDatabase() *database {
	return &database{stock: map[int64]int64{}, orders: map[int64]dbOrder{}, generations: map[int64]int64{}}
}

func (d *database) GateGeneration(_ context.Context, voucherID int64) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.generations[voucherID], nil
}

func (d *database) FenceGate(_ context.Context, voucherID, from int64) (bool, error) {
	if d.beforeFence != nil {
		d.beforeFence()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.generations[voucherID] != from {
		return false, nil
	}
	d.generations[voucherID]++
	return true, nil
}

func (d *database) GateState(_ context.Context, voucherID int64, inFlight []int64) (domain.GateState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := domain.GateState{Stock: d.stock[voucherID]}
	for id, o := range d.orders {
		if o.voucher == voucherID && o.active {
			state.Holders = append(state.Holders, domain.Holder{OrderID: id, UserID: o.user})
		}
		if slices.Contains(inFlight, id) {
			state.Settled = append(state.Settled, id)
		}
	}
	return state, nil
}

// reads is a database whose snapshots a function reads.
type reads struct {
	domain.GateStore
	read func(ctx context.Context, voucherID int64, inFlight []int64) (domain.GateState, error)
}

func (r reads) GateState(ctx context.Context, voucherID int64, inFlight []int64) (domain.GateState, error) {
	return r.read(ctx, voucherID, inFlight)
}

// commit stores an order if a unit is left and the user is within the limit. Otherwise it returns the error code.
func (d *database) commit(a domain.Admission) (failed string) {
	if _, ok := d.orders[a.OrderID]; ok {
		return ""
	}
	held := 0
	for _, o := range d.orders {
		if o.active && o.voucher == a.VoucherID && o.user == a.UserID {
			held++
		}
	}
	switch {
	case held >= a.Limit:
		return "duplicate_order"
	case d.stock[a.VoucherID] <= 0:
		return "sold_out"
	}
	d.stock[a.VoucherID]--
	d.orders[a.OrderID] = dbOrder{voucher: a.VoucherID, user: a.UserID, active: true}
	return ""
}

// cancel ends an active order and returns its unit. It reports whether the order was active.
func (d *database) cancel(order int64) bool {
	o := d.orders[order]
	if !o.active {
		return false
	}
	d.stock[o.voucher]++
	o.active = false
	d.orders[order] = o
	return true
}

// withStock returns a gate that is loaded with units of voucher, and its database.
func withStock(t testing.TB, rdb env.RedisClient, units int64) (*Gate, *database) {
	t.Helper()
	return segmentsWithStock(t, rdb, 1, units)
}

// segmentsWithStock is withStock for a gate of n segments.
func segmentsWithStock(t testing.TB, rdb env.RedisClient, n int, units int64) (*Gate, *database) {
	t.Helper()
	g, db := segmented(rdb, map[int64]int{voucher: n}), newDatabase()
	db.stock[voucher] = units
	require.NoError(t, g.Load(t.Context(), voucher, db))
	return g, db
}

// eachGate is env.EachRedis with a gate, see withStock.
func eachGate(t *testing.T, units int64, fn func(t *testing.T, rdb env.RedisClient, g *Gate, db *database)) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, db := withStock(t, rdb, units)
		fn(t, rdb, g, db)
	})
}

func reserve(t testing.TB, g *Gate, as ...domain.Admission) []error {
	t.Helper()
	results := g.Reserve(t.Context(), as[0].VoucherID, onSale(), as)
	require.Len(t, results, len(as))
	return results
}

func level(t testing.TB, g *Gate, voucherID int64) Level {
	t.Helper()
	return env.Must(g.Level(t.Context(), voucherID))(t)
}

// requireLevel compares the level of voucher with want, except for Version and Built. It computes the expected Sum and
// Users from the table of buyers.
func requireLevel(t testing.TB, g *Gate, want Level) {
	t.Helper()
	table := buyers(t, g, voucher)
	want.Sum, want.Users = sumOf(t, table), int64(len(table))
	got := level(t, g, voucher)
	got.Version, got.Built = 0, 0
	require.Equal(t, want, got)
}

// sumOf returns the sum that a gate must have for a table of buyers.
func sumOf(t testing.TB, table map[string]string) (sum int64) {
	for _, list := range table {
		for order := range strings.SplitSeq(list, ",") {
			sum += env.Must(strconv.ParseInt(order, 10, 64))(t) % domain.LevelDigits
		}
	}
	return sum
}

func reserveApart(t testing.TB, g *Gate, as ...domain.Admission) {
	t.Helper()
	for _, a := range as {
		require.Equal(t, []error{nil}, reserve(t, g, a))
	}
}

// entries returns a voucher's entries in the stream, oldest first.
func entries(t testing.TB, g *Gate, voucherID int64) []domain.StreamEntry {
	t.Helper()
	var all []domain.StreamEntry
	for _, k := range segmentKeys(t, g, voucherID) {
		stream := k.shard.Stream()
		found := env.Must(g.cfg.Redis.XRange(t.Context(), stream, "-", "+").Result())(t)
		for _, e := range found {
			p := env.Must(g.Parse(stream, e.ID, e.Values))(t)
			if p.Admissions[0].VoucherID == voucherID {
				all = append(all, p)
			}
		}
	}
	return all
}

// queue is entries with all admissions marked as committed, and without their generations.
func queue(t testing.TB, g *Gate, voucherID int64) []domain.StreamEntry {
	t.Helper()
	all := entries(t, g, voucherID)
	for n := range all {
		all[n].Ends = make([]domain.End, len(all[n].Admissions))
		for i := range all[n].Admissions {
			all[n].Admissions[i].Generation = 0
		}
	}
	return all
}

func queued(t testing.TB, g *Gate, voucherID int64) []domain.Admission {
	t.Helper()
	var all []domain.Admission
	for _, p := range queue(t, g, voucherID) {
		all = append(all, p.Admissions...)
	}
	return all
}

// settle settles an entry with the given ends, or with those that it has.
func settle(t testing.TB, g *Gate, p domain.StreamEntry, ends ...domain.End) {
	t.Helper()
	if ends != nil {
		p.Ends = ends
	}
	require.NoError(t, g.Settle(t.Context(), []domain.StreamEntry{p}))
}

func segmentKeys(t testing.TB, g *Gate, voucherID int64) []gateKeys {
	t.Helper()
	return env.Must(g.segments(t.Context(), voucherID))(t)
}

// requireTickets compares the queued tickets of a voucher's shards with the streams: they must have the same rows.
func requireTickets(t testing.TB, g *Gate, voucherID int64) {
	t.Helper()
	for _, k := range segmentKeys(t, g, voucherID) {
		want := []string{}
		for _, e := range g.cfg.Redis.XRange(t.Context(), k.shard.Stream(), "-", "+").Val() {
			rows, _ := e.Values["rows"].(string)
			want = append(want, strings.Split(rows, rowSeparator)...)
		}
		got := []string{}
		tickets := env.Must(g.cfg.Redis.HGetAll(t.Context(), k.shard.Queued()).Result())(t)
		for user, rows := range tickets {
			for row := range strings.SplitSeq(rows, rowSeparator) {
				require.Equal(t, user, strings.Fields(row)[1])
				got = append(got, row)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got)
	}
}

// buyers returns a voucher's table of buyers, each of whom must be in the home segment only.
func buyers(t testing.TB, g *Gate, voucherID int64) map[string]string {
	t.Helper()
	all, segments := map[string]string{}, segmentKeys(t, g, voucherID)
	for i, k := range segments {
		m := env.Must(g.cfg.Redis.HGetAll(t.Context(), k.buyers).Result())(t)
		for user, orders := range m {
			id := env.Must(strconv.ParseInt(user, 10, 64))(t)
			require.Equal(t, i, home(id, len(segments)), "the home of user %d", id)
			all[user] = orders
		}
	}
	return all
}

func requireKeys(t testing.TB, rdb env.RedisClient, want ...string) {
	t.Helper()
	require.ElementsMatch(t, want, env.Must(rdb.Keys(t.Context(), "*").Result())(t))
}

func sortedKeys[K ~int64, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
