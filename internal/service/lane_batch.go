package service

import (
	"context"

	"seckill/internal/batch"
)

// maxVouchers is how many vouchers may share a transaction while more vouchers are on sale than transactions may run.
// It bounds the time for which their hot rows are locked.
const maxVouchers = 64

// BatchLane is group commit. Purchases of a voucher that arrive while one of its transactions runs are committed
// together by the next one, each with its own result. All results are returned after the commit. It takes no lock: the
// unique index and the conditional update decide. It is safe for concurrent use.
type BatchLane struct {
	purchases *batch.Batcher[Purchase, Placed]
}

// NewBatchLane returns the lane. observe receives every batch and its results, in the same order, and must not retain
// the slices. It may be nil; it is called concurrently.
func NewBatchLane(ids IDs, orders OrderStore, observe func([]Purchase, []Placed)) *BatchLane {
	p := placer{ids: ids, orders: orders}
	run := func(ctx context.Context, purchases []Purchase) []Placed {
		placed := p.place(ctx, purchases)
		if observe != nil {
			observe(purchases, placed)
		}
		return placed
	}
	return &BatchLane{purchases: batch.New(batch.Config[Purchase, Placed]{
		Run: run, Fail: func(err error) Placed { return Placed{Err: batchError(err)} }, MaxKeys: maxVouchers,
	})}
}

// Place implements Lane. A purchase that has joined a batch is placed even if its deadline passes.
func (l *BatchLane) Place(_ context.Context, p Purchase) (o Order, replayed bool, err error) {
	placed := l.purchases.Do(p.VoucherID, p, p.Deadline)
	return placed.Order, placed.Replayed, placed.Err
}
