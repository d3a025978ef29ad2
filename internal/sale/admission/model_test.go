package admission

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// model is a model of the gate in Go. It and the real gate go through the same random operations.
type model struct {
	t   testing.TB
	rnd *rand.Rand
	rdb *redis.Client
	g   *Gate
	db  *database

	gates    map[int64]*modelGate // of the vouchers; nil: cold
	queue    []domain.StreamEntry
	letters  map[int64]domain.Admission // by order id
	tickets  map[int64]map[int64]string // user -> order -> failed
	versions map[int64]int64

	past   []domain.Admission // all that were passed to Reserve
	nextID int64
	loans  []modelLoan
}

// modelLoan is what one segment has lent to another one.
type modelLoan struct {
	from, to segment
	total    int64
}

type modelGate struct {
	stock   int64
	buyers  map[int64][]int64
	changed bool // since the last check
}

var modelVouchers = []int64{voucher, neighbour, stranger}

func TestGateMatchesModel(t *testing.T) { testModel(t, nil, 500, 4000) }

// modelSegments are the numbers of segments in the tests of segments.
var modelSegments = map[int64]int{voucher: 4, stranger: 16}

// A gate of several segments makes the same decisions, whether a segment is empty, lost or waits for units that another
// one has lent.
func TestGateOfSegmentsMatchesModel(t *testing.T) { testModel(t, modelSegments, 150, 500) }

func testModel(t *testing.T, segments map[int64]int, steps, fullSteps int) {
	env.NoRace(t, "it has one goroutine")
	if env.IsFullNoRace() {
		steps = fullSteps
	}
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		seed := rand.Uint64()
		if text := os.Getenv("SECKILL_MODEL_SEED"); text != "" { // to repeat a failure
			var err error
			seed, err = strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
		}
		t.Logf("seed %d", seed)
		runModel(t, rdb, seed, steps, segments)
	})
}

func runModel(t testing.TB, rdb *redis.Client, seed uint64, steps int, segments map[int64]int) {
	m := newModel(t, rdb, seed, segments)
	for step := range steps {
		name := m.step()
		m.check(fmt.Sprintf("seed %d, step %d: %s", seed, step, name))
	}
}

func newModel(t testing.TB, rdb *redis.Client, seed uint64, segments map[int64]int) *model {
	m := &model{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), rdb: rdb, g: segmented(rdb, segments), db: newDatabase(),
		gates: map[int64]*modelGate{}, letters: map[int64]domain.Admission{},
		tickets: map[int64]map[int64]string{}, versions: map[int64]int64{}, nextID: 1 << 60,
	}
	for _, v := range modelVouchers {
		m.db.stock[v] = 5
	}
	return m
}

// user returns one of six users, whose ids differ in what a Lua number cannot hold.
func (m *model) user() int64 { return 1<<53 + m.rnd.Int64N(6) }

// step does one random operation and returns its name.
func (m *model) step() string {
	v := modelVouchers[m.rnd.IntN(len(modelVouchers))]
	ops := []struct {
		name   string
		weight int
		do     func(v int64)
	}{
		{"reserve", 40, m.reserve},
		{"commit", 8, m.commit},
		{"settle", 28, m.settle},
		{"settle again", 5, m.settleAgain},
		{"cancel", 15, m.cancel},
		{"release unknown order", 5, m.releaseUnknown},
		{"load", 15, m.load},
		{"unload", 3, m.unload},
		{"rebuild", 5, m.rebuild},
		{"add stock", 8, m.addStock},
		{"cut the stream", 2, m.cut},
		{"replay", 6, m.replay},
		{"discard", 1, m.discard},
		{"flush", 1, m.flush},
		{"lend", 8, m.lend},
		{"lose a segment", 2, m.loseSegment},
	}
	total := 0
	for _, op := range ops {
		total += op.weight
	}
	n := m.rnd.IntN(total)
	for _, op := range ops {
		if n -= op.weight; n < 0 {
			op.do(v)
			return fmt.Sprintf("%s, voucher %d", op.name, v)
		}
	}
	panic("unreachable")
}

// check compares the level, the queue, the buyers and a user's tickets with the model.
func (m *model) check(after string) {
	backlog := map[string]int64{}
	waiting := map[int64][]domain.Admission{}
	for _, p := range m.queue {
		v := p.Admissions[0].VoucherID
		backlog[p.Stream]++
		waiting[v] = append(waiting[v], p.Admissions...)
	}
	for _, v := range modelVouchers {
		require.ElementsMatch(m.t, waiting[v], queued(m.t, m.g, v), after)
		requireTickets(m.t, m.g, v)
		gate := m.gates[v]
		got, err := m.g.Level(m.t.Context(), v)
		if gate == nil {
			require.ErrorIs(m.t, err, domain.ErrGateCold, after)
			for _, k := range segmentKeys(m.t, m.g, v) {
				require.Zero(m.t, m.rdb.Exists(m.t.Context(), k.stock, k.buyers, k.meta).Val(), after)
			}
			continue
		}
		require.NoError(m.t, err, after)
		m.checkVersion(v, gate, got.Version, after)
		want := Level{Stock: gate.stock, Queued: int64(len(waiting[v])), Version: got.Version, Built: got.Built}
		for _, k := range segmentKeys(m.t, m.g, v) {
			want.Backlog += backlog[k.shard.Stream()]
		}
		table := map[string]string{}
		for user, orders := range gate.buyers {
			want.Held += int64(len(orders))
			table[strconv.FormatInt(user, 10)] = listOf(orders)
		}
		want.Sum, want.Users = sumOf(m.t, table), int64(len(table))
		require.Equal(m.t, want, got, after)
		require.Equal(m.t, table, buyers(m.t, m.g, v), after)
	}
	m.checkTickets(after)
}

// checkVersion checks that the version grows if and only if the gate changed, even after Redis lost all data. It may
// also grow by a loan between segments.
func (m *model) checkVersion(v int64, gate *modelGate, got int64, after string) {
	switch {
	case gate.changed:
		require.Greater(m.t, got, m.versions[v], after)
	case len(segmentKeys(m.t, m.g, v)) > 1:
		require.GreaterOrEqual(m.t, got, m.versions[v], after)
	default:
		require.Equal(m.t, m.versions[v], got, after)
	}
	gate.changed = false
	m.versions[v] = got
}

func (m *model) checkTickets(after string) {
	user := m.user()
	got, err := m.g.Tickets(m.t.Context(), user)
	require.NoError(m.t, err, after)
	failed := map[int64]string{}
	for _, ticket := range got {
		failed[ticket.OrderID] = ticket.Failed
		inLine := ticket.Failed == "" && m.gates[ticket.VoucherID] != nil
		require.Equal(m.t, inLine, ticket.Ahead != nil, after)
		if inLine {
			require.GreaterOrEqual(m.t, *ticket.Ahead, int64(0), after)
			require.Less(m.t, *ticket.Ahead, int64(len(queued(m.t, m.g, ticket.VoucherID))), after)
		}
		one, err := m.g.Ticket(m.t.Context(), user, ticket.OrderID)
		require.NoError(m.t, err, after)
		require.Equal(m.t, ticket, one, after)
	}
	want := maps.Clone(m.tickets[user])
	if want == nil {
		want = map[int64]string{}
	}
	require.Equal(m.t, want, failed, after)
	if _, err := m.g.Ticket(m.t.Context(), user, 1); !errors.Is(err, domain.ErrNotFound) {
		require.Fail(m.t, "an unknown order has a ticket", after)
	}
}
