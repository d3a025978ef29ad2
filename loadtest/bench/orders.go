package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"seckill/loadtest/bench/loadgen"
	"seckill/loadtest/bench/reference"
	"seckill/loadtest/bench/report"
)

// orders compares an order with a fixed HTTP answer.
func (b *bench) orders(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, b.anyLane(), reference.Gin)
	if err != nil {
		return err
	}

	if b.opts.profile != "" {
		if err := b.writeProfile(ctx, st, p[0]); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
	}

	subject := laneName(b.anyLane())
	err = b.rounds(ctx, sec, []*stack{st},
		buyers(st, sale{
			subject: subject,
			servers: p[:1],
			load:    loadgen.Load{Conns: b.opts.conns},
		}), b.bare(st, p[1], clicks{}))

	b.report.AddRates(sec, fmt.Sprintf("%s, orders/s at %d connections / bare gin", subject, b.opts.conns),
		subject, bareSubject, onlyFor(b.anyLane(), 0.45))

	return err
}

// onlyFor returns the target of a ratio that has one only in lane batch.
func onlyFor(lane string, least float64) float64 {
	if lane == "batch" {
		return least
	}
	return 0
}

// lanesCompared compares the lanes lock and batch at different numbers of connections.
func (b *bench) lanesCompared(ctx context.Context, sec *report.Section) error {
	lanes := b.directLanes()
	counts := b.opts.sizes.latency
	st, p, err := b.servers(ctx, lanes...)
	if err != nil {
		return err
	}

	var contenders []contender
	for i, lane := range lanes {
		for _, conns := range counts {
			contenders = append(contenders,
				buyers(st, sale{
					subject: atConnections(lane, conns),
					servers: p[i : i+1],
					load:    loadgen.Load{Conns: conns},
				}))
		}
	}

	err = b.rounds(ctx, sec, []*stack{st}, contenders...)

	if len(lanes) == 2 {
		b.report.AddRates(sec, fmt.Sprintf("lock lane / batch lane, orders/s at %d connections", counts[1]),
			atConnections("lock", counts[1]), atConnections("batch", counts[1]), 0.6)
	}

	for _, lane := range lanes {
		b.report.AddRates(sec, fmt.Sprintf("%s, orders/s at %d connections / at %d", laneName(lane), counts[0], counts[1]),
			atConnections(lane, counts[0]), atConnections(lane, counts[1]), onlyFor(lane, 0.85))
	}

	return err
}

// keyedOrders measures the cost of an Idempotency-Key.
func (b *bench) keyedOrders(ctx context.Context, sec *report.Section) error {
	return b.clicksCompared(ctx, sec, clicks{keyed: true}, "with Idempotency-Key", 0.9)
}

// repeatedClicks measures the cost of repeated orders: one request in ten repeats another, and half of those are in
// flight together with it.
func (b *bench) repeatedClicks(ctx context.Context, sec *report.Section) error {
	return b.clicksCompared(ctx, sec, clicks{repeated: true}, "10 % repeats", 0)
}

// passes measures the cost of an entry pass. The buyers got their passes before.
func (b *bench) passes(ctx context.Context, sec *report.Section) error {
	return b.clicksCompared(ctx, sec, clicks{passes: true}, "with a pass", 0.97)
}

// clicksCompared compares orders with keys, passes or repetitions with plain ones, and with a bare gin that gets the
// same requests.
func (b *bench) clicksCompared(ctx context.Context, sec *report.Section, how clicks, what string, least float64) error {
	lanes := b.directLanes()
	st, p, err := b.servers(ctx, append(lanes, reference.Gin)...)
	if err != nil {
		return err
	}

	var contenders []contender
	for i, lane := range lanes {
		plain := sale{
			subject: laneName(lane),
			servers: p[i : i+1],
			load:    loadgen.Load{Conns: b.opts.conns},
		}

		changed := plain
		changed.subject = laneName(lane) + ", " + what
		changed.clicks = how
		contenders = append(contenders, buyers(st, changed), buyers(st, plain))
	}

	err = b.rounds(ctx, sec, []*stack{st}, append(contenders, b.bare(st, p[len(lanes)], how))...)

	for _, lane := range lanes {
		plain := laneName(lane)
		changed := plain + ", " + what
		b.report.AddRates(sec, changed+" / without, orders/s", changed, plain, onlyFor(lane, least))
		b.report.AddRates(sec, changed+", orders/s / bare gin with the same requests", changed, bareSubject, 0)
	}

	return err
}

// soldOut measures sold-out answers, which are most of the answers of a sale.
func (b *bench) soldOut(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, b.anyLane(), reference.Gin)
	if err != nil {
		return err
	}

	const subject = "sold-out answers"
	err = b.rounds(ctx, sec, []*stack{st}, func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
		sales, err := st.sales(ctx, p[0], 1, 1)
		if err != nil {
			return nil, err
		}

		if err := buyOne(ctx, p[0], orderRequest(sales[0], st.extra, "", "")); err != nil {
			return nil, err
		}

		l := loadgen.Load{
			Conns:    b.opts.conns,
			Requests: st.requests(sales, clicks{}, b.opts.conns),
			Endless:  true,
			Limit:    limit,
		}

		samples, err := st.measure(ctx, part{subject, p[:1], l})
		if err == nil {
			err = samples[0].Only("sold_out")
		}

		return samples, err
	}, b.bare(st, p[1], clicks{}))

	b.report.AddRates(sec, "sold-out answers/s / bare gin", subject, bareSubject, 0.8)
	return err
}

// buyOne orders the last unit.
func buyOne(ctx context.Context, p *process, request []byte) error {
	c, err := loadgen.Dial(ctx, p.addr)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // only read from

	a, err := c.Do(request)
	if err == nil && a.Status/100 != 2 {
		err = fmt.Errorf("%w: %d %s for the last unit", loadgen.ErrWrongAnswers, a.Status, a.Code)
	}

	return err
}

// queue compares lane queue with one Lua script call per request, as most flash-sale systems do it.
func (b *bench) queue(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, "queue", reference.GinWithScript)
	if err != nil {
		return err
	}

	const subject, script = "queue lane", "gin + EVALSHA"

	// Above the real IDs.
	number := 100_000
	err = b.rounds(ctx, sec, []*stack{st},
		buyers(st, sale{
			subject: subject,
			servers: p[:1],
			load:    loadgen.Load{Conns: b.opts.conns},
		}),
		func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
			number++
			// The path is as long as that of a real sale.
			name := strconv.Itoa(number)[6-min(len(st.newest), 6):]
			if err := st.rdb.Set(ctx, reference.ReserveKeys(name)[0], 1<<40, 0).Err(); err != nil {
				return nil, err
			}

			l := loadgen.Load{
				Conns:    b.opts.conns,
				Requests: st.requests([]string{name}, clicks{}, b.opts.conns),
				Endless:  true,
				Limit:    limit,
			}

			samples, err := st.measure(ctx, part{script, p[1:], l})
			if err != nil {
				return nil, err
			}

			return samples, errors.Join(samples[0].Only(accepted), st.rdb.Unlink(ctx, reference.ReserveKeys(name)...).Err())
		})

	b.report.AddRates(sec, "queue lane, accepted/s / gin with one EVALSHA per request", subject, script, 1.3)

	b.report.Add(report.Bar{
		What:   "queue lane: seconds until the workers have committed all accepted orders",
		Values: sec.Drains(subject),
		Most:   5,
	})

	return err
}

// vouchersAtOnce spreads the same buyers over increasing numbers of sales.
func (b *bench) vouchersAtOnce(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, b.anyLane())
	if err != nil {
		return err
	}
	return b.growth(ctx, sec, st, "vouchers", b.opts.sizes.vouchers, 1.5, func(n int) sale { return sale{servers: p, vouchers: n} })
}

// serversAtOnce spreads the same buyers over increasing numbers of server processes on this machine.
func (b *bench) serversAtOnce(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, slices.Repeat([]string{b.anyLane()}, slices.Max(b.opts.sizes.servers))...)
	if err != nil {
		return err
	}
	return b.growth(ctx, sec, st, "servers", b.opts.sizes.servers, 1.2, func(n int) sale { return sale{servers: p[:n]} })
}

// growth measures sales at increasing numbers of something, and compares the CPU time per order at the last number with
// the first.
func (b *bench) growth(
	ctx context.Context, sec *report.Section, st *stack, what string, numbers []int, most float64, of func(n int) sale,
) error {
	subject := func(n int) string { return fmt.Sprintf("%s, %s: %d", laneName(b.anyLane()), what, n) }
	var contenders []contender
	for _, n := range numbers {
		o := of(n)
		o.subject = subject(n)
		o.load.Conns = b.opts.conns
		contenders = append(contenders, buyers(st, o))
	}

	err := b.rounds(ctx, sec, []*stack{st}, contenders...)
	first := numbers[0]
	last := numbers[len(numbers)-1]
	b.report.Add(report.Bar{
		What:   fmt.Sprintf("CPU per order: %s %s / %d", report.Thousands(int64(last)), what, first),
		Values: sec.Costs(subject(last), subject(first)),
		Most:   most,
	})

	return err
}
