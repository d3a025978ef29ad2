package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// model is a model of the gate in Go. It and the real gate go through the same random operations.
type model struct {
	t   testing.TB
	rnd *rand.Rand
	rdb env.RedisClient
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

var modelSegments = map[int64]int{voucher: 4, stranger: 16}

// A gate of several segments makes the same decisions, whether a segment is empty, lost or waits for units that another
// one has lent.
func TestGateOfSegmentsMatchesModel(t *testing.T) { testModel(t, modelSegments, 150, 500) }

func testModel(t *testing.T, segments map[int64]int, steps, fullSteps int) {
	env.NoRace(t, "it has one goroutine")
	steps = env.ByLevel(steps, fullSteps)
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		seed := rand.Uint64()
		if text := os.Getenv("SECKILL_MODEL_SEED"); text != "" { // to repeat a failure
			seed = env.Must(strconv.ParseUint(text, 10, 64))(t)
		}
		t.Logf("seed %d", seed)
		runModel(t, rdb, seed, steps, segments)
	})
}

func runModel(t testing.TB, rdb env.RedisClient, seed uint64, steps int, segments map[int64]int) {
	m := newModel(t, rdb, seed, segments)
	for step := range steps {
		m.check(fmt.Sprintf("seed %d, step %d: %s", seed, step, m.step()))
	}
}

func newModel(t testing.TB, rdb env.RedisClient, seed uint64, segments map[int64]int) *model {
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
			table[strconv.FormatInt(user, 10)] = strings.Trim(strings.ReplaceAll(fmt.Sprint(orders), " ", ","), "[]")
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
		for _, of := range []int64{0, ticket.VoucherID} {
			one, err := m.g.Ticket(m.t.Context(), user, ticket.OrderID, of)
			require.NoError(m.t, err, after)
			require.Equal(m.t, ticket, one, after)
		}
	}
	want := maps.Clone(m.tickets[user])
	if want == nil {
		want = map[int64]string{}
	}
	require.Equal(m.t, want, failed, after)
	if _, err := m.g.Ticket(m.t.Context(), user, 1, 0); !errors.Is(err, domain.ErrNotFound) {
		require.Fail(m.t, "an unknown order has a ticket", after)
	}
}

func (m *model) reserve(v int64) {
	as := make([]domain.Admission, 1+m.rnd.IntN(4))
	if len(segmentKeys(m.t, m.g, v)) > 1 {
		as = as[:1] // several segments decide at the same time, in any order
	}
	for i := range as {
		m.nextID++
		as[i] = domain.Admission{
			OrderID: m.nextID, UserID: m.user(), VoucherID: v, Amount: m.rnd.Int64N(1000),
			Currency: []string{"CNY", "EUR"}[m.rnd.IntN(2)], Limit: 1 + m.rnd.IntN(2), At: noon,
		}
		if len(m.past) > 0 && m.rnd.IntN(6) == 0 { // a repeated call, as after a lost reply
			if repeated := m.past[m.rnd.IntN(len(m.past))]; repeated.VoucherID == v && !m.everSettled(repeated.OrderID) {
				as[i] = repeated
			}
		}
	}
	gate := m.gates[v]
	m.payDebts(v)
	results := m.g.Reserve(m.t.Context(), v, onSale(), as)
	if gate == nil {
		require.ErrorIs(m.t, errors.Join(results...), domain.ErrGateCold)
		return
	}
	for i, a := range as {
		require.Equal(m.t, gate.decide(a, m), results[i], "row %d: %+v", i, a)
	}
	m.past = append(m.past, as...)
	m.readQueue()
}

// payDebts makes the units that returned to segments pay for those with a negative stock, as the next buyer of an empty
// segment does. Until then a buyer in the segment of such a unit is admitted although the gate as a whole has none.
func (m *model) payDebts(v int64) {
	segments := segmentKeys(m.t, m.g, v)
	if gate := m.gates[v]; gate == nil || gate.stock > 0 || len(segments) == 1 {
		return
	}
	for range 100 {
		again := env.Must(m.g.lend(m.t.Context(), v, segments, nil))(m.t)
		if !again {
			return
		}
	}
	require.Fail(m.t, "the segments lend and borrow without end")
}

// everSettled reports whether an order has been settled. Calls for it are not repeated.
func (m *model) everSettled(order int64) bool {
	_, committed := m.db.orders[order]
	_, dead := m.letters[order]
	failed := false
	for _, tickets := range m.tickets {
		failed = failed || tickets[order] != ""
	}
	return committed || dead || failed
}

// decide models reserve.lua for one row.
func (gate *modelGate) decide(a domain.Admission, m *model) error {
	held := gate.buyers[a.UserID]
	switch {
	case slices.Contains(held, a.OrderID):
		return nil
	case len(held) >= a.Limit:
		return &domain.DuplicateOrderError{OrderID: held[len(held)-1]}
	case gate.stock <= 0:
		return domain.ErrSoldOut
	}
	gate.take(a)
	m.ticket(a, "")
	return nil
}

func (gate *modelGate) take(a domain.Admission) {
	gate.stock--
	gate.buyers[a.UserID] = append(gate.buyers[a.UserID], a.OrderID)
	gate.changed = true
}

// release models release_order in common.lua. The receiver is nil for a cold gate.
func (gate *modelGate) release(user, order int64) {
	if gate == nil {
		return
	}
	held := gate.buyers[user]
	i := slices.Index(held, order)
	if i < 0 {
		return
	}
	gate.buyers[user] = slices.Delete(slices.Clone(held), i, i+1)
	if len(gate.buyers[user]) == 0 {
		delete(gate.buyers, user)
	}
	gate.stock++
	gate.changed = true
}

func (m *model) ticket(a domain.Admission, failed string) {
	if m.tickets[a.UserID] == nil {
		m.tickets[a.UserID] = map[int64]string{}
	}
	m.tickets[a.UserID][a.OrderID] = failed
}

// readQueue updates m.queue from the stream, whose entry ids the model cannot predict. check compares its content.
func (m *model) readQueue() {
	m.queue = nil
	for _, v := range modelVouchers {
		m.queue = append(m.queue, queue(m.t, m.g, v)...)
	}
}

func (m *model) pick() []domain.StreamEntry {
	m.rnd.Shuffle(len(m.queue), func(i, j int) { m.queue[i], m.queue[j] = m.queue[j], m.queue[i] })
	n := min(len(m.queue), 1+m.rnd.IntN(4))
	picked := slices.Clone(m.queue[:n])
	m.queue = slices.Clone(m.queue[n:])
	return picked
}

// commit models a worker that dies after the transaction and before it settles.
func (m *model) commit(int64) {
	picked := m.pick()
	for _, p := range picked {
		for _, a := range p.Admissions {
			m.db.commit(a)
		}
	}
	m.queue = append(m.queue, picked...)
}

func (m *model) settle(int64) {
	done := m.pick()
	for _, p := range done {
		for i, a := range p.Admissions {
			switch m.rnd.IntN(8) {
			case 0:
				p.Ends[i].Again = true
			case 1, 2:
				p.Ends[i].Dead = "poison"
			default:
				p.Ends[i].Failed = m.db.commit(a)
			}
		}
	}
	m.end(done)
}

// end settles entries in the model and, once or twice, in Redis.
func (m *model) end(done []domain.StreamEntry) {
	for n := range done {
		p := &done[n]
		p.Tries++
		gate := m.gates[p.Admissions[0].VoucherID]
		if gate != nil {
			gate.changed = true
		}
		for i, a := range p.Admissions {
			switch end := p.Ends[i]; {
			case end.Again: // it keeps its ticket and unit
			case end.Dead != "":
				gate.release(a.UserID, a.OrderID)
				m.ticket(a, "internal")
				m.letters[a.OrderID] = a
			case end.Failed != "":
				gate.release(a.UserID, a.OrderID)
				m.ticket(a, end.Failed)
			default:
				delete(m.tickets[a.UserID], a.OrderID)
			}
		}
	}
	require.NoError(m.t, m.g.Settle(m.t.Context(), done))
	m.requireRetried(done)
	if m.rnd.IntN(3) == 0 {
		require.NoError(m.t, m.g.Settle(m.t.Context(), done))
	}
	m.readQueue()
}

// requireRetried checks that each retried admission is alone in its entry, which has the number of tries.
func (m *model) requireRetried(done []domain.StreamEntry) {
	want, got := map[int64]int64{}, map[int64]int64{}
	for _, p := range done {
		for i, a := range p.Admissions {
			if p.Ends[i].Again {
				want[a.OrderID] = p.Tries
			}
		}
	}
	for _, v := range modelVouchers {
		for _, p := range queue(m.t, m.g, v) {
			if _, retried := want[p.Admissions[0].OrderID]; retried && len(p.Admissions) == 1 {
				got[p.Admissions[0].OrderID] = p.Tries
			}
		}
	}
	require.Equal(m.t, want, got)
}

// settleAgain models a late worker: it settles an entry that is not in the stream any more.
func (m *model) settleAgain(int64) {
	if len(m.past) == 0 {
		return
	}
	a := m.past[m.rnd.IntN(len(m.past))]
	ends := []domain.End{{}, {Failed: "sold_out"}, {Dead: "poison"}, {Again: true}}
	require.NoError(m.t, m.g.Settle(m.t.Context(), []domain.StreamEntry{{
		Stream: shardOf(a.VoucherID).Stream(), Entry: "1-1", Admissions: []domain.Admission{a}, Ends: []domain.End{ends[m.rnd.IntN(4)]},
	}}))
}

// cut deletes entries of a voucher, and loads its gate again, which removes their tickets.
func (m *model) cut(v int64) {
	var rest []domain.StreamEntry
	for _, p := range m.queue {
		if p.Admissions[0].VoucherID != v || m.rnd.IntN(2) == 0 {
			rest = append(rest, p)
			continue
		}
		require.NoError(m.t, m.rdb.XDel(m.t.Context(), p.Stream, p.Entry).Err())
		for _, a := range p.Admissions {
			delete(m.tickets[a.UserID], a.OrderID)
		}
	}
	m.queue = rest
	m.unload(v)
	m.load(v)
}

func (m *model) cancel(v int64) {
	for _, id := range sortedKeys(m.db.orders) {
		o := m.db.orders[id]
		if o.voucher != v || !o.active || m.rnd.IntN(2) == 0 {
			continue
		}
		m.db.cancel(id)
		m.gates[v].release(o.user, id)
		for range 1 + m.rnd.IntN(2) {
			require.NoError(m.t, m.g.Release(m.t.Context(), v, domain.Holder{OrderID: id, UserID: o.user}))
		}
		return
	}
}

func (m *model) releaseUnknown(v int64) {
	require.NoError(m.t, m.g.Release(m.t.Context(), v, domain.Holder{OrderID: 12345, UserID: m.user()}))
}

func (m *model) load(v int64) {
	require.NoError(m.t, m.g.Load(m.t.Context(), v, m.db))
	if m.gates[v] == nil {
		m.loaded(v)
	}
}

// loaded computes the model of a gate from the database and the stream.
func (m *model) loaded(v int64) {
	gate := &modelGate{stock: m.db.stock[v], buyers: map[int64][]int64{}, changed: true}
	for id, o := range m.db.orders {
		if o.voucher == v && o.active {
			gate.buyers[o.user] = append(gate.buyers[o.user], id)
		}
	}
	for _, p := range m.queue {
		for _, a := range p.Admissions {
			if _, exists := m.db.orders[a.OrderID]; a.VoucherID == v && !exists {
				gate.take(a)
			}
		}
	}
	for _, orders := range gate.buyers {
		slices.Sort(orders)
	}
	m.gates[v] = gate
}

// rebuild damages a loaded gate and repairs it by Rebuild.
func (m *model) rebuild(v int64) {
	if m.gates[v] == nil {
		return
	}
	segments := segmentKeys(m.t, m.g, v)
	k := segments[m.rnd.IntN(len(segments))]
	damages := []func() error{
		func() error { return m.rdb.IncrBy(m.t.Context(), k.stock, m.rnd.Int64N(9)-4).Err() },
		func() error { return m.rdb.HIncrBy(m.t.Context(), k.meta, "held", m.rnd.Int64N(9)-4).Err() },
		func() error { return m.rdb.HSet(m.t.Context(), k.buyers, 1+m.rnd.IntN(9), 4711).Err() },
		func() error { return m.rdb.HIncrBy(m.t.Context(), k.loans, "to:3", m.rnd.Int64N(9)-4).Err() },
		func() error { return m.rdb.Del(m.t.Context(), k.buyers).Err() },
	}
	l := env.Must(m.g.Level(m.t.Context(), v))(m.t)
	require.NoError(m.t, damages[m.rnd.IntN(len(damages))]())
	require.NoError(m.t, m.g.Rebuild(m.t.Context(), v, l.Built, m.db))
	m.loaded(v)
}

func (m *model) unload(v int64) {
	require.NoError(m.t, m.g.Unload(m.t.Context(), v))
	m.gates[v] = nil
}

func (m *model) addStock(v int64) {
	delta := m.rnd.Int64N(7) - 3
	if m.db.stock[v]+delta < 0 || m.db.stock[v]+delta > 10 {
		return
	}
	m.db.stock[v] += delta
	err := m.g.AddStock(m.t.Context(), v, delta)
	gate := m.gates[v]
	switch {
	case gate == nil:
		require.NoError(m.t, err)
	case delta < 0 && gate.stock+delta < 0:
		// Admissions in flight hold units that the database does not have any more.
		require.ErrorIs(m.t, err, domain.ErrInvalidState)
		m.unload(v)
		m.load(v)
	default:
		require.NoError(m.t, err)
		gate.stock += delta
		gate.changed = true
	}
}

// anyDeadLetter returns the id of a random dead letter and its admission.
func (m *model) anyDeadLetter() (string, domain.Admission) {
	letters := env.Must(m.g.DeadLetters(m.t.Context(), "", 500))(m.t)
	require.Len(m.t, letters, len(m.letters))
	if len(letters) == 0 {
		return "", domain.Admission{}
	}
	l := letters[m.rnd.IntN(len(letters))]
	require.Equal(m.t, m.letters[l.Admission.OrderID], *l.Admission)
	return l.ID, *l.Admission
}

func (m *model) replay(int64) {
	id, a := m.anyDeadLetter()
	if id == "" {
		return
	}
	m.payDebts(a.VoucherID)
	_, err := m.g.Replay(m.t.Context(), id)
	gate := m.gates[a.VoucherID]
	if gate == nil {
		require.ErrorIs(m.t, err, domain.ErrGateCold)
		return
	}
	if want := gate.decide(a, m); want != nil {
		require.Equal(m.t, want, err)
		return
	}
	require.NoError(m.t, err)
	m.ticket(a, "")
	gate.changed = true // even if the order was committed since and takes no unit
	delete(m.letters, a.OrderID)
	m.readQueue()
}

func (m *model) discard(int64) {
	if id, a := m.anyDeadLetter(); id != "" {
		require.NoError(m.t, m.g.Discard(m.t.Context(), id))
		require.ErrorIs(m.t, m.g.Discard(m.t.Context(), id), domain.ErrNotFound)
		delete(m.letters, a.OrderID)
	}
}

func (m *model) flush(int64) {
	require.NoError(m.t, m.rdb.FlushDB(m.t.Context()).Err())
	m.queue, m.past = nil, nil
	clear(m.gates)
	clear(m.letters)
	clear(m.tickets)
}

// lend models a process that dies after it has lent units of one segment to another: they are on their way, and count
// as free.
func (m *model) lend(v int64) {
	segments := segmentKeys(m.t, m.g, v)
	if len(segments) == 1 || m.gates[v] == nil {
		return
	}
	all := env.Must(m.g.readSegments(m.t.Context(), v, segments))(m.t)
	from, to := all[m.rnd.IntN(len(all))], all[m.rnd.IntN(len(all))]
	if from.keys.shard == to.keys.shard {
		return
	}
	total := env.Must(m.g.run(m.t.Context(), lendScript, from.keys.list(from.keys.loans), from.epoch, int(to.keys.shard), 1+m.rnd.IntN(3)).Int64())(m.t)
	left := env.Must(m.rdb.Get(m.t.Context(), from.keys.stock).Int64())(m.t)
	require.GreaterOrEqual(m.t, left, min(from.level.Stock, 0), "units left in the segment that has lent some")
	m.loans = append(m.loans, modelLoan{from, to, total})
	for range m.rnd.IntN(3) { // lost, or repeated, or so late that the gate was loaded meanwhile
		l := m.loans[max(0, len(m.loans)-1-m.rnd.IntN(6))]
		require.NoError(m.t, m.g.credit(m.t.Context(), &l.to, &l.from, l.total-m.rnd.Int64N(2)))
	}
}

// loseSegment deletes the keys of one segment, as the failover of a master to an empty replica. The load that follows
// replaces the other segments, too.
func (m *model) loseSegment(v int64) {
	segments := segmentKeys(m.t, m.g, v)
	if m.gates[v] == nil {
		return
	}
	k := segments[m.rnd.IntN(len(segments))]
	require.NoError(m.t, m.rdb.Del(m.t.Context(), k.stock, k.buyers, k.meta, k.loading, k.notes, k.loans).Err())
	env.Fails(m.g.Level(m.t.Context(), v))(m.t, domain.ErrGateCold)
	require.NoError(m.t, m.g.Load(m.t.Context(), v, m.db))
	m.loaded(v)
}

type mutant struct {
	fault      string
	script     **redis.Script
	source     string // the file in the folder lua
	what, with string // replaced text, there or else in common.lua, and its replacement
	find       func(t testing.TB, rdb env.RedisClient)
}

// How a mutant is found: by the models, which have one goroutine, by changes during loads, or after a loss of data.
func byModel(t testing.TB, rdb env.RedisClient) { runModel(t, rdb, rand.Uint64(), 500, nil) }
func bySegments(t testing.TB, rdb env.RedisClient) {
	runModel(t, rdb, rand.Uint64(), 500, modelSegments)
}
func byStorm(t testing.TB, rdb env.RedisClient) { runStorm(t, rdb, 20, 1) }
func byLoss(t testing.TB, rdb env.RedisClient) {
	for _, loss := range losses {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		loss(t, rdb)
	}
}

var mutants = []mutant{
	{"a buyer gets one order too many", &reserveScript, "reserve", `>= tonumber(limit)`, `> tonumber(limit)`, byModel},
	{"one unit too many is admitted", &reserveScript, "reserve", `#rows >= units`, `#rows > units`, byModel},
	{"a purchase without an order gets a unit", &reserveScript, "reserve", `order == '0' or`, ``, byLoss},
	{"a repeated call admits again", &reserveScript, "reserve", `if not has_order(list, order) then`, `if true then`, byModel},
	{"a duplicate names the oldest order", &reserveScript, "reserve", `'[^,]*$'`, `'^[^,]*'`, byModel},
	{"a call takes one unit for all", &reserveScript, "reserve", `'DECRBY', STOCK, #rows`, `'DECRBY', STOCK, 1`, byModel},
	{"a purchase does not change the sum", &reserveScript, "reserve", `redis.call('HINCRBY', META, 'sum', sum)`, ``, byModel},
	{"a purchase does not change the version", &reserveScript, "reserve", `increment_version()`, ``, byModel},
	{"purchases during a load are lost", &reserveScript, "reserve", `if loading then`, `if false then`, byStorm},

	{"an entry is settled twice", &settleScript, "settle", `redis.call('XDEL', STREAM, entry) == 1`, `redis.call('XDEL', STREAM, entry) >= 0`, byModel},
	{"a retried order forgets its tries", &settleScript, "settle", `add_entry(row, 'tries', tries)`, `add_entry(row, 'tries', 0)`, byModel},
	{"a rejected order keeps its unit", &settleScript, "settle", `release_order(user, order)`, ``, byModel},
	{"settled tickets stay", &settleScript, "settle", `remove_tickets(users, prefixes)`, ``, byModel},
	{"entries are counted instead of orders", &settleScript, "settle", `'queued', -removed_rows`, `'queued', -removed_entries`, byModel},
	{"a dead order has no letter", &settleScript, "settle", `redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', reason, 'dead_tries', tries, 'row', row)`, ``, byModel},
	{"settlements during a load are lost", &settleScript, "settle", `if loading then`, `if false then`, byStorm},

	{"each release returns a unit", &releaseScript, "release", `if not list or not has_order(list, order) then`, `if not list then`, byModel},
	{"a release frees all orders of a buyer", &releaseScript, "release", `remove_order(list, order))`, `'')`, byModel},
	{"releases during a load are lost", &releaseScript, "release", `if loading then add_notes('- '`, `if false then add_notes('- '`, byStorm},

	{"more units are removed than are free", &addStockScript, "add_stock", `return 'short'`, `delta = 0`, byModel},
	{"a load may miss a change of the stock", &addStockScript, "add_stock", `if loading then abort_load() end`, ``, byLoss},

	{"the lender keeps its units", &lendScript, "lend", `redis.call('DECRBY', STOCK, units)`, ``, bySegments},
	{"more units are lent than are free", &lendScript, "lend", `math.min(tonumber(redis.call('GET', STOCK)), tonumber(most))`, `tonumber(most)`, bySegments},
	{"a segment knows the last loan only", &lendScript, "lend", `'HINCRBY', LOANS`, `'HSET', LOANS`, bySegments},
	{"a repeated loan counts twice", &borrowScript, "borrow", `redis.call('HGET', LOANS, 'from:' .. other) or 0`, `0`, bySegments},
	{"a loan outlives a load", &borrowScript, "borrow", `or redis.call('HGET', LOANS, 'epoch') ~= epoch`, ``, bySegments},

	{"a replay takes no unit", &replayScript, "replay", `redis.call('DECR', STOCK)`, ``, byModel},
	{"a replay ignores the limit", &replayScript, "replay", `>= tonumber(limit)`, `>= 10`, byModel},
	{"a replayed letter stays", &replayScript, "replay", `redis.call('XDEL', DEAD, letter)`, ``, byModel},

	{"changes before the mark count again", &loadMarkScript, "load_mark", `redis.call('UNLINK', NOTES)`, ``, byStorm},
	{"changes in the snapshot count again", &loadFinishScript, "load_finish", `if has_order(list, order) == (n > 0) then return end`, ``, byStorm},
	{"a stale load is put in place", &loadFinishScript, "load_finish", `redis.call('GET', LOADING) ~= token or`, ``, byLoss},
	{"a load keeps loans that it has counted", &loadFinishScript, "load_finish", `redis.call('UNLINK', LOANS)`, ``, bySegments},
	{"a load of a lost gate does not raise the generation", &loadTakeScript, "load_take", `whole and 'taken' or 'fence'`, `'taken'`, byLoss},
	{"a load trusts a generation that the database has lost", &loadTakeScript, "load_take", `<= tonumber(ARGV[4])`, `>= 0`, byLoss},
	{"a gate forgets its server", &loadTakeScript, "load_take", `known and history == server_history()`, `known`, byLoss},
	{"a gate without a server is complete", &reserveScript, "reserve", `has_all_admissions() and 'sold_out' or 'unsure'`, `'sold_out'`, byLoss},
	{"a load keeps the old generation", &loadFinishScript, "load_finish", `if generation ~= '' then`, `if false then`, byLoss},
	{"a load ends on another server", &loadFinishScript, "load_finish", `server_history() ~= history`, `false`, byLoss},
	{"entries have no generation", &reserveScript, "reserve", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"a retried order has no generation", &settleScript, "settle", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"a replayed order has no generation", &replayScript, "replay", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"any entry with the id is confirmed", &confirmScript, "confirm", `prefix, 1, true) == 1`, `prefix, 1, true) ~= 0`, byLoss},
	{"a lost entry is confirmed", &confirmScript, "confirm", `if not found then return false end`, `if not found then return 1 end`, byLoss},

	{"tickets of lost entries stay", &loadTicketsScript, "load_tickets", `remove_tickets(users, rows)`, ``, byModel},
}

// plant replaces a script by its mutant until the test ends.
func (m mutant) plant(t *testing.T) {
	t.Helper()
	common, own := lua("common"), strings.ReplaceAll(lua(m.source), m.what, m.with)
	if own == lua(m.source) {
		common = strings.ReplaceAll(lua("common"), m.what, m.with)
	}
	require.NotEqual(t, lua("common")+lua(m.source), common+own, "the script has changed; update the mutant")
	sound := *m.script
	*m.script = redis.NewScript(common + own)
	t.Cleanup(func() { *m.script = sound })
}

func TestMutantsAreCaught(t *testing.T) {
	env.FullNoRace(t, "it shows what the models find")
	rdb := servers.NewRedisClient(t, env.StartMiniredis(t).Addr(), 0)
	for _, m := range mutants {
		t.Run(m.fault, func(t *testing.T) {
			m.plant(t)
			require.NoError(t, (*m.script).Load(t.Context(), rdb).Err(), "the mutant is no script")
			for run := 1; ; run++ {
				require.NoError(t, rdb.FlushDB(t.Context()).Err())
				if env.Finds(t, func(t testing.TB) { m.find(t, rdb) }) {
					t.Logf("caught in run %d", run)
					return
				}
				require.Less(t, run, 60, "nothing finds the fault")
			}
		})
	}
}

// storm is a gate and its database under concurrent changes.
type storm struct {
	g     *Gate
	db    *database
	store domain.GateStore // db with slow snapshots
}

func newStorm(rdb env.RedisClient, segments int) *storm {
	s := &storm{g: segmented(rdb, map[int64]int{voucher: segments}), db: newDatabase()}
	pause := func() { time.Sleep(rand.N(time.Millisecond)) }
	s.store = reads{s.db, func(ctx context.Context, v int64, inFlight []int64) (domain.GateState, error) {
		pause()
		defer pause()
		return s.db.GateState(ctx, v, inFlight)
	}}
	return s
}

// buy reserves two orders of random users. It loads the gate whenever it is cold.
func (s *storm) buy(ctx context.Context, order int64) error {
	as := []domain.Admission{admission(order, 1+rand.Int64N(50)), admission(order+1, 1+rand.Int64N(50))}
	for {
		var cold []domain.Admission // a gate of several segments can be cold for some buyers only
		for i, result := range s.g.Reserve(ctx, voucher, onSale(), as) {
			if errors.Is(result, domain.ErrUnavailable) && !errors.Is(result, domain.ErrGateLacking) {
				return result
			}
			if errors.Is(result, domain.ErrGateCold) {
				cold = append(cold, as[i])
			}
		}
		if as = cold; len(as) == 0 {
			return nil
		}
		if err := s.g.Load(ctx, voucher, s.store); err != nil {
			return err
		}
	}
}

// work commits the first entries of each stream and settles them. At random it retries admissions, leaves entries
// unsettled, and settles twice.
func (s *storm) work(ctx context.Context) error {
	segments, err := s.g.segments(ctx, voucher)
	if err != nil {
		return err
	}
	for _, k := range segments {
		if err := s.workOn(ctx, k.shard.Stream()); err != nil {
			return err
		}
	}
	return nil
}

func (s *storm) workOn(ctx context.Context, stream string) error {
	entries, err := s.g.cfg.Redis.XRangeN(ctx, stream, "-", "+", 20).Result()
	if err != nil {
		return err
	}
	var done []domain.StreamEntry
	for _, e := range entries {
		p, err := s.g.Parse(stream, e.ID, e.Values)
		if err != nil {
			return err
		}
		committed, err := s.commit(ctx, &p)
		if err != nil {
			return err
		}
		if committed && rand.IntN(5) > 0 {
			done = append(done, p)
		}
	}
	for range 1 + rand.IntN(2) {
		if err := s.g.Settle(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// commit commits the admissions of an entry, if it is of the sale's generation or the gate confirms it.
func (s *storm) commit(ctx context.Context, p *domain.StreamEntry) (bool, error) {
	p.Tries++
	p.Ends = make([]domain.End, len(p.Admissions))
	for range 2 {
		s.db.mu.Lock()
		current := p.Admissions[0].Generation == s.db.generations[voucher]
		for i, a := range p.Admissions {
			if p.Ends[i].Again = p.Tries < 3 && rand.IntN(8) == 0; current && !p.Ends[i].Again {
				p.Ends[i].Failed = s.db.commit(a)
			}
		}
		s.db.mu.Unlock()
		if current {
			return true, nil
		}

		generation, err := s.g.Confirm(ctx, *p)
		if errors.Is(err, domain.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for i := range p.Admissions {
			p.Admissions[i].Generation = generation
		}
	}
	return false, nil
}

// flush empties Redis. No gate is loaded within the same millisecond, so that no new entry gets the id of a lost one.
func (s *storm) flush(ctx context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()

	rdb := s.g.cfg.Redis
	err := rdb.FlushDB(ctx).Err()
	for begin := rdb.Time(ctx).Val(); err == nil && rdb.Time(ctx).Val().Sub(begin) < 2*time.Millisecond; {
		err = ctx.Err()
	}
	return err
}

func (s *storm) cancel(ctx context.Context) error {
	s.db.mu.Lock()
	var order, user int64
	for id, o := range s.db.orders {
		if o.active {
			order, user = id, o.user
			break
		}
	}
	s.db.cancel(order)
	s.db.mu.Unlock()
	return s.g.Release(ctx, voucher, domain.Holder{OrderID: order, UserID: user})
}

func (s *storm) rebuild(ctx context.Context) error {
	level, err := s.g.Level(ctx, voucher)
	if err != nil {
		return nil //nolint:nilerr // the gate is cold
	}
	return s.g.Rebuild(ctx, voucher, level.Built, s.store)
}

// addStock changes the stock. No load reads the database between the two steps of the change.
func (s *storm) addStock(ctx context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	delta := rand.Int64N(7) - 3
	if s.db.stock[voucher]+delta < 0 || s.db.stock[voucher]+delta > 30 {
		return nil
	}
	err := s.g.AddStock(ctx, voucher, delta)
	if errors.Is(err, domain.ErrInvalidState) {
		return nil
	}
	s.db.stock[voucher] += delta
	return err
}

// Buyers, a worker, cancellations and changes of the stock run concurrently with a load. Afterwards the gate matches the
// database and the stream.
func TestGateIsExactAfterConcurrentChanges(t *testing.T) { testStorm(t, 1, 50, 200) }

func TestGateOfSegmentsIsExactAfterConcurrentChanges(t *testing.T) { testStorm(t, 4, 4, 30) }

func testStorm(t *testing.T, segments, rounds, fullRounds int) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) { runStorm(t, rdb, env.ByLevel(rounds, fullRounds), segments) })
}

func runStorm(t testing.TB, rdb env.RedisClient, rounds, segments int) {
	s := newStorm(rdb, segments)
	s.db.stock[voucher] = 30
	require.NoError(t, s.g.Load(t.Context(), voucher, s.store))
	var orders atomic.Int64
	for round := range rounds {
		group, ctx := errgroup.WithContext(t.Context())
		often := func(n int, do func() error) {
			group.Go(func() error {
				for range n {
					if err := do(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for range 3 {
			often(5, func() error { return s.buy(ctx, orders.Add(2)) })
			often(5, func() error { return s.cancel(ctx) })
		}
		often(3, func() error { return s.work(ctx) })
		often(2, func() error { return s.addStock(ctx) })
		often(1, func() error { return s.rebuild(ctx) })
		if round%3 == 0 {
			often(1, func() error { return s.g.Unload(ctx, voucher) })
		}
		if round%20 == 19 {
			often(1, func() error { return s.flush(ctx) })
		}
		require.NoError(t, group.Wait())
		require.NoError(t, s.g.Load(t.Context(), voucher, s.store))
		requireExact(t, s.g, s.db)
	}
	for len(queue(t, s.g, voucher)) > 0 {
		require.NoError(t, s.work(t.Context()))
	}
	requireExact(t, s.g, s.db)
}
