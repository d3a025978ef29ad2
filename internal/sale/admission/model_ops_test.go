package admission

import (
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func (m *model) reserve(v int64) {
	as := make([]domain.Admission, 1+m.rnd.IntN(4))
	if len(segmentKeys(m.t, m.g, v)) > 1 {
		as = as[:1] // several segments decide at the same time, in any order
	}
	for i := range as {
		m.nextID++
		as[i] = domain.Admission{
			OrderID: m.nextID, UserID: m.user(), VoucherID: v, Amount: m.rnd.Int64N(1000),
			Currency: []string{"CNY", "EUR"}[m.rnd.IntN(2)], Limit: 1 + m.rnd.IntN(2), At: noon, ReplyTo: "here",
		}
		if len(m.past) > 0 && m.rnd.IntN(6) == 0 { // a repeated call, as after a lost reply
			if repeated := m.past[m.rnd.IntN(len(m.past))]; repeated.VoucherID == v && !m.everSettled(repeated.OrderID) {
				as[i] = repeated
			}
		}
	}
	gate := m.gates[v]
	m.payDebts(v)
	results, err := m.g.Reserve(m.t.Context(), v, onSale(), as)
	if gate == nil {
		require.ErrorIs(m.t, errors.Join(append(results, err)...), domain.ErrGateCold)
		return
	}
	require.NoError(m.t, err)
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
		again, err := m.g.lend(m.t.Context(), v, segments, nil)
		require.NoError(m.t, err)
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

// pick removes a few random entries from m.queue.
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
			m.endOne(gate, a, p.Ends[i])
		}
	}
	require.NoError(m.t, m.g.Settle(m.t.Context(), done))
	m.requireRetried(done)
	if m.rnd.IntN(3) == 0 {
		require.NoError(m.t, m.g.Settle(m.t.Context(), done))
	}
	m.readQueue()
}

func (m *model) endOne(gate *modelGate, a domain.Admission, end domain.End) {
	switch {
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
	late := domain.StreamEntry{Entry: "1-1", Admissions: []domain.Admission{a}, Ends: []domain.End{ends[m.rnd.IntN(4)]}}
	require.NoError(m.t, m.g.Settle(m.t.Context(), []domain.StreamEntry{late}))
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
	l, err := m.g.Level(m.t.Context(), v)
	require.NoError(m.t, err)
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
	letters, err := m.g.DeadLetters(m.t.Context(), "", 500)
	require.NoError(m.t, err)
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
	all, err := m.g.readSegments(m.t.Context(), v, segments)
	require.NoError(m.t, err)
	from, to := all[m.rnd.IntN(len(all))], all[m.rnd.IntN(len(all))]
	if from.keys.shard == to.keys.shard {
		return
	}
	total, err := m.g.run(m.t.Context(), lendScript, from.keys.list(from.keys.loans), from.epoch, int(to.keys.shard), 1+m.rnd.IntN(3)).Int64()
	require.NoError(m.t, err)
	left, err := m.rdb.Get(m.t.Context(), from.keys.stock).Int64()
	require.NoError(m.t, err)
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
	_, err := m.g.Level(m.t.Context(), v)
	require.ErrorIs(m.t, err, domain.ErrGateCold)
	require.NoError(m.t, m.g.Load(m.t.Context(), v, m.db))
	m.loaded(v)
}
