package reconcile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/test/env"
)

// TestReconcileReportsAndRepairsEachFault covers every fault of gateDamage. Only apply changes the gate.
func TestReconcileReportsAndRepairsEachFault(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			w := newFakeSale(t)
			r := w.reconciler()
			require.Empty(t, w.report(r, false).Findings)
			require.Equal(t, 1, w.snapshots, "a second snapshot without a difference")
			d.damage(w)
			found := w.report(r, false)
			f := env.Only(t, found.Findings)
			require.Equal(t, d.kind, f.Kind)
			require.Equal(t, d.count, f.Count)
			require.Equal(t, append([]domain.Holder{}, d.orders...), f.Orders)
			require.NotEmpty(t, f.Detail)
			require.True(t, f.Repairable)
			require.False(t, f.Repaired)
			require.Equal(t, 1, found.Left())
			if len(d.orders) > 0 {
				require.Equal(t, r.cfg.OrderTime(d.orders[0].OrderID), *f.Oldest)
			}
			require.Zero(t, w.loads, "a report changed the gate")

			found = w.report(r, true)
			require.True(t, env.Only(t, found.Findings).Repaired)
			require.Zero(t, found.Left())
			require.Equal(t, 1, w.loads)
			require.Equal(t, name == "broken", w.unloads == 1, "only an unreadable gate is unloaded")
			require.Empty(t, w.report(r, true).Findings)
			require.Equal(t, 1, w.loads, "a gate without drift was rebuilt")
		})
	}
}

func TestIneffectiveRepairIsReported(t *testing.T) {
	w := newFakeSale(t)
	r := w.reconciler()
	w.view.Level.Stock++
	w.loadHasNoEffect = true
	found := w.report(r, true)
	require.Equal(t, 1, found.Left())
	w.loadErr = domain.ErrUnavailable
	env.Fails(r.Reconcile(t.Context(), testVoucher, true))(t, domain.ErrUnavailable)
}

// TestDifferenceInOneSnapshotIsIgnored: such a difference was an operation in progress.
func TestDifferenceInOneSnapshotIsIgnored(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			w := newFakeSale(t)
			w.before = func(snapshot int) {
				if snapshot == 1 {
					d.damage(w)
				} else {
					w.build()
				}
			}
			require.Empty(t, w.report(w.reconciler(), true).Findings)
			require.Zero(t, w.loads)
		})
	}
	t.Run("a different value each time", func(t *testing.T) {
		w := newFakeSale(t)
		w.before = func(snapshot int) {
			w.build()
			w.view.Level.Stock += int64(snapshot)
			w.view.Level.Queued += int64(snapshot)
			w.view.Tickets = append(w.view.Tickets, domain.Holder{OrderID: 500 + int64(snapshot), UserID: 9})
		}
		require.Empty(t, w.report(w.reconciler(), true).Findings)
	})
}

// Each snapshot has a different order that is cancelled and not yet released, that the database does not have, or that another
// lane sold, so a quiet gate differs from the database by the same number in both. The orders are young or old.
func TestOrdersInProgressAreNoDrift(t *testing.T) {
	for _, first := range []int64{1, 300} {
		for _, kind := range []string{"cancelled", "not stored", "sold elsewhere"} {
			w := newFakeSale(t)
			base := w.facts
			w.before = func(snapshot int) {
				w.facts = base
				w.build()
				h := held(first+int64(snapshot), 9)
				switch kind {
				case "cancelled":
					w.orderFacts = []domain.OrderFact{{Holder: h}}
					w.admit(h)
				case "not stored":
					w.admit(h)
				default:
					w.sell(h)
				}
			}
			require.Empty(t, w.report(w.reconciler(), true).Findings, "from %d, %s", first, kind)
			require.Zero(t, w.loads)
		}
	}
	// A lost unit is still reported.
	w := newFakeSale(t)
	w.before = func(snapshot int) {
		w.build()
		w.admit(held(int64(snapshot), 9))
		w.view.Level.Stock--
	}
	f := env.Only(t, w.report(w.reconciler(), false).Findings)
	require.Equal(t, "the gate is missing 1 free unit", f.Detail)
	require.EqualValues(t, 1, f.Count)
}

// If the clock has been set back, an order that was placed before is in the future.
func TestOrdersYoungerThanMinAgeAreIgnored(t *testing.T) {
	const young, old, future = 9, 11, -600 // seconds
	for _, age := range []int64{young, old, future} {
		w := newFakeSale(t)
		w.admit(held(age, 1))
		w.view.Tickets = append(w.view.Tickets, held(age, 1))
		w.facts.Holders = append(w.facts.Holders, held(age, 2))
		require.Len(t, w.report(w.reconciler(), false).Findings, map[int64]int{young: 0, old: 2, future: 2}[age], "%d s", age)
	}
}

// An order may be in the stream and in the database, and a commit after SaleFacts does not make it a phantom.
func TestOrderCommittedDuringReadsIsNoFinding(t *testing.T) {
	w := newFakeSale(t)
	w.facts.Settled = []int64{106}
	w.sell(held(106, 1106))
	require.Empty(t, w.report(w.reconciler(), false).Findings)

	w = newFakeSale(t)
	w.admit(held(300, 1300))
	w.orderFacts = []domain.OrderFact{{Holder: held(300, 1300), Active: true}}
	require.Empty(t, w.report(w.reconciler(), false).Findings)
}

// TestBusyGateIsComparedByTotal: if the gate changes during every snapshot, the sum of units and orders is compared.
func TestBusyGateIsComparedByTotal(t *testing.T) {
	for name, d := range gateDamage {
		t.Run(name, func(t *testing.T) {
			w := newFakeSale(t)
			w.busy = true
			r := w.reconciler()
			require.Empty(t, w.report(r, false).Findings)
			d.damage(w)
			found := w.report(r, true)
			if name == "checksum" || name == "queued up" { // needs an exact snapshot
				require.Empty(t, found.Findings)
				require.True(t, found.Busy)
				return
			}
			f := env.Only(t, found.Findings)
			require.Equal(t, d.kind, f.Kind)
			require.Equal(t, d.count, f.Count)
			require.True(t, f.Repaired)
		})
	}
	t.Run("purchases between the snapshots", func(t *testing.T) {
		w := newFakeSale(t)
		w.busy = true
		w.before = func(snapshot int) {
			w.view.Level.Stock--
			w.view.Level.Held++
		}
		require.Empty(t, w.report(w.reconciler(), false).Findings)
		w.view.Level.Stock += 4
		require.EqualValues(t, 4, env.Only(t, w.report(w.reconciler(), false).Findings).Count)
	})
	t.Run("another number of orders on their way each time", func(t *testing.T) {
		w := newFakeSale(t)
		w.busy = true
		w.before = func(snapshot int) { w.view.Level.Stock -= int64(snapshot) } // cancelled and not yet released
		require.Empty(t, w.report(w.reconciler(), true).Findings)
		require.Zero(t, w.loads)
	})
}

// After the end of a sale, and in another lane, the data left in the gate has no effect. Queued orders and their tickets do.
func TestUnusedGateIsIgnored(t *testing.T) {
	for name, d := range gateDamage {
		w := newFakeSale(t)
		d.damage(w)
		require.Empty(t, w.report(w.reconciler(func(c *Config) { c.Queue = false }), true).Findings, name)
		w.facts.Voucher.Sale.EndAt = testNow.Add(-time.Minute)
		want := 0
		if d.kind == KindQueueDiffers {
			want = 1 // buyers see their tickets after the end too
		}
		require.Len(t, w.report(w.reconciler(), false).Findings, want, name)
	}
	w := newFakeSale(t)
	w.view = domain.GateView{Cold: true}
	w.facts.Holders, w.facts.Active, w.facts.Voucher.Sale.Stock = nil, 0, 100
	require.Empty(t, w.report(w.reconciler(), false).Findings, "cold before the first purchase")
	w.facts.Active, w.facts.Voucher.Sale.Stock = 1, 99
	require.Len(t, w.report(w.reconciler(), false).Findings, 1)
	w.view.Loading = true
	require.Empty(t, w.report(w.reconciler(), false).Findings, "cold while a loader works")

	require.Empty(t, w.report(w.reconciler(func(c *Config) { c.Gate = nil }), true).Findings)
}

func TestFindingsThatNeedADecisionAreReported(t *testing.T) {
	orders := func(ids ...int64) domain.Named {
		var hs []domain.Holder
		for _, id := range ids {
			hs = append(hs, domain.Holder{OrderID: id, UserID: id + 1000})
		}
		return domain.NewNamed(hs)
	}
	for name, tc := range map[string]struct {
		kind   Kind
		orders []domain.Holder
		damage func(w *fakeSale)
	}{
		"stuck":        {KindStuck, orders(106).Orders, func(w *fakeSale) { w.view.Queue[0].Since = testNow.Add(-2 * time.Minute) }},
		"dead letters": {KindDeadLetters, orders(900, 901).Orders, func(w *fakeSale) { w.view.Letters = orders(900, 901).Orders }},
		"unpaid":       {KindUnpaid, orders(101).Orders, func(w *fakeSale) { w.facts.Expired = orders(101) }},
		"refunding":    {KindRefunding, orders(102).Orders, func(w *fakeSale) { w.facts.Refunding = orders(102) }},
		"slots":        {KindI2, orders(103).Orders, func(w *fakeSale) { w.facts.BadSlots = orders(103) }},
		"oversold": {KindI1, orders(105, 104).Orders, func(w *fakeSale) {
			w.facts.Voucher.Sale.InitialStock, w.facts.Voucher.Sale.Stock = 4, 0
		}},
		"undersold": {KindI5, orders(800).Orders, func(w *fakeSale) { w.facts.Voucher.Sale.Stock--; w.facts.Returned = orders(800) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeSale(t)
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
			require.Equal(t, w.reconciler().cfg.OrderTime(oldest.OrderID), *f.Oldest)
		})
	}
}

// The vouchers in use come first, and 20 are checked in total. Concurrent calls wait for each other.
func TestReconcileWithoutVoucherChecksUsedAndNewestSales(t *testing.T) {
	w := newFakeSale(t)
	for id := int64(60); id > 30; id-- {
		w.sales = append(w.sales, id)
	}
	r := w.reconciler(func(c *Config) { c.InUse = func() []int64 { return []int64{500, 7} } })
	all := env.Must(r.Reconcile(t.Context(), 0, false))(t)
	require.Len(t, all.Reports, 20)
	require.Equal(t, []int64{500, 7, 60, 59}, w.read[:4])
	require.Equal(t, int64(31-19), all.LeftOut)

	w.facts = domain.SaleFacts{}
	w.view = domain.GateView{}
	env.Fails(r.Reconcile(t.Context(), 99, false))(t, domain.ErrNotFound)
	w.storeErr = domain.ErrUnavailable
	env.Fails(r.Reconcile(t.Context(), 0, false))(t, domain.ErrUnavailable)

	r.running <- struct{}{}
	_, err := r.Reconcile(env.Cancelled(t.Context()), 99, false)
	require.ErrorIs(t, err, domain.ErrUnavailable, "the semaphore is taken")
	require.ErrorIs(t, err, context.Canceled)
}

// Queued admissions count as committed or not; any other difference is reported. It holds the wording.
func TestComparisonToleratesQueuedAdmissions(t *testing.T) {
	type level = domain.GateLevel
	for name, tc := range map[string]struct {
		gate          level
		stock, active int64
		blocks        bool
		want          string
	}{
		"equal":                  {level{Stock: 7, Held: 3}, 7, 3, false, ""},
		"queued, none committed": {level{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 9, 1, false, ""},
		"queued, some committed": {level{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 8, 2, false, ""},
		"queued, all committed":  {level{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 7, 3, false, ""},
		"unit lost":              {level{Stock: 6, Held: 3}, 7, 3, true, "the gate is missing 1 free unit"},
		"extra buyer":            {level{Stock: 7, Held: 4}, 7, 3, true, "the gate counts 1 nonexistent order"},
		"release lost":           {level{Stock: 6, Held: 4}, 7, 3, true, "the gate is missing 1 free unit; the gate counts 1 nonexistent order"},
		"release lost, with queued admissions": {level{Stock: 6, Held: 6, Queued: 2, Backlog: 2}, 9, 3, true,
			"the gate is missing 1 free unit; the gate counts 1 nonexistent order"},
		"queued, empty stream": {level{Stock: 5, Held: 5, Queued: 1}, 7, 3, true, "the gate is missing 2 free units; the gate counts 2 nonexistent orders"},
		"other orders":         {level{Stock: 7, Held: 3, Sum: 10}, 7, 3, true, "the gate counts other orders than the active ones"},
		"sold by another lane": {level{Stock: 7, Held: 3}, 6, 4, false, "the gate offers 1 nonexistent unit; the gate is missing 1 active order"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Comparison{drift: driftOf(tc.gate, SaleLevel{Stock: tc.stock, Active: tc.active}, openAdmissions(tc.gate))}
			require.Equal(t, tc.want, c.String())
			require.Equal(t, tc.blocks, c.Blocks())
			require.Equal(t, tc.want == "", c.Matches())
		})
	}
}

// fakeSale implements Gate and Store in memory for one sale. An order id is the age of the order at testNow in seconds.
type fakeSale struct {
	domain.GateStore // no method is called
	t                *testing.T
	facts            domain.SaleFacts
	sum              int64 // of the ids of its active orders
	view             domain.GateView
	orderFacts       []domain.OrderFact // orders returned by OrderFacts

	snapshots, unloads, loads int
	before                    func(snapshot int) // called before each snapshot, with its number from 1
	busy                      bool               // the gate's version changes with each read of the counters
	loadErr, unloadErr        error
	loadTime                  time.Duration
	loadHasNoEffect           bool
	storeErr                  error
	read                      []int64 // the vouchers whose facts were read
	sales                     []int64
}

const testVoucher = 7

// newFakeSale returns a sale of 100 units without differences: orders 100 to 105 are committed, 106 waits in the
// stream.
func newFakeSale(t *testing.T) *fakeSale {
	w := &fakeSale{t: t, sales: []int64{testVoucher}}
	w.facts = domain.SaleFacts{
		VoucherID: testVoucher,
		Voucher: domain.Voucher{ID: testVoucher, Type: domain.VoucherSeckill, Status: domain.VoucherOn, Sale: &domain.Sale{
			InitialStock: 100, Stock: 100, BeginAt: testNow.Add(-time.Hour), EndAt: testNow.Add(time.Hour), LimitPerUser: 1,
		}},
	}
	for id := int64(100); id < 106; id++ {
		w.sell(held(id, id+1000))
	}
	w.view.Queue = []domain.Queued{{Holder: held(106, 1106), Since: testNow.Add(-20 * time.Second)}}
	w.build()
	return w
}

func (w *fakeSale) build() {
	v := domain.GateView{Queue: w.view.Queue, Letters: w.view.Letters}
	v.Buyers = slices.Clone(w.facts.Holders)
	v.Level = domain.GateLevel{Stock: w.facts.Voucher.Sale.Stock, Held: w.facts.Active, Sum: w.sum, Version: w.view.Level.Version + 1, Built: w.view.Level.Version + 1}
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
	w.view = v
}

func (w *fakeSale) Inspect(context.Context, int64, int) (domain.GateView, error) {
	w.snapshots++
	if w.before != nil {
		w.before(w.snapshots)
	}
	v := w.view
	v.Buyers, v.Tickets, v.Queue = slices.Clone(v.Buyers), slices.Clone(v.Tickets), slices.Clone(v.Queue)
	return v, nil
}

func (w *fakeSale) Level(context.Context, int64) (domain.GateLevel, error) {
	switch {
	case w.view.Cold:
		return domain.GateLevel{}, domain.ErrGateCold
	case w.view.Broken:
		return domain.GateLevel{}, domain.ErrGateBroken
	}
	if w.busy {
		w.view.Level.Version++
	}
	return w.view.Level, nil
}

func (w *fakeSale) Unload(context.Context, int64) error { w.unloads++; return w.unloadErr }

func (w *fakeSale) Rebuild(ctx context.Context, v, built int64, store domain.GateStore) error {
	require.Equal(w.t, w.view.Level.Built, built)
	return w.Load(ctx, v, store)
}

func (w *fakeSale) Load(ctx context.Context, v int64, store domain.GateStore) error {
	require.NotNil(w.t, store)
	w.loads++
	time.Sleep(w.loadTime)
	if w.loadErr == nil && !w.loadHasNoEffect {
		w.build()
	}
	return w.loadErr
}

func (w *fakeSale) SaleLevel(context.Context, int64) (SaleLevel, error) {
	return SaleLevel{Stock: w.facts.Voucher.Sale.Stock, Active: w.facts.Active, Sum: w.sum}, w.storeErr
}

func (w *fakeSale) SaleFacts(_ context.Context, v int64, _ []int64, _ int, since domain.OverdueSince) (domain.SaleFacts, error) {
	require.True(w.t, since.Expired.Before(testNow) && since.Refunding.Before(since.Expired))
	w.read = append(w.read, v)
	f := w.facts
	f.VoucherID = v
	f.Holders = slices.Clone(f.Holders)
	return f, w.storeErr
}

func (w *fakeSale) OrderFacts(_ context.Context, _ int64, ids []int64) ([]domain.OrderFact, error) {
	var facts []domain.OrderFact
	for _, f := range w.orderFacts {
		if slices.Contains(ids, f.OrderID) {
			facts = append(facts, f)
		}
	}
	return facts, nil
}

func (w *fakeSale) Sales(_ context.Context, endAfter time.Time, most int) ([]int64, int64, error) {
	require.True(w.t, endAfter.Before(testNow))
	return w.sales[:min(len(w.sales), most)], int64(len(w.sales)), nil
}

func (w *fakeSale) SalesEnded(_ context.Context, after, until time.Time) ([]int64, error) {
	if end := w.facts.Voucher.Sale.EndAt; end.After(after) && !end.After(until) {
		return w.sales, nil
	}
	return nil, nil
}

// reconciler returns a Reconciler of the sale whose snapshots follow each other without a pause.
func (w *fakeSale) reconciler(change ...func(*Config)) *Reconciler {
	cfg := Config{
		Gate: w, Store: w, Queue: true, Now: func() time.Time { return testNow }, Pause: time.Nanosecond,
		OrderTime: func(id int64) time.Time { return testNow.Add(-time.Duration(id) * time.Second) },
		Log:       slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	return New(cfg)
}

func (w *fakeSale) report(r *Reconciler, apply bool) Report {
	w.t.Helper()
	return env.Only(w.t, env.Must(r.Reconcile(w.t.Context(), testVoucher, apply))(w.t).Reports)
}

// gateDamage lists faults of the gate, each with the single finding that must report it.
var gateDamage = map[string]struct {
	kind   Kind
	orders []domain.Holder
	count  int64
	damage func(w *fakeSale)
}{
	"stock up":             {KindGateDiffers, nil, 5, func(w *fakeSale) { w.view.Level.Stock += 5 }},
	"stock down":           {KindGateDiffers, nil, 5, func(w *fakeSale) { w.view.Level.Stock -= 5 }},
	"held up":              {KindGateDiffers, nil, 3, func(w *fakeSale) { w.view.Level.Held += 3 }},
	"held down":            {KindGateDiffers, nil, 3, func(w *fakeSale) { w.view.Level.Held -= 3 }},
	"checksum":             {KindGateDiffers, nil, 9, func(w *fakeSale) { w.view.Level.Sum += 9 }},
	"queued up":            {KindGateDiffers, nil, 2, func(w *fakeSale) { w.view.Level.Queued += 2 }},
	"buyer missing":        {KindGateDiffers, []domain.Holder{held(103, 1103)}, 1, func(w *fakeSale) { w.remove(103) }},
	"queued buyer missing": {KindGateDiffers, []domain.Holder{held(106, 1106)}, 1, func(w *fakeSale) { w.remove(106) }},
	"phantom": {KindGateDiffers, []domain.Holder{held(500, 9)}, 1, func(w *fakeSale) {
		w.view.Buyers = append(w.view.Buyers, held(500, 9))
	}},
	"order of another user": {KindGateDiffers, []domain.Holder{held(103, 9)}, 1, func(w *fakeSale) {
		w.view.Buyers = append(w.view.Buyers, held(103, 9))
	}},
	"not released": {KindGateDiffers, []domain.Holder{held(300, 1300)}, 1, func(w *fakeSale) {
		w.orderFacts = []domain.OrderFact{{Holder: held(300, 1300)}}
		w.view.Buyers = append(w.view.Buyers, held(300, 1300))
	}},
	"release lost": {KindGateDiffers, []domain.Holder{held(103, 1103)}, 1, func(w *fakeSale) {
		w.orderFacts = []domain.OrderFact{{Holder: held(103, 1103)}}
		w.facts.Holders = slices.DeleteFunc(w.facts.Holders, func(h domain.Holder) bool { return h.OrderID == 103 })
		w.facts.Active--
		w.sum -= 103
		w.facts.Voucher.Sale.Stock++
	}},
	"sold by another lane": {KindGateDiffers, []domain.Holder{held(200, 1200)}, 1, func(w *fakeSale) { w.sell(held(200, 1200)) }},
	"stream trimmed": {KindQueueDiffers, []domain.Holder{held(200, 5)}, 1, func(w *fakeSale) {
		w.view.Tickets = append(w.view.Tickets, held(200, 5))
	}},
	"ticket missing": {KindQueueDiffers, []domain.Holder{held(106, 1106)}, 1, func(w *fakeSale) { w.view.Tickets = nil }},
	"cold": {KindGateCold, nil, 0, func(w *fakeSale) {
		w.view = domain.GateView{Cold: true, Queue: w.view.Queue, Tickets: w.view.Tickets}
	}},
	"broken":     {KindGateBroken, nil, 0, func(w *fakeSale) { w.view.Broken = true }},
	"unreadable": {KindGateBroken, nil, 0, func(w *fakeSale) { w.view.Unreadable = 2 }},
}

// sell adds an order to the database only, in a new sale and a new list.
func (w *fakeSale) sell(h domain.Holder) {
	sale := *w.facts.Voucher.Sale
	sale.Stock--
	w.facts.Voucher.Sale, w.facts.Holders = &sale, append(slices.Clone(w.facts.Holders), h)
	w.facts.Active++
	w.sum += h.OrderID
}

// admit adds an order to the gate only.
func (w *fakeSale) admit(h domain.Holder) {
	w.view.Buyers = append(w.view.Buyers, h)
	w.view.Level.Stock--
	w.view.Level.Held++
	w.view.Level.Sum += h.OrderID
}

func (w *fakeSale) remove(order int64) {
	w.view.Buyers = slices.DeleteFunc(w.view.Buyers, func(h domain.Holder) bool { return h.OrderID == order })
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

func held(order, user int64) domain.Holder { return domain.Holder{OrderID: order, UserID: user} }

// rounds runs rounds of the background loop without its ticker.
type rounds struct {
	*fakeSale
	r      *Reconciler
	states map[int64]*voucherState
}

func newRounds(t *testing.T) *rounds {
	w := newFakeSale(t)
	return &rounds{fakeSale: w, r: w.reconciler(), states: map[int64]*voucherState{}}
}

func (l *rounds) round() Round {
	l.t.Helper()
	round := env.Must(l.r.round(l.t.Context(), l.states))(l.t)
	require.True(l.t, round.OK)
	return round
}

// TestGatesOfEndedSalesAreRemoved: a day after the end, once, and again if Redis did not answer.
func TestGatesOfEndedSalesAreRemoved(t *testing.T) {
	w := newFakeSale(t)
	at := w.facts.Voucher.Sale.EndAt.Add(24 * time.Hour)
	task := w.reconciler(func(cfg *Config) { cfg.Now = func() time.Time { return at } }).UnloadTask()
	at = at.Add(-time.Second)
	require.NoError(t, task.Run(t.Context()))
	require.Zero(t, w.unloads)
	at, w.unloadErr = at.Add(time.Second), domain.ErrUnavailable
	require.ErrorIs(t, task.Run(t.Context()), domain.ErrUnavailable)
	w.unloadErr = nil
	for range 3 {
		require.NoError(t, task.Run(t.Context()))
		at = at.Add(time.Hour)
	}
	require.Equal(t, 2, w.unloads)
	require.NoError(t, w.reconciler(func(cfg *Config) { cfg.Now = func() time.Time { return at } }).UnloadTask().Run(t.Context()))
	require.Equal(t, 3, w.unloads, "by a new process")
}

// Between two snapshots only counters are compared. A difference that orders in progress may explain is ignored.
func TestCounterDifferenceTriggersSnapshot(t *testing.T) {
	l := newRounds(t)
	l.view.Queue = nil
	l.build()
	l.round()
	snapshots := l.snapshots
	l.round()
	require.Equal(t, snapshots, l.snapshots, "a snapshot although the counters agree")

	for name, tc := range map[string]struct {
		taken  bool
		damage func()
	}{
		"units":             {true, func() { l.view.Level.Stock++ }},
		"units, in a rush":  {true, func() { l.view.Level.Stock++; l.busy = true }},
		"checksum":          {true, func() { l.view.Level.Sum++ }},
		"checksum, rush":    {false, func() { l.view.Level.Sum++; l.busy = true }},
		"both":              {true, func() { l.view.Level.Stock++; l.view.Level.Held-- }},
		"queued":            {true, func() { l.view.Level.Queued++ }},
		"queued, a backlog": {false, func() { l.view.Level.Queued++; l.view.Level.Backlog++; l.view.Level.Sum++ }},
		"broken":            {true, func() { l.view.Broken = true }},
		"cold":              {false, func() { l.view.Cold = true }},
	} {
		l.build()
		l.busy = false
		l.states[testVoucher].nextPoll = time.Time{}
		tc.damage()
		snapshots := l.snapshots
		l.round()
		require.Equal(t, tc.taken, l.snapshots > snapshots, name)
		l.states[testVoucher].suspect = nil
	}
}

// TestSnapshotOnceAMinute finds wrong orders in a gate whose counters are right. The second snapshot in a row repairs them.
func TestSnapshotOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRounds(t)
		l.round()
		l.view.Buyers[0], l.view.Buyers[1] = held(500, 9), held(501, 9)
		time.Sleep(snapshotInterval - time.Second)
		l.round()
		require.Equal(t, 1, l.snapshots)
		time.Sleep(time.Second)
		require.Empty(t, l.round().Findings)
		require.Zero(t, l.loads, "repaired after one snapshot")
		round := l.round()
		require.Equal(t, map[Kind]int{KindGateDiffers: 1}, round.Repaired)
		require.Empty(t, round.Findings)
		l.round()
		require.Equal(t, 1, l.loads)

		// Those of a large sale take at most a hundredth of the time.
		l.before = func(int) { time.Sleep(3 * time.Second) }
		time.Sleep(snapshotInterval)
		l.round()
		snapshots := l.snapshots
		time.Sleep(5*time.Minute - time.Second)
		l.round()
		require.Equal(t, snapshots, l.snapshots)
		time.Sleep(time.Second)
		l.round()
		require.Equal(t, snapshots+1, l.snapshots)
	})
}

// They run once a minute, or less often if they take long. The finding is still reported in every round.
func TestRebuildsWithoutEffectAreRare(t *testing.T) {
	for name, tc := range map[string]struct {
		fail  func(w *fakeSale)
		pause time.Duration
	}{
		"no effect": {func(w *fakeSale) { w.loadHasNoEffect = true }, rebuildPause},
		"an error":  {func(w *fakeSale) { w.loadTime, w.loadErr = 10*time.Second, domain.ErrUnavailable }, 10 * time.Second * pollTimeFactor},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newRounds(t)
			tc.fail(l.fakeSale)
			l.view.Level.Stock++
			for loads := 1; loads <= 2; loads++ {
				var err error
				for l.loads < loads {
					_, err = l.r.round(t.Context(), l.states)
				}
				require.ErrorIs(t, err, l.loadErr, name)
				time.Sleep(tc.pause - time.Second)
				require.Equal(t, map[Kind]int{KindGateDiffers: 1}, l.round().Findings, name)
				require.Equal(t, loads, l.loads, name)
				time.Sleep(time.Second)
			}
			l.loadHasNoEffect, l.loadErr, l.loadTime = false, nil, 0
			require.Equal(t, map[Kind]int{KindGateDiffers: 1}, l.round().Repaired, name)

			l.view.Level.Stock++
			l.round()
			require.Equal(t, map[Kind]int{KindGateDiffers: 1}, l.round().Repaired, "%s: another difference is repaired at once", name)
		})
	}
}

// A unit that the gate lacks can be bought within a minute (I5), although Redis or the database fails for a moment.
func TestFailedRebuildIsRepeatedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRounds(t)
		l.view.Level.Stock--
		l.loadErr = domain.ErrUnavailable
		start := time.Now()
		for l.loads < 2 {
			_, err := l.r.round(t.Context(), l.states)
			if l.loads == 1 && err != nil {
				l.loadErr = nil
			}
			time.Sleep(5 * time.Second)
		}
		require.Less(t, time.Since(start), time.Minute)
	})
}

// TestInvariantFindingsAreReportedInEveryRound, until the invariant holds, even if the sale is over. Checks has them
// too, and each is logged once.
func TestInvariantFindingsAreReportedInEveryRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRounds(t)
		var log bytes.Buffer
		l.r.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		round := func() map[Kind]int {
			r := l.round()
			l.r.publish(r, l.states)
			require.Equal(t, r.At, l.r.Checks().At)
			return r.Findings
		}
		l.facts.BadSlots = domain.NewNamed([]domain.Holder{held(103, 1103)})
		require.Equal(t, map[Kind]int{KindI2: 1}, round())
		require.Equal(t, map[Kind]int{KindI2: 1}, round(), "a round without a snapshot")
		l.sales = nil
		require.Equal(t, map[Kind]int{KindI2: 1}, round())
		require.Equal(t, KindI2, env.Only(t, l.r.Checks().Violations).Invariant)
		require.Equal(t, 1, strings.Count(log.String(), "an invariant is violated"), log.String())

		l.facts.BadSlots = domain.Named{}
		time.Sleep(snapshotInterval)
		require.Empty(t, round())
		require.Empty(t, l.r.Checks().Violations)
		require.Empty(t, round())
		require.Empty(t, l.states)
	})
}

// TestRoundFailsUntilNextSuccessfulRead, even if no read is due.
func TestRoundFailsUntilNextSuccessfulRead(t *testing.T) {
	l := newRounds(t)
	l.round()
	l.storeErr = errors.New("down")
	w := l.states[testVoucher]
	for range 3 {
		round, err := l.r.round(t.Context(), l.states)
		require.Error(t, err)
		require.False(t, round.OK)
		w.nextPoll = time.Now().Add(time.Hour)
	}
	l.storeErr, w.nextPoll = nil, time.Time{}
	l.round()
}

// A round that failed is observed, and one that the end of the program interrupts is not. Package loop runs the others.
func TestRoundsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeSale(t)
		var ok []bool
		r := w.reconciler(func(c *Config) {
			c.Observe = func(round Round) {
				require.Equal(t, testNow, round.At)
				ok = append(ok, round.OK)
			}
		})
		task := r.Task()
		require.Equal(t, r.Every(), task.Every)
		require.NoError(t, task.Run(t.Context()))
		w.storeErr = errors.New("down")
		require.ErrorIs(t, task.Run(t.Context()), w.storeErr)
		_ = task.Run(env.Cancelled(t.Context()))
		require.Equal(t, []bool{true, false}, ok)
	})
}
