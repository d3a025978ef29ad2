package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/domain"
)

// standing is the state of a promise.
type standing string

const (
	queued    standing = "queued"
	committed standing = "committed"
	failed    standing = "failed"
	dead      standing = "dead" // dead-lettered
	lost      standing = "lost" // with all other data in Redis
)

// promise is an admission that was confirmed to a buyer, or may have been.
type promise struct {
	domain.Admission
	standing  standing
	poison    bool
	committed bool // the database has confirmed the commit to a worker
	cancelled bool
	// contested means that another worker had the admission in memory when it was settled, and may still commit it.
	contested bool
	// refused means that its buyer was answered sold_out after Redis had lost it.
	refused bool
}

// GoString formats the promise for rapid.
func (p *promise) GoString() string {
	return fmt.Sprintf("order %d of user %d, voucher %d, %s", p.OrderID, p.UserID, p.VoucherID, p.standing)
}

// gateFacts is the model's data about the gate of a voucher.
type gateFacts struct {
	// excused are orders for which the gate may be wrong until it is loaded again.
	excused map[int64]bool
}

// promised records an admission that was confirmed to a buyer.
func (s *simulation) promised(a domain.Admission, poison bool) {
	for _, p := range s.promises {
		if p.OrderID == a.OrderID {
			s.twice[a.OrderID] = true
			s.seen["id repeated"]++
		}
	}
	p := &promise{Admission: a, standing: queued, poison: poison}
	s.promises = append(s.promises, p)
	s.byMoment[a.At.UnixMilli()] = p
}

func (s *simulation) poisonous(a domain.Admission) bool {
	p := s.byMoment[a.At.UnixMilli()]
	return p != nil && p.poison
}

// noteCommitted records that the database confirmed an order to a worker.
func (s *simulation) noteCommitted(a domain.Admission) {
	s.byMoment[a.At.UnixMilli()].committed = true
}

// noteEnd records that a worker is about to settle an admission without an order. It does nothing if the entry was
// settled before.
func (s *simulation) noteEnd(by *simWorker, entryID string, a domain.Admission) {
	p := s.byMoment[a.At.UnixMilli()]
	if len(s.rdb.XRange(s.ctx, s.stream, entryID, entryID).Val()) == 0 {
		s.seen["settled twice"]++
		return
	}
	for _, w := range s.workers {
		p.contested = p.contested || w != by && w.inHand(a)
	}
	if p.committed { // by another worker: the gate releases an order that exists
		s.excuse(p)
	}
}

// excuse permits the gate of a promise to be wrong about its order.
func (s *simulation) excuse(p *promise) {
	s.seen["gate may differ"]++
	s.gates[p.VoucherID].excused[p.OrderID] = true
}

// is reports whether the row is the order that was promised.
func (o dbOrder) is(p *promise) bool {
	return o.user == p.UserID && o.voucher == p.VoucherID && o.moment == p.At.UnixMilli()
}

// snapshot is the state of the database, the stream and the dead letters after a step.
type snapshot struct {
	orders  map[int64]dbOrder
	stocks  map[int64]int64
	queue   []domain.Admission
	entries int
	letters []domain.Admission
}

func (s *simulation) readSnapshot(t *rapid.T) *snapshot {
	now := &snapshot{orders: s.orders(t), stocks: s.stocks(t), letters: s.deadAdmissions(t)}
	for _, p := range s.entries(t) {
		now.queue = append(now.queue, p.Admissions...)
		now.entries++
	}
	return now
}

// check checks what must hold after every step.
func (s *simulation) check(t *rapid.T) {
	now := s.readSnapshot(t)
	s.seen["step"]++
	s.checkLedger(t, now)
	for _, p := range s.promises {
		s.follow(t, p, now)
	}
	s.checkOrdersWerePromised(t, now)
	s.checkTickets(t, now)
	for _, v := range s.vouchers {
		s.checkGate(t, v, now)
	}
}

// checkLedger checks the invariants I1, I2 and I3 if the database has changed.
func (s *simulation) checkLedger(t *rapid.T, now *snapshot) {
	if maps.Equal(now.orders, s.checked.orders) && maps.Equal(now.stocks, s.checked.stocks) {
		return
	}
	s.checked = now
	totals, err := s.store.SaleTotals(s.ctx)
	require.NoError(t, err)
	require.Len(t, totals, len(s.vouchers))
	for _, b := range totals {
		require.Empty(t, b.Check(), "invariants of voucher %d", b.VoucherID)
	}
}

// checkOrdersWerePromised checks that every order has a promise. The primary key ensures that it has only one.
func (s *simulation) checkOrdersWerePromised(t *rapid.T, now *snapshot) {
	for id, o := range now.orders {
		p := s.byMoment[o.moment]
		require.NotNil(t, p, "order %d was never admitted", id)
		require.True(t, p.OrderID == id && o.is(p), "order %d differs from its promise: %+v, %+v", id, o, p)
	}
}

// follow updates the standing of a promise, and checks that the transition is permitted.
func (s *simulation) follow(t *rapid.T, p *promise, now *snapshot) {
	was := p.standing
	p.standing = s.find(t, p, now)
	if p.standing == was {
		return
	}
	s.seen[fmt.Sprintf("%s, %s", was, p.standing)]++
	switch was {
	case committed:
		require.Fail(t, "a committed order was lost", "%+v", p)
	case lost:
		require.Equal(t, committed, p.standing, "only a worker that had the entry in memory can commit %+v", p)
		require.False(t, p.refused, "the buyer of %+v was answered sold_out", p)
	case failed, dead:
		require.Equal(t, committed, p.standing, "%+v was settled", p)
		require.True(t, p.contested, "%+v was settled as %s", p, was)
	}
	if p.standing == committed && was != queued {
		s.excuse(p) // the gate had returned its unit
	}
}

// find determines the standing of a promise from the database, the stream, the dead letters and its ticket.
func (s *simulation) find(t *rapid.T, p *promise, now *snapshot) standing {
	if o, ok := now.orders[p.OrderID]; ok && o.is(p) {
		return committed
	}
	require.False(t, p.committed, "the database had confirmed %+v", p)
	here := func(a domain.Admission) bool { return a.At.Equal(p.At) }
	if slices.ContainsFunc(now.queue, here) {
		return queued
	}
	if slices.ContainsFunc(now.letters, here) {
		return dead
	}
	if p.standing == failed || p.standing == lost {
		return p.standing
	}
	ticket, err := s.back.Ticket(s.ctx, p.UserID, p.OrderID)
	if s.twice[p.OrderID] && (errors.Is(err, domain.ErrNotFound) || ticket.Failed == "") {
		return failed // the ticket belonged to the other order with its id
	}
	require.NoError(t, err, "no trace of %+v", p)
	require.NotEmpty(t, ticket.Failed, "the ticket is queued, and the stream has no entry: %+v", p)
	s.seen["ticket "+ticket.Failed]++
	return failed
}

// checkTickets checks that exactly the admissions in the stream have queued tickets.
func (s *simulation) checkTickets(t *rapid.T, now *snapshot) {
	want := map[int64][]int64{}
	for _, a := range now.queue {
		want[a.UserID] = append(want[a.UserID], a.OrderID)
	}
	tickets, err := s.rdb.HLen(s.ctx, admission.QueuedTickets()[voucher]).Result()
	require.NoError(t, err)
	require.EqualValues(t, len(want), tickets, "users with queued tickets")
	for user, orders := range want {
		all, err := s.back.Tickets(s.ctx, user)
		require.NoError(t, err)
		var queued []int64
		for _, ticket := range all {
			if ticket.Failed == "" {
				queued = append(queued, ticket.OrderID)
			}
		}
		slices.Sort(queued)
		slices.Sort(orders)
		require.Equal(t, slices.Compact(orders), queued, "queued tickets of user %d", user)
	}
}

// checkGate compares the gate of a voucher with the database and the stream.
func (s *simulation) checkGate(t *rapid.T, v simVoucher, now *snapshot) {
	level, err := s.back.Level(s.ctx, v.id)
	facts := s.gates[v.id]
	if errors.Is(err, domain.ErrGateCold) {
		s.seen["gate cold"]++
		clear(facts.excused) // the next load is exact
		return
	}
	require.NoError(t, err)
	got := s.heldInGate(t, v)
	require.EqualValues(t, len(got), level.Held, "voucher %d: held", v.id)
	require.Equal(t, v.units, level.Stock+level.Held, "voucher %d: units in the gate", v.id)
	waiting, want := 0, now.holders(v)
	for _, a := range now.queue {
		if a.VoucherID != v.id {
			continue
		}
		waiting++
		if o, exists := now.orders[a.OrderID]; !exists || o.voucher != v.id {
			want[domain.Holder{OrderID: a.OrderID, UserID: a.UserID}] = true
		}
	}
	require.EqualValues(t, waiting, level.Queued, "voucher %d: queued", v.id)
	require.EqualValues(t, now.entries, level.Backlog, "voucher %d: entries", v.id)
	explained := func(h domain.Holder, _ bool) bool { return facts.excused[h.OrderID] || s.twice[h.OrderID] }
	maps.DeleteFunc(want, explained)
	maps.DeleteFunc(got, explained)
	require.Equal(t, want, got, "voucher %d: orders held in the gate", v.id)
}

// holders is a set of the orders that users hold of a voucher.
type holders map[domain.Holder]bool

// holders returns the active orders of a voucher in the database.
func (now *snapshot) holders(v simVoucher) holders {
	active := holders{}
	for _, o := range now.orders {
		if o.voucher == v.id && o.active {
			active[domain.Holder{OrderID: o.id, UserID: o.user}] = true
		}
	}
	return active
}

// heldInGate returns the orders in the gate's table of buyers.
func (s *simulation) heldInGate(t *rapid.T, v simVoucher) holders {
	table, err := s.rdb.HGetAll(s.ctx, gateKey(v.id, "buyers")).Result()
	require.NoError(t, err)
	held := holders{}
	for user, list := range table {
		for _, order := range splitIDs(t, list) {
			held[domain.Holder{OrderID: order, UserID: splitIDs(t, user)[0]}] = true
		}
	}
	return held
}

// conclude ends a run: the workers finish all work, the reconciler runs, and then the state must be as if there had
// been no fault.
func (s *simulation) conclude(t *rapid.T) {
	s.newSecond()
	for i, v := range s.vouchers { // the lane uses every voucher, and loads cold gates
		_ = s.buyOne(t, v, simUsers+1+int64(i), false)
	}
	s.drain(t)
	s.reconcile(t)
	s.passLoss(t)
	s.checkExact(t)
	for _, p := range s.promises {
		require.NotEqual(t, queued, p.standing, "%+v was never settled", p)
	}
	for _, v := range s.vouchers {
		s.sellOut(t, v)
	}
	s.checkExact(t)
}

// drain settles committed batches of suspended workers and handles all entries with a new worker.
func (s *simulation) drain(t *rapid.T) {
	for _, w := range s.workers {
		w.hand = nil
		w.settleOwed(t)
	}
	w := newSimWorker(s, "last")
	s.workers = append(s.workers, w)
	for turns := 0; s.rdb.XLen(s.ctx, s.stream).Val() > 0; turns++ {
		require.Less(t, turns, 100, "the stream does not become empty")
		w.claimAt = noonOfSale.AddDate(-100, 0, 0)
		require.NoError(t, w.withGroup(s.ctx, func() error { return w.cycle(s.ctx, s.ctx) }))
	}
	s.check(t)
}

// checkExact checks that every gate matches the database, without excused orders: the reconciler has repaired it.
func (s *simulation) checkExact(t *rapid.T) {
	for _, facts := range s.gates {
		clear(facts.excused)
	}
	s.check(t)
	for _, v := range s.vouchers {
		sale, err := s.store.SaleLevel(s.ctx, v.id)
		require.NoError(t, err)
		level, err := s.back.Level(s.ctx, v.id)
		require.NoError(t, err)
		level.Version, level.Users, level.Built = 0, 0, 0
		require.Equal(t, admission.Level{Stock: sale.Stock, Held: sale.Active, Sum: sale.Sum}, level, "voucher %d", v.id)
	}
}

// sellOut checks that exactly the free units of a voucher can be bought.
func (s *simulation) sellOut(t *rapid.T, v simVoucher) {
	sale, err := s.store.SaleLevel(s.ctx, v.id)
	require.NoError(t, err)
	left := sale.Stock
	for n := range left {
		require.NoError(t, s.buyOne(t, v, 1000+n, false), "unit %d of %d of voucher %d", n+1, left, v.id)
	}
	require.ErrorIs(t, s.buyOne(t, v, 1000+left, false), domain.ErrSoldOut)
	s.drain(t)
	sale, err = s.store.SaleLevel(s.ctx, v.id)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(0, v.units), fmt.Sprint(sale.Stock, sale.Active), "voucher %d: units left and orders", v.id)
}
