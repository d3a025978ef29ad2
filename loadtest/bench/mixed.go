package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"seckill/loadtest/bench/loadgen"
	"seckill/loadtest/bench/reference"
	"seckill/loadtest/bench/report"
)

// cancelEvery is the interval between cancellations: 10 per second.
const cancelEvery = 100 * time.Millisecond

// cancellations measures the answers of a sold-out sale with many orders while an admin cancels some of them. Each
// released unit is sold again.
func (b *bench) cancellations(ctx context.Context, sec *report.Section) (err error) {
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
	sold := part{"", servers, loadgen.Load{
		Conns:    b.opts.conns,
		Requests: st.requests(sales, clicks{}, b.opts.conns),
		Endless:  true,
	}}

	err = b.rounds(ctx, sec, []*stack{st}, func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
		return st.refuse(ctx, sold.named(plain, limit))
	}, func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
		client, token, err := st.admin(ctx, server)
		if err != nil {
			return nil, err
		}

		client.Close()

		cancel := loadgen.Load{
			Conns: 1,
			Limit: limit,
			Pace:  cancelEvery,
		}

		for range limit/cancelEvery + 1 {
			path := fmt.Sprintf("/api/v1/admin/orders/%d/cancel", first)
			cancel.Requests = append(cancel.Requests, loadgen.Request(http.MethodPost, path, token, "", ""))
			first++
		}

		return st.refuse(ctx, sold.named(cancelling, limit), part{"cancellations", servers, cancel})
	})

	what := fmt.Sprintf("sold-out answers/s with %s orders: with 10 cancellations/s / without", report.Thousands(int64(b.opts.sizes.active)))
	b.report.Add(report.Bar{
		What:   what,
		Values: sec.Ratios(cancelling, plain),
		Least:  0.8,
	})

	return err
}

// named returns the part for one run of a subject.
func (p part) named(subject string, limit time.Duration) part {
	p.subject = subject
	p.load.Limit = limit
	return p
}

// refusals are the codes of refused orders of a sold-out sale.
var refusals = []string{"sold_out", "duplicate_order", "order_in_progress"}

// refuse measures orders of a sold-out sale, with cancellations at the same time if cancel is given. The rate counts
// only refusals, not the few orders that get released units.
func (s *stack) refuse(ctx context.Context, orders part, cancel ...part) ([]*report.Sample, error) {
	if err := orders.warmUp(ctx); err != nil {
		return nil, err
	}

	samples, err := s.measure(ctx, append([]part{orders}, cancel...)...)
	if err != nil {
		return nil, err
	}

	m := samples[0]
	m.Counts = m.Count(refusals...)
	err = m.Only(append([]string{created, accepted}, refusals...)...)
	for _, cancelled := range samples[1:] {
		err = errors.Join(err, cancelled.Only("200"))
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

		if r := results[0]; r.Count(refusals...) == r.Total() && r.Latency.Percentile(50) < quick {
			return nil
		}
	}
}

// readers measures reads of one voucher and of the list while orders are placed on the same server. For comparison, the
// same number of connections reads from a bare gin while the same orders are placed on the server, so that both reads
// compete with the same load.
func (b *bench) readers(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, b.anyLane(), reference.Gin)
	if err != nil {
		return err
	}

	alone := laneName(b.anyLane())
	orders := sale{
		subject: alone,
		servers: p[:1],
		load:    loadgen.Load{Conns: b.opts.conns},
	}

	pages := []struct{ name, route string }{{"GET /vouchers/{id}", reference.VoucherRoute}, {"GET /vouchers", reference.VouchersRoute}}
	contenders := []contender{buyers(st, orders)}
	for _, page := range pages {
		for i, target := range []string{"", ", bare gin"} {
			subject := page.name + target
			o := orders
			o.subject = alone + " with " + subject
			contenders = append(contenders, func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
				o.load.Limit = limit
				samples, err := st.sell(ctx, o, func(sale string) []part {
					l := loadgen.Load{
						Conns:   max(b.opts.conns/4, 1),
						Endless: true,
						Limit:   limit,
					}

					l.Requests = [][]byte{loadgen.Request(http.MethodGet, strings.Replace(page.route, ":id", sale, 1), "", "", "")}
					return []part{{subject, p[i : i+1], l}}
				})
				if err == nil {
					read := samples[1]
					// Under overload a server may refuse reads before orders.
					read.Counts = read.Count("200")
					err = read.Only("200", "overloaded", "unavailable")
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

		b.report.Add(report.Bar{
			What:   page.name + " while selling / bare gin under the same load, answers/s",
			Values: sec.Ratios(page.name, page.name+", bare gin"),
			Least:  least,
		})

		b.report.Add(report.Bar{What: "orders/s with reads of " + page.name + " / without",
			Values: sec.Ratios(alone+" with "+page.name, alone)})
	}

	return err
}

// floods measures orders at a steady rate on a server with rate limits, alone and beside readers that repeat refused
// requests without a pause.
func (b *bench) floods(ctx context.Context, sec *report.Section) error {
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
	orders := sale{
		subject:   "orders",
		servers:   servers,
		publisher: p[0],
		load:      loadgen.Load{Conns: buyersAtOnce, Pace: interval},
	}

	floods := []struct {
		name    string
		request []byte
		// Within the limits.
		answer string
	}{
		{"readers of one user", loadgen.Request(http.MethodGet, "/api/v1/orders", st.extra, "", ""), "200"},
		{"readers with made-up cursors", loadgen.Request(http.MethodGet, reference.VouchersRoute+"?cursor=bWFkZSB1cA", "", "", ""), "invalid_request"},
	}

	contenders := []contender{buyers(st, orders)}
	for _, f := range floods {
		o := orders
		o.subject = "orders beside " + f.name

		contenders = append(contenders, func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
			o.load.Limit = limit
			flood := loadgen.Load{
				Conns:    readers,
				Requests: [][]byte{f.request},
				Endless:  true,
				Limit:    limit,
			}

			samples, err := st.sell(ctx, o, func(string) []part { return []part{{f.name, servers, flood}} })
			if err == nil {
				err = samples[1].Only(f.answer, "rate_limited", "overloaded")
			}

			return samples, err
		})
	}

	err = b.rounds(ctx, sec, []*stack{st}, contenders...)

	for _, f := range floods {
		b.report.Add(report.Bar{
			What:   fmt.Sprintf("p50 of orders beside %d %s / alone", readers, f.name),
			Values: sec.Medians("orders beside "+f.name, "orders"),
			Most:   2,
		})
	}

	return err
}

// visitors measures purchases of a sold-out sale at a steady rate, alone and beside anonymous reads of the voucher list.
// Each read selects another variant of the list, so no answer is the repetition of another one.
func (b *bench) visitors(ctx context.Context, sec *report.Section) error {
	const buyersAtOnce, interval = 8, 20 * time.Millisecond

	// 50 a second.
	const readers, readInterval = 10, 200 * time.Millisecond
	st, p, err := b.servers(ctx, b.anyLane())
	if err != nil {
		return err
	}

	limited, err := st.serve(ctx, b.anyLane(), "SECKILL_RATE_LIMIT=on")
	if err != nil {
		return err
	}

	// The admin logs in on the other server: codes are limited.
	sales, err := st.sales(ctx, p[0], longSales, 1)
	if err != nil {
		return err
	}

	if err := st.addRules(ctx, p[0], sales); err != nil {
		return err
	}

	sold := sales[len(sales)-1]
	if err := buyOne(ctx, limited, orderRequest(sold, st.extra, "", "")); err != nil {
		return err
	}

	const alone, beside, lists = "purchases", "purchases beside lists", "lists"
	servers := []*process{limited}
	purchases := part{"", servers, loadgen.Load{
		Conns:    buyersAtOnce,
		Pace:     interval,
		Endless:  true,
		Requests: st.requests([]string{sold}, clicks{}, buyersAtOnce),
	}}

	reads := part{"", servers, loadgen.Load{
		Conns:    readers,
		Pace:     readInterval,
		Endless:  true,
		Requests: listVariants(),
	}}

	measure := func(ctx context.Context, parts ...part) ([]*report.Sample, error) {
		samples, err := st.measure(ctx, parts...)
		if err != nil {
			return nil, err
		}

		err = samples[0].Only("sold_out")
		for _, read := range samples[1:] {
			err = errors.Join(err, read.Only("200"))
		}

		return samples, err
	}

	err = b.rounds(ctx, sec, []*stack{st}, func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
		return measure(ctx, purchases.named(alone, limit))
	}, func(ctx context.Context, limit time.Duration) ([]*report.Sample, error) {
		return measure(ctx, purchases.named(beside, limit), reads.named(lists, limit))
	})

	b.report.Add(report.Bar{
		What:   "p99 of purchases beside 50 variants of the list a second / alone",
		Values: sec.Tails(beside, alone),
		Most:   2,
	})

	b.report.Add(report.Bar{What: "CPU time per purchase or list / per purchase alone", Values: sec.Costs(beside, alone)})
	return err
}

// longSales is the number of sales with long rules, more than a page of the list has.
const longSales = 110

// addRules gives the sales rules of 500 characters, all of them different.
func (s *stack) addRules(ctx context.Context, p *process, sales []string) error {
	client, admin, err := s.admin(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()

	for _, id := range sales {
		rules := make([]rune, 500)
		for i := range rules {
			rules[i] = '一' + rand.N[rune](500)
		}

		if err := client.ChangeVoucher(ctx, admin, id, map[string]any{"rules": string(rules)}); err != nil {
			return fmt.Errorf("change the rules: %w", err)
		}
	}

	return nil
}

// listVariants returns requests for the compressed list, with different limits and filters, in random order.
func listVariants() [][]byte {
	var variants [][]byte
	for limit := 51; limit <= 100; limit++ {
		for _, filter := range []string{"", "&status=on", "&status=current", "&shop_id=1"} {
			path := reference.VouchersRoute + "?limit=" + strconv.Itoa(limit) + filter
			variants = append(variants, loadgen.Request(http.MethodGet, path, "", "", "", "Accept-Encoding: gzip"))
		}
	}
	rand.Shuffle(len(variants), func(i, j int) { variants[i], variants[j] = variants[j], variants[i] })
	return variants
}
