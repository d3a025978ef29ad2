package lane

import (
	"context"

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

// NewBatch returns the lane. observe receives every batch and its results, in the same order, and must not retain
// the slices. It may be nil; it is called concurrently.
func NewBatch(ids IDs, orders OrderPlacer, observe func([]domain.Purchase, []domain.Placed)) *Batch {
	p := placer{ids: ids, orders: orders}
	run := func(ctx context.Context, purchases []domain.Purchase) []domain.Placed {
		placed := p.commit(ctx, purchases)
		if observe != nil {
			observe(purchases, placed)
		}
		return placed
	}

	return &Batch{purchases: batch.New(batch.Config[domain.Purchase, domain.Placed]{
		Run:     run,
		Fail:    func(err error) domain.Placed { return domain.Placed{Err: domain.BatchError(err)} },
		MaxKeys: maxVouchers,
	})}
}

// Place implements service.Lane. A purchase that has joined a batch is placed even if its deadline passes.
func (l *Batch) Place(_ context.Context, p domain.Purchase) (domain.Order, bool, error) {
	p.Trace = p.Trace.Waiting()
	placed := l.purchases.Do(p.VoucherID, p, p.Deadline)
	return placed.Order, placed.Replayed, placed.Err
}
