package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"seckill/loadtest/bench/loadgen"
	"seckill/loadtest/bench/reference"
	"seckill/loadtest/bench/report"
	"seckill/loadtest/bench/sysinfo"
	"seckill/test/env/servers"
)

// embedded runs the rush command against a server with default settings. The rate is the one that the command prints; the
// command also checks the answers. The CPU time per order includes the creation of the buyers and the final check of
// their orders.
func (b *bench) embedded(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, reference.Gin)
	if err != nil {
		return err
	}

	server, data, err := st.serveEmbedded(ctx, "embedded")
	if err != nil {
		return err
	}

	// The command's default.
	const parallel = 256
	buyers := b.opts.sizes.rush[0]
	stock := b.opts.sizes.rush[1]

	// The requests to the bare gin need a voucher ID.
	if _, err := st.sales(ctx, server, 1, 1); err != nil {
		return err
	}

	subject := fmt.Sprintf("rush --buyers %d --stock %d", buyers, stock)
	err = b.rounds(ctx, sec, nil, func(ctx context.Context, _ time.Duration) ([]*report.Sample, error) {
		counters := countersOf(ctx, []*process{server})
		cpu := sysinfo.CPUTime(server.cmd.Process.Pid)
		out, client, err := seckill(ctx, b.binary, []string{data}, "rush", "--url", "http://"+server.addr,
			"--buyers", strconv.Itoa(buyers), "--stock", strconv.Itoa(stock))
		if err != nil {
			return nil, err
		}

		m := &report.Sample{
			Subject: subject,
			Conns:   parallel,
			Result:  &loadgen.Result{},
		}
		if m.Counts, m.Elapsed, err = parseRush(out); err != nil {
			return nil, err
		}

		counted := countersOf(ctx, []*process{server}).minus(counters)
		m.Allocs = counted.mallocs / float64(m.Counts)
		m.Batched = counted.batched / counted.batches
		m.CPU = report.Usage{Server: sysinfo.CPUTime(server.cmd.Process.Pid) - cpu, Client: client}

		return []*report.Sample{m}, nil
	}, b.bare(st, p[0], clicks{}))

	b.report.Add(report.Bar{
		What:   "embedded default: " + subject + ", orders/s / bare gin",
		Values: sec.Ratios(subject, bareSubject),
		Least:  0.1,
	})

	return err
}

// serveEmbedded starts a server with default settings, except for its addresses and its data directory, which is new. It
// returns the setting of that directory too.
func (s *stack) serveEmbedded(ctx context.Context, name string) (*process, string, error) {
	ops, _, err := servers.ReserveAddr(ctx)
	if err != nil {
		return nil, "", err
	}

	data := "SECKILL_DATA_DIR=" + filepath.Join(s.dir, name)
	p, err := startProcess(ctx, []string{data, "SECKILL_ADDR=127.0.0.1:0", "SECKILL_OPS_ADDR=" + ops},
		filepath.Join(s.dir, name+".log"), s.binary, "serve")
	if err != nil {
		return nil, "", err
	}

	p.ops = ops
	s.servers[p] = true
	return p, data, nil
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
