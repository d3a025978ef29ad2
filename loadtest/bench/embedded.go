package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// embedded runs the rush command against a server with default settings. The rate is the one that the command prints; the
// command also checks the answers. The CPU time per order includes the creation of the buyers and the final check of
// their orders.
func (b *bench) embedded(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, bareGin)
	if err != nil {
		return err
	}

	server, data, err := st.serveEmbedded(ctx)
	if err != nil {
		return err
	}

	// The requests to the bare gin need a voucher ID.
	if _, err := st.sales(ctx, server, 1, 1); err != nil {
		return err
	}

	buyers := strconv.Itoa(b.opts.rush[0])
	stock := strconv.Itoa(b.opts.rush[1])
	subject := "rush --buyers " + buyers + " --stock " + stock

	rush := func(ctx context.Context, _ time.Duration) ([]*sample, error) {
		counters := countersOf(ctx, []*process{server})
		cpu := cpuTime(server.PID())

		out, client, err := seckill(ctx, b.binary, []string{data},
			"rush", "--url", "http://"+server.Addr, "--buyers", buyers, "--stock", stock)
		if err != nil {
			return nil, err
		}

		orders, elapsed, err := parseRush(out)
		if err != nil {
			return nil, err
		}

		counted := countersOf(ctx, []*process{server}).minus(counters)

		return []*sample{{
			subject: subject,
			result:  &result{elapsed: elapsed},
			counts:  orders,
			cpu:     usage{server: cpuTime(server.PID()) - cpu, client: client},
			allocs:  counted.mallocs / float64(orders),
			batched: counted.batched / counted.batches,
		}}, nil
	}

	err = b.rounds(ctx, sec, nil, rush, b.bare(st, p[0]))
	b.report.add(bar{
		what:   "embedded default: " + subject + ", orders/s / bare gin",
		values: sec.ratios(subject, bareSubject, (*sample).rate),
		least:  0.1,
	})

	return err
}

var (
	rushLine    = regexp.MustCompile(`(\d+) durable orders in [\d.]+s, (\d+) a second`)
	errRushLine = errors.New("the rush command printed no rate")
)

// parseRush returns the number of orders and the elapsed time, computed from the rate in the output of the rush
// command. The printed time has only two digits.
func parseRush(out string) (int64, time.Duration, error) {
	found := rushLine.FindStringSubmatch(out)
	if found == nil {
		return 0, 0, fmt.Errorf("%w:\n%s", errRushLine, out)
	}

	orders, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errRushLine, err)
	}

	rate, err := strconv.ParseFloat(found[2], 64)
	if err != nil || rate == 0 {
		return 0, 0, errors.Join(errRushLine, err)
	}

	return orders, time.Duration(float64(orders) / rate * float64(time.Second)), nil
}
