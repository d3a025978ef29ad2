package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/loadtest/bench/loadgen"
	"seckill/loadtest/bench/report"
)

// history compares the cost of an order in a database with many existing orders with one in a small database.
func (b *bench) history(ctx context.Context, sec *report.Section) error {
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

	err := b.rounds(ctx, sec, stacks, contenders...)
	few := subjects[0]
	many := subjects[1]
	b.report.Add(report.Bar{
		What: fmt.Sprintf("CPU per order: %s existing orders / %s", report.Thousands(int64(b.opts.sizes.history[1])),
			report.Thousands(int64(b.opts.sizes.history[0]))),
		Values: sec.Costs(many, few),
		Most:   1.2,
	})

	return err
}

func historySubject(orders int) string { return report.Thousands(int64(orders)) + " existing orders" }

// afterOrders sells in a database with the given number of orders. recreate fills it again before each run, which the
// small database needs to stay small; the large one grows by only a few percent.
func (b *bench) afterOrders(ctx context.Context, st *stack, orders int, recreate bool) (contender, error) {
	server, err := st.serve(ctx, b.anyLane())
	if err != nil {
		return nil, err
	}

	refill := func(ctx context.Context) error {
		b.progress("  creating %d old orders", orders)
		return errors.Join(st.empty(ctx), st.fill(ctx, orders))
	}

	if !recreate {
		if err := refill(ctx); err != nil {
			return nil, err
		}
	}

	sell := buyers(st, sale{
		subject: historySubject(orders),
		servers: []*process{server},
		load:    loadgen.Load{Conns: b.opts.conns},
	})

	return func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
		if recreate {
			if err := refill(ctx); err != nil {
				return nil, err
			}
		}

		if err := st.flushPages(ctx); err != nil {
			return nil, err
		}

		return sell(ctx, limit)
	}, nil
}
