package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/service"
)

// standing is where a promise is.
type standing string

const (
	queued    standing = "queued"
	committed standing = "committed"
	failed    standing = "failed"
	dead      standing = "dead" // a dead letter
	lost      standing = "lost" // with everything else in Redis
)

// promise is an admission that a buyer was told of, or may have been.
type promise struct {
	service.Admission
	standing  standing
	poison    bool
	committed bool // a worker was told so by the database
	cancelled bool
	// contested says that somebody else had the entry in hand when it was ended: he may commit it all the same.
	contested bool
}

// GoString is how rapid shows it.
func (p *promise) GoString() string {
	return fmt.Sprintf("order %d of user %d, voucher %d, %s", p.OrderID, p.UserID, p.VoucherID, p.standing)
}

// gateFacts are what the model knows of the gate of a voucher.
type gateFacts struct {
	// excused are orders of which the gate need not know the truth until it is loaded again.
	excused map[int64]bool
}

// promised notes what a buyer was told.
func (s *simulation) promised(a service.Admission, poison bool) {
	for _, p := range s.promises {
		if p.OrderID == a.OrderID {
			s.twice[a.OrderID] = true
			s.seen["id twice"]++
		}
	}
	p := &promise{Admission: a, standing: queued, poison: poison}
	s.promises = append(s.promises, p)
	s.byMoment[a.At.UnixMilli()] = p
}

func (s *simulation) poisonous(a service.Admission) bool {
	p := s.byMoment[a.At.UnixMilli()]
	return p != nil && p.poison
}

// noteCommitted: a worker was told that an order is in the database.
func (s *simulation) noteCommitted(a service.Admission) {
	s.byMoment[a.At.UnixMilli()].committed = true
}

// noteEnd: a worker is about to end an admission without an order. If somebody ended it before, that changes nothing.
func (s *simulation) noteEnd(by *simWorker, entryID string, a service.Admission) {
	p := s.byMoment[a.At.UnixMilli()]
	if len(s.rdb.XRange(s.ctx, s.stream, entryID, entryID).Val()) == 0 {
		s.seen["ended twice"]++
		return
	}
	for _, w := range s.workers {
		p.contested = p.contested || w != by && w.inHand(entryID)
	}
	if p.committed { // by somebody else: the gate forgets an order that exists
		s.excuse(p)
	}
}

func (s *simulation) excuse(p *promise) {
	s.seen["gate off"]++
	s.gates[p.VoucherID].excused[p.OrderID] = true
}

// is says whether the row is the order that was promised.
func (o dbOrder) is(p *promise) bool {
	return o.user == p.UserID && o.voucher == p.VoucherID && o.moment == p.At.UnixMilli()
}

// picture is the state of everything after a step.
type picture struct {
	orders  map[int64]dbOrder
	stocks  map[int64]int64
	queue   []service.Admission
	entries int
	letters []service.Admission
}

func (s *simulation) look(t *rapid.T) *picture {
	now := &picture{orders: s.orders(t), stocks: s.stocks(t), letters: s.buried(t)}
	for _, p := range s.parcels(t) {
		now.queue = append(now.queue, p.Admissions...)
		now.entries++
	}
	return now
}

// check is what must hold after every step.
func (s *simulation) check(t *rapid.T) {
	now := s.look(t)
	s.seen["step"]++
	s.checkBooks(t, now)
	for _, p := range s.promises {
		s.follow(t, p, now)
	}
	s.checkNobodyUninvited(t, now)
	s.checkTickets(t, now)
	for _, v := range s.vouchers {
		s.checkGate(t, v, now)
	}
}

// checkBooks: I1, I2 and I3 of the design, whenever the database has changed.
func (s *simulation) checkBooks(t *rapid.T, now *picture) {
	if maps.Equal(now.orders, s.booked.orders) && maps.Equal(now.stocks, s.booked.stocks) {
		return
	}
	s.booked = now
	books, err := s.store.Books(s.ctx)
	require.NoError(t, err)
	require.Len(t, books, len(s.vouchers))
	for _, b := range books {
		require.Empty(t, b.Check(), "books of voucher %d", b.VoucherID)
	}
}

// checkNobodyUninvited: every order was promised, and so has one promise at the least; the primary key sees to it
// that it has one at the most.
func (s *simulation) checkNobodyUninvited(t *rapid.T, now *picture) {
	for id, o := range now.orders {
		p := s.byMoment[o.moment]
		require.NotNil(t, p, "order %d was never admitted", id)
		require.True(t, p.OrderID == id && o.is(p), "order %d is not what was promised: %+v, %+v", id, o, p)
	}
}

// follow finds out where a promise is now, and whether it may have come there from where it was.
func (s *simulation) follow(t *rapid.T, p *promise, now *picture) {
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
		require.Equal(t, committed, p.standing, "only a worker who had it in hand can have saved %+v", p)
	case failed, dead:
		require.Equal(t, committed, p.standing, "%+v had ended", p)
		require.True(t, p.contested, "%+v had ended as %s", p, was)
	}
	if p.standing == committed && was != queued {
		s.excuse(p) // the gate had given its unit back
	}
}

// find looks everywhere for a promise.
func (s *simulation) find(t *rapid.T, p *promise, now *picture) standing {
	if o, ok := now.orders[p.OrderID]; ok && o.is(p) {
		return committed
	}
	require.False(t, p.committed, "a worker was told that it is committed: %+v", p)
	here := func(a service.Admission) bool { return a.At.Equal(p.At) }
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
	if s.twice[p.OrderID] && (errors.Is(err, service.ErrNotFound) || ticket.Failed == "") {
		return failed // the ticket was that of the other order with its id
	}
	require.NoError(t, err, "nothing is known of %+v", p)
	require.NotEmpty(t, ticket.Failed, "the ticket says queued, but it is not: %+v", p)
	s.seen["ticket "+ticket.Failed]++
	return failed
}

// checkTickets: the tickets say queued of what is in the stream, and of nothing else. Their number is the backlog.
func (s *simulation) checkTickets(t *rapid.T, now *picture) {
	want := map[int64][]int64{}
	for _, a := range now.queue {
		want[a.UserID] = append(want[a.UserID], a.OrderID)
	}
	tickets, err := s.rdb.HLen(s.ctx, admission.QueuedTickets()[voucher]).Result()
	require.NoError(t, err)
	require.EqualValues(t, len(want), tickets, "users with something queued")
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

// checkGate compares the gate with database and stream.
func (s *simulation) checkGate(t *rapid.T, v simVoucher, now *picture) {
	level, err := s.back.Level(s.ctx, v.id)
	facts := s.gates[v.id]
	if errors.Is(err, service.ErrGateCold) {
		s.seen["gate cold"]++
		clear(facts.excused) // who loads it will see everything
		return
	}
	require.NoError(t, err)
	got := s.heldInGate(t, v)
	require.EqualValues(t, len(got), level.Held, "voucher %d: the count of what is held", v.id)
	require.Equal(t, v.units, level.Stock+level.Held, "voucher %d: units in the gate", v.id)
	waiting, want := 0, now.holders(v)
	for _, a := range now.queue {
		if a.VoucherID != v.id {
			continue
		}
		waiting++
		if o, exists := now.orders[a.OrderID]; !exists || o.voucher != v.id {
			want[service.Holder{OrderID: a.OrderID, UserID: a.UserID}] = true
		}
	}
	require.EqualValues(t, waiting, level.Queued, "voucher %d: the count of what is queued", v.id)
	require.EqualValues(t, now.entries, level.Backlog, "voucher %d: entries", v.id)
	explained := func(h service.Holder, _ bool) bool { return facts.excused[h.OrderID] || s.twice[h.OrderID] }
	maps.DeleteFunc(want, explained)
	maps.DeleteFunc(got, explained)
	require.Equal(t, want, got, "voucher %d: who holds what in the gate", v.id)
}

// holders are the orders that users hold of a voucher.
type holders map[service.Holder]bool

// holders are those in the database.
func (now *picture) holders(v simVoucher) holders {
	active := holders{}
	for _, o := range now.orders {
		if o.voucher == v.id && o.active {
			active[service.Holder{OrderID: o.id, UserID: o.user}] = true
		}
	}
	return active
}

// heldInGate reads the table of a gate.
func (s *simulation) heldInGate(t *rapid.T, v simVoucher) holders {
	table, err := s.rdb.HGetAll(s.ctx, gateKey(v.id, "buyers")).Result()
	require.NoError(t, err)
	held := holders{}
	for user, list := range table {
		for _, order := range splitIDs(t, list) {
			held[service.Holder{OrderID: order, UserID: splitIDs(t, user)[0]}] = true
		}
	}
	return held
}

// conclude ends a run: everybody who is still there works until nothing is left to do, and then all must be as if
// nothing had ever failed.
func (s *simulation) conclude(t *rapid.T) {
	s.newSecond()
	for i, v := range s.vouchers { // so that the lane knows all of them, and loads those that are cold
		_ = s.buyOne(t, v, simUsers+1+int64(i), false)
	}
	s.drain(t)
	s.reconcile(t)
	s.checkExact(t)
	for _, p := range s.promises {
		require.NotEqual(t, queued, p.standing, "%+v never ended", p)
	}
	for _, v := range s.vouchers {
		s.sellOut(t, v)
	}
	s.checkExact(t)
}

// drain lets a worker who has just been started do all that there is.
func (s *simulation) drain(t *rapid.T) {
	for _, w := range s.workers {
		w.hand = nil
		w.settleOwed(t)
	}
	w := newSimWorker(s, "the last")
	s.workers = append(s.workers, w)
	for turns := 0; s.rdb.XLen(s.ctx, s.stream).Val() > 0; turns++ {
		require.Less(t, turns, 100, "the workers do not come to an end")
		w.claimAt = noonOfSale.AddDate(-100, 0, 0)
		require.NoError(t, w.withGroup(s.ctx, func() error { return w.turn(s.ctx, s.ctx) }))
	}
	s.check(t)
}

// checkExact: the gate has the numbers of the database and knows who holds what, without excuses: the reconciler has seen to
// it.
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

// sellOut: every unit that nobody holds can be bought, and not one more.
func (s *simulation) sellOut(t *rapid.T, v simVoucher) {
	sale, err := s.store.SaleLevel(s.ctx, v.id)
	require.NoError(t, err)
	left := sale.Stock
	for n := range left {
		require.NoError(t, s.buyOne(t, v, 1000+n, false), "unit %d of %d of voucher %d", n+1, left, v.id)
	}
	require.ErrorIs(t, s.buyOne(t, v, 1000+left, false), service.ErrSoldOut)
	s.drain(t)
	sale, err = s.store.SaleLevel(s.ctx, v.id)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(0, v.units), fmt.Sprint(sale.Stock, sale.Active), "voucher %d: units left and orders", v.id)
}
