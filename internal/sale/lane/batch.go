package lane

import (
	"context"
	"errors"
	"fmt"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
)

// maxVouchers is how many vouchers may share a transaction while more vouchers are on sale than transactions may run.
// It bounds the time for which their hot rows are locked.
const maxVouchers = 64

// Batch is group commit. Purchases of a voucher that arrive while one of its transactions runs are committed
// together by the next one, each with its own result. All results are returned after the commit. It takes no lock: the
// unique index and the conditional update decide. It is safe for concurrent use.
type Batch struct {
	purchases *batch.Batcher[domain.Purchase, domain.Placed]
}

// NewBatch returns the lane. observe receives the size of every batch. It may be nil; it is called concurrently.
func NewBatch(ids IDs, orders OrderPlacer, observe func(size int)) *Batch {
	p := placer{ids: ids, orders: orders}
	run := func(ctx context.Context, purchases []domain.Purchase) []domain.Placed {
		if observe != nil {
			observe(len(purchases))
		}
		return p.commit(ctx, purchases)
	}

	return &Batch{purchases: batch.New(batch.Config[domain.Purchase, domain.Placed]{
		Run:     run,
		Fail:    func(err error) domain.Placed { return domain.Placed{Err: domain.BatchError(err)} },
		MaxKeys: maxVouchers,
	})}
}

// Place implements service.Lane. A purchase that has joined a batch is placed even if its deadline passes.
func (l *Batch) Place(_ context.Context, p domain.Purchase) domain.Placed {
	p.Trace = p.Trace.Waiting()
	return l.purchases.Do(p.VoucherID, p, p.Deadline)
}

// IDs generates order ids. It is safe for concurrent use.
type IDs interface {
	// NextN returns n new ids, in one round trip.
	NextN(ctx context.Context, n int) ([]int64, error)
	// Skip advances the sequence past all ids that may have been issued before the counter was lost. taken is an id
	// that exists already.
	Skip(ctx context.Context, taken int64) error
}

// OrderPlacer is the part of the database that places orders. Errors are those of package domain. It is safe for
// concurrent use.
type OrderPlacer interface {
	// PlaceOrders inserts the orders, each in a free slot of its user, and takes one unit per order, in one
	// transaction. Each order has its own result, as if they were placed one after the other: the stored order,
	// ErrSoldOut, *DuplicateOrderError, ErrPassExpired (the pass has bought), ErrIDTaken, ErrIdempotencyMismatch or
	// ErrUnavailable. An order that an earlier call stored succeeds again and takes no unit.
	PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed
}

type placer struct {
	ids    IDs
	orders OrderPlacer
}

// commit returns the results of PlaceOrders, one per purchase. An order whose id exists already is tried again under a
// new id, until ctx ends. Its id exists only if Redis lost the counter: after Skip the next id is free, unless the counter
// is lost again.
func (p placer) commit(ctx context.Context, purchases []domain.Purchase) []domain.Placed {
	results := make([]domain.Placed, len(purchases))

	// Indexes of the purchases without a result.
	open := make([]int, len(purchases))
	for i := range open {
		open[i] = i
	}

	for ctx.Err() == nil {
		open = p.try(ctx, purchases, results, open)
		if len(open) == 0 {
			return results
		}
	}

	for _, i := range open {
		results[i].Err = fmt.Errorf("%w: no free order id in time", domain.ErrUnavailable)
	}

	return results
}

func (p placer) try(ctx context.Context, purchases []domain.Purchase, results []domain.Placed, open []int) []int {
	ids, err := p.ids.NextN(ctx, len(open))
	if err != nil {
		for _, i := range open {
			results[i].Err = fmt.Errorf("%w: order id: %w", domain.ErrUnavailable, err)
		}
		return nil
	}

	orders := make([]domain.NewOrder, len(open))
	for n, i := range open {
		purchase := &purchases[i]
		purchase.OrderID = ids[n]
		orders[n] = purchase.NewOrder(purchase.ExpiresAt)
		orders[n].Offer = purchase.Offer
		orders[n].Fence = purchase.Fence
	}

	var again []int
	for n, placed := range p.orders.PlaceOrders(ctx, orders) {
		i := open[n]
		results[i] = placed

		// A new id cannot have been stored before. If it was, the counter repeated the id of an earlier order of the
		// user.
		if !placed.Before && !errors.Is(placed.Err, domain.ErrIDTaken) {
			continue
		}

		if err := p.ids.Skip(ctx, ids[n]); err != nil {
			results[i].Err = fmt.Errorf("%w: order id: %w", domain.ErrUnavailable, err)
			continue
		}

		again = append(again, i)
	}

	return again
}
