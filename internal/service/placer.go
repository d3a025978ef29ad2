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
	ids, errs := number(ctx, p.ids, purchases, open)
	orders, placing := make([]NewOrder, 0, len(open)), make([]int, 0, len(open))
	for n, i := range open {
		if errs[n] != nil {
			results[i].Err = errs[n]
			continue
		}
		p := &purchases[i]
		orders, placing = append(orders, NewOrder{Order: p.order(ids[n]), Limit: p.Limit, Fence: p.Fence}), append(placing, i)
	}
	if len(orders) == 0 {
		return nil
	}
	for n, placed := range p.orders.PlaceOrders(ctx, orders) {
		i := placing[n]
		results[i] = placed
		claim := purchases[i].Claim
		// A fresh id cannot have been stored before: the counter gave one of the same buyer's earlier clicks again.
		collided := placed.Before && (claim == nil || !claim.Again)
		if !collided && !errors.Is(placed.Err, ErrIDTaken) {
			continue
		}
		if err := p.ids.Skip(ctx, orders[n].ID); err != nil {
			results[i].Err = fmt.Errorf("%w: order id: %w", ErrUnavailable, err)
			continue
		}
		if claim != nil {
			claim.ResourceID = 0
		}
		again = append(again, i)
	}
	return again
}

// number returns an order id for each of the open purchases: that of its claim, or a fresh one, which the claim notes
// before anything happens under it. errs says of each why it has none.
func number(ctx context.Context, ids IDs, purchases []Purchase, open []int) (numbers []int64, errs []error) {
	numbers, errs = make([]int64, len(open)), make([]error, len(open))
	var fresh []int
	for n, i := range open {
		if c := purchases[i].Claim; c != nil && c.ResourceID != 0 {
			numbers[n] = c.ResourceID
		} else {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) == 0 {
		return numbers, errs
	}
	block, err := ids.NextN(ctx, len(fresh))
	if err != nil {
		err = fmt.Errorf("%w: order id: %w", ErrUnavailable, err)
		for _, n := range fresh {
			errs[n] = err
		}
		return numbers, errs
	}
	var claims []*Claim
	var noted []int
	for k, n := range fresh {
		numbers[n] = block[k]
		p := &purchases[open[n]]
		if c := p.Claim; c != nil {
			c.ResourceID, c.ResourceAt, c.Again = block[k], p.At, false // under this id nothing was tried
			claims, noted = append(claims, c), append(noted, n)
		}
	}
	if len(claims) > 0 {
		for k, err := range claims[0].store.NoteResources(ctx, claims) {
			errs[noted[k]] = err
		}
	}
	return numbers, errs
}
