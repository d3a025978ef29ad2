package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
)

// Gate is the admission gate in Redis, which reserves units and queues admissions. Errors are those of package domain.
// It is safe for concurrent use.
type Gate interface {
	// Reserve decides about purchases of one voucher in their order. Each result is nil (admitted and queued),
	// ErrSoldOut, *DuplicateOrderError, *RepeatedError, ErrIdempotencyMismatch, ErrSaleNotStarted, ErrSaleEnded,
	// ErrOverloaded (the queue is full), ErrGateLacking (no unit is left), ErrGateCold or ErrUnavailable. An order id that
	// is already admitted is admitted again without any change. A purchase without an order id gets no unit.
	Reserve(ctx context.Context, voucherID int64, w domain.Window, as []domain.Admission) []error
	// Load ensures that the gate of a voucher is loaded, and has all admissions.
	Load(ctx context.Context, voucherID int64, store domain.GateStore) error
	// Ticket returns an admission of the user that is not an order in the database. Errors: ErrNotFound,
	// ErrUnavailable.
	Ticket(ctx context.Context, userID, orderID, voucherID int64) (domain.Ticket, error)
}

// GateStore is the database as lane queue uses it.
type GateStore interface {
	// Order returns an order of the user, or of any user if userID is 0. Errors: ErrNotFound, ErrUnavailable.
	Order(ctx context.Context, userID, id int64) (domain.Order, error)
	// RepeatedOrders returns, for each purchase, the order that an earlier request with the same key placed within
	// KeyLife, as it was placed, with Replayed set. Otherwise Err is ErrNotFound or ErrIdempotencyMismatch.
	RepeatedOrders(ctx context.Context, purchases []domain.Purchase) ([]domain.Placed, error)
	ActiveOrders(ctx context.Context, userID, voucherID int64) (n int, newest int64, err error)
	domain.GateStore
}

// Queue reserves units in Redis, which protects the database from the load. Purchases of a voucher that arrive
// while a script runs are decided together by the next one. The result is a queued order, which workers commit or fail.
// It is safe for concurrent use.
type Queue struct {
	gate      Gate
	ids       IDs
	store     GateStore
	purchases *batch.Batcher[domain.Purchase, reservation]
	waits     waits

	mu sync.Mutex
	// The last reservation of this process, by voucher.
	lastUsed map[int64]time.Time
}

type reservation struct {
	domain.Placed
	// Receives when the order has moved; nil if the buyer does not wait for that.
	moved <-chan struct{}
}

func failed(err error) reservation { return reservation{Placed: domain.Placed{Err: err}} }

// NewQueue returns the lane. observe receives the size of every batch. It may be nil; it is called concurrently.
func NewQueue(gate Gate, ids IDs, store GateStore, observe func(size int)) *Queue {
	l := &Queue{
		gate:     gate,
		ids:      ids,
		store:    store,
		waits:    waits{byOrder: map[int64][]chan struct{}{}},
		lastUsed: map[int64]time.Time{},
	}

	run := func(ctx context.Context, purchases []domain.Purchase) []reservation {
		if observe != nil {
			observe(len(purchases))
		}
		return l.admit(ctx, purchases[0].VoucherID, purchases)
	}

	fail := func(err error) reservation { return failed(domain.BatchError(err)) }
	l.purchases = batch.New(batch.Config[domain.Purchase, reservation]{Run: run, Fail: fail})
	return l
}

// Place implements service.Lane. The order is queued, unless the buyer waits and the outcome is known before the end of
// p.Wait. A repeated request waits in the same way, so that it has the same answer as the first one.
func (l *Queue) Place(ctx context.Context, p domain.Purchase) domain.Placed {
	r := l.reserve(ctx, p)
	if r.Err != nil {
		return domain.Placed{Err: r.Err}
	}
	if r.moved == nil {
		return r.Placed
	}

	ctx, cancel := context.WithDeadline(ctx, domain.Earlier(p.Deadline, time.Now().Add(p.Wait)))
	defer cancel()

	order, err := l.wait(ctx, p, r)
	if err != nil {
		return domain.Placed{Err: err}
	}
	r.Order = order
	return r.Placed
}

// reserve reserves a unit, and loads the gate if it is cold, or may lack admissions when no unit is left. Then it tries again
// under the same order id. A second load is needed only if Redis loses its data again. It waits for the load outside the
// batch, because few batches may run at the same time and other vouchers need them.
func (l *Queue) reserve(ctx context.Context, p domain.Purchase) reservation {
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()

	for ctx.Err() == nil {
		p.Trace = p.Trace.Waiting()
		r := l.purchases.Do(p.VoucherID, p, p.Deadline)
		if !errors.Is(r.Err, domain.ErrGateCold) && !errors.Is(r.Err, domain.ErrGateLacking) {
			return r
		}

		p.OrderID = r.Order.ID
		if err := l.gate.Load(ctx, p.VoucherID, l.store); err != nil {
			return failed(err)
		}
	}

	return failed(fmt.Errorf("%w: the gate could not decide in time", domain.ErrUnavailable))
}

// admit reserves units for a batch with one call of the gate. First attempts get new order ids. Purchases with a key
// are searched in the store first; the gate then searches the reservations of the voucher's shard. If the store cannot
// be read, only the gate is searched, and the gate's refusal for lack of units is not passed on: the store may have the
// order of an earlier request. At worst the gate admits a second purchase under the key, and the worker's
// transaction refuses one of the two orders. This happens while an order of another shard is queued under the key: a
// search of all shards would cost every purchase 16 commands.
func (l *Queue) admit(ctx context.Context, voucherID int64, purchases []domain.Purchase) []reservation {
	results := make([]reservation, len(purchases))
	open := make([]int, len(purchases))
	for i := range open {
		open[i] = i
	}

	open, searchErr := l.replayStored(ctx, purchases, results, open)
	if len(open) == 0 {
		return results
	}

	l.markUsed(voucherID)
	if err := l.assignIDs(ctx, purchases, open); err != nil {
		for _, i := range open {
			results[i].Err = fmt.Errorf("%w: order id: %w", domain.ErrUnavailable, err)
		}
		return results
	}

	as := make([]domain.Admission, len(open))
	for n, i := range open {
		p := &purchases[i]
		results[i].Order = p.Order(p.ExpiresAt)
		results[i].Order.Offer = p.Offer
		results[i].Order.Status = domain.OrderQueued

		as[n] = p.Admission
		if p.Wait > 0 && !p.SoldOut {
			results[i].moved = l.waits.begin(p.OrderID, p.Deadline)
		}
	}

	errs := l.gate.Reserve(ctx, voucherID, purchases[len(purchases)-1].Window, as)

	var duplicates []int
	for n, i := range open {
		if searchErr != nil && purchases[i].Key != nil && errors.Is(errs[n], domain.ErrSoldOut) {
			// The store may have the order of an earlier request.
			errs[n] = searchErr
		}

		l.setRefusal(&results[i], &purchases[i], errs[n])
		if errors.As(errs[n], new(*domain.DuplicateOrderError)) {
			duplicates = append(duplicates, i)
		}
	}

	// A duplicate may collide with the order of its own earlier request, if that was committed meanwhile. Without the store
	// they stay duplicates.
	_, _ = l.replayStored(ctx, purchases, results, duplicates)
	return results
}

func (l *Queue) assignIDs(ctx context.Context, purchases []domain.Purchase, open []int) error {
	var fresh []int
	for _, i := range open {
		if purchases[i].OrderID == 0 && !purchases[i].SoldOut {
			fresh = append(fresh, i)
		}
	}

	if len(fresh) == 0 {
		return nil
	}

	ids, err := l.ids.NextN(ctx, len(fresh))
	if err != nil {
		return err
	}

	for n, i := range fresh {
		purchases[i].OrderID = ids[n]
	}

	return nil
}

// setRefusal replaces the result of a purchase that was not admitted. For a repeated request, the result is the queued
// order of the first one. setRefusal does nothing if err is nil.
func (l *Queue) setRefusal(r *reservation, p *domain.Purchase, err error) {
	if err == nil {
		return
	}

	var earlier *domain.RepeatedError
	if !errors.As(err, &earlier) {
		*r = reservation{Placed: domain.Placed{Order: domain.Order{ID: p.OrderID}, Err: err}}
		return
	}

	r.Replayed = true
	r.Order.ID = earlier.OrderID

	if p.Wait > 0 {
		r.moved = l.waits.begin(earlier.OrderID, p.Deadline)
	}
}

// replayStored sets the results of open purchases with the key of a stored order, and returns the other open purchases.
// If the store cannot be read, it returns all and the error.
func (l *Queue) replayStored(
	ctx context.Context, purchases []domain.Purchase, results []reservation, open []int,
) ([]int, error) {
	var keyed []domain.Purchase
	for _, i := range open {
		if p := &purchases[i]; p.Key != nil {
			// Copies are large: one allocation for all.
			keyed = append(slices.Grow(keyed, len(open)-len(keyed)), *p)
		}
	}

	if len(keyed) == 0 {
		return open, nil
	}

	found, err := l.store.RepeatedOrders(ctx, keyed)
	if err != nil {
		return open, err
	}

	n := 0
	var rest []int
	for _, i := range open {
		if purchases[i].Key == nil {
			rest = append(rest, i)
			continue
		}

		earlier := found[n]
		n++

		if errors.Is(earlier.Err, domain.ErrNotFound) {
			rest = append(rest, i)
			continue
		}

		if earlier.Err == nil && purchases[i].Wait == 0 {
			// As in the first answer.
			earlier.Order.Status = domain.OrderQueued
		}
		results[i] = reservation{Placed: earlier}
	}

	return rest, nil
}

// inUseFor is how long a gate counts as in use after a reservation.
const inUseFor = 10 * time.Minute

// InUse returns the vouchers for which this process reserved units in the last 10 minutes, highest id first.
func (l *Queue) InUse() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()

	var ids []int64
	for id, at := range l.lastUsed {
		if time.Since(at) > inUseFor {
			delete(l.lastUsed, id)
			continue
		}
		ids = append(ids, id)
	}

	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

func (l *Queue) markUsed(voucherID int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastUsed[voucherID] = time.Now()
}
