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
)

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
			l := b.load(page, limit, [][]byte{httpRequest(http.MethodGet, path, "", "")}, reader)
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
	if err := buyOne(ctx, limited, orderRequest(sold, st.extra, "")); err != nil {
		return err
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

func listVariants() [][]byte {
	var variants [][]byte
	for limit := 51; limit <= 100; limit++ {
		for _, filter := range []string{"", "&status=on", "&status=current", "&shop_id=1"} {
			path := vouchersRoute + "?limit=" + strconv.Itoa(limit) + filter
			variants = append(variants, httpRequest(http.MethodGet, path, "", "", "Accept-Encoding: gzip"))
		}
	}

	rand.Shuffle(len(variants), func(i, j int) { variants[i], variants[j] = variants[j], variants[i] })
	return variants
}
