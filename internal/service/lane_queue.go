package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"seckill/internal/batch"
)

// maxLoads bounds how often one batch loads a gate that is lost again and again.
const maxLoads = 5

// Gate is the gate in Redis, which admits buyers to the queue. Errors are those of this package.
type Gate interface {
	// Reserve decides for buyers of one voucher, as if they had come one after the other: nil (admitted, and in the
	// queue), ErrSoldOut, *DuplicateOrderError, ErrSaleNotStarted, ErrSaleEnded or ErrOverloaded (the queue is full).
	// With ErrGateCold or ErrUnavailable there are no results. An order id that is admitted already stays so.
	Reserve(ctx context.Context, voucherID int64, w Window, as []Admission) ([]error, error)
	// Load makes sure that the gate of a voucher is loaded, from what read says if need be.
	Load(ctx context.Context, voucherID int64, read GateReader) error
	// Ticket shows an admission of the user that is not an order in the database. Errors: ErrNotFound, ErrUnavailable.
	Ticket(ctx context.Context, userID, orderID int64) (Ticket, error)
	// Instance is what ReplyTo of an admission must be for this process to hear of its outcome.
	Instance() string
	// Expect registers interest in an outcome before it is reserved.
	Expect(orderID int64) Expectation
}

// Expectation is somebody's interest in how an admission ends.
type Expectation interface {
	// Wait returns the outcome when a message brings it, or when check says that it is known; messages get lost, so
	// check is asked now and then. It ends with ctx.
	Wait(ctx context.Context, check func(context.Context) (o Outcome, known bool, err error)) (Outcome, error)
	Close()
}

// GateStore is what the lane queue reads in the database.
type GateStore interface {
	OrderStore
	// GateState reads, in one snapshot, what the gate of a voucher must hold. It is a GateReader.
	GateState(ctx context.Context, voucherID int64, inFlight []int64) (GateState, error)
	// OrderFacts finds those of the ids that are orders of the voucher.
	OrderFacts(ctx context.Context, voucherID int64, ids []int64) ([]OrderFact, error)
}

// QueueLane admits buyers in Redis, which protects the database: purchases of a voucher that come while a script runs
// are decided together by the next one. The answer is a queued order; workers make it a real one, or fail it.
type QueueLane struct {
	gate      Gate
	ids       IDs
	store     GateStore
	purchases *batch.Batcher[Purchase, admitted]
	stored    *batch.Batcher[Order, error] // finds orders that left the queue, by voucher; ErrNotFound: not stored

	mu   sync.Mutex
	used map[int64]time.Time // vouchers, and when this process last asked the gate about them
}

// admitted is the answer of the gate to one purchase.
type admitted struct {
	order    Order
	replayed bool        // an earlier request with the same key placed it
	outcome  Expectation // nil: nobody waits for it
	err      error
}

// NewQueueLane makes the lane. observe is told the size of every batch; it may be nil.
func NewQueueLane(gate Gate, ids IDs, store GateStore, observe func(size int)) *QueueLane {
	l := &QueueLane{gate: gate, ids: ids, store: store, used: map[int64]time.Time{}}
	run := func(ctx context.Context, purchases []Purchase) []admitted {
		if observe != nil {
			observe(len(purchases))
		}
		return l.admit(ctx, purchases[0].VoucherID, purchases)
	}
	l.purchases = batch.New(batch.Config[Purchase, admitted]{Run: run, Fail: func(err error) admitted { return admitted{err: batchError(err)} }})
	l.stored = batch.New(batch.Config[Order, error]{Run: l.find, Fail: batchError})
	return l
}

// Place implements Lane. The order is queued, unless the buyer waits and its outcome is known before ctx ends. A repeated
// request is answered in the same way, so that it gets the answer of the first one.
func (l *QueueLane) Place(ctx context.Context, p Purchase) (o Order, replayed bool, err error) {
	a := l.purchases.Do(p.VoucherID, p, p.Deadline)
	if a.err != nil || a.outcome == nil {
		return a.order, a.replayed, a.err
	}
	defer a.outcome.Close()
	ctx, cancel := context.WithDeadline(ctx, earlier(p.Deadline, time.Now().Add(p.Wait)))
	defer cancel()
	end, err := a.outcome.Wait(ctx, func(ctx context.Context) (Outcome, bool, error) { return l.look(ctx, a.order) })
	if err != nil {
		return a.order, a.replayed, nil //nolint:nilerr // not known in time: it is queued, which is the truth
	}
	if end.Failed != "" {
		return Order{}, false, l.failure(ctx, p, end.Failed)
	}
	// A message names an order by its id alone, and a counter that Redis lost gives ids again: the row tells whose it is.
	stored, err := l.store.Order(ctx, p.UserID, a.order.ID)
	if err != nil {
		return a.order, a.replayed, nil //nolint:nilerr // another's, or it cannot be shown now: his own is queued as far as is known
	}
	return stored, a.replayed, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// look finds out whether an admission has ended.
func (l *QueueLane) look(ctx context.Context, o Order) (Outcome, bool, error) {
	t, err := l.gate.Ticket(ctx, o.UserID, o.ID)
	switch {
	case err == nil:
		return Outcome{OrderID: o.ID, Failed: t.Failed}, t.Failed != "", nil
	case !errors.Is(err, ErrNotFound):
		return Outcome{}, false, err
	}
	// No ticket: committed, or lost together with everything else in Redis.
	err = l.stored.DoContext(ctx, o.VoucherID, o)
	return Outcome{OrderID: o.ID}, err == nil, err
}

// find looks for orders of one voucher in the store, with one query.
func (l *QueueLane) find(ctx context.Context, orders []Order) []error {
	ids := make([]int64, len(orders))
	for i := range orders {
		ids[i] = orders[i].ID
	}
	facts, err := l.store.OrderFacts(ctx, orders[0].VoucherID, ids)
	if err != nil {
		return slices.Repeat([]error{err}, len(orders))
	}
	found := make(map[Holder]bool, len(facts))
	for _, f := range facts {
		found[f.Holder] = true
	}
	errs := make([]error, len(orders))
	for i, o := range orders {
		if !found[Holder{OrderID: o.ID, UserID: o.UserID}] {
			errs[i] = ErrNotFound
		}
	}
	return errs
}

// failure is the error for a reason why an admission failed.
func (l *QueueLane) failure(ctx context.Context, p Purchase, reason string) error {
	switch reason {
	case ReasonSoldOut:
		return ErrSoldOut
	case ReasonDuplicate:
		_, newest, err := l.store.ActiveOrders(ctx, p.UserID, p.VoucherID)
		if err != nil {
			return err
		}
		return &DuplicateOrderError{OrderID: newest}
	}
	return fmt.Errorf("%w: the order could not be stored (%s), and its unit is back", ErrUnavailable, reason)
}

// admit reserves for a batch under fresh ids, all with one script call. Purchases with a key are first looked up in the
// store, and then by the script among those that are on their way there. If the store does not answer, the script has to
// be enough: at worst it admits a purchase again whose order is then refused by the worker's transaction.
func (l *QueueLane) admit(ctx context.Context, voucherID int64, purchases []Purchase) []admitted {
	results := make([]admitted, len(purchases))
	open := make([]int, len(purchases))
	for i := range open {
		open[i] = i
	}
	open = l.repeat(ctx, purchases, results, open)
	if len(open) == 0 {
		return results
	}
	l.use(voucherID)
	ids, err := l.ids.NextN(ctx, len(open))
	if err != nil {
		for _, i := range open {
			results[i].err = fmt.Errorf("%w: order id: %w", ErrUnavailable, err)
		}
		return results
	}
	as := make([]Admission, len(open))
	for n, i := range open {
		p := &purchases[i]
		results[i].order = p.order(ids[n])
		results[i].order.Status = OrderQueued
		as[n] = Admission{
			OrderID: ids[n], UserID: p.UserID, VoucherID: voucherID, Amount: p.Amount, Currency: p.Currency, Limit: p.Limit, At: p.At,
			Key: p.Key,
		}
		if p.Wait > 0 {
			as[n].ReplyTo = l.gate.Instance()
			results[i].outcome = l.gate.Expect(ids[n])
		}
	}
	errs, err := l.reserve(ctx, voucherID, purchases[len(purchases)-1].Window, as)
	if err != nil {
		errs = slices.Repeat([]error{err}, len(open))
	}
	var duplicates []int
	for n, i := range open {
		l.refuse(&results[i], &purchases[i], errs[n])
		if errors.As(errs[n], new(*DuplicateOrderError)) {
			duplicates = append(duplicates, i)
		}
	}
	l.repeat(ctx, purchases, results, duplicates) // it may be the order that the request placed just before
	return results
}

// refuse replaces the result of a purchase that was not admitted.
func (l *QueueLane) refuse(r *admitted, p *Purchase, err error) {
	if err == nil {
		return
	}
	r.close()
	var earlier *RepeatedError
	if !errors.As(err, &earlier) {
		*r = admitted{err: err}
		return
	}
	r.replayed, r.order.ID = true, earlier.OrderID
	if p.Wait > 0 {
		r.outcome = l.gate.Expect(earlier.OrderID)
	}
}

// repeat answers those of the open purchases whose key is that of a stored order, and returns the others.
func (l *QueueLane) repeat(ctx context.Context, purchases []Purchase, results []admitted, open []int) (rest []int) {
	var keyed []KeyedPurchase
	for _, i := range open {
		if p := &purchases[i]; p.Key != nil {
			keyed = append(keyed, KeyedPurchase{UserID: p.UserID, Key: p.Key, At: p.At})
		}
	}
	if len(keyed) == 0 {
		return open
	}
	found, err := l.store.RepeatedOrders(ctx, keyed)
	if err != nil {
		return open
	}
	n := 0
	for _, i := range open {
		if purchases[i].Key == nil {
			rest = append(rest, i)
			continue
		}
		earlier := found[n]
		n++
		switch {
		case errors.Is(earlier.Err, ErrNotFound):
			rest = append(rest, i)
		case earlier.Err != nil:
			results[i] = admitted{err: earlier.Err}
		default:
			if purchases[i].Wait == 0 {
				earlier.Order.Status = OrderQueued // as it was answered
			}
			results[i] = admitted{order: earlier.Order, replayed: true}
		}
	}
	return rest
}

func (a *admitted) close() {
	if a.outcome != nil {
		a.outcome.Close()
	}
}

// reserve asks the gate, and loads it if it is cold.
func (l *QueueLane) reserve(ctx context.Context, voucherID int64, w Window, as []Admission) ([]error, error) {
	for range maxLoads {
		errs, err := l.gate.Reserve(ctx, voucherID, w, as)
		if !errors.Is(err, ErrGateCold) {
			return errs, err
		}
		if err := l.gate.Load(ctx, voucherID, l.store.GateState); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: Redis loses the gate again and again", ErrUnavailable)
}

// useFor is how long after its last use a gate counts as in use.
const useFor = 10 * time.Minute

// InUse returns the vouchers whose gates this process has used lately, the newest first, and forgets the others.
func (l *QueueLane) InUse() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []int64
	for id, at := range l.used {
		if time.Since(at) > useFor {
			delete(l.used, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

func (l *QueueLane) use(voucherID int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[voucherID] = time.Now()
}
