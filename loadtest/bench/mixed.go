package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// cancelEvery is the time between two cancellations: ten a second.
const cancelEvery = 100 * time.Millisecond

// cancellations measures a sold-out sale with many orders while an admin cancels some of them. Each returned unit is
// sold again to the crowd.
func (b *bench) cancellations(ctx context.Context, sec *section) (err error) {
	st, err := b.newStack(ctx, "cancellations")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	server, err := st.serve(ctx, b.anyLane())
	if err != nil {
		return err
	}
	sales, err := st.sales(ctx, server, 1, 1)
	if err != nil {
		return err
	}
	b.progress("  making %d orders", b.opts.sizes.holders)
	first, err := st.hold(ctx, sales[0], b.opts.sizes.holders)
	if err != nil {
		return err
	}
	if err := buyOne(ctx, server, orderRequest(sales[0], st.last, "")); err != nil {
		return err
	}
	const still = "sold-out answers"
	moving := still + ", " + strconv.Itoa(int(time.Second/cancelEvery)) + " cancellations/s"
	servers := []*process{server}
	storm := part{"", servers, load{conns: b.opts.conns, requests: st.requests(sales, clicks{}, b.opts.conns), endless: true}}
	err = b.rounds(ctx, sec, []*stack{st}, func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		return st.refuse(ctx, storm.named(still, limit))
	}, func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		client, token, err := st.admin(ctx, server)
		if err != nil {
			return nil, err
		}
		client.Close()
		cancel := load{conns: 1, limit: limit, pace: cancelEvery}
		for range limit/cancelEvery + 1 {
			path := fmt.Sprintf("/api/v1/admin/orders/%d/cancel", first)
			cancel.requests = append(cancel.requests, request(http.MethodPost, path, token, ""))
			first++
		}
		return st.refuse(ctx, storm.named(moving, limit), part{"cancellations", servers, cancel})
	})
	what := fmt.Sprintf("sold-out answers/s with %s orders: with 10 cancellations/s / without", thousands(int64(b.opts.sizes.holders)))
	b.report.add(bar{what: what, values: sec.ratios(moving, still), least: 0.8})
	return err
}

// named returns the part for a run of a subject.
func (p part) named(subject string, limit time.Duration) part {
	p.subject, p.load.limit = subject, limit
	return p
}

// refusals are the answers of a sold-out sale.
var refusals = []string{"sold_out", "duplicate_order", "order_in_progress"}

// refuse measures a load that meets a sold-out sale, and cancellations beside it. The few buyers of returned units do
// not count; they are refused as well when they press again.
func (s *stack) refuse(ctx context.Context, storm part, cancel ...part) ([]*sample, error) {
	if err := storm.calm(ctx); err != nil {
		return nil, err
	}
	samples, err := s.measure(ctx, append([]part{storm}, cancel...)...)
	if err != nil {
		return nil, err
	}
	m := samples[0]
	m.counts = m.count(refusals...)
	err = m.only(append([]string{created, accepted}, refusals...)...)
	for _, cancelled := range samples[1:] {
		err = errors.Join(err, cancelled.only("200"))
	}
	return samples, err
}

// calm runs the load until the unit that the last run returned is sold and the server answers quickly again.
func (p part) calm(ctx context.Context) error {
	const short, quick = 300 * time.Millisecond, 100 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, drainPatience, errors.New("the server does not come to rest"))
	defer cancel()
	for {
		results, err := runParts(ctx, []part{p.named("calm", short)})
		if err != nil {
			return err
		}
		if r := results[0]; r.count(refusals...) == r.total() && r.latency.percentile(50) < quick {
			return nil
		}
	}
}

// readers measures the pages that buyers reload: one voucher and the list, each read while a rush runs on the same
// server. The yardstick is a bare gin that is read by the same number of connections while the same rush runs on the
// server, so that both readers have the same competitors.
func (b *bench) readers(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, b.anyLane(), bareGin)
	if err != nil {
		return err
	}
	alone := laneName(b.anyLane())
	rush := sale{subject: alone, servers: p[:1], load: load{conns: b.opts.conns}}
	pages := []struct{ name, route string }{{"GET /vouchers/{id}", voucherRoute}, {"GET /vouchers", vouchersRoute}}
	contenders := []contender{buyers(st, rush)}
	for _, page := range pages {
		for i, target := range []string{"", ", bare gin"} {
			subject := page.name + target
			o := rush
			o.subject = alone + " beside " + subject
			contenders = append(contenders, func(ctx context.Context, limit time.Duration) ([]*sample, error) {
				o.load.limit = limit
				samples, err := st.sell(ctx, o, func(sale string) []part {
					l := load{conns: max(b.opts.conns/4, 1), endless: true, limit: limit}
					l.requests = [][]byte{request(http.MethodGet, strings.Replace(page.route, ":id", sale, 1), "", "")}
					return []part{{subject, p[i : i+1], l}}
				})
				if err == nil {
					read := samples[1]
					read.counts = read.count("200") // a server under overload may refuse readers before buyers
					err = read.only("200", "overloaded", "unavailable")
				}
				return samples, err
			})
		}
	}
	err = b.rounds(ctx, sec, []*stack{st}, contenders...)
	for i, page := range pages {
		least := 0.6
		if i > 0 {
			least = 0
		}
		b.report.add(bar{what: page.name + " during a rush / bare gin beside the same rush, answers/s",
			values: sec.ratios(page.name, page.name+", bare gin"), least: least})
		b.report.add(bar{what: "orders/s beside readers of " + page.name + " / without readers",
			values: sec.ratios(alone+" beside "+page.name, alone)})
	}
	return err
}
