package service

import (
	"context"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// closeEvery is the interval between searches for unpaid orders past their expiry. It is part of the 5 s within
	// which they are closed.
	closeEvery = time.Second
	// closeBatch bounds the orders of one transaction, which locks the hot row of their sale until it commits.
	closeBatch = 500
)

// CloserStore closes orders.
type CloserStore interface {
	// CloseExpired applies MoveExpire to orders that have expired by the database's clock, and returns them: at most limit
	// of each sale, in one transaction. It skips orders that another transaction has locked. If it fails for some sales,
	// it returns the orders of the others with the error.
	CloseExpired(ctx context.Context, limit int) ([]domain.Order, error)
}

// Closer closes orders that were not paid in time, so that their units can be bought again. Several instances may run
// and share the work.
type Closer struct {
	Store   CloserStore
	Returns UnitReleaser
	// Receives the number of orders that were closed at once.
	Closed func(n int)
}

// Task closes expired orders.
func (c *Closer) Task() loop.Task {
	return loop.Every(closeEvery, "close unpaid orders", func(ctx context.Context) error {
		return loop.InBatches(ctx, c.CloseDue)
	})
}

// CloseDue closes a batch of expired orders, and returns how many it closed.
func (c *Closer) CloseDue(ctx context.Context) (int, error) {
	orders, err := c.Store.CloseExpired(ctx, closeBatch)
	if len(orders) > 0 {
		c.Returns.Release(ctx, orders...)
		c.Closed(len(orders))
	}

	return len(orders), err
}
