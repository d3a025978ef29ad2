package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fewerConns is how many times fewer connections there are in the comparison of small batches with large ones.
const fewerConns = 4

func (b *bench) orders(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, bareGin, "batch", "lock")
	if err != nil {
		return err
	}

	all := b.opts.conns
	few := all / fewerConns
	batch := fmt.Sprintf("batch lane, %d connections", all)
	small := fmt.Sprintf("batch lane, %d connections", few)
	lock := fmt.Sprintf("lock lane, %d connections", all)

	fewBuyers := b.sale(small, p[1])
	fewBuyers.conns = few

	err = b.rounds(ctx, sec, []*stack{st},
		b.bare(st, p[0]),
		buyers(st, b.sale(batch, p[1])),
		buyers(st, fewBuyers),
		buyers(st, b.sale(lock, p[2])))

	b.report.addRates(sec, batch+", orders/s / bare gin", batch, bareSubject, 0.4)
	b.report.addRates(sec, "lock lane / batch lane, orders/s", lock, batch, 0.7)
	b.report.add(bar{
		what:   fmt.Sprintf("CPU of all processes per order, batch lane: %d connections / %d", few, all),
		values: sec.ratios(small, batch, (*sample).allCPU),
		most:   1.3,
	})

	return err
}

func (b *bench) keys(ctx context.Context, sec *section) error {
	lanes := []string{"batch", "lock"}
	targets := []float64{0.8, 0.9}
	st, p, err := b.servers(ctx, lanes...)
	if err != nil {
		return err
	}

	var contenders []contender
	for i, lane := range lanes {
		keyed := b.sale(withKey(lane), p[i])
		keyed.keyed = true
		contenders = append(contenders, buyers(st, keyed), buyers(st, b.sale(lane+" lane", p[i])))
	}

	err = b.rounds(ctx, sec, []*stack{st}, contenders...)

	for i, lane := range lanes {
		b.report.addRates(sec, withKey(lane)+" / without, orders/s", withKey(lane), lane+" lane", targets[i])
	}

	return err
}

func withKey(lane string) string { return lane + " lane, with Idempotency-Key" }

func (b *bench) soldOut(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, "batch", bareGin)
	if err != nil {
		return err
	}

	const subject = "sold-out answers"
	soldOut := func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		sales, err := st.sales(ctx, p[0], 1, 1)
		if err != nil {
			return nil, err
		}

		if _, err := p[0].client.Place(ctx, st.extra, sales[0], "", ""); err != nil {
			return nil, fmt.Errorf("buy the last unit: %w", err)
		}

		l := b.load(subject, limit, st.requests(sales, false), p[0])
		return st.flood(ctx, l, "sold_out")
	}

	err = b.rounds(ctx, sec, []*stack{st}, soldOut, b.bare(st, p[1]))
	b.report.addRates(sec, "sold-out answers/s / bare gin", subject, bareSubject, 0.8)

	return err
}

// queue compares lane queue with one Lua script call per request, as most flash-sale systems do it.
func (b *bench) queue(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, "queue", ginWithScript)
	if err != nil {
		return err
	}

	const subject = "queue lane"
	const script = "gin + EVALSHA"

	// Above the real IDs.
	number := 100_000

	evalSHA := func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		number++
		// The path is as long as that of a real sale.
		name := strconv.Itoa(number)[6-min(len(st.newest), 6):]
		if err := st.rdb.Set(ctx, reserveKeys(name)[0], 1<<40, 0).Err(); err != nil {
			return nil, err
		}

		l := b.load(script, limit, st.requests([]string{name}, false), p[1])
		samples, err := st.flood(ctx, l, accepted)
		return samples, errors.Join(err, st.rdb.Unlink(ctx, reserveKeys(name)...).Err())
	}

	err = b.rounds(ctx, sec, []*stack{st}, buyers(st, b.sale(subject, p[0])), evalSHA)
	b.report.addRates(sec, "queue lane, accepted/s / gin with one EVALSHA per request", subject, script, 1.1)

	return err
}

func (b *bench) vouchersAtOnce(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, "batch")
	if err != nil {
		return err
	}

	one := b.sale("vouchers: 1", p[0])
	many := b.sale("vouchers: "+thousands(int64(b.opts.vouchers)), p[0])
	many.vouchers = b.opts.vouchers

	err = b.rounds(ctx, sec, []*stack{st}, buyers(st, many), buyers(st, one))
	b.report.addCosts(sec, many.subject, one.subject, 1.5)

	return err
}

func (b *bench) serversAtOnce(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, slices.Repeat([]string{"batch"}, b.opts.servers)...)
	if err != nil {
		return err
	}

	one := b.sale("servers: 1", p[0])
	all := b.sale("servers: "+strconv.Itoa(len(p)), p...)

	err = b.rounds(ctx, sec, []*stack{st}, buyers(st, all), buyers(st, one))
	b.report.addCosts(sec, all.subject, one.subject, 1.2)

	return err
}

func (b *bench) history(ctx context.Context, sec *section) (err error) {
	var stacks []*stack
	var subjects []string
	var contenders []contender
	defer func() {
		for _, st := range stacks {
			err = errors.Join(err, st.close())
		}
	}()

	for i, orders := range b.opts.history {
		st, err := b.newStack(ctx, fmt.Sprintf("history-%d", i))
		if err != nil {
			return err
		}
		stacks = append(stacks, st)

		subject := thousands(int64(orders)) + " existing orders"
		c, err := b.afterOrders(ctx, st, subject, orders, i == 0)
		if err != nil {
			return err
		}

		subjects = append(subjects, subject)
		contenders = append(contenders, c)
	}

	// The large database keeps the orders of all rounds, so it is verified once: that takes minutes.
	err = b.rounds(ctx, sec, stacks[:1], contenders...)
	b.report.addCosts(sec, subjects[1], subjects[0], 1.2)
	if err != nil {
		return err
	}

	return stacks[1].verify(ctx)
}

// afterOrders sells in a database with the given number of orders. recreate fills it again before each run, which the
// small database needs to stay small; the large one grows by only a few percent.
func (b *bench) afterOrders(ctx context.Context, st *stack, subject string, orders int, recreate bool) (contender, error) {
	server, err := st.serve(ctx, "batch")
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

	sell := buyers(st, b.sale(subject, server))

	return func(ctx context.Context, limit time.Duration) ([]*sample, error) {
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

func (b *bench) readers(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, "batch", bareGin)
	if err != nil {
		return err
	}

	const page = "GET /vouchers/{id}"
	const barePage = page + ", bare gin"
	ours := b.readDuring(st, p[0], p[0], page)
	bare := b.readDuring(st, p[0], p[1], barePage)

	err = b.rounds(ctx, sec, []*stack{st}, ours, bare)
	b.report.add(bar{
		what:   page + " while selling / bare gin under the same load, answers/s",
		values: sec.ratios(page, barePage, (*sample).rate),
		least:  0.8,
	})

	return err
}

func (b *bench) readDuring(st *stack, seller, reader *process, page string) contender {
	o := b.sale("orders with "+page, seller)

	return func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		o.limit = limit
		samples, err := st.sell(ctx, o, func(sale string) load {
			path := strings.Replace(voucherRoute, ":id", sale, 1)
			l := b.load(page, limit, [][]byte{httpRequest(http.MethodGet, path, "")}, reader)
			l.conns /= 4
			l.endless = true
			return l
		})
		if err != nil {
			return nil, err
		}

		// Under overload a server may refuse reads before orders.
		read := samples[1]
		read.counts = read.answers["200"]

		return samples, read.only("200", "overloaded", "unavailable")
	}
}

// The loads of the scenario visitors: purchases at 400 a second, and 50 reads of the list a second.
const (
	buyersAtOnce  = 8
	buyerInterval = 20 * time.Millisecond

	visitorsAtOnce  = 10
	visitorInterval = 200 * time.Millisecond
)

// visitors measures purchases of a sold-out sale at a steady rate, alone and beside anonymous reads of the voucher list.
// Each read selects another variant of the list, so no answer is the repetition of another one.
func (b *bench) visitors(ctx context.Context, sec *section) error {
	// The admin uses another server than the visitors: logins are limited as well.
	st, p, err := b.servers(ctx, "batch")
	if err != nil {
		return err
	}

	limited, err := st.serve(ctx, "batch", "SECKILL_RATE_LIMIT=on")
	if err != nil {
		return err
	}

	sales, err := st.sales(ctx, p[0], longSales, 1)
	if err != nil {
		return err
	}

	if err := st.addRules(ctx, p[0], sales); err != nil {
		return err
	}

	sold := sales[longSales-1]
	if _, err := limited.client.Place(ctx, st.extra, sold, "", ""); err != nil {
		return fmt.Errorf("buy the last unit: %w", err)
	}

	const alone = "purchases"
	const beside = "purchases beside lists"

	purchases := load{
		subject:  alone,
		servers:  []*process{limited},
		conns:    buyersAtOnce,
		pace:     buyerInterval,
		endless:  true,
		requests: st.requests([]string{sold}, false),
	}

	reads := load{
		subject:  "lists",
		servers:  []*process{limited},
		conns:    visitorsAtOnce,
		pace:     visitorInterval,
		endless:  true,
		requests: listVariants(),
	}

	purchasesAlone := func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		purchases.limit = limit
		return st.flood(ctx, purchases, "sold_out")
	}

	purchasesBeside := func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		both := purchases
		both.subject = beside
		both.limit = limit
		reads.limit = limit
		samples, err := st.measure(ctx, both, reads)
		if err != nil {
			return nil, err
		}

		return samples, errors.Join(samples[0].only("sold_out"), samples[1].only("200"))
	}

	err = b.rounds(ctx, sec, []*stack{st}, purchasesAlone, purchasesBeside)
	b.report.add(bar{
		what:   "p99 of purchases beside 50 variants of the list a second / alone",
		values: sec.ratios(beside, alone, (*sample).p99),
		most:   2,
	})

	return err
}

// longSales is the number of sales with long rules, more than a page of the list has.
const longSales = 110

func (s *stack) addRules(ctx context.Context, p *process, sales []string) error {
	admin, err := s.admin(ctx, p)
	if err != nil {
		return err
	}

	for _, id := range sales {
		rules := make([]rune, 500)
		for i := range rules {
			rules[i] = '一' + rand.N[rune](500)
		}

		if err := p.client.ChangeVoucher(ctx, admin, id, map[string]any{"rules": string(rules)}); err != nil {
			return fmt.Errorf("change the rules: %w", err)
		}
	}

	return nil
}

func listVariants() [][]byte {
	var variants [][]byte
	for limit := 51; limit <= 100; limit++ {
		for _, filter := range []string{"", "&status=on", "&status=current", "&shop_id=1"} {
			path := vouchersRoute + "?limit=" + strconv.Itoa(limit) + filter
			variants = append(variants, httpRequest(http.MethodGet, path, "", "Accept-Encoding: gzip"))
		}
	}

	rand.Shuffle(len(variants), func(i, j int) { variants[i], variants[j] = variants[j], variants[i] })
	return variants
}
