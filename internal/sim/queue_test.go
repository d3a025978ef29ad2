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
	"seckill/internal/idgen"
	"seckill/internal/queue"
	"seckill/internal/reconcile"
	"seckill/internal/service"
	"seckill/internal/sim"
)

// promise is an admission that a buyer was told of, or may have been.
type promise struct {
	service.Admission
	standing standing
}

// standing is where a promise is.
type standing string

const (
	waiting   standing = "queued"
	committed standing = "committed"
	failed    standing = "failed"
	lost      standing = "lost" // with everything else in Redis
)

// gates reads how many units the gates have to give, before a click. One that is cold will be built.
func (l *life) gates() map[int64]int64 {
	if l.lane != "queue" {
		return nil
	}
	now, units := &picture{books: l.books, queue: l.queued()}, map[int64]int64{}
	for id := range l.books.vouchers {
		level, err := l.gate.Level(l.ctx, id)
		if units[id] = level.Stock; errors.Is(err, service.ErrGateCold) {
			delete(l.gateOff, id)
			units[id], _, _ = now.gate(id)
		}
	}
	return units
}

// admitted takes over the new admissions, and takes their units out of units.
func (l *life) admitted(at *shop, bs []*click, units map[int64]int64) {
	for _, a := range l.now.queue {
		if l.promises[a.OrderID] != nil {
			continue
		}
		clicked := func(b *click) bool {
			heard := b.answer == "ok" && b.order == a.OrderID || b.answer == "unavailable" && l.gateFate == mute
			return heard && b.user == a.UserID && b.voucher == a.VoucherID
		}
		require.True(l, slices.ContainsFunc(bs, clicked), "nobody was told of admission %+v", a)
		require.Positive(l, units[a.VoucherID], "a unit in the gate for admission %d", a.OrderID)
		units[a.VoucherID]--
		v := l.books.vouchers[a.VoucherID]
		require.True(l, a.Amount == v.price || !at.sure(a.VoucherID), "admission %d: its amount is %d, the price %d", a.OrderID, a.Amount, v.price)
		if !l.gateOff[a.VoucherID] {
			require.Less(l, len(l.ordersOf(l.books, a.UserID, a.VoucherID)), v.limit, "what user %d held before", a.UserID)
		}
		l.promises[a.OrderID] = &promise{a, waiting}
	}
	for _, b := range bs {
		if b.answer == "ok" {
			require.Contains(l, l.promises, b.order, "what was answered is in the queue")
			require.Equal(l, b.user, l.promises[b.order].UserID)
		}
	}
}

// follow finds out where a promise is.
func (l *life) follow(p *promise, now *picture) {
	_, stored := now.orders[p.OrderID]
	here := func(a service.Admission) bool { return a.OrderID == p.OrderID }
	was := p.standing
	switch {
	case stored:
		p.standing = committed
	case slices.ContainsFunc(now.queue, here):
		require.Equal(l, waiting, p.standing, "order %d is in the queue again", p.OrderID)
	case p.standing == waiting:
		ticket, err := l.gate.Ticket(l.ctx, p.UserID, p.OrderID)
		require.NoError(l, err, "nothing is known of order %d, which was promised", p.OrderID)
		require.NotEmpty(l, ticket.Failed, "the ticket of order %d says that it is queued", p.OrderID)
		require.NotEqual(l, service.ReasonInternal, ticket.Failed, "order %d", p.OrderID)
		p.standing = failed
		l.diary.seen["failed: "+ticket.Failed]++
	}
	require.False(l, was == committed && p.standing != committed, "order %d was committed and is %s", p.OrderID, p.standing)
}

// lateWork is what workers have in hand who were held up: what they do with it comes late.
type lateWork struct {
	commits [][]service.Admission
	settles [][]service.Parcel
	held    map[int64]bool // the orders of commits
	workers int
}

// What becomes of a worker. He reads entries, commits them, and settles them.
const (
	survives    = "survives"
	diesEarly   = "dies before he commits"
	diesHalfway = "dies after he committed some"
	diesLate    = "dies before he settles"
	commitsLate = "commits late"
	settlesLate = "settles late"
	hearsLate   = "settles, hears nothing, and settles again"
)

// work is a worker with one batch: the real one, between a gate and a database at which he may die.
func (l *life) work(t *rapid.T) {
	l.workOnce(sim.Evenly(t, "worker", survives, survives, survives, survives,
		diesEarly, diesHalfway, diesLate, commitsLate, settlesLate, hearsLate))
}

func (l *life) workOnce(fate string) {
	l.diary.seen["worker "+fate]++
	l.did("  a worker %s", fate)
	ctx, stop := context.WithCancel(l.ctx)
	defer stop()
	l.lateWork.workers++
	w := &worker{life: l, fate: fate, stop: stop}
	workers := queue.New(queue.Config{
		Redis: l.rdb, Streams: []string{l.stream}, Group: admission.Group, Consumer: "worker " + strconv.Itoa(l.lateWork.workers),
		Gate: w, Commit: w.commit, ReadSize: 4, BatchSize: 6, MaxTries: 2, Block: time.Millisecond,
		// Whatever is pending may be claimed: how long a worker was away is up to the steps.
		MinIdle: time.Nanosecond, ClaimEvery: time.Hour, ShutdownTimeout: time.Millisecond,
		Observe: func(queue.Batch) { stop() }, Log: silent,
	})
	require.NoError(l, workers.Run(ctx))
	l.worked()
}

// worked takes over the orders that workers stored.
func (l *life) worked() {
	l.now = l.look()
	next := l.books.clone()
	for id, o := range l.now.orders {
		if _, known := next.orders[id]; known {
			continue
		}
		p := l.promises[id]
		require.NotNil(l, p, "order %d was never admitted: %+v", id, o)
		require.True(l, p.standing == waiting || l.lateWork.held[id], "order %d is %s and yet stored", id, p.standing)
		require.Equal(l, order{user: p.UserID, voucher: p.VoucherID, amount: p.Amount, status: service.OrderPendingPayment, slot: true}, o)
		if p.standing != waiting {
			l.gateOff[p.VoucherID] = true // it had given the unit back, or knows nothing of it
		}
		l.place(next, false, id, o)
	}
	l.books = next
	l.calm()
}

// worker stands between the workers and the rest of the world.
type worker struct {
	*life
	fate string
	stop context.CancelFunc
	dead bool
}

func (w *worker) die() error {
	w.dead = true
	w.stop()
	return errHarm
}

func (w *worker) committer() *service.Committer {
	return &service.Committer{Orders: w.store, IDs: w.ids, Now: time.Now, PayTimeout: payTimeout}
}

func (w *worker) commit(ctx context.Context, as []service.Admission) []error {
	harmed := slices.Repeat([]error{errHarm}, len(as))
	switch {
	case w.dead:
		return harmed
	case w.fate == diesEarly:
		_ = w.die()
		return harmed
	case w.fate == commitsLate:
		_ = w.die()
		w.lateWork.commits = append(w.lateWork.commits, as)
		for _, a := range as {
			w.lateWork.held[a.OrderID] = true
		}
		return harmed
	case w.fate == diesHalfway:
		_ = w.committer().Commit(ctx, as[:(len(as)+1)/2])
		_ = w.die()
		return harmed
	}
	if w.plants.commit != nil {
		return w.plants.commit(w.committer().Commit)(ctx, as)
	}
	return w.committer().Commit(ctx, as)
}

// Parse implements queue.Settler.
func (w *worker) Parse(stream, entry string, fields map[string]any) (service.Parcel, error) {
	return w.gate.Parse(stream, entry, fields)
}

// Settle implements queue.Settler.
func (w *worker) Settle(ctx context.Context, done []service.Parcel) error {
	switch {
	case w.dead:
		return errHarm
	case w.fate == diesLate:
		return w.die()
	case w.fate == settlesLate:
		w.lateWork.settles = append(w.lateWork.settles, done)
		return w.die()
	case w.fate == hearsLate:
		w.fate = survives
		return errors.Join(errHarm, w.gate.Settle(ctx, done))
	}
	return w.gate.Settle(ctx, done)
}

// Bury implements queue.Settler. Nobody but the gate writes into the stream.
func (w *worker) Bury(_ context.Context, _, entry, reason string, _ int64) error {
	panic("entry " + entry + " cannot be read: " + reason)
}

// commitLate is a worker who was held up for as long as others pleased, goes on, and dies.
func (l *life) commitLate(t *rapid.T) {
	late := l.lateWork.commits[0]
	l.lateWork.commits = l.lateWork.commits[1:]
	_ = (&worker{life: l}).committer().Commit(l.ctx, late)
	l.worked()
}

// settleLate: what he settles as failed may be an order by now, which the gate then forgets.
func (l *life) settleLate(t *rapid.T) {
	late := l.lateWork.settles[0]
	l.lateWork.settles = l.lateWork.settles[1:]
	for _, p := range late {
		for i, end := range p.Ends {
			if _, stored := l.books.orders[p.Admissions[i].OrderID]; stored && end.Failed != "" {
				l.gateOff[p.Admissions[i].VoucherID] = true
			}
		}
	}
	require.NoError(l, l.gate.Settle(l.ctx, late))
}

// audit is what a server does in the background, for as long as it takes to see a difference twice. Its clock is so late
// that no order is too young.
func (l *life) audit(at *shop) {
	ctx, cancel := context.WithTimeout(l.ctx, 11*time.Second)
	defer cancel()
	reconcile.New(reconcile.Config{
		Gate: l.gate, Store: l.real, Queue: true, InUse: at.lane.InUse, OrderTime: idgen.Time,
		Now: func() time.Time { return time.Now().AddDate(0, 0, 1) }, Log: slog.New(rebuilds{slog.DiscardHandler, l}),
	}).Run(ctx)
}

// rebuilds reads in the log of an audit which gates it rebuilt.
type rebuilds struct {
	slog.Handler
	life *life
}

func (rebuilds) Enabled(context.Context, slog.Level) bool { return true }

func (r rebuilds) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "voucher" {
			r.life.diary.seen["gate rebuilt"]++
			delete(r.life.gateOff, a.Value.Int64())
		}
		return true
	})
	return nil
}
