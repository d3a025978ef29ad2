package sim

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/idgen"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/reconcile"
	"seckill/internal/service"
)

// reservation is an admission that was, or may have been, confirmed to a buyer.
type reservation struct {
	domain.Admission
	state   state
	refused bool // its buyer was answered sold_out after Redis had lost it
	poison  bool // it fails every commit, until its cause is fixed
	blamed  bool // it has failed a commit, since its last replay
}

// state is the progress of a reservation.
type state string

const (
	stateQueued    state = "queued"
	stateCommitted state = "committed"
	stateFailed    state = "failed"
	stateDead      state = "dead-lettered"
	stateLost      state = "lost" // with all other data in Redis
)

// gateUnits are the units of a gate. If another lane has sold units that are reserved, a segment may have less than none.
type gateUnits struct {
	net  int64 // of all segments
	free int64 // of those that have some, and in transit between two
}

// gates returns the units of each gate before a purchase. For a cold gate it returns those that loading it will give.
func (l *life) gates() map[int64]*gateUnits {
	if l.lane != "queue" {
		return nil
	}
	now, gates := &snapshot{model: l.model, queue: l.queued()}, map[int64]*gateUnits{}
	for id := range l.model.vouchers {
		level, err := l.gate.Level(l.ctx, id)
		if errors.Is(err, domain.ErrGateCold) {
			delete(l.gateStale, id)
			stock := now.gate(id).Stock
			gates[id] = &gateUnits{stock, stock}
			continue
		}
		require.NoError(l, err)
		gates[id] = &gateUnits{level.Stock, level.Stock}
		for _, stream := range l.streams[:l.segments[id]] {
			stock, err := l.rdb.Get(l.ctx, gateKey(stream, id, "stock")).Int64()
			require.NoError(l, err)
			gates[id].free -= min(stock, 0)
		}
		if l.failedOver(id) { // the first buyer without a unit has it loaded
			stock := now.gate(id).Stock
			gates[id] = &gateUnits{min(gates[id].net, stock), max(gates[id].free, stock)}
		}
	}
	return gates
}

// oldServer is the history of gates that were loaded before a failover.
const oldServer = "of the old server"

// failedOver reports whether a segment of a gate was loaded before a failover.
func (l *life) failedOver(voucher int64) bool {
	return slices.ContainsFunc(l.streams[:l.segments[voucher]], func(stream string) bool {
		return l.rdb.HGet(l.ctx, gateKey(stream, voucher, "meta"), "history").Val() == oldServer
	})
}

// gateKey returns the name of a key of the segment of a gate whose admissions are in a stream.
func gateKey(stream string, voucher int64, name string) string {
	return strings.TrimSuffix(stream, "orders") + number(voucher) + ":" + name
}

// applyAdmissions adds the new admissions to the model and takes their units out of the gates.
func (l *life) applyAdmissions(at *server, clicks []*click, gates map[int64]*gateUnits) {
	fresh := map[int64]bool{}
	for _, a := range l.latest.queue {
		if l.reservations[a.OrderID] != nil {
			continue
		}
		clicked := func(b *click) bool {
			answered := b.answer == "ok" && b.order == a.OrderID || b.answer == "unavailable" && l.gateFault == gateLosesReply
			return answered && b.user == a.UserID && b.voucher == a.VoucherID
		}
		require.True(l, slices.ContainsFunc(clicks, clicked), "no buyer received admission %+v", a)
		g := gates[a.VoucherID]
		require.Positive(l, g.free, "units in the gate for admission %d", a.OrderID)
		g.free--
		g.net--
		v := l.model.vouchers[a.VoucherID]
		require.True(l, a.Amount == v.price || !at.fresh(a.VoucherID), "admission %d: its amount is %d, the price %d", a.OrderID, a.Amount, v.price)
		if !l.gateStale[a.VoucherID] {
			require.Less(l, len(l.ordersOf(l.model, a.UserID, a.VoucherID)), v.limit, "active orders of user %d before", a.UserID)
		}
		l.reservations[a.OrderID] = &reservation{Admission: a, state: stateQueued, poison: oneIn(l.t, "poison", 8)}
		fresh[a.OrderID] = true
	}
	for _, b := range clicks {
		if b.answer == "ok" {
			require.True(l, fresh[b.order], "order id %d was issued before", b.order)
			require.Contains(l, l.reservations, b.order, "an answered reservation is in the queue")
			require.Equal(l, b.user, l.reservations[b.order].UserID)
		}
	}
}

// refuse records that a buyer was answered sold_out.
func (l *life) refuse(user, voucher int64) {
	for _, p := range l.reservations {
		p.refused = p.refused || p.state == stateLost && p.UserID == user && p.VoucherID == voucher
	}
}

// track updates the state of a reservation.
func (l *life) track(p *reservation, now *snapshot) {
	_, stored := now.orders[p.OrderID]
	here := func(a domain.Admission) bool { return a.OrderID == p.OrderID }
	was := p.state
	switch {
	case stored:
		p.state = stateCommitted
	case slices.ContainsFunc(now.queue, here):
		require.Equal(l, stateQueued, p.state, "order %d is in the queue again", p.OrderID)
	case now.dead[p.OrderID]:
		require.True(l, p.blamed, "order %d was dead-lettered for the fault of another", p.OrderID)
		require.True(l, was == stateQueued || was == stateDead, "order %d is %s, and a dead letter", p.OrderID, was)
		p.state = stateDead
		if was != stateDead {
			l.summary.counts["dead letter"]++
		}
	case was == stateDead:
		require.Fail(l, "a dead letter was lost", "of order %d", p.OrderID)
	case p.state == stateQueued:
		ticket, err := l.gate.Ticket(l.ctx, p.UserID, p.OrderID)
		require.NoError(l, err, "no ticket of order %d", p.OrderID)
		require.NotEmpty(l, ticket.Failed, "the ticket of order %d is queued without a stream entry", p.OrderID)
		require.NotEqual(l, domain.ReasonInternal, ticket.Failed, "order %d", p.OrderID)
		p.state = stateFailed
		l.summary.counts["failed: "+ticket.Failed]++
	}
	require.False(l, was == stateCommitted && p.state != stateCommitted, "order %d was committed and is %s", p.OrderID, p.state)
}

func (l *life) deadLetters() service.DeadLetters {
	return service.DeadLetters{Store: l.gate, Log: l.real, Sales: l.real, Now: time.Now}
}

func (l *life) anyDeadLetters() bool {
	n, err := l.gate.CountDeadLetters(l.ctx)
	require.NoError(l, err)
	return n > 0
}

func (l *life) anyDeadLetter(t *rapid.T) domain.DeadLetter {
	letters, err := l.gate.DeadLetters(l.ctx, "", 500)
	require.NoError(l, err)
	return evenly(t, "letter", letters...)
}

// replay queues a dead letter again. The operator may have fixed its cause.
func (l *life) replay(t *rapid.T) {
	l.replayLetter(l.anyDeadLetter(t), rapid.Bool().Draw(t, "fixed"))
}

// replayLetter replays a dead letter and reports whether it is queued now.
func (l *life) replayLetter(letter domain.DeadLetter, fixed bool) bool {
	p := l.reservations[letter.Admission.OrderID]
	p.poison = p.poison && !fixed
	g := l.gates()[p.VoucherID]
	letters := l.deadLetters()
	_, err := letters.Replay(l.ctx, nil, admin, letter.ID)
	answer := errorCode(err)
	l.summary.counts["replay: "+shortened(answer)]++
	l.record("  replay of order %d: %s", p.OrderID, answer)
	switch answer {
	case "ok":
		l.model.addAudit(p.VoucherID, p.OrderID, service.ActionReplay, admin)
		if p.state == stateCommitted { // by a worker that was slow; the gate may have had the order already
			l.gateStale[p.VoucherID] = true
			return true
		}
		require.Positive(l, g.free, "units in the gate for the replayed order %d", p.OrderID)
		p.state, p.blamed = stateQueued, false
		return true
	case "sold_out":
		require.LessOrEqual(l, g.net, int64(0), "the replay of order %d was refused as sold out", p.OrderID)
	default:
		sameLimit := p.Limit == l.model.vouchers[p.VoucherID].limit
		l.checkDuplicate(l.model, &click{user: p.UserID, voucher: p.VoucherID, answer: answer}, sameLimit)
	}
	return false
}

// discard deletes a dead letter.
func (l *life) discard(t *rapid.T) { l.discardLetter(l.anyDeadLetter(t)) }

func (l *life) discardLetter(letter domain.DeadLetter) {
	p := l.reservations[letter.Admission.OrderID]
	letters := l.deadLetters()
	require.NoError(l, letters.Discard(l.ctx, nil, admin, letter.ID))
	l.model.addAudit(p.VoucherID, p.OrderID, service.ActionDiscard, admin)
	if p.state == stateDead {
		p.state = stateFailed
	}
}

// reconcile runs the background reconciliation long enough to see a difference twice. Its clock is one day ahead, so no
// order is too young.
func (l *life) reconcile(at *server) {
	ctx, cancel := context.WithTimeout(l.ctx, 11*time.Second)
	defer cancel()
	rounds := 0
	var last reconcile.Round
	reconciler := reconcile.New(reconcile.Config{
		Gate: l.gate, Store: l.real, Queue: true, InUse: at.lane.InUse, OrderTime: idgen.Time,
		Now: func() time.Time { return time.Now().AddDate(0, 0, 1) }, Log: slog.New(rebuilds{slog.DiscardHandler, l}),
		Observe: func(r reconcile.Round) {
			rounds++
			last = r
		},
	})
	loop.Run(ctx, slog.New(slog.DiscardHandler), reconciler.Task())
	require.Equal(l, 2, rounds)
	require.True(l, last.OK)
	remain := []reconcile.Kind{reconcile.KindStuck, reconcile.KindDeadLetters, reconcile.KindUnpaid, reconcile.KindRefunding}
	for kind := range last.Findings { // the round has repaired the others
		require.Contains(l, remain, kind)
	}
}

// rebuilds reads from the log of a reconciliation which gates were rebuilt.
type rebuilds struct {
	slog.Handler
	life *life
}

func (rebuilds) Enabled(context.Context, slog.Level) bool { return true }

func (r rebuilds) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "voucher_id" {
			r.life.summary.counts["gate rebuilt"]++
			delete(r.life.gateStale, a.Value.Int64())
		}
		return true
	})
	return nil
}
