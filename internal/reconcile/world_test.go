package reconcile

import (
	"context"
	"log/slog"
	"seckill/internal/service"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is a gate and a database in memory. Order ids are seconds before testNow, negated: 100 was made 100 s ago.
type world struct {
	t     *testing.T
	facts service.SaleFacts
	view  service.GateView
	gone  []service.OrderFact // orders that do not hold a unit

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
	w.facts = service.SaleFacts{
		VoucherID: worldVoucher, Active: 6,
		Voucher: service.Voucher{ID: worldVoucher, Type: service.VoucherSeckill, Status: service.VoucherOn, Sale: &service.Sale{
			InitialStock: 100, Stock: 94, BeginAt: testNow.Add(-time.Hour), EndAt: testNow.Add(time.Hour), LimitPerUser: 1,
		}},
	}
	for id := int64(100); id < 106; id++ {
		w.facts.Holders = append(w.facts.Holders, service.Holder{OrderID: id, UserID: id + 1000})
		w.facts.Sum += id
	}
	w.view.Queue = []service.Queued{{Holder: held(106, 1106), Since: testNow.Add(-20 * time.Second)}}
	w.build()
	return w
}

// build makes the gate what it should be.
func (w *world) build() {
	v := service.GateView{Queue: w.view.Queue, Letters: w.view.Letters}
	v.Buyers = slices.Clone(w.facts.Holders)
	v.Level = service.GateLevel{Stock: w.facts.Voucher.Sale.Stock, Held: w.facts.Active, Sum: w.facts.Sum, Version: w.view.Level.Version + 1, Built: w.view.Level.Version + 1}
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

func (w *world) Inspect(context.Context, int64, int) (service.GateView, error) {
	w.looks++
	if w.before != nil {
		w.before(w.looks)
	}
	v := w.view
	v.Buyers, v.Tickets, v.Queue = slices.Clone(v.Buyers), slices.Clone(v.Tickets), slices.Clone(v.Queue)
	return v, nil
}

func (w *world) Level(context.Context, int64) (service.GateLevel, error) {
	switch {
	case w.view.Cold:
		return service.GateLevel{}, service.ErrGateCold
	case w.view.Broken:
		return service.GateLevel{}, service.ErrGateBroken
	}
	if w.busy {
		w.view.Level.Version++
	}
	return w.view.Level, nil
}

func (w *world) Unload(context.Context, int64) error { w.unloads++; return nil }

func (w *world) Rebuild(ctx context.Context, v, built int64, read service.GateReader) error {
	require.Equal(w.t, w.view.Level.Built, built)
	return w.Load(ctx, v, read)
}

func (w *world) Load(ctx context.Context, v int64, read service.GateReader) error {
	require.NotNil(w.t, read)
	w.loads++
	if w.loadFails == nil && !w.loadIsBad {
		w.build()
	}
	return w.loadFails
}

func (w *world) GateState(context.Context, int64, []int64) (service.GateState, error) {
	return service.GateState{}, nil
}

func (w *world) SaleLevel(context.Context, int64) (SaleLevel, error) {
	return SaleLevel{
		Stock: w.facts.Voucher.Sale.Stock, Limit: w.facts.Voucher.Sale.LimitPerUser, Active: w.facts.Active, Sum: w.facts.Sum,
	}, w.storeFails
}

func (w *world) SaleFacts(_ context.Context, v int64, _ []int64, _ int, since service.OverdueSince) (service.SaleFacts, error) {
	require.True(w.t, since.Expired.Before(testNow) && since.Refunding.Before(since.Expired))
	w.asked = append(w.asked, v)
	f := w.facts
	f.VoucherID = v
	f.Holders = slices.Clone(f.Holders)
	return f, w.storeFails
}

func (w *world) OrderFacts(_ context.Context, _ int64, ids []int64) ([]service.OrderFact, error) {
	var facts []service.OrderFact
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
func (w *world) reconciler(change ...func(*Config)) *Reconciler {
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
	orders []service.Holder
	count  int64
	damage func(w *world)
}{
	"stock up":         {KindStockHigh, nil, 5, func(w *world) { w.view.Level.Stock += 5 }},
	"stock down":       {KindStockLow, nil, 5, func(w *world) { w.view.Level.Stock -= 5 }},
	"held up":          {KindHeldOff, nil, 3, func(w *world) { w.view.Level.Held += 3 }},
	"held down":        {KindHeldOff, nil, 3, func(w *world) { w.view.Level.Held -= 3 }},
	"checksum":         {KindSumOff, nil, 9, func(w *world) { w.view.Level.Sum += 9 }},
	"queued up":        {KindQueuedOff, nil, 2, func(w *world) { w.view.Level.Queued += 2 }},
	"a buyer missing":  {KindBuyerMissing, []service.Holder{held(103, 1103)}, 1, func(w *world) { w.remove(103) }},
	"a queued missing": {KindBuyerMissing, []service.Holder{held(106, 1106)}, 1, func(w *world) { w.remove(106) }},
	"a phantom": {KindPhantom, []service.Holder{held(500, 9)}, 1, func(w *world) {
		w.view.Buyers = append(w.view.Buyers, held(500, 9))
	}},
	"somebody else's order": {KindPhantom, []service.Holder{held(103, 9)}, 1, func(w *world) {
		w.view.Buyers = append(w.view.Buyers, held(103, 9))
	}},
	"not released": {KindNotReleased, []service.Holder{held(300, 1300)}, 1, func(w *world) {
		w.gone = []service.OrderFact{{Holder: held(300, 1300)}}
		w.view.Buyers = append(w.view.Buyers, held(300, 1300))
	}},
	"a release unheard": {KindNotReleased, []service.Holder{held(103, 1103)}, 1, func(w *world) {
		w.gone = []service.OrderFact{{Holder: held(103, 1103)}}
		w.facts.Holders = slices.DeleteFunc(w.facts.Holders, func(h service.Holder) bool { return h.OrderID == 103 })
		w.facts.Active--
		w.facts.Sum -= 103
		w.facts.Voucher.Sale.Stock++
	}},
	"sold by another lane": {KindBuyerMissing, []service.Holder{held(200, 1200)}, 1, func(w *world) {
		w.facts.Holders = append(w.facts.Holders, held(200, 1200))
		w.facts.Active++
		w.facts.Sum += 200
		w.facts.Voucher.Sale.Stock--
	}},
	"a stream that was cut": {KindTicketStray, []service.Holder{held(200, 5)}, 1, func(w *world) {
		w.view.Tickets = append(w.view.Tickets, held(200, 5))
	}},
	"a ticket missing": {KindTicketMissing, []service.Holder{held(106, 1106)}, 1, func(w *world) { w.view.Tickets = nil }},
	"cold": {KindGateCold, nil, 0, func(w *world) {
		w.view = service.GateView{Cold: true, Queue: w.view.Queue, Tickets: w.view.Tickets}
	}},
	"broken":     {KindGateBroken, nil, 0, func(w *world) { w.view.Broken = true }},
	"unreadable": {KindGateBroken, nil, 0, func(w *world) { w.view.Unreadable = 2 }},
}

func (w *world) remove(order int64) {
	w.view.Buyers = slices.DeleteFunc(w.view.Buyers, func(h service.Holder) bool { return h.OrderID == order })
}
