package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/domain"
	"seckill/internal/idgen"
	"seckill/internal/reconcile"
	"seckill/internal/service"
	"seckill/test/sim"
)

func (s *simulation) anyVoucher(t *rapid.T) simVoucher {
	return sim.Evenly(t, "voucher", s.vouchers...)
}

func anyUser(t *rapid.T) int64 { return sim.Evenly[int64](t, "user", 1, 2, 3, 4, 5) }

func anyPoison(t *rapid.T) bool { return sim.Evenly(t, "poison", 0, 1, 2, 3) == 3 }

// drawLosses loses replies in about a quarter of the calls: one, two, or so many that the caller gives up.
func (s *simulation) drawLosses(t *rapid.T) {
	s.loser.left = sim.Evenly(t, "lost replies", 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1000)
}

// buy makes one purchase through the lane.
func (s *simulation) buy(t *rapid.T) {
	s.drawLosses(t)
	_ = s.buyOne(t, s.anyVoucher(t), anyUser(t), anyPoison(t))
	s.loser.left = 0
}

func (s *simulation) buyOne(t *rapid.T, v simVoucher, user int64, poison bool) error {
	p := domain.Purchase{
		UserID: user, VoucherID: v.id, Amount: 100, Limit: v.limit, Window: window, At: s.moment(),
		ExpiresAt: noonOfSale.Add(time.Hour), Deadline: time.Now().Add(time.Hour), // the gate gives up first
	}
	before := s.queued(t)
	o, _, err := s.lane.Place(s.ctx, p)
	a := domain.Admission{OrderID: o.ID, UserID: user, VoucherID: v.id, Amount: 100, Limit: v.limit, At: p.At}
	if errors.Is(err, domain.ErrUnavailable) {
		// The purchase may be admitted in spite of the error.
		if after := s.queued(t); len(after) > len(before) {
			s.promised(after[len(after)-1], poison)
			s.seen["admitted in spite of unavailable"]++
		}
		return err
	}
	s.answered(t, a, err, poison)
	return err
}

// answered checks the result of a purchase, and records a promise.
func (s *simulation) answered(t *rapid.T, a domain.Admission, err error, poison bool) {
	var duplicate *domain.DuplicateOrderError
	switch {
	case err == nil && s.holds(t, a):
		s.twice[a.OrderID] = true // the same user got a lost id again, and the result is the earlier order
	case err == nil:
		s.promised(a, poison)
	case errors.As(err, &duplicate):
		require.True(t, slices.ContainsFunc(s.promises, func(p *promise) bool {
			return p.OrderID == duplicate.OrderID && p.UserID == a.UserID && p.VoucherID == a.VoucherID
		}), "user %d never had order %d", a.UserID, duplicate.OrderID)
	case errors.Is(err, domain.ErrUnavailable):
		s.seen["no unit after a loss"]++
		require.True(t, s.lost(simVoucher{id: a.VoucherID}), "no data was lost: %v", err)
	default:
		require.ErrorIs(t, err, domain.ErrSoldOut)
		for _, p := range s.promises {
			p.refused = p.refused || p.standing == lost && p.UserID == a.UserID && p.VoucherID == a.VoucherID
		}
	}
}

// holds reports whether the user had the same order id before.
func (s *simulation) holds(t *rapid.T, a domain.Admission) bool {
	if slices.ContainsFunc(s.queued(t), func(q domain.Admission) bool { return q.At.Equal(a.At) }) {
		return false
	}
	return slices.ContainsFunc(s.promises, func(p *promise) bool {
		return p.OrderID == a.OrderID && p.UserID == a.UserID && p.VoucherID == a.VoucherID
	})
}

// buyTogether makes several purchases in one call of the gate, as the lane does. At random it repeats the call, which
// must change nothing.
func (s *simulation) buyTogether(t *rapid.T) {
	v := s.anyVoucher(t)
	ids, err := s.ids.NextN(s.ctx, sim.Evenly(t, "buyers", 2, 3, 4, 5))
	require.NoError(t, err)
	as := make([]domain.Admission, len(ids))
	for i, id := range ids {
		as[i] = domain.Admission{
			OrderID: id, UserID: anyUser(t), VoucherID: v.id, Amount: 100, Limit: v.limit, At: s.moment(),
		}
	}
	s.drawLosses(t)
	s.loser.left = min(s.loser.left, 2)
	answers, err := s.shop.Reserve(s.ctx, v.id, window, as)
	if s.loser.left = 0; errors.Is(err, domain.ErrGateCold) {
		require.NoError(t, s.gate.Load(s.ctx, v.id, s.store.GateState))
		answers, err = s.shop.Reserve(s.ctx, v.id, window, as)
	}
	require.NoError(t, err)
	if rapid.Bool().Draw(t, "again") {
		again, err := s.shop.Reserve(s.ctx, v.id, window, as)
		require.NoError(t, err)
		require.Equal(t, answers, again, "a repeated call has the same results")
	}
	for i, a := range as {
		s.answered(t, a, answers[i], anyPoison(t))
	}
}

// sellElsewhere makes a purchase in a process with another lane, which uses the database without the gate.
func (s *simulation) sellElsewhere(t *rapid.T) {
	v := s.anyVoucher(t)
	id, err := s.ids.Next(s.ctx)
	require.NoError(t, err)
	a := domain.Admission{OrderID: id, UserID: anyUser(t), VoucherID: v.id, Amount: 100, Limit: v.limit, At: s.moment()}
	o := domain.Order{
		ID: id, UserID: a.UserID, VoucherID: v.id, Status: domain.OrderPendingPayment, Amount: 100,
		CreatedAt: a.At, ExpiresAt: noonOfSale.Add(time.Hour),
	}
	switch err := s.store.PlaceOrders(s.ctx, []domain.NewOrder{{Order: o, Limit: v.limit}})[0].Err; {
	case err == nil:
		s.promised(a, false)
		s.noteCommitted(a)
		s.excuse(s.byMoment[a.At.UnixMilli()])
	case !errors.Is(err, domain.ErrIDTaken): // the other lane would retry with a new id
		s.answered(t, a, err, false)
	}
}

// some returns the elements for which fits is true.
func some[T any](all []T, fits func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !fits(one) })
}

func (s *simulation) anyWorker(t *rapid.T, fits func(*simWorker) bool) *simWorker {
	return sim.Evenly(t, "worker", some(s.workers, fits)...)
}

func free(w *simWorker) bool       { return len(w.hand) == 0 }
func busy(w *simWorker) bool       { return len(w.hand) > 0 }
func behind(w *simWorker) bool     { return len(w.owed) > 0 }
func hasSettled(w *simWorker) bool { return len(w.settled) > 0 }

func (s *simulation) anyOrder(t *rapid.T, fits func(*promise) bool) *promise {
	return sim.Evenly(t, "order", some(s.promises, fits)...)
}

func cancellable(p *promise) bool { return p.standing == committed && !p.cancelled }
func isCancelled(p *promise) bool { return p.cancelled }
func isDead(p *promise) bool      { return p.standing == dead }

func (s *simulation) read(t *rapid.T) { require.NoError(t, s.anyWorker(t, free).take(false)) }

// claim lets a worker claim entries of workers that died or are slow.
func (s *simulation) claim(t *rapid.T) { require.NoError(t, s.anyWorker(t, free).take(true)) }

func (s *simulation) handle(t *rapid.T) { s.anyWorker(t, busy).handleHand(drawFate(t)) }

// loseEntries ends a worker that has read entries and not handled them.
func (s *simulation) loseEntries(t *rapid.T) { s.anyWorker(t, busy).hand = nil }

// settleLate lets a suspended worker settle what it has committed.
func (s *simulation) settleLate(t *rapid.T) {
	s.anyWorker(t, behind).settleOwed(t)
}

func (w *simWorker) settleOwed(t *rapid.T) {
	for _, done := range w.owed {
		require.NoError(t, w.settleNow(w.sim.ctx, done))
	}
	w.owed = nil
}

// settleAgain repeats an earlier settlement.
func (s *simulation) settleAgain(t *rapid.T) {
	w := s.anyWorker(t, hasSettled)
	i := rapid.IntRange(0, len(w.settled)-1).Draw(t, "settlement")
	require.NoError(t, s.back.Settle(s.ctx, w.settled[i]))
}

// cancel cancels an order. The gate is notified once, twice, or never.
func (s *simulation) cancel(t *rapid.T) {
	p := s.anyOrder(t, cancellable)
	_, err := s.store.MoveOrder(s.ctx, domain.OrderMove{
		Move: domain.MoveCancel, OrderID: p.OrderID, UserID: p.UserID, At: noonOfSale,
	})
	require.NoError(t, err)
	p.cancelled = true
	releases := sim.Evenly(t, "releases", 1, 1, 1, 2, 0)
	if releases == 0 {
		s.excuse(p)
	}
	for range releases {
		require.NoError(t, s.shop.Release(s.ctx, p.VoucherID, domain.Holder{OrderID: p.OrderID, UserID: p.UserID}))
	}
}

// releaseAgain repeats a release, or delivers a late one.
func (s *simulation) releaseAgain(t *rapid.T) {
	p := s.anyOrder(t, isCancelled)
	require.NoError(t, s.shop.Release(s.ctx, p.VoucherID, domain.Holder{OrderID: p.OrderID, UserID: p.UserID}))
}

func (s *simulation) anyDeadLetter(t *rapid.T) (admission.DeadLetter, *promise) {
	letters, err := s.back.DeadLetters(s.ctx, "", 500)
	require.NoError(t, err)
	l := letters[rapid.IntRange(0, len(letters)-1).Draw(t, "letter")]
	return l, s.byMoment[l.Admission.At.UnixMilli()]
}

// replay replays a dead letter, whose fault an operator may have fixed.
func (s *simulation) replay(t *rapid.T) {
	l, p := s.anyDeadLetter(t)
	if rapid.Bool().Draw(t, "fixed") {
		p.poison = false
	}
	letters := service.DeadLetters{Store: deadLetterStore{s.back}, Log: s.store, Reader: s.store.GateState, Now: time.Now}
	_, err := letters.Replay(s.ctx, nil, domain.Actor{Kind: domain.ActorSystem}, l.ID)
	var duplicate *domain.DuplicateOrderError
	if errors.As(err, &duplicate) || errors.Is(err, domain.ErrSoldOut) {
		return
	}
	require.NoError(t, err)
	if p.committed {
		s.excuse(p)
		return
	}
	p.standing, p.contested = queued, false
	s.seen["replayed"]++
}

// discard deletes a dead letter.
func (s *simulation) discard(t *rapid.T) {
	l, p := s.anyDeadLetter(t)
	require.NoError(t, s.back.Discard(s.ctx, l.ID))
	if p.standing == dead {
		p.standing = failed
	}
}

// reconcile runs the reconciler for two rounds, which it needs to confirm a difference. Its clock is a day late, so
// that no order is too young to be compared, and every waiting one is overdue.
func (s *simulation) reconcile(t *rapid.T) {
	ctx, cancel := context.WithTimeout(s.ctx, 11*time.Second)
	defer cancel()
	rounds := 0
	reconcile.New(reconcile.Config{
		Gate: laneGate{s.shop}, Store: s.store, Queue: true, InUse: s.lane.InUse, OrderTime: idgen.Time,
		Now: func() time.Time { return noonOfSale.AddDate(0, 0, 1) }, Log: slog.New(rebuilds{slog.DiscardHandler, s}),
		Observe: func(r reconcile.Round) {
			rounds++
			require.True(t, r.OK)
			s.found = r.Findings
		},
	}).Run(ctx)
	require.Equal(t, 2, rounds)
	for kind := range s.found { // of the last round, which repaired the differences
		require.Contains(t, []reconcile.Kind{reconcile.KindStuck, reconcile.KindDeadLetters, reconcile.KindUnpaid}, kind)
	}
}

// rebuilds is a log handler that records which gates a reconciler rebuilt.
type rebuilds struct {
	slog.Handler
	sim *simulation
}

func (rebuilds) Enabled(context.Context, slog.Level) bool { return true }

func (r rebuilds) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "voucher_id":
			r.sim.seen["gate rebuilt"]++
			clear(r.sim.gates[a.Value.Int64()].excused)
		case "findings":
			r.sim.seen["because of "+a.Value.String()]++
		}
		return true
	})
	return nil
}

// jump moves the clock of the ids forwards or backwards, even into seconds in which ids were generated before.
func (s *simulation) jump(t *rapid.T) {
	s.idClock = s.idClock.Add(sim.Evenly[time.Duration](t, "seconds", -2, -1, 1, 2) * time.Second)
}

// newSecond moves the clock of the ids to a second in which no id was generated.
func (s *simulation) newSecond() { s.idClock = noonOfSale.Add(6 * time.Hour) }

func gateKey(voucherID int64, name string) string {
	return strings.TrimSuffix(admission.Streams()[voucher], "orders") + fmt.Sprintf("%d:%s", voucherID, name)
}

// loseGate deletes the stock key of a gate, and at random its other keys. The gate is then cold.
func (s *simulation) loseGate(t *rapid.T) {
	v := s.anyVoucher(t)
	keys := []string{gateKey(v.id, "stock")}
	if rapid.Bool().Draw(t, "all keys") {
		keys = append(keys, gateKey(v.id, "buyers"), gateKey(v.id, "meta"))
	}
	require.NoError(t, s.rdb.Del(s.ctx, keys...).Err())
}

// loseGroup deletes the consumer group. The entries stay.
func (s *simulation) loseGroup(t *rapid.T) {
	err := s.rdb.XGroupDestroy(s.ctx, s.stream, admission.Group).Err()
	if err != nil {
		require.ErrorContains(t, err, "key", "the only permitted error is a missing stream")
	}
}

// loseMore loses all data, or the id counters. It is a rare step, because less can be checked once ids repeat.
func (s *simulation) loseMore(t *rapid.T) {
	steps := map[string]func(*rapid.T){"all": s.loseAll, "the ids": s.loseIDs}
	steps[sim.Evenly(t, "more", "all", "the ids")](t)
}

// loseIDs deletes the id counters, so that ids can repeat.
func (s *simulation) loseIDs(t *rapid.T) {
	counters, err := s.rdb.Keys(s.ctx, "icr:*").Result()
	require.NoError(t, err)
	if len(counters) > 0 {
		require.NoError(t, s.rdb.Del(s.ctx, counters...).Err())
	}
}

// loseAll deletes all data in Redis. Workers keep the entries that they have read.
func (s *simulation) loseAll(t *rapid.T) {
	require.NoError(t, s.rdb.FlushDB(s.ctx).Err())
	for _, p := range s.promises {
		if p.standing == queued || p.standing == dead {
			p.standing = lost
		}
	}
	// A restart takes more than a millisecond. Within the same millisecond, a new entry could get the id of a lost one.
	begin := s.rdb.Time(s.ctx).Val()
	for s.rdb.Time(s.ctx).Val().Sub(begin) < 2*time.Millisecond {
	}
}

// passLoss lets the time pass after which no admission that Redis has lost is committed: the workers have committed
// what they had, or have dropped it.
func (s *simulation) passLoss(t *rapid.T) {
	for _, w := range s.workers {
		w.hand = some(w.hand, func(e entry) bool { return len(s.rdb.XRange(s.ctx, s.stream, e.Entry, e.Entry).Val()) > 0 })
	}
	for _, v := range s.vouchers {
		if s.lost(v) {
			require.NoError(t, s.rdb.HIncrBy(s.ctx, gateKey(v.id, "meta"), "lost", -15_000).Err())
		}
	}
}

// lost reports whether the gate of a voucher was loaded after a loss of data.
func (s *simulation) lost(v simVoucher) bool {
	return s.rdb.HExists(s.ctx, gateKey(v.id, "meta"), "lost").Val()
}

func splitIDs(t *rapid.T, list string) []int64 {
	var ids []int64
	for word := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseInt(word, 10, 64)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}
