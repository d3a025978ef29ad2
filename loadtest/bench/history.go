package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// history is the price of an order in a shop that has had many, against one in a new shop.
func (b *bench) history(ctx context.Context, sec *section) (err error) {
	var (
		contenders []contender
		subjects   []string
		stacks     []*stack
	)
	for i, orders := range b.opts.sizes.history {
		st, err := b.newStack(ctx, fmt.Sprintf("history-%d", i))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.close()) }()
		c, err := b.afterOrders(ctx, st, orders, i == 0)
		if err != nil {
			return err
		}
		contenders = append(contenders, c)
		subjects = append(subjects, historySubject(orders))
		stacks = append(stacks, st)
	}
	err = b.rounds(ctx, sec, stacks, contenders...)
	few, many := subjects[0], subjects[1]
	what := fmt.Sprintf("cost per order at %d existing orders / at %d", b.opts.sizes.history[1], b.opts.sizes.history[0])
	b.report.add(bar{what: what + ", time", values: sec.ratios(few, many), most: 1.2})
	b.report.add(bar{what: what + ", CPU of server, MariaDB and Redis", values: sec.costs(many, few)})
	return err
}

func historySubject(orders int) string { return fmt.Sprintf("%d existing orders", orders) }

// afterOrders sells in a database that holds the given number of orders. The small one is made anew for each round, or
// it would not stay small; the big one grows by a few percent.
func (b *bench) afterOrders(ctx context.Context, st *stack, orders int, anew bool) (contender, error) {
	server, err := st.serve(ctx, b.opts.lanes[0])
	if err != nil {
		return nil, err
	}
	refill := func(ctx context.Context) error {
		b.progress("  making %d old orders", orders)
		return errors.Join(st.empty(ctx), st.fill(ctx, orders))
	}
	if !anew {
		if err := refill(ctx); err != nil {
			return nil, err
		}
	}
	sell := buyers(st, historySubject(orders), b.opts.conns, 1, server)
	return func(ctx context.Context, limit time.Duration) (*sample, error) {
		if anew {
			if err := refill(ctx); err != nil {
				return nil, err
			}
		}
		if err := st.settle(ctx); err != nil {
			return nil, err
		}
		return sell(ctx, limit)
	}, nil
}
