package reconcile

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/test/env"
)

// fakeSale implements Gate and Store in memory for one sale. An order id is the age of the order at testNow in seconds.
type fakeSale struct {
	domain.GateStore // no method is called
	t                *testing.T
	facts            domain.SaleFacts
	view             domain.GateView
	orderFacts       []domain.OrderFact // orders returned by OrderFacts

	snapshots, unloads, loads int
	before                    func(snapshot int) // called before each snapshot, with its number from 1
	busy                      bool               // the gate's version changes with each read of the counters
	loadErr                   error
	loadTime                  time.Duration
	loadHasNoEffect           bool
	storeErr                  error
	listFails                 bool    // Sales returns storeErr too
	read                      []int64 // the vouchers whose facts were read
	sales                     []int64
}

const testVoucher = 7

// newFakeSale returns a sale of 100 units without differences: orders 100 to 105 are committed, 106 waits in the
// stream.
func newFakeSale(t *testing.T) *fakeSale {
	w := &fakeSale{t: t, sales: []int64{testVoucher}}
	w.facts = domain.SaleFacts{
		VoucherID: testVoucher, Active: 6,
		Voucher: domain.Voucher{ID: testVoucher, Type: domain.VoucherSeckill, Status: domain.VoucherOn, Sale: &domain.Sale{
			InitialStock: 100, Stock: 94, BeginAt: testNow.Add(-time.Hour), EndAt: testNow.Add(time.Hour), LimitPerUser: 1,
		}},
	}
	for id := int64(100); id < 106; id++ {
		w.facts.Holders = append(w.facts.Holders, domain.Holder{OrderID: id, UserID: id + 1000})
		w.facts.Sum += id
	}
	w.view.Queue = []domain.Queued{{Holder: held(106, 1106), Since: testNow.Add(-20 * time.Second)}}
	w.build()
	return w
}

func (w *fakeSale) build() {
	v := domain.GateView{Queue: w.view.Queue, Letters: w.view.Letters}
	v.Buyers = slices.Clone(w.facts.Holders)
	v.Level = domain.GateLevel{Stock: w.facts.Voucher.Sale.Stock, Held: w.facts.Active, Sum: w.facts.Sum, Version: w.view.Level.Version + 1, Built: w.view.Level.Version + 1}
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

func (w *fakeSale) Unload(context.Context, int64) error { w.unloads++; return nil }

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
	return SaleLevel{
		Stock: w.facts.Voucher.Sale.Stock, Limit: w.facts.Voucher.Sale.LimitPerUser, Active: w.facts.Active, Sum: w.facts.Sum,
	}, w.storeErr
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
	if w.listFails {
		return nil, 0, w.storeErr
	}
	return w.sales[:min(len(w.sales), most)], int64(len(w.sales)), nil
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
	all := env.Must(r.Reconcile(w.t.Context(), testVoucher, apply))(w.t)
	require.Len(w.t, all.Reports, 1)
	return all.Reports[0]
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
		w.facts.Sum -= 103
		w.facts.Voucher.Sale.Stock++
	}},
	"sold by another lane": {KindGateDiffers, []domain.Holder{held(200, 1200)}, 1, func(w *fakeSale) {
		w.facts.Holders = append(w.facts.Holders, held(200, 1200))
		w.facts.Active++
		w.facts.Sum += 200
		w.facts.Voucher.Sale.Stock--
	}},
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
