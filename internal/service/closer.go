package service

import (
	"context"
	"log/slog"
	"time"
)

const (
	// closeEvery is how often orders are looked for whose time to pay is over. It is a part of the 5 s within which
	// they are closed.
	closeEvery = time.Second
	// closeBatch bounds one transaction, which holds the hot rows of its sales while it ends.
	closeBatch = 500
	// closeTimeout bounds one transaction.
	closeTimeout = 3 * time.Second
)

// CloserStore closes orders.
type CloserStore interface {
	// CloseExpired makes MoveExpire with at most limit orders whose time to pay is over by the database's clock, in
	// one transaction, and returns them. Orders that somebody else is working on are left to him.
	CloseExpired(ctx context.Context, limit int) ([]Order, error)
}

// Closer closes orders that were not paid in time, so that their units can be bought. Any number of instances may
// run; they share the work.
type Closer struct {
	Store   CloserStore
	Returns Returns
	Log     *slog.Logger
	Closed  func(n int) // is told how many were closed; may be nil
}

// Run closes until ctx ends. What is due when the server starts is closed at once.
func (c *Closer) Run(ctx context.Context) {
	tick := time.NewTicker(closeEvery)
	defer tick.Stop()
	failing := false
	for {
		_, err := c.CloseDue(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			c.Log.Warn("cannot close unpaid orders; trying again", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// CloseDue closes batch after batch until a batch is not full, and returns how many orders it closed.
func (c *Closer) CloseDue(ctx context.Context) (closed int, err error) {
	for ctx.Err() == nil {
		n, err := c.closeBatch(ctx)
		closed += n
		if err != nil || n < closeBatch {
			return closed, err
		}
	}
	return closed, ctx.Err()
}

func (c *Closer) closeBatch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	orders, err := c.Store.CloseExpired(ctx, closeBatch)
	if len(orders) > 0 {
		c.Returns.Back(ctx, orders...)
		if c.Closed != nil {
			c.Closed(len(orders))
		}
	}
	return len(orders), err
}
