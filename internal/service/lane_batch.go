package service

import (
	"context"

	"seckill/internal/batch"
)

// maxVouchers is how many vouchers may share a transaction when more are on sale than transactions may run. It bounds
// for how long the hot row of each is locked.
const maxVouchers = 64

// BatchLane is group commit: purchases of a voucher that come while a transaction of it runs are committed together
// by the next one, each with its own answer. Nobody is answered before the commit, and no lock is taken: the unique
// index and the conditional update decide.
type BatchLane struct {
	purchases *batch.Batcher[Purchase, Placed]
}

// NewBatchLane makes the lane. observe is told of every batch and what became of it, and must not keep either; it may be
// nil.
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

// Place implements Lane. A purchase that has joined a batch is decided with it, whether or not its buyer still waits.
func (l *BatchLane) Place(_ context.Context, p Purchase) (o Order, replayed bool, err error) {
	placed := l.purchases.Do(p.VoucherID, p, p.Deadline)
	return placed.Order, placed.Replayed, placed.Err
}
