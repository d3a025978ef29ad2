package reconcile

import (
	"context"
	"seckill/internal/service"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			require.Equal(t, 1, w.loads)
			require.Equal(t, name == "broken", w.unloads == 1, "a gate that works is not unloaded")
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
	w.loadFails = service.ErrUnavailable
	_, err := r.Reconcile(t.Context(), worldVoucher, true)
	require.ErrorIs(t, err, service.ErrUnavailable)
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
			w.view.Tickets = append(w.view.Tickets, service.Holder{OrderID: 500 + int64(look), UserID: 9})
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
				h := service.Holder{OrderID: first + int64(look), UserID: 9}
				if cancels {
					w.gone = []service.OrderFact{{Holder: h}}
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
		h := service.Holder{OrderID: int64(look), UserID: 9}
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
		h := service.Holder{OrderID: age, UserID: 1}
		w.view.Buyers = append(w.view.Buyers, h)
		w.view.Tickets = append(w.view.Tickets, h)
		w.facts.Holders = append(w.facts.Holders, service.Holder{OrderID: age, UserID: 2})
		require.Len(t, w.report(w.reconciler(), false).Findings, map[int64]int{young: 0, old: 3}[age], "%d s", age)
	}
}

// TestReconcileOrdersOnTheirWay: one in the stream may be in the database already; one that is committed since is no
// phantom.
func TestReconcileOrdersOnTheirWay(t *testing.T) {
	w := newWorld(t)
	w.facts.Settled = []int64{106}
	w.facts.Holders = append(w.facts.Holders, held(106, 1106))
	w.facts.Active++
	w.facts.Sum += 106
	w.facts.Voucher.Sale.Stock--
	require.Empty(t, w.report(w.reconciler(), false).Findings)

	w = newWorld(t)
	w.view.Buyers = append(w.view.Buyers, held(300, 1300))
	w.gone = []service.OrderFact{{Holder: held(300, 1300), Active: true}}
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
		require.Empty(t, w.report(w.reconciler(func(c *Config) { c.Queue = false }), true).Findings, name)
		w.facts.Voucher.Sale.EndAt = testNow.Add(-time.Minute)
		want := 0
		if d.kind == KindTicketStray || d.kind == KindTicketMissing {
			want = 1 // buyers look at their orders after the end as well
		}
		require.Len(t, w.report(w.reconciler(), false).Findings, want, name)
	}
	w := newWorld(t)
	w.view = service.GateView{Cold: true}
	w.facts.Holders, w.facts.Active, w.facts.Voucher.Sale.Stock = nil, 0, 100
	require.Empty(t, w.report(w.reconciler(), false).Findings, "nobody has bought yet")
	w.view = service.GateView{Cold: true, Leftovers: true, Loading: true}
	require.Empty(t, w.report(w.reconciler(), false).Findings, "somebody is at work")

	require.Empty(t, w.report(w.reconciler(func(c *Config) { c.Gate = nil }), true).Findings)
}

// TestReconcileReports what it cannot repair.
func TestReconcileReports(t *testing.T) {
	orders := func(ids ...int64) service.Named {
		var hs []service.Holder
		for _, id := range ids {
			hs = append(hs, service.Holder{OrderID: id, UserID: id + 1000})
		}
		return service.NewNamed(hs)
	}
	for name, tc := range map[string]struct {
		kind   Kind
		orders []service.Holder
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
	r := w.reconciler(func(c *Config) { c.InUse = func() []int64 { return []int64{500, 7} } })
	all, err := r.Reconcile(t.Context(), 0, false)
	require.NoError(t, err)
	require.Len(t, all.Reports, 20)
	require.Equal(t, []int64{500, 7, 60, 59}, w.asked[:4])
	require.Equal(t, int64(31-19), all.LeftOut)

	w.facts = service.SaleFacts{}
	w.view = service.GateView{}
	_, err = r.Reconcile(t.Context(), 99, false)
	require.ErrorIs(t, err, service.ErrNotFound)
	w.storeFails = service.ErrUnavailable
	_, err = r.Reconcile(t.Context(), 0, false)
	require.ErrorIs(t, err, service.ErrUnavailable)

	r.room <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Reconcile(ctx, 99, false)
	require.ErrorIs(t, err, service.ErrUnavailable, "somebody is at it for too long")
	require.ErrorIs(t, err, context.Canceled)
}
