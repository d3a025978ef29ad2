package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is a gate and a database in memory. Order ids are seconds before testNow, negated: 100 was made 100 s ago.
type world struct {
	t     *testing.T
	facts SaleFacts
	view  GateView
	gone  []OrderFact // orders that do not hold a unit

	looks, unloads, loads int
	before                func(look int) // each look
	busy                  bool           // something changes at each glance
	loadFails             error
	loadIsBad             bool // a load brings back what was there
	storeFails            error
	listFails             bool    // also the list of sales
	asked                 []int64 // vouchers
	sales                 []int64
}

const worldVoucher = 7

// newWorld is a sale of 100 units in which all is well: orders 100 to 105 are committed, 106 waits in the stream.
func newWorld(t *testing.T) *world {
	w := &world{t: t, sales: []int64{worldVoucher}}
	w.facts = SaleFacts{
		VoucherID: worldVoucher, Active: 6,
		Voucher: Voucher{ID: worldVoucher, Type: VoucherSeckill, Status: VoucherOn, Sale: &Sale{
			InitialStock: 100, Stock: 94, BeginAt: testNow.Add(-time.Hour), EndAt: testNow.Add(time.Hour), LimitPerUser: 1,
		}},
	}
	for id := int64(100); id < 106; id++ {
		w.facts.Holders = append(w.facts.Holders, Holder{OrderID: id, UserID: id + 1000})
		w.facts.Sum += id
	}
	w.view.Queue = []Queued{{Holder: Holder{106, 1106}, Since: testNow.Add(-20 * time.Second)}}
	w.build()
	return w
}

// build makes the gate what it should be.
func (w *world) build() {
	v := GateView{Queue: w.view.Queue, Letters: w.view.Letters}
	v.Buyers = slices.Clone(w.facts.Holders)
	v.Level = GateLevel{Stock: w.facts.Voucher.Sale.Stock, Held: w.facts.Active, Sum: w.facts.Sum, Version: w.view.Level.Version + 1}
	for _, q := range v.Queue {
		v.Tickets = append(v.Tickets, q.Holder)
		v.Level.Queued++
		v.Level.Backlog++
		if !slices.Contains(w.facts.Settled, q.OrderID) {
			v.Buyers = append(v.Buyers, q.Holder)
			v.Level.Stock--
			v.Level.Held++
			v.Level.Sum += q.OrderID
		}
	}
	v.Level.Users = int64(len(v.Buyers))
	w.view = v
}

func (w *world) Inspect(context.Context, int64, int) (GateView, error) {
	w.looks++
	if w.before != nil {
		w.before(w.looks)
	}
	v := w.view
	v.Buyers, v.Tickets, v.Queue = slices.Clone(v.Buyers), slices.Clone(v.Tickets), slices.Clone(v.Queue)
	return v, nil
}

func (w *world) Level(context.Context, int64) (GateLevel, error) {
	switch {
	case w.view.Cold:
		return GateLevel{}, ErrGateCold
	case w.view.Broken:
		return GateLevel{}, ErrGateBroken
	}
	if w.busy {
		w.view.Level.Version++
	}
	return w.view.Level, nil
}

func (w *world) Unload(context.Context, int64) error { w.unloads++; return nil }

func (w *world) Load(ctx context.Context, v int64, read GateReader) error {
	require.NotNil(w.t, read)
	w.loads++
	if w.loadFails == nil && !w.loadIsBad {
		w.build()
	}
	return w.loadFails
}

func (w *world) GateState(context.Context, int64, []int64) (GateState, error) {
	return GateState{}, nil
}

func (w *world) SaleLevel(context.Context, int64) (SaleLevel, error) {
	return SaleLevel{
		Stock: w.facts.Voucher.Sale.Stock, Limit: w.facts.Voucher.Sale.LimitPerUser, Active: w.facts.Active, Sum: w.facts.Sum,
	}, w.storeFails
}

func (w *world) SaleFacts(_ context.Context, v int64, _ []int64, _ int, since OverdueSince) (SaleFacts, error) {
	require.True(w.t, since.Expired.Before(testNow) && since.Refunding.Before(since.Expired))
	w.asked = append(w.asked, v)
	f := w.facts
	f.VoucherID = v
	f.Holders = slices.Clone(f.Holders)
	return f, w.storeFails
}

func (w *world) OrderFacts(_ context.Context, _ int64, ids []int64) ([]OrderFact, error) {
	var facts []OrderFact
	for _, f := range w.gone {
		if slices.Contains(ids, f.OrderID) {
			facts = append(facts, f)
		}
	}
	return facts, nil
}

func (w *world) Sales(_ context.Context, endAfter time.Time, most int) ([]int64, int64, error) {
	require.True(w.t, endAfter.Before(testNow))
	if w.listFails {
		return nil, 0, w.storeFails
	}
	return w.sales[:min(len(w.sales), most)], int64(len(w.sales)), nil
}

// reconciler makes one for the world, without patience.
func (w *world) reconciler(change ...func(*ReconcilerConfig)) *Reconciler {
	cfg := ReconcilerConfig{
		Gate: w, Store: w, Queue: true, Now: func() time.Time { return testNow }, Pause: time.Nanosecond,
		OrderTime: func(id int64) time.Time { return testNow.Add(-time.Duration(id) * time.Second) },
		Log:       slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	return NewReconciler(cfg)
}

func (w *world) report(r *Reconciler, apply bool) Report {
	w.t.Helper()
	all, err := r.Reconcile(w.t.Context(), worldVoucher, apply)
	require.NoError(w.t, err)
	require.Len(w.t, all.Reports, 1)
	return all.Reports[0]
}

// gateDamage are the ways in which a gate can be wrong, by the one kind of finding that each must be.
var gateDamage = map[string]struct {
	kind   Kind
	orders []Holder
	count  int64
	damage func(w *world)
}{
	"stock up":         {KindStockHigh, nil, 5, func(w *world) { w.view.Level.Stock += 5 }},
	"stock down":       {KindStockLow, nil, 5, func(w *world) { w.view.Level.Stock -= 5 }},
	"held up":          {KindHeldOff, nil, 3, func(w *world) { w.view.Level.Held += 3 }},
	"held down":        {KindHeldOff, nil, 3, func(w *world) { w.view.Level.Held -= 3 }},
	"checksum":         {KindSumOff, nil, 9, func(w *world) { w.view.Level.Sum += 9 }},
	"queued up":        {KindQueuedOff, nil, 2, func(w *world) { w.view.Level.Queued += 2 }},
	"a buyer missing":  {KindBuyerMissing, []Holder{{103, 1103}}, 1, func(w *world) { w.remove(103) }},
	"a queued missing": {KindBuyerMissing, []Holder{{106, 1106}}, 1, func(w *world) { w.remove(106) }},
	"a phantom": {KindPhantom, []Holder{{500, 9}}, 1, func(w *world) {
		w.view.Buyers = append(w.view.Buyers, Holder{500, 9})
	}},
	"somebody else's order": {KindPhantom, []Holder{{103, 9}}, 1, func(w *world) {
		w.view.Buyers = append(w.view.Buyers, Holder{103, 9})
	}},
	"not released": {KindNotReleased, []Holder{{300, 1300}}, 1, func(w *world) {
		w.gone = []OrderFact{{Holder: Holder{300, 1300}}}
		w.view.Buyers = append(w.view.Buyers, Holder{300, 1300})
	}},
	"a release unheard": {KindNotReleased, []Holder{{103, 1103}}, 1, func(w *world) {
		w.gone = []OrderFact{{Holder: Holder{103, 1103}}}
		w.facts.Holders = slices.DeleteFunc(w.facts.Holders, func(h Holder) bool { return h.OrderID == 103 })
		w.facts.Active--
		w.facts.Sum -= 103
		w.facts.Voucher.Sale.Stock++
	}},
	"sold by another lane": {KindBuyerMissing, []Holder{{200, 1200}}, 1, func(w *world) {
		w.facts.Holders = append(w.facts.Holders, Holder{200, 1200})
		w.facts.Active++
		w.facts.Sum += 200
		w.facts.Voucher.Sale.Stock--
	}},
	"a stream that was cut": {KindTicketStray, []Holder{{200, 5}}, 1, func(w *world) {
		w.view.Tickets = append(w.view.Tickets, Holder{200, 5})
	}},
	"a ticket missing": {KindTicketMissing, []Holder{{106, 1106}}, 1, func(w *world) { w.view.Tickets = nil }},
	"cold": {KindGateCold, nil, 0, func(w *world) {
		w.view = GateView{Cold: true, Queue: w.view.Queue, Tickets: w.view.Tickets}
	}},
	"broken":     {KindGateBroken, nil, 0, func(w *world) { w.view.Broken = true }},
	"unreadable": {KindGateBroken, nil, 0, func(w *world) { w.view.Unreadable = 2 }},
}

func (w *world) remove(order int64) {
	w.view.Buyers = slices.DeleteFunc(w.view.Buyers, func(h Holder) bool { return h.OrderID == order })
}

// TestReconcileNamesAndRepairs each damage of the gate, with apply only, and finds nothing else.
func TestReconcileNamesAndRepairs(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			require.Empty(t, w.report(r, false).Findings)
			require.Equal(t, 1, w.looks, "where nothing is wrong one look is enough")
			d.damage(w)
			found := w.report(r, false)
			require.Len(t, found.Findings, 1)
			f := found.Findings[0]
			require.Equal(t, d.kind, f.Kind)
			require.Equal(t, d.count, f.Count)
			require.Equal(t, d.orders, f.Orders)
			require.NotEmpty(t, f.Detail)
			require.True(t, f.Repairable)
			require.False(t, f.Repaired)
			require.Equal(t, 1, found.Left())
			if len(d.orders) > 0 {
				require.Equal(t, r.cfg.OrderTime(d.orders[0].OrderID), f.Oldest)
			}
			require.Zero(t, w.loads, "a report changes nothing")

			found = w.report(r, true)
			require.Len(t, found.Findings, 1)
			require.True(t, found.Findings[0].Repaired)
			require.Zero(t, found.Left())
			require.Equal(t, []int{1, 1}, []int{w.unloads, w.loads})
			require.Empty(t, w.report(r, true).Findings)
			require.Equal(t, 1, w.loads, "what is right is left alone")
		})
	}
}

// TestReconcileOfARepairThatDoesNotHelp says so.
func TestReconcileOfARepairThatDoesNotHelp(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	w.view.Level.Stock++
	w.loadIsBad = true
	found := w.report(r, true)
	require.Equal(t, 1, found.Left())
	w.loadFails = ErrUnavailable
	_, err := r.Reconcile(t.Context(), worldVoucher, true)
	require.ErrorIs(t, err, ErrUnavailable)
}

// TestReconcileBelievesNothingOnce: what is there in one look only was under way.
func TestReconcileBelievesNothingOnce(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.before = func(look int) {
				if look == 1 {
					d.damage(w)
				} else {
					w.build()
				}
			}
			require.Empty(t, w.report(w.reconciler(), true).Findings)
			require.Zero(t, w.loads)
		})
	}
	t.Run("another one each time", func(t *testing.T) {
		w := newWorld(t)
		w.before = func(look int) {
			w.build()
			w.view.Level.Stock += int64(look)
			w.view.Level.Queued += int64(look)
			w.view.Tickets = append(w.view.Tickets, Holder{OrderID: 500 + int64(look), UserID: 9})
		}
		require.Empty(t, w.report(w.reconciler(), true).Findings)
	})
}

// TestReconcileWhileBuyersCancel: of orders that are cancelled and not released yet there may be as many in each look, old
// ones and young ones, and admissions of another lane likewise. The numbers of a quiet gate are off by them.
func TestReconcileWhileBuyersCancel(t *testing.T) {
	for _, first := range []int64{1, 300} {
		for _, cancels := range []bool{true, false} {
			w := newWorld(t)
			base := w.facts
			w.before = func(look int) {
				w.facts = base
				w.build()
				h := Holder{OrderID: first + int64(look), UserID: 9}
				if cancels {
					w.gone = []OrderFact{{Holder: h}}
					w.view.Buyers = append(w.view.Buyers, h)
					w.view.Level.Stock, w.view.Level.Held, w.view.Level.Sum = 92, 8, w.facts.Sum+106+h.OrderID
					return
				}
				sale := *base.Voucher.Sale
				sale.Stock--
				w.facts.Voucher.Sale = &sale
				w.facts.Holders = append(slices.Clone(base.Holders), h)
				w.facts.Active, w.facts.Sum = base.Active+1, base.Sum+h.OrderID
			}
			require.Empty(t, w.report(w.reconciler(), true).Findings, "from %d, cancels: %v", first, cancels)
			require.Equal(t, 2, w.looks)
			require.Zero(t, w.loads)
		}
	}
	// A unit that is lost beside them is found.
	w := newWorld(t)
	w.before = func(look int) {
		w.build()
		h := Holder{OrderID: int64(look), UserID: 9}
		w.view.Buyers = append(w.view.Buyers, h)
		w.view.Level.Stock -= 2
		w.view.Level.Held++
		w.view.Level.Sum += h.OrderID
	}
	found := w.report(w.reconciler(), false).Findings
	require.Len(t, found, 1)
	require.Equal(t, KindStockLow, found[0].Kind)
	require.EqualValues(t, 1, found[0].Count)
}

// TestReconcileLeavesTheYoungAlone: an order that was made a moment ago may be anywhere.
func TestReconcileLeavesTheYoungAlone(t *testing.T) {
	const young, old = 9, 11 // seconds
	for _, age := range []int64{young, old} {
		w := newWorld(t)
		h := Holder{OrderID: age, UserID: 1}
		w.view.Buyers = append(w.view.Buyers, h)
		w.view.Tickets = append(w.view.Tickets, h)
		w.facts.Holders = append(w.facts.Holders, Holder{OrderID: age, UserID: 2})
		require.Len(t, w.report(w.reconciler(), false).Findings, map[int64]int{young: 0, old: 3}[age], "%d s", age)
	}
}

// TestReconcileOrdersOnTheirWay: one in the stream may be in the database already; one that is committed since is no
// phantom.
func TestReconcileOrdersOnTheirWay(t *testing.T) {
	w := newWorld(t)
	w.facts.Settled = []int64{106}
	w.facts.Holders = append(w.facts.Holders, Holder{106, 1106})
	w.facts.Active++
	w.facts.Sum += 106
	w.facts.Voucher.Sale.Stock--
	require.Empty(t, w.report(w.reconciler(), false).Findings)

	w = newWorld(t)
	w.view.Buyers = append(w.view.Buyers, Holder{300, 1300})
	w.gone = []OrderFact{{Holder: Holder{300, 1300}, Active: true}}
	require.Empty(t, w.report(w.reconciler(), false).Findings)
}

// TestReconcileInARush: while the gate changes all the time, units and orders are compared by what they are together.
func TestReconcileInARush(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.busy = true
			r := w.reconciler()
			require.Empty(t, w.report(r, false).Findings)
			d.damage(w)
			found := w.report(r, true)
			if d.kind == KindSumOff || d.kind == KindQueuedOff { // not to be known now
				require.Empty(t, found.Findings)
				require.True(t, found.Busy)
				return
			}
			require.Len(t, found.Findings, 1)
			require.Equal(t, d.kind, found.Findings[0].Kind)
			require.Equal(t, d.count, found.Findings[0].Count)
			require.True(t, found.Findings[0].Repaired)
		})
	}
	t.Run("buyers come between the looks", func(t *testing.T) {
		w := newWorld(t)
		w.busy = true
		w.before = func(look int) {
			w.view.Level.Stock--
			w.view.Level.Held++
		}
		require.Empty(t, w.report(w.reconciler(), false).Findings)
		w.view.Level.Stock += 4
		found := w.report(w.reconciler(), false)
		require.Len(t, found.Findings, 1)
		require.EqualValues(t, 4, found.Findings[0].Count)
	})
	t.Run("what is off is told though orders come and go", func(t *testing.T) {
		for kind, damage := range map[Kind]func(*world){
			KindStockHigh: func(w *world) { w.view.Level.Stock += 50 }, KindHeldOff: func(w *world) { w.view.Level.Held += 50 },
		} {
			w := newWorld(t)
			w.busy = true
			damage(w)
			w.facts.Active += 2 // two orders are gone again when the gate is looked at
			w.facts.Voucher.Sale.Stock -= 2
			found := w.report(w.reconciler(), false)
			require.Len(t, found.Findings, 1)
			require.Equal(t, kind, found.Findings[0].Kind)
		}
	})
}

// TestReconcileWhereNobodyAsksTheGate: of an ended sale, or in another lane, what is left in the gate is nobody's
// concern, but orders that wait are.
func TestReconcileWhereNobodyAsksTheGate(t *testing.T) {
	for name, d := range gateDamage {
		w := newWorld(t)
		d.damage(w)
		require.Empty(t, w.report(w.reconciler(func(c *ReconcilerConfig) { c.Queue = false }), true).Findings, name)
		w.facts.Voucher.Sale.EndAt = testNow.Add(-time.Minute)
		want := 0
		if d.kind == KindTicketStray || d.kind == KindTicketMissing {
			want = 1 // buyers look at their orders after the end as well
		}
		require.Len(t, w.report(w.reconciler(), false).Findings, want, name)
	}
	w := newWorld(t)
	w.view = GateView{Cold: true}
	w.facts.Holders, w.facts.Active, w.facts.Voucher.Sale.Stock = nil, 0, 100
	require.Empty(t, w.report(w.reconciler(), false).Findings, "nobody has bought yet")
	w.view = GateView{Cold: true, Leftovers: true, Loading: true}
	require.Empty(t, w.report(w.reconciler(), false).Findings, "somebody is at work")

	require.Empty(t, w.report(w.reconciler(func(c *ReconcilerConfig) { c.Gate = nil }), true).Findings)
}

// TestReconcileReports what it cannot repair.
func TestReconcileReports(t *testing.T) {
	orders := func(ids ...int64) Named {
		var hs []Holder
		for _, id := range ids {
			hs = append(hs, Holder{OrderID: id, UserID: id + 1000})
		}
		return named(hs)
	}
	for name, tc := range map[string]struct {
		kind   Kind
		orders []Holder
		damage func(w *world)
	}{
		"stuck":        {KindStuck, orders(106).Orders, func(w *world) { w.view.Queue[0].Since = testNow.Add(-2 * time.Minute) }},
		"dead letters": {KindDeadLetters, orders(900, 901).Orders, func(w *world) { w.view.Letters = orders(900, 901).Orders }},
		"unpaid":       {KindUnpaid, orders(101).Orders, func(w *world) { w.facts.Expired = orders(101) }},
		"refunding":    {KindRefunding, orders(102).Orders, func(w *world) { w.facts.Refunding = orders(102) }},
		"slots":        {KindI2, orders(103).Orders, func(w *world) { w.facts.BadSlots = orders(103) }},
		"oversold": {KindI1, orders(105, 104).Orders, func(w *world) {
			w.facts.Voucher.Sale.InitialStock, w.facts.Voucher.Sale.Stock = 4, 0
			w.facts.Additions = 0
		}},
		"undersold": {KindI5, orders(800).Orders, func(w *world) { w.facts.Voucher.Sale.Stock--; w.facts.Returned = orders(800) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.damage(w)
			w.build()
			found := w.report(w.reconciler(), true)
			i := slices.IndexFunc(found.Findings, func(f Finding) bool { return f.Kind == tc.kind })
			require.GreaterOrEqual(t, i, 0, "%+v", found)
			f := found.Findings[i]
			require.Equal(t, tc.orders, f.Orders)
			require.False(t, f.Repairable || f.Repaired)
			require.Zero(t, w.loads)
			oldest := slices.MaxFunc(tc.orders, compareHolders)
			require.Equal(t, w.reconciler().cfg.OrderTime(oldest.OrderID), f.Oldest)
		})
	}
}

// TestReconcileOfSeveral: those that are sold here, then the newest, but not more than twenty, and one after the other.
func TestReconcileOfSeveral(t *testing.T) {
	w := newWorld(t)
	for id := int64(60); id > 30; id-- {
		w.sales = append(w.sales, id)
	}
	r := w.reconciler(func(c *ReconcilerConfig) { c.InUse = func() []int64 { return []int64{500, 7} } })
	all, err := r.Reconcile(t.Context(), 0, false)
	require.NoError(t, err)
	require.Len(t, all.Reports, 20)
	require.Equal(t, []int64{500, 7, 60, 59}, w.asked[:4])
	require.Equal(t, int64(31-19), all.LeftOut)

	w.facts = SaleFacts{}
	w.view = GateView{}
	_, err = r.Reconcile(t.Context(), 99, false)
	require.ErrorIs(t, err, ErrNotFound)
	w.storeFails = ErrUnavailable
	_, err = r.Reconcile(t.Context(), 0, false)
	require.ErrorIs(t, err, ErrUnavailable)

	r.room <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Reconcile(ctx, 99, false)
	require.ErrorIs(t, err, ErrUnavailable, "somebody is at it for too long")
	require.ErrorIs(t, err, context.Canceled)
}

// rounds drives the background loop without its clock.
type rounds struct {
	*world
	r       *Reconciler
	watches map[int64]*watch
}

func newRounds(t *testing.T) *rounds {
	w := newWorld(t)
	return &rounds{world: w, r: w.reconciler(), watches: map[int64]*watch{}}
}

func (l *rounds) round() Round {
	l.t.Helper()
	round, err := l.r.round(l.t.Context(), l.watches)
	require.NoError(l.t, err)
	require.True(l.t, round.OK)
	return round
}

// TestRunRepairsEachDamage in its second round, and counts it.
func TestRunRepairsEachDamage(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			l := newRounds(t)
			d.damage(l.world)
			require.Empty(t, l.round().Findings)
			require.Zero(t, l.loads)
			round := l.round()
			require.Equal(t, map[Kind]int{d.kind: 1}, round.Repaired)
			require.Empty(t, round.Findings)
			require.Equal(t, 1, l.loads)
			l.round()
			require.Equal(t, 1, l.loads)
		})
	}
}

// TestRunGlances: between two looks numbers are compared, and whoever is quiet and differs is looked at.
func TestRunGlances(t *testing.T) {
	l := newRounds(t)
	l.view.Queue = nil
	l.build()
	l.round()
	looks := l.looks
	l.round()
	require.Equal(t, looks, l.looks, "all is well")

	for name, tc := range map[string]struct {
		seen   bool
		damage func()
	}{
		"units":             {true, func() { l.view.Level.Stock++ }},
		"units, in a rush":  {true, func() { l.view.Level.Stock++; l.busy = true }},
		"checksum":          {true, func() { l.view.Level.Sum++ }},
		"checksum, rush":    {false, func() { l.view.Level.Sum++; l.busy = true }},
		"both":              {true, func() { l.view.Level.Stock++; l.view.Level.Held-- }},
		"users":             {true, func() { l.view.Level.Users-- }},
		"too many users":    {true, func() { l.view.Level.Users++ }},
		"queued":            {true, func() { l.view.Level.Queued++ }},
		"queued, a backlog": {false, func() { l.view.Level.Queued++; l.view.Level.Backlog++; l.view.Level.Sum++ }},
		"broken":            {true, func() { l.view.Broken = true }},
		"cold":              {false, func() { l.view.Cold = true }},
	} {
		l.build()
		l.busy = false
		l.watches[worldVoucher].nextGlance = time.Time{}
		tc.damage()
		looks := l.looks
		l.round()
		require.Equal(t, tc.seen, l.looks > looks, name)
		l.watches[worldVoucher].doubts = nil
	}
}

// TestRunLooksOnceAMinute also where all numbers are right.
func TestRunLooksOnceAMinute(t *testing.T) {
	l := newRounds(t)
	l.round()
	l.view.Buyers[0], l.view.Buyers[1] = Holder{500, 9}, Holder{501, 9}
	l.round()
	require.Equal(t, 1, l.looks)
	w := l.watches[worldVoucher]
	require.WithinDuration(t, time.Now().Add(lookEvery), w.nextLook, 10*time.Second)
	w.nextLook = time.Time{}
	l.round()
	require.Equal(t, map[Kind]int{KindPhantom: 1, KindBuyerMissing: 1}, l.round().Repaired)
}

// TestRunRests after a repair that did not help, and goes on telling.
func TestRunRests(t *testing.T) {
	l := newRounds(t)
	l.loadIsBad = true
	l.view.Level.Stock++
	for range 5 {
		l.round()
	}
	require.Equal(t, 1, l.loads)
	require.Equal(t, map[Kind]int{KindStockHigh: 1}, l.round().Findings)
	w := l.watches[worldVoucher]
	require.Equal(t, rebuildPause, w.rebuildPause)
	w.nextRebuild = time.Time{}
	l.round()
	require.Equal(t, 2, l.loads)
	require.Equal(t, 2*rebuildPause, w.rebuildPause)
	l.loadIsBad, w.nextRebuild = false, time.Time{}
	require.Equal(t, map[Kind]int{KindStockHigh: 1}, l.round().Repaired)
	require.Zero(t, w.rebuildPause)
}

// TestRunTellsOfTheBooks in every round, and forgets sales that nobody sells.
func TestRunTellsOfTheBooks(t *testing.T) {
	l := newRounds(t)
	l.facts.BadSlots = named([]Holder{{103, 1103}})
	require.Equal(t, map[Kind]int{KindI2: 1}, l.round().Findings)
	require.Equal(t, map[Kind]int{KindI2: 1}, l.round().Findings, "it is there still, though nobody looked")
	l.sales = nil
	require.Empty(t, l.round().Findings)
	require.Empty(t, l.watches)
	for _, sales := range [][]int64{nil, {worldVoucher}} {
		l.sales, l.watches = sales, map[int64]*watch{}
		l.listFails, l.storeFails = sales == nil, errors.New("down")
		round, err := l.r.round(t.Context(), l.watches)
		require.Error(t, err)
		require.False(t, round.OK)
	}
}

// TestRun goes on until its context ends.
func TestRun(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	r := w.reconciler(func(c *ReconcilerConfig) {
		c.Every = time.Millisecond
		c.Observe = func(round Round) {
			require.Equal(t, testNow, round.At)
			w.storeFails = errors.New("down") // of what comes next
			if rounds++; rounds == 3 {
				require.False(t, round.OK)
				cancel()
			}
		}
	})
	r.Run(ctx)
	require.Equal(t, 3, rounds)
}
