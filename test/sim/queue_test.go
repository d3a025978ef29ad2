package sim_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/domain"
	"seckill/internal/idgen"
	"seckill/internal/lane"
	"seckill/internal/queue"
	"seckill/internal/reconcile"
	"seckill/test/sim"
)

// reservation is an admission that was, or may have been, confirmed to a buyer.
type reservation struct {
	domain.Admission
	state   state
	refused bool // its buyer was answered sold_out after Redis had lost it
}

// state is the progress of a reservation.
type state string

const (
	stateQueued    state = "queued"
	stateCommitted state = "committed"
	stateFailed    state = "failed"
	stateLost      state = "lost" // with all other data in Redis
)

// gates returns the free units of each gate before a purchase. For a cold gate it returns the units that loading it
// will give.
func (l *life) gates() map[int64]int64 {
	if l.lane != "queue" {
		return nil
	}
	now, units := &snapshot{model: l.model, queue: l.queued()}, map[int64]int64{}
	for id := range l.model.vouchers {
		level, err := l.gate.Level(l.ctx, id)
		if units[id] = level.Stock; errors.Is(err, domain.ErrGateCold) {
			delete(l.gateStale, id)
			units[id], _, _ = now.gate(id)
		}
	}
	return units
}

// applyAdmissions adds the new admissions to the model and takes their units out of units.
func (l *life) applyAdmissions(at *server, clicks []*click, units map[int64]int64) {
	for _, a := range l.latest.queue {
		if l.reservations[a.OrderID] != nil {
			continue
		}
		clicked := func(b *click) bool {
			answered := b.answer == "ok" && b.order == a.OrderID || b.answer == "unavailable" && l.gateFault == gateLosesReply
			return answered && b.user == a.UserID && b.voucher == a.VoucherID
		}
		require.True(l, slices.ContainsFunc(clicks, clicked), "no buyer received admission %+v", a)
		require.Positive(l, units[a.VoucherID], "units in the gate for admission %d", a.OrderID)
		units[a.VoucherID]--
		v := l.model.vouchers[a.VoucherID]
		require.True(l, a.Amount == v.price || !at.fresh(a.VoucherID), "admission %d: its amount is %d, the price %d", a.OrderID, a.Amount, v.price)
		if !l.gateStale[a.VoucherID] {
			require.Less(l, len(l.ordersOf(l.model, a.UserID, a.VoucherID)), v.limit, "active orders of user %d before", a.UserID)
		}
		l.reservations[a.OrderID] = &reservation{Admission: a, state: stateQueued}
	}
	for _, b := range clicks {
		if b.answer == "ok" {
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

// losses returns the keys of the segments of a gate that were loaded after a loss of data. They refuse nobody as sold
// out until the loss is over.
func (l *life) losses(voucher int64) []string {
	if l.lane != "queue" {
		return nil
	}
	keys, err := l.rdb.Keys(l.ctx, "seckill:*:"+number(voucher)+":meta").Result()
	require.NoError(l, err)
	return slices.DeleteFunc(keys, func(key string) bool { return !l.rdb.HExists(l.ctx, key, "lost").Val() })
}

// passLoss lets the time pass after which no admission that Redis has lost is committed.
func (l *life) passLoss(voucher int64) {
	for _, key := range l.losses(voucher) {
		require.NoError(l, l.rdb.HIncrBy(l.ctx, key, "lost", -15_000).Err())
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

// delayedWork is the work of workers that stopped between two operations and continues later.
type delayedWork struct {
	commits [][]domain.Admission
	settles [][]domain.StreamEntry
	held    map[int64]bool // order ids of commits
	workers int
}

// Faults of a worker, which reads entries, commits their admissions and settles them.
const (
	completes         = "completes"
	crashBeforeCommit = "crashes before the commit"
	crashMidCommit    = "crashes after committing a part"
	crashBeforeSettle = "crashes before settling"
	delayCommit       = "commits late"
	delaySettle       = "settles late"
	loseSettleReply   = "loses the reply of settling and repeats it"
)

// busyStream returns a stream with entries, or "" if there is none.
func (w *world) busyStream() string {
	for _, stream := range w.streams {
		if w.rdb.XLen(w.ctx, stream).Val() > 0 {
			return stream
		}
	}
	return ""
}

// work runs a real worker for one batch, with faults between it and the gate and database.
func (l *life) work(t *rapid.T) {
	l.workOnce(sim.Evenly(t, "worker", completes, completes, completes, completes,
		crashBeforeCommit, crashMidCommit, crashBeforeSettle, delayCommit, delaySettle, loseSettleReply))
}

func (l *life) workOnce(fault string) {
	l.summary.counts["worker "+fault]++
	l.record("  a worker %s", fault)
	ctx, stop := context.WithCancel(l.ctx)
	defer stop()
	l.delayedWork.workers++
	w := &worker{life: l, fault: fault, stop: stop}
	workers := queue.New(queue.Config{
		Redis: l.rdb, Streams: []string{l.busyStream()}, Group: admission.Group, Consumer: "worker " + strconv.Itoa(l.delayedWork.workers),
		Gate: w, Commit: w.commit, ReadSize: 4, BatchSize: 6, MaxTries: 2, Block: time.Millisecond,
		// Every pending entry may be claimed at once; the steps decide how long a worker is suspended.
		MinIdle: time.Nanosecond, ClaimEvery: time.Hour, ShutdownTimeout: time.Millisecond,
		Observe: func(queue.Batch) { stop() }, Log: silent,
	})
	require.NoError(l, workers.Run(ctx))
	l.applyCommits()
}

// applyCommits adds the orders that workers stored to the model.
func (l *life) applyCommits() {
	l.latest = l.readSnapshot()
	next := l.model.clone()
	for id, o := range l.latest.orders {
		if _, known := next.orders[id]; known {
			continue
		}
		p := l.reservations[id]
		require.NotNil(l, p, "order %d was never admitted: %+v", id, o)
		require.True(l, p.state == stateQueued || l.delayedWork.held[id], "order %d is %s but stored", id, p.state)
		require.False(l, p.refused, "order %d is stored; its buyer was answered sold_out", id)
		require.Equal(l, order{user: p.UserID, voucher: p.VoucherID, amount: p.Amount, status: domain.OrderPendingPayment, slot: true}, o)
		if p.state != stateQueued {
			l.gateStale[p.VoucherID] = true // the gate has returned the unit or lost the reservation
		}
		l.applyOrder(next, false, id, o)
	}
	l.model = next
	l.clearFaults()
}

// worker injects faults into the calls of a queue worker.
type worker struct {
	*life
	fault   string
	stop    context.CancelFunc
	crashed bool
}

func (w *worker) crash() error {
	w.crashed = true
	w.stop()
	return errInjected
}

func (w *worker) committer() *lane.Committer {
	return &lane.Committer{Orders: w.store, IDs: w.ids, Now: time.Now, PayTimeout: payTimeout}
}

func (w *worker) commit(ctx context.Context, as []domain.Admission) []error {
	failures := slices.Repeat([]error{errInjected}, len(as))
	switch {
	case w.crashed:
		return failures
	case w.fault == crashBeforeCommit:
		_ = w.crash()
		return failures
	case w.fault == delayCommit:
		_ = w.crash()
		w.delayedWork.commits = append(w.delayedWork.commits, as)
		for _, a := range as {
			w.delayedWork.held[a.OrderID] = true
		}
		return failures
	case w.fault == crashMidCommit:
		_ = w.committer().Commit(ctx, as[:(len(as)+1)/2])
		_ = w.crash()
		return failures
	}
	if w.planted.commit != nil {
		return w.planted.commit(w.committer().Commit)(ctx, as)
	}
	return w.committer().Commit(ctx, as)
}

// Parse implements queue.Settler.
func (w *worker) Parse(stream, entry string, fields map[string]any) (domain.StreamEntry, error) {
	return w.gate.Parse(stream, entry, fields)
}

// Settle implements queue.Settler.
func (w *worker) Settle(ctx context.Context, done []domain.StreamEntry) error {
	switch {
	case w.crashed:
		return errInjected
	case w.fault == crashBeforeSettle:
		return w.crash()
	case w.fault == delaySettle:
		w.delayedWork.settles = append(w.delayedWork.settles, done)
		return w.crash()
	case w.fault == loseSettleReply:
		w.fault = completes
		return errors.Join(errInjected, w.gate.Settle(ctx, done))
	}
	return w.gate.Settle(ctx, done)
}

// MoveToDeadLetters implements queue.Settler. Every entry in the stream is valid, so it must not be called.
func (w *worker) MoveToDeadLetters(_ context.Context, _, entry, reason string, _ int64) error {
	panic("entry " + entry + " cannot be read: " + reason)
}

// commitLate commits the delayed batch of a stopped worker, which then crashes.
func (l *life) commitLate(t *rapid.T) {
	late := l.delayedWork.commits[0]
	l.delayedWork.commits = l.delayedWork.commits[1:]
	_ = (&worker{life: l}).committer().Commit(l.ctx, late)
	l.applyCommits()
}

// settleLate settles a delayed batch. An admission settled as failed may be an order by now, which the gate then drops.
func (l *life) settleLate(t *rapid.T) {
	late := l.delayedWork.settles[0]
	l.delayedWork.settles = l.delayedWork.settles[1:]
	for _, p := range late {
		for i, end := range p.Ends {
			if _, stored := l.model.orders[p.Admissions[i].OrderID]; stored && end.Failed != "" {
				l.gateStale[p.Admissions[i].VoucherID] = true
			}
		}
	}
	require.NoError(l, l.gate.Settle(l.ctx, late))
}

// reconcile runs the background reconciliation long enough to see a difference twice. Its clock is one day ahead, so no
// order is too young.
func (l *life) reconcile(at *server) {
	ctx, cancel := context.WithTimeout(l.ctx, 11*time.Second)
	defer cancel()
	reconcile.New(reconcile.Config{
		Gate: l.gate, Store: l.real, Queue: true, InUse: at.lane.InUse, OrderTime: idgen.Time,
		Now: func() time.Time { return time.Now().AddDate(0, 0, 1) }, Log: slog.New(rebuilds{slog.DiscardHandler, l}),
	}).Run(ctx)
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
