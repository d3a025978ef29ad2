package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/idgen"
	"seckill/internal/ops/reconcile"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/lane"
	"seckill/internal/sale/queue"
	"seckill/internal/service"
	"seckill/test/env"
)

// reservation is an admission that was, or may have been, confirmed to a buyer.
type reservation struct {
	domain.Admission
	state   state
	refused bool // its buyer was answered sold_out after Redis had lost it
	poison  bool // it fails every commit, until its cause is fixed
	blamed  bool // it has failed a commit, since its last replay
}

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
			stock := env.Must(l.rdb.Get(l.ctx, gateKey(stream, id, "stock")).Int64())(l)
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
	case was == stateDead:
		require.Fail(l, "a dead letter was lost", "of order %d", p.OrderID)
	case p.state == stateQueued:
		ticket, err := l.gate.Ticket(l.ctx, p.UserID, p.OrderID, p.VoucherID)
		require.NoError(l, err, "no ticket of order %d", p.OrderID)
		require.NotEmpty(l, ticket.Failed, "the ticket of order %d is queued without a stream entry", p.OrderID)
		require.NotEqual(l, domain.ReasonInternal, ticket.Failed, "order %d", p.OrderID)
		p.state = stateFailed
	}
	require.False(l, was == stateCommitted && p.state != stateCommitted, "order %d was committed and is %s", p.OrderID, p.state)
}

func (l *life) deadLetters() *service.DeadLetters {
	return &service.DeadLetters{Store: l.gate, Log: l.real, Now: time.Now}
}

func (l *life) letters() []domain.DeadLetter {
	return env.Must(l.gate.DeadLetters(l.ctx, "", 500))(l)
}

func (l *life) anyDeadLetter(t *rapid.T) domain.DeadLetter {
	return evenly(t, "letter", l.letters()...)
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
	_, err := l.deadLetters().Replay(l.ctx, nil, admin, letter.ID)
	answer := errorCode(err)
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

func (l *life) discardLetter(letter domain.DeadLetter) {
	p := l.reservations[letter.Admission.OrderID]
	require.NoError(l, l.deadLetters().Discard(l.ctx, nil, admin, letter.ID))
	l.model.addAudit(p.VoucherID, p.OrderID, service.ActionDiscard, admin)
	if p.state == stateDead {
		p.state = stateFailed
	}
}

// reconcile compares the gates of open sales with the database, and rebuilds those that differ. Its clock is one day ahead, so
// no order is too young.
func (l *life) reconcile() {
	reconciler := reconcile.New(reconcile.Config{
		Gate: l.gate, Store: l.real, Queue: true, OrderTime: idgen.Time,
		Now: func() time.Time { return time.Now().AddDate(0, 0, 1) }, Log: silent,
	})
	remain := []reconcile.Kind{reconcile.KindStuck, reconcile.KindDeadLetters, reconcile.KindUnpaid, reconcile.KindRefunding}
	for id, v := range l.model.vouchers {
		if closedCode(v) != "" {
			continue
		}
		reports := env.Must(reconciler.ReconcileAll(l.ctx, []int64{id}, true))(l)
		for _, f := range reports[0].Findings {
			require.True(l, f.Repaired || slices.Contains(remain, f.Kind), "voucher %d: %s", id, f.Detail)
		}
		delete(l.gateStale, id)
	}
}

// Faults of a worker, which reads entries, commits their admissions and settles them.
const (
	completes         = "completes"
	crashBeforeCommit = "crashes before the commit"
	crashMidCommit    = "crashes after committing a part"
	crashBeforeSettle = "crashes before settling"
	crashMidSettle    = "crashes after settling a part"
	suspendsAtCommit  = "is suspended before the commit"
	suspendsAtSettle  = "is suspended before settling"
	losesSettleReply  = "loses the reply of settling"
	findsNoDatabase   = "finds no database at first"
	blamesAllOrders   = "fails each commit with an error that blames the orders"
)

// worker runs the real workers for one batch of a stream, and injects faults into their calls of the gate and the database.
type worker struct {
	*life
	*admission.Gate
	name    string
	stream  string
	fault   string
	crashed bool
	failed  map[int64]bool // orders, for a planted fault

	stop         context.CancelFunc
	ended        chan struct{}
	paused       chan struct{} // receives when the worker is suspended
	resume       chan struct{}
	held         map[int64]bool // orders that a worker which is suspended has in hand
	wasSuspended bool
}

// GoString is the form in which rapid prints a worker.
func (w *worker) GoString() string { return w.name }

// busyStream returns a stream with entries, or "" if there is none.
func (w *world) busyStream() string {
	for _, stream := range w.streams {
		if w.rdb.XLen(w.ctx, stream).Val() > 0 {
			return stream
		}
	}
	return ""
}

// hasFresh reports whether a stream has entries that no worker has read.
func (w *world) hasFresh(stream string) bool {
	pending, err := w.rdb.XPending(w.ctx, stream, admission.Group).Result()
	return err != nil || pending.Count < w.rdb.XLen(w.ctx, stream).Val()
}

// work runs a worker with a fault. It claims what others have read, or leaves that to them.
func (l *life) work(t *rapid.T) {
	fault := evenly(t, "worker", completes, completes, completes, completes, completes,
		crashBeforeCommit, crashMidCommit, crashBeforeSettle, crashMidSettle, suspendsAtCommit, suspendsAtSettle,
		losesSettleReply, findsNoDatabase, blamesAllOrders)
	l.workOnce(fault, !l.hasFresh(l.busyStream()) || rapid.Bool().Draw(t, "claims"))
}

func (l *life) workOnce(fault string, claims bool) {
	l.workers++
	w := &worker{
		life: l, Gate: l.gate, name: "worker " + strconv.Itoa(l.workers), stream: l.busyStream(), fault: fault, held: map[int64]bool{}, failed: map[int64]bool{},
		ended: make(chan struct{}), paused: make(chan struct{}), resume: make(chan struct{}),
	}
	l.record("  %s of %s %s; claims: %t", w.name, w.stream, fault, claims)

	// Every pending entry may be claimed, or none: the steps decide how long a worker is suspended.
	minIdle := 24 * time.Hour
	if claims {
		minIdle = time.Nanosecond
	}
	ctx, stop := context.WithCancel(l.ctx)
	w.stop = stop
	workers := queue.New(queue.Config{
		Redis: &oneBatch{l.rdb, w, 0}, Streams: []string{w.stream}, Group: admission.Group, Consumer: w.name, Gate: w, Commit: w.commitFaulty,
		LoadGate: func(ctx context.Context, voucherID int64) error { return w.gate.Load(ctx, voucherID, w.real) },
		ReadSize: 4, BatchSize: 6, MaxTries: 2, Block: time.Millisecond, MinIdle: minIdle, ClaimEvery: time.Hour,
		CommitTimeout: 24 * time.Hour, ShutdownTimeout: time.Millisecond,
		Log: silent,
	})
	go func() {
		defer close(w.ended)
		defer stop()
		_ = workers.Run(ctx)
	}()
	select {
	case <-w.ended:
	case <-w.paused:
		l.suspended = append(l.suspended, w)
	}
	l.applyCommits(w)
}

// oneBatch is the Redis of a worker, which stops when it has handled a batch, or finds nothing.
type oneBatch struct {
	redis.UniversalClient
	w     *worker
	reads int
}

func (r *oneBatch) XReadGroup(ctx context.Context, a *redis.XReadGroupArgs) *redis.XStreamSliceCmd {
	if r.reads++; len(r.w.held) > 0 || r.reads > 5 {
		r.w.stop()
	}
	return r.UniversalClient.XReadGroup(ctx, a)
}

// continueWorker lets a suspended worker continue. Meanwhile others may have settled its entries, and Redis may have lost
// them.
func (l *life) continueWorker(w *worker) {
	l.record("  %s, which %s, continues", w.name, w.fault)
	l.suspended = slices.DeleteFunc(l.suspended, func(other *worker) bool { return other == w })
	close(w.resume)
	<-w.ended
	l.applyCommits(w)
}

// inHand returns the orders that suspended workers have in hand, sorted.
func (l *life) inHand() []int64 {
	var ids []int64
	for _, w := range l.suspended {
		ids = slices.AppendSeq(ids, maps.Keys(w.held))
	}
	slices.Sort(ids)
	return ids
}

// lostInHand returns those of them that Redis has lost.
func (l *life) lostInHand() []int64 {
	return slices.DeleteFunc(l.inHand(), func(id int64) bool { return l.reservations[id].state != stateLost })
}

// buyersReturn lets users buy a sale out in the gate, and then the buyer of an order that Redis has lost and a worker may
// still commit. Often it does so at once.
func (l *life) buyersReturn(t *rapid.T) {
	p := l.reservations[evenly(t, "order", l.lostInHand()...)]
	for user := range int64(4) {
		for l.buyAs(1+user, p.VoucherID) == "ok" {
		}
	}
	l.buyAs(p.UserID, p.VoucherID)
	if !oneIn(t, "later", 3) {
		l.continueWorker(l.suspended[slices.IndexFunc(l.suspended, func(w *worker) bool { return w.held[p.OrderID] })])
	}
}

// suspendAt waits for the step that lets the worker continue, if its fault is to be suspended here.
func (w *worker) suspendAt(fault string) {
	if w.fault == fault && !w.wasSuspended {
		w.wasSuspended = true
		w.paused <- struct{}{}
		<-w.resume
	}
}

// late reports whether other workers may have had the entries of this one meanwhile.
func (w *worker) late() bool { return w.fault == suspendsAtCommit || w.fault == suspendsAtSettle }

func (w *worker) crash() error {
	w.crashed = true
	w.stop()
	return errInjected
}

func (w *worker) commitFaulty(ctx context.Context, as []domain.Admission) []error {
	w.suspendAt(suspendsAtCommit)
	switch {
	case w.crashed:
	case w.fault == crashBeforeCommit:
		_ = w.crash()
	case w.fault == crashMidCommit:
		_ = w.commit(ctx, as[:(len(as)+1)/2])
		_ = w.crash()
	case w.fault == findsNoDatabase:
		w.fault = completes
	default:
		return w.commit(ctx, as)
	}
	return slices.Repeat([]error{errInjected}, len(as))
}

func (w *worker) commit(ctx context.Context, as []domain.Admission) []error {
	if w.planted.commit != nil {
		return w.planted.commit(w, as)
	}
	return w.commitOrders(ctx, as)
}

// commitOrders is the product's commit, but for orders that make it fail. One of them fails the orders beside it, and
// panics alone.
func (w *worker) commitOrders(ctx context.Context, as []domain.Admission) []error {
	fails := false
	for _, a := range as {
		p := w.reservations[a.OrderID]
		if w.fault == blamesAllOrders || p.poison {
			p.blamed, fails = true, true
		}
	}
	if !fails {
		committer := lane.Committer{Orders: w.store, IDs: w.ids, Now: time.Now, PayTimeout: payTimeout}
		return committer.Commit(ctx, as)
	}
	if len(as) == 1 {
		panic("an order that fails each commit")
	}
	return slices.Repeat([]error{errors.New("an order of the batch fails")}, len(as))
}

func (w *worker) Parse(stream, entry string, fields map[string]any) (domain.StreamEntry, error) {
	p, err := w.Gate.Parse(stream, entry, fields)
	for i := range p.Admissions {
		w.held[p.Admissions[i].OrderID] = w.late()
	}
	return p, err
}

func (w *worker) Confirm(ctx context.Context, p domain.StreamEntry) (int64, error) {
	if w.crashed {
		return 0, errInjected
	}
	return w.gate.Confirm(ctx, p)
}

func (w *worker) Settle(ctx context.Context, done []domain.StreamEntry) error {
	w.suspendAt(suspendsAtSettle)
	switch {
	case w.crashed:
		return errInjected
	case w.fault == crashBeforeSettle:
		return w.crash()
	case w.fault == crashMidSettle:
		return errors.Join(w.crash(), w.settle(ctx, done[:len(done)/2]))
	case w.fault == losesSettleReply:
		w.fault = completes
		return errors.Join(errInjected, w.settle(ctx, done))
	}
	return w.settle(ctx, done)
}

// settle settles entries. If another worker has stored an order meanwhile that this one settles as failed, the gate
// returns its unit all the same.
func (w *worker) settle(ctx context.Context, done []domain.StreamEntry) error {
	for _, p := range done {
		here := len(w.rdb.XRange(ctx, p.Stream, p.Entry, p.Entry).Val()) > 0
		for i, end := range p.Ends {
			a := p.Admissions[i]
			ends := end.Dead != "" || w.late() && end.Failed != ""
			if here && ends && w.number("SELECT COUNT(*) FROM voucher_orders WHERE id = ?", a.OrderID) > 0 {
				w.gateStale[a.VoucherID] = true
			}
		}
	}
	w.settled = append(w.settled, done)
	return w.gate.Settle(ctx, done)
}

// applyCommits adds the orders that a worker has stored to the model.
func (l *life) applyCommits(w *worker) {
	l.latest = l.readSnapshot()
	next := l.model.clone()
	for id, o := range l.latest.orders {
		if _, known := next.orders[id]; known {
			continue
		}
		p := l.reservations[id]
		require.NotNil(l, p, "order %d was never admitted: %+v", id, o)
		require.True(l, p.state == stateQueued || w.held[id], "order %d is %s but stored", id, p.state)
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

// settleAgain repeats an earlier settlement, which must change nothing.
func (l *life) settleAgain(t *rapid.T) {
	require.NoError(l, l.gate.Settle(l.ctx, l.settled[rapid.IntRange(0, len(l.settled)-1).Draw(t, "settlement")]))
}

// loseGroup deletes the consumer group of a stream. The entries stay.
func (l *life) loseGroup(*rapid.T) {
	require.NoError(l, l.rdb.XGroupDestroy(l.ctx, l.busyStream(), admission.Group).Err())
}
