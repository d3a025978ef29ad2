package service

import (
	"context"
	"errors"
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
	// closeBreak is the time without a search after which the servers or the database count as having been away.
	closeBreak = 5 * time.Second
)

// CloserStore closes orders.
type CloserStore interface {
	// CloseExpired applies MoveExpire to orders that have expired by the database's clock, and returns them: at most limit
	// of each sale, in one transaction. It skips orders that another transaction has locked. If it fails for some sales,
	// it returns the orders of the others with the error. Without unanswered, an order stays open until the provider of its
	// payment has been queried after the expiry; with it, for at most CloseGrace.
	CloseExpired(ctx context.Context, limit int, unanswered bool) ([]domain.Order, error)
}

// Closer closes orders that were not paid in time, so that their units can be bought again. Several instances may run
// and share the work.
type Closer struct {
	Store   CloserStore
	Returns UnitReleaser
	// Receives the number of orders that were closed at once.
	Closed func(n int)

	// The last answer of the database, and the first search since the last break. During a break no provider could report
	// a payment or be queried, so each gets CloseGrace for it afterwards.
	last, steady time.Time
}

// Task closes expired orders.
func (c *Closer) Task() loop.Task {
	return loop.Every(closeEvery, "close unpaid orders", func(ctx context.Context) error {
		return loop.InBatches(ctx, func(ctx context.Context) (int, error) {
			n, err := c.CloseDue(ctx)
			// A batch that is not full is the last one, so that a steady expiry takes the hot row once a second.
			return n / closeBatch, err
		})
	})
}

// CloseDue closes a batch of expired orders, and returns how many it closed.
func (c *Closer) CloseDue(ctx context.Context) (int, error) {
	if time.Since(c.last) > closeBreak {
		c.steady = time.Now()
	}

	orders, err := c.Store.CloseExpired(ctx, closeBatch, time.Since(c.steady) > domain.CloseGrace)
	// A sale whose orders cannot be closed is no break.
	if len(orders) > 0 || !errors.Is(err, domain.ErrUnavailable) {
		c.last = time.Now()
	}

	if len(orders) > 0 {
		c.Returns.Release(ctx, orders...)
		c.Closed(len(orders))
	}

	return len(orders), err
}
