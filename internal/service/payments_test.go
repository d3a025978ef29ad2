package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// refundRows are the refunds of several instances, with the claims of the real store.
type refundRows struct {
	PaymentStore
	mu   sync.Mutex
	rows []*refundRow
}

type refundRow struct {
	Payment
	due  time.Time
	done bool
}

func newRefundRows(n int) *refundRows {
	r := &refundRows{}
	for i := range n {
		r.rows = append(r.rows, &refundRow{Payment: Payment{ID: int64(i), Ref: fmt.Sprint("pay_", i), Provider: "bank"}, due: time.Now()})
	}
	return r
}

func (r *refundRows) DueRefunds(_ context.Context, limit int, wait func(tries int) time.Duration) ([]Payment, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []Payment
	for _, row := range r.rows {
		if !row.done && !row.due.After(time.Now()) && len(due) < limit {
			row.due = time.Now().Add(wait(row.RefundTries))
			row.RefundTries++
			due = append(due, row.Payment)
		}
	}
	return due, nil
}

func (r *refundRows) FinishRefund(_ context.Context, id int64, _ time.Time) (*Order, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows[id].done {
		return nil, nil
	}
	r.rows[id].done = true
	return &Order{ID: id, VoucherID: 7}, nil
}

func (r *refundRows) open() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.rows {
		if !row.done {
			n++
		}
	}
	return n
}

// slowBank answers no question in time while it is ill, and knows who asks what at once.
type slowBank struct {
	PaymentProvider
	mu     sync.Mutex
	ill    bool
	asking map[string]int
	twice  []string // references that two asked for at the same time
	asked  map[string]time.Duration
	start  time.Time
}

func (b *slowBank) Refund(ctx context.Context, p Payment) error {
	b.mu.Lock()
	if b.asking[p.Ref]++; b.asking[p.Ref] > 1 {
		b.twice = append(b.twice, p.Ref)
	}
	if _, ok := b.asked[p.Ref]; !ok {
		b.asked[p.Ref] = time.Since(b.start)
	}
	ill := b.ill
	b.mu.Unlock()
	if ill {
		<-ctx.Done()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking[p.Ref]--
	return ctx.Err()
}

// recover makes the bank well, and says when it was first asked for each payment, and for which by two at once.
func (b *slowBank) recover() (asked map[string]time.Duration, twice []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ill = false
	return maps.Clone(b.asked), b.twice
}

func instanceOf(store PaymentStore, bank PaymentProvider, sales *Sales) *Payments {
	return NewPayments(PaymentsConfig{
		Store: store, Providers: map[string]PaymentProvider{"bank": bank}, Returns: Returns{Sales: sales},
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
}

// TestRefundsOfASlowProvider: a provider who does not answer is asked by one instance at a time for one payment, holds
// up nobody's first question for long, and once he is well again everybody has his money.
func TestRefundsOfASlowProvider(t *testing.T) {
	sales := newSales(t, &loader{})
	synctest.Test(t, func(t *testing.T) {
		rows := newRefundRows(100)
		bank := &slowBank{ill: true, asking: map[string]int{}, asked: map[string]time.Duration{}, start: time.Now()}
		ctx, stop := context.WithCancel(t.Context())
		var instances sync.WaitGroup
		for range 2 {
			instances.Go(func() { instanceOf(rows, bank, sales).Run(ctx) })
		}
		defer instances.Wait()
		defer stop()
		time.Sleep(10 * time.Minute)
		asked, twice := bank.recover()
		require.Empty(t, twice)
		require.Len(t, asked, len(rows.rows))
		for ref, after := range asked {
			require.Less(t, after, time.Minute, ref)
		}
		require.Equal(t, 100, rows.open())
		time.Sleep(maxRefundWait + time.Minute)
		require.Zero(t, rows.open())
	})
}

// TestRefundsPassTheSick: one refund that fails for good does not hold up the others, however many there are.
func TestRefundsPassTheSick(t *testing.T) {
	sales := newSales(t, &loader{})
	synctest.Test(t, func(t *testing.T) {
		rows := newRefundRows(1000)
		for i := 0; i < 1000; i += 5 {
			rows.rows[i].Provider = "gone"
		}
		bank := &slowBank{asking: map[string]int{}, asked: map[string]time.Duration{}}
		require.ErrorContains(t, instanceOf(rows, bank, sales).RefundDue(t.Context()), "gone")
		require.Equal(t, 200, rows.open(), "those without a provider")
	})
}

// TestRefundPause doubles, and ends in a steady pace.
func TestRefundPause(t *testing.T) {
	require.Greater(t, refundPause(0), refundTimeout, "the claim must outlast the question")
	require.Equal(t, 20*time.Second, refundPause(1))
	for _, tries := range []int{6, 7, 60, 64, 1 << 30} {
		require.Equal(t, maxRefundWait, refundPause(tries))
	}
}

// deafQueue is a Redis that does not answer.
type deafQueue struct {
	Queue
	mu    sync.Mutex
	calls map[int64]error // what the context said at the beginning, by voucher
}

func (q *deafQueue) Release(ctx context.Context, voucherID int64, _ ...Holder) error {
	q.mu.Lock()
	q.calls[voucherID] = ctx.Err()
	q.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// dueOrders are due orders of as many vouchers.
type dueOrders struct{ left int }

func (d *dueOrders) CloseExpired(_ context.Context, limit int) ([]Order, error) {
	n := min(limit, d.left)
	orders := make([]Order, n)
	for i := range orders {
		orders[i] = Order{ID: int64(d.left - i), VoucherID: int64(d.left - i)}
	}
	d.left -= n
	return orders, nil
}

// TestReturnsDoNotWaitForRedis: the units of a thousand vouchers are back in the database; that the gate cannot be
// told does not keep the closer from the next orders, and everybody else is told.
func TestReturnsDoNotWaitForRedis(t *testing.T) {
	var told []int64
	sales := NewSales(SalesConfig{Loader: &loader{}, Changed: func(id int64) { told = append(told, id) }})
	t.Cleanup(sales.Close)
	synctest.Test(t, func(t *testing.T) {
		start, due := time.Now(), &dueOrders{left: 2*closeBatch + 1}
		closer := &Closer{Store: due, Returns: Returns{Sales: sales, Queue: &deafQueue{calls: map[int64]error{}}}, Log: slog.New(slog.DiscardHandler)}
		n, err := closer.CloseDue(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*closeBatch+1, n)
		require.LessOrEqual(t, time.Since(start), 5*time.Second, "what is due is closed within 5 s")
		require.Len(t, told, n)
	})
}

// TestReturnsOutliveTheRequest: the order is refunded, whether its buyer still listens or not.
func TestReturnsOutliveTheRequest(t *testing.T) {
	sales := newSales(t, &loader{})
	synctest.Test(t, func(t *testing.T) {
		ctx, hangUp := context.WithCancel(t.Context())
		hangUp()
		q := &deafQueue{calls: map[int64]error{}}
		Returns{Sales: sales, Queue: q}.Back(ctx, Order{VoucherID: 1}, Order{VoucherID: 1})
		require.Equal(t, map[int64]error{1: nil}, q.calls)
	})
}

// stockStore changes the stock, and lets the admin hang up while it does.
type stockStore struct {
	VoucherStore
	hangUp func()
	err    error
}

func (s stockStore) ChangeStock(context.Context, StockChange) (Voucher, error) {
	s.hangUp()
	return Voucher{}, s.err
}

// stockQueue is a gate that must hear of every change.
type stockQueue struct {
	Queue
	level int64
}

func (q *stockQueue) AddStock(ctx context.Context, _, delta int64) error {
	if ctx.Err() == nil {
		q.level += delta
	}
	return ctx.Err()
}

// TestStockChangeOutlivesTheRequest: what the database has decided the gate hears of, though the admin hung up.
func TestStockChangeOutlivesTheRequest(t *testing.T) {
	for _, tc := range []struct {
		delta, gate int64
		err         error
	}{
		{5, 15, nil}, {-5, 5, nil}, {-5, 10, ErrInvalidState}, {-5, 10, ErrNotFound}, {5, 10, ErrInvalidState},
		{5, 10, ErrUnavailable}, {-5, 5, ErrUnavailable}, // it may have happened: the gate is not above the database
	} {
		ctx, hangUp := context.WithCancel(t.Context())
		gate := &stockQueue{level: 10}
		vouchers := NewVouchers(VouchersConfig{
			Store: stockStore{hangUp: hangUp, err: tc.err}, Sales: newSales(t, &loader{}), Queue: gate, Now: time.Now,
		})
		_, err := vouchers.ChangeStock(ctx, 1, 1, tc.delta, "counted")
		require.ErrorIs(t, err, tc.err)
		require.Equal(t, tc.gate, gate.level, "%+v", tc)
	}
}

// stockKeys keeps what is noted under the key of one request.
type stockKeys struct {
	KeyStore
	noted int64
}

func (k *stockKeys) NoteResources(_ context.Context, claims []*Claim) []error {
	k.noted = claims[0].ResourceID
	return []error{nil}
}

// onceStore changes the stock once for a key; answers get lost, before the commit or after it.
type onceStore struct {
	VoucherStore
	stock    int64
	done     bool
	lost     error // the answer of the next change, instead of the true one
	happened bool  // although its answer is lost
}

func (s *onceStore) Voucher(context.Context, int64) (Voucher, error) { return openSale(s.stock), nil }

func (s *onceStore) ChangeStock(_ context.Context, c StockChange) (Voucher, error) {
	err := s.lost
	switch s.lost = nil; {
	case s.done:
		return Voucher{}, &DoneBeforeError{ResourceID: c.VoucherID}
	case err != nil && !s.happened:
		return Voucher{}, err
	case s.stock+c.Delta < 0:
		return Voucher{}, ErrInvalidState
	}
	s.stock, s.done = s.stock+c.Delta, true
	return openSale(s.stock), err
}

// gateOf is a gate with so many units.
type gateOf struct {
	Queue
	units int64
}

func (q *gateOf) AddStock(_ context.Context, _, delta int64) error {
	if q.units+delta < 0 {
		return ErrInvalidState
	}
	q.units += delta
	return nil
}

// TestStockDecreaseRunsAgain: in the lane queue a decrease whose answer was lost takes its units from the gate once, and
// the second run answers as the first one should have, though the gate has fewer units left than it takes.
func TestStockDecreaseRunsAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		happened bool
		stock    int64 // in the database
		first    error
		second   error
		left     int64 // in the gate, of 9, after both
	}{
		"the commit happened":   {happened: true, stock: 9, first: ErrUnavailable, left: 3},
		"the commit was lost":   {stock: 9, first: ErrUnavailable, left: 3},
		"the database has less": {stock: 5, happened: true, first: ErrInvalidState, second: ErrInvalidState, left: 9},
	} {
		t.Run(name, func(t *testing.T) {
			db, gate, keys := &onceStore{stock: tc.stock, lost: ErrUnavailable, happened: tc.happened}, &gateOf{units: 9}, &stockKeys{}
			vouchers := NewVouchers(VouchersConfig{Store: db, Sales: newSales(t, &loader{}), Queue: gate, Now: time.Now})
			run := func(again bool) (Voucher, error) {
				c := &Claim{Again: again, ResourceID: keys.noted, store: keys}
				return vouchers.ChangeStock(WithClaim(t.Context(), c), 1, 1, -6, "counted")
			}
			_, err := run(false)
			require.ErrorIs(t, err, tc.first)
			v, err := run(true)
			require.ErrorIs(t, err, tc.second)
			if err == nil {
				require.EqualValues(t, 3, v.Sale.Stock)
			}
			require.Equal(t, tc.left, gate.units)
		})
	}
}

// failingStore fails to close.
type failingStore struct{ err error }

func (f failingStore) CloseExpired(context.Context, int) ([]Order, error) { return nil, f.err }

// TestCloserGoesOn after errors, complains once of each row of them, and stops with its context.
func TestCloserGoesOn(t *testing.T) {
	sales := newSales(t, &loader{})
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		closer := &Closer{
			Store: failingStore{errors.New("the database is away")}, Returns: Returns{Sales: sales},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		go func() { closer.Run(ctx); close(done) }()
		time.Sleep(time.Hour)
		stop()
		<-done
		require.Equal(t, 1, strings.Count(log.String(), "cannot close"))
	})
}

func TestRedeemCodes(t *testing.T) {
	codes, others := NewRedeemCodes([]byte("one")), NewRedeemCodes([]byte("two"))
	const id = 3368803458027454465
	code := codes.Of(id)
	require.Regexp(t, `^([0-9A-HJKMNP-TV-Z]{4}-){5}[0-9A-HJKMNP-TV-Z]{4}$`, code)
	require.NotEqual(t, code, others.Of(id))
	require.NotEqual(t, code, codes.Of(id+1))
	asTyped := []string{
		code, strings.ToLower(code), strings.ReplaceAll(code, "-", ""), " " + strings.ReplaceAll(code, "-", " ") + " ",
		code + "\r\n", strings.NewReplacer("0", "o", "1", "l").Replace(code), strings.NewReplacer("0", "O", "1", "I").Replace(code),
	}
	for _, typed := range asTyped {
		got, ok := codes.Parse(typed)
		require.True(t, ok, typed)
		require.EqualValues(t, id, got)
	}
	for _, wrong := range []string{
		"", "-", code[:len(code)-1], code + "0", others.Of(id), strings.Repeat("U", 24), strings.Repeat("0", 24), "\x00", code[:9] + "\n" + code[9:],
		strings.Repeat("0", 1<<20), strings.ToLower(code)[1:] + code[:1],
	} {
		_, ok := codes.Parse(wrong)
		require.False(t, ok, "%.50q", wrong)
	}
	for i := range code { // no character can be changed
		if code[i] == '-' {
			continue
		}
		for _, c := range []byte("0Z") {
			if other := code[:i] + string(c) + code[i+1:]; c != code[i] {
				_, ok := codes.Parse(other)
				require.False(t, ok, other)
			}
		}
	}
}

// TestMoves holds the table to what it must be: the words, and what the invariants need of it.
func TestMoves(t *testing.T) {
	var table []string
	for _, m := range Moves() {
		table = append(table, fmt.Sprintf("%s: %s -> %s", m.Name, m.From, m.To))
	}
	require.Equal(t, []string{
		"pay: pending_payment -> paid", "cancel: pending_payment -> cancelled", "expire: pending_payment -> cancelled",
		"redeem: paid -> redeemed", "refund: paid -> refunding", "refunded: refunding -> refunded",
	}, table)
	at := time.Unix(1794398400, 0)
	for _, m := range Moves() {
		require.True(t, m.From.Active(), "%s: nothing leads out of an order that has ended", m.Name)
		require.Equal(t, slices.Contains([]string{"cancel", "expire", "refunded"}, m.Name), m.ReturnsUnit(), m.Name)
		o := Order{Status: m.From, Slot: 3}
		m.Apply(&o, at)
		require.Equal(t, m.To, o.Status)
		require.Equal(t, m.To.Active(), o.Slot != 0, m.Name)
		times := map[OrderStatus]*time.Time{
			OrderPaid: o.PaidAt, OrderRedeemed: o.RedeemedAt, OrderCancelled: o.CancelledAt, OrderRefunded: o.RefundedAt,
		}
		for status, stamp := range times {
			require.Equal(t, status == m.To, stamp != nil, "%s: the time of %s", m.Name, status)
		}
	}
	for status, final := range map[OrderStatus]bool{
		OrderQueued: false, OrderPendingPayment: false, OrderPaid: false, OrderRefunding: false,
		OrderRedeemed: true, OrderCancelled: true, OrderRefunded: true, OrderFailed: true,
	} {
		require.Equal(t, final, status.Final(), status)
	}
}
