package service

import (
	"context"
	"errors"
	"fmt"
)

// maxIDTries bounds how often a purchase takes a fresh id. A collision means that the counter was lost; after
// Skip the next id is free, unless the counter is lost again in between.
const maxIDTries = 10

// IDs hands out order ids.
type IDs interface {
	// NextN returns n fresh ids, in one round trip.
	NextN(ctx context.Context, n int) ([]int64, error)
	// Skip moves the sequence past everything that may have been handed out before the counter was lost.
	// taken is an id that turned out to exist.
	Skip(ctx context.Context, taken int64) error
}

// placer turns purchases into committed orders.
type placer struct {
	ids    IDs
	orders OrderStore
}

// place answers each purchase as PlaceOrders does, except that an order whose id was taken gets a fresh one.
func (p placer) place(ctx context.Context, purchases []Purchase) []Placed {
	results := make([]Placed, len(purchases))
	open := make([]int, len(purchases)) // the purchases that have no answer yet
	for i := range open {
		open[i] = i
	}
	for range maxIDTries {
		if open = p.try(ctx, purchases, results, open); len(open) == 0 {
			return results
		}
	}
	for _, i := range open {
		results[i].Err = fmt.Errorf("%w: no free order id after %d tries", ErrUnavailable, maxIDTries)
	}
	return results
}

// try places the open purchases and returns those whose id was taken.
func (p placer) try(ctx context.Context, purchases []Purchase, results []Placed, open []int) (again []int) {
	ids, err := p.ids.NextN(ctx, len(open))
	if err != nil {
		for _, i := range open {
			results[i].Err = fmt.Errorf("%w: order id: %w", ErrUnavailable, err)
		}
		return nil
	}
	orders := make([]NewOrder, len(open))
	for n, i := range open {
		p := &purchases[i]
		orders[n] = NewOrder{Order: p.order(ids[n]), Limit: p.Limit, Key: p.Key, Fence: p.Fence}
	}
	for n, placed := range p.orders.PlaceOrders(ctx, orders) {
		i := open[n]
		results[i] = placed
		// Before: a fresh id cannot have been stored before, so the counter gave one of the same buyer's earlier orders again.
		if !placed.Before && !errors.Is(placed.Err, ErrIDTaken) {
			continue
		}
		if err := p.ids.Skip(ctx, ids[n]); err != nil {
			results[i].Err = fmt.Errorf("%w: order id: %w", ErrUnavailable, err)
			continue
		}
		again = append(again, i)
	}
	return again
}
