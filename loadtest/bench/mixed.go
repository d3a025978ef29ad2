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

// cancelEvery is the interval between cancellations: 10 per second.
const cancelEvery = 100 * time.Millisecond

// cancellations measures the answers of a sold-out sale with many orders while an admin cancels some of them. Each
// released unit is sold again.
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
	b.progress("  creating %d orders", b.opts.sizes.active)
	first, err := st.addActive(ctx, sales[0], b.opts.sizes.active)
	if err != nil {
		return err
	}
	if err := buyOne(ctx, server, orderRequest(sales[0], st.extra, "", "")); err != nil {
		return err
	}
	const plain = "sold-out answers"
	cancelling := plain + ", " + strconv.Itoa(int(time.Second/cancelEvery)) + " cancellations/s"
	servers := []*process{server}
	sold := part{"", servers, load{conns: b.opts.conns, requests: st.requests(sales, clicks{}, b.opts.conns), endless: true}}
	err = b.rounds(ctx, sec, []*stack{st}, func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		return st.refuse(ctx, sold.named(plain, limit))
	}, func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		client, token, err := st.admin(ctx, server)
		if err != nil {
			return nil, err
		}
		client.Close()
		cancel := load{conns: 1, limit: limit, pace: cancelEvery}
		for range limit/cancelEvery + 1 {
			path := fmt.Sprintf("/api/v1/admin/orders/%d/cancel", first)
			cancel.requests = append(cancel.requests, request(http.MethodPost, path, token, "", ""))
			first++
		}
		return st.refuse(ctx, sold.named(cancelling, limit), part{"cancellations", servers, cancel})
	})
	what := fmt.Sprintf("sold-out answers/s with %s orders: with 10 cancellations/s / without", thousands(int64(b.opts.sizes.active)))
	b.report.add(bar{what: what, values: sec.ratios(cancelling, plain), least: 0.8})
	return err
}

// named returns the part for one run of a subject.
func (p part) named(subject string, limit time.Duration) part {
	p.subject, p.load.limit = subject, limit
	return p
}

// refusals are the codes of refused orders of a sold-out sale.
var refusals = []string{"sold_out", "duplicate_order", "order_in_progress"}

// refuse measures orders of a sold-out sale, with cancellations at the same time if cancel is given. The rate counts
// only refusals, not the few orders that get released units.
func (s *stack) refuse(ctx context.Context, orders part, cancel ...part) ([]*sample, error) {
	if err := orders.warmUp(ctx); err != nil {
		return nil, err
	}
	samples, err := s.measure(ctx, append([]part{orders}, cancel...)...)
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

// warmUp runs the load until the units released by the last run are sold and the median latency is low again.
func (p part) warmUp(ctx context.Context) error {
	const short, quick = 300 * time.Millisecond, 100 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout, errors.New("the server stayed slow after the last run"))
	defer cancel()
	for {
		results, err := runParts(ctx, []part{p.named("warm-up", short)})
		if err != nil {
			return err
		}
		if r := results[0]; r.count(refusals...) == r.total() && r.latency.percentile(50) < quick {
			return nil
		}
	}
}

// readers measures reads of one voucher and of the list while orders are placed on the same server. For comparison, the
// same number of connections reads from a bare gin while the same orders are placed on the server, so that both reads
// compete with the same load.
func (b *bench) readers(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, b.anyLane(), bareGin)
	if err != nil {
		return err
	}
	alone := laneName(b.anyLane())
	orders := sale{subject: alone, servers: p[:1], load: load{conns: b.opts.conns}}
	pages := []struct{ name, route string }{{"GET /vouchers/{id}", voucherRoute}, {"GET /vouchers", vouchersRoute}}
	contenders := []contender{buyers(st, orders)}
	for _, page := range pages {
		for i, target := range []string{"", ", bare gin"} {
			subject := page.name + target
			o := orders
			o.subject = alone + " with " + subject
			contenders = append(contenders, func(ctx context.Context, limit time.Duration) ([]*sample, error) {
				o.load.limit = limit
				samples, err := st.sell(ctx, o, func(sale string) []part {
					l := load{conns: max(b.opts.conns/4, 1), endless: true, limit: limit}
					l.requests = [][]byte{request(http.MethodGet, strings.Replace(page.route, ":id", sale, 1), "", "", "")}
					return []part{{subject, p[i : i+1], l}}
				})
				if err == nil {
					read := samples[1]
					read.counts = read.count("200") // under overload a server may refuse reads before orders
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
		b.report.add(bar{what: page.name + " while selling / bare gin under the same load, answers/s",
			values: sec.ratios(page.name, page.name+", bare gin"), least: least})
		b.report.add(bar{what: "orders/s with reads of " + page.name + " / without",
			values: sec.ratios(alone+" with "+page.name, alone)})
	}
	return err
}

// floods measures orders at a steady rate on a server with rate limits, alone and beside readers that repeat refused
// requests without a pause.
func (b *bench) floods(ctx context.Context, sec *section) error {
	const buyersAtOnce, interval, readers = 8, 20 * time.Millisecond, 100
	st, p, err := b.servers(ctx, b.anyLane())
	if err != nil {
		return err
	}
	limited, err := st.serve(ctx, b.anyLane(), "SECKILL_RATE_LIMIT=on")
	if err != nil {
		return err
	}
	servers := []*process{limited}
	// The admin logs in on the other server: codes are limited.
	orders := sale{subject: "orders", servers: servers, publisher: p[0], load: load{conns: buyersAtOnce, pace: interval}}
	floods := []struct {
		name    string
		request []byte
		answer  string // within the limits
	}{
		{"readers of one user", request(http.MethodGet, "/api/v1/orders", st.extra, "", ""), "200"},
		{"readers with made-up cursors", request(http.MethodGet, vouchersRoute+"?cursor=bWFkZSB1cA", "", "", ""), "invalid_request"},
	}
	contenders := []contender{buyers(st, orders)}
	for _, f := range floods {
		o := orders
		o.subject = "orders beside " + f.name
		contenders = append(contenders, func(ctx context.Context, limit time.Duration) ([]*sample, error) {
			o.load.limit = limit
			flood := load{conns: readers, requests: [][]byte{f.request}, endless: true, limit: limit}
			samples, err := st.sell(ctx, o, func(string) []part { return []part{{f.name, servers, flood}} })
			if err == nil {
				err = samples[1].only(f.answer, "rate_limited", "overloaded")
			}
			return samples, err
		})
	}
	err = b.rounds(ctx, sec, []*stack{st}, contenders...)
	for _, f := range floods {
		b.report.add(bar{what: fmt.Sprintf("p50 of orders beside %d %s / alone", readers, f.name),
			values: sec.medians("orders beside "+f.name, "orders"), most: 2})
	}
	return err
}
