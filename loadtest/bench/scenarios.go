package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// scenario is one thing to measure.
type scenario struct {
	name, title string
	lane        string // without which it makes no sense; empty if any will do
	run         func(*bench, context.Context, *section) error
}

var scenarios = []scenario{
	{"batch", "Durable orders", "", (*bench).orders},
	{"lanes", "Group commit against one transaction per order", "batch", (*bench).lanesCompared},
	{"keys", "Orders with an Idempotency-Key", "", (*bench).keyedOrders},
	{"soldout", "Sold-out answers", "", (*bench).soldOut},
	{"queue", "Orders accepted into the queue", "queue", (*bench).queue},
	{"lock", "Lock cycles", "", (*bench).lockCycles},
	{"latency", "Latency by connections", "", (*bench).latency},
	{"vouchers", "Vouchers on sale at once", "", (*bench).vouchersAtOnce},
	{"servers", "Server processes on one database", "", (*bench).serversAtOnce},
	{"idle", "Memory of idle connections", "", (*bench).idleConnections},
	{"streams", "Memory of idle event streams", "", (*bench).idleStreams},
	{"history", "Existing orders", "", (*bench).history},
}

func scenarioNames() []string {
	list := make([]string, len(scenarios))
	for i, s := range scenarios {
		list[i] = s.name
	}
	return list
}

// contender measures one subject once, for at most the given time.
type contender func(ctx context.Context, limit time.Duration) (*sample, error)

// rounds lets the contenders take turns, each round beginning with another, and checks the invariants after each. A
// short run of each, which does not count, comes first: new servers open connections and learn how much heap they need.
func (b *bench) rounds(ctx context.Context, sec *section, stacks []*stack, contenders ...contender) error {
	for _, c := range contenders {
		if _, err := c(ctx, b.opts.seconds/5); err != nil {
			return err
		}
	}
	for round := range b.opts.rounds {
		for i := range contenders {
			m, err := contenders[(i+round)%len(contenders)](ctx, b.opts.seconds)
			if err != nil {
				return err
			}
			sec.samples = append(sec.samples, m)
			b.progress("  %d/%d  %-28s %s", round+1, b.opts.rounds, m.subject, m)
		}
		for _, st := range stacks {
			if err := st.verify(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// buyers sells to the crowd, each time in sales of its own.
func buyers(st *stack, subject string, conns, vouchers int, servers ...*process) contender {
	return func(ctx context.Context, limit time.Duration) (*sample, error) {
		return st.sell(ctx, subject, servers, vouchers, load{conns: conns, limit: limit})
	}
}

// bare sends the crowd to the bare gin, as often as there is time.
func (b *bench) bare(st *stack, p *process) contender {
	requests := st.requests([]string{"1"})
	return func(ctx context.Context, limit time.Duration) (*sample, error) {
		l := load{conns: b.opts.conns, requests: requests, repeat: true, limit: limit}
		m, err := st.measure(ctx, "bare gin", []*process{p}, l)
		if err == nil {
			err = m.only(created)
		}
		return m, err
	}
}

// orders is the price of an order, against the cheapest answer that HTTP can give.
func (b *bench) orders(ctx context.Context, sec *section) error {
	st, server, reference, err := b.pair(ctx, b.opts.lanes[0], bareGin)
	if err != nil {
		return err
	}
	defer st.stop(server, reference)
	if b.opts.profile != "" {
		if err := b.writeProfile(ctx, st, server); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
	}
	subject := laneName(b.opts.lanes[0])
	err = b.rounds(ctx, sec, []*stack{st}, buyers(st, subject, b.opts.conns, 1, server), b.bare(st, reference))
	bar := bar{what: fmt.Sprintf("%s, orders/s at %d connections / bare gin", subject, b.opts.conns), values: sec.ratios(subject, "bare gin")}
	if b.opts.lanes[0] == "batch" {
		bar.least = 0.45
	}
	b.report.add(bar)
	return err
}

// keyedOrders is what an Idempotency-Key costs: a row that is claimed before the order, and its answer kept after it.
func (b *bench) keyedOrders(ctx context.Context, sec *section) error {
	st, err := b.stack(ctx)
	if err != nil {
		return err
	}
	server, err := st.serve(ctx, b.opts.lanes[0])
	if err != nil {
		return err
	}
	defer st.stop(server)
	plain := laneName(b.opts.lanes[0])
	subject := plain + ", keys"
	keyed := func(ctx context.Context, limit time.Duration) (*sample, error) {
		return st.sell(ctx, subject, []*process{server}, 1, load{conns: b.opts.conns, limit: limit, keyed: true})
	}
	err = b.rounds(ctx, sec, []*stack{st}, keyed, buyers(st, plain, b.opts.conns, 1, server))
	b.report.add(bar{what: subject + ", orders/s / without keys", values: sec.ratios(subject, plain)})
	return err
}

// lanesCompared is what group commit is worth.
func (b *bench) lanesCompared(ctx context.Context, sec *section) error {
	st, err := b.stack(ctx)
	if err != nil {
		return err
	}
	var contenders []contender
	for _, lane := range []string{"batch", "lock"} {
		server, err := st.serve(ctx, lane)
		if err != nil {
			return err
		}
		defer st.stop(server)
		contenders = append(contenders, buyers(st, laneName(lane), b.opts.conns, 1, server))
	}
	err = b.rounds(ctx, sec, []*stack{st}, contenders...)
	b.report.add(bar{what: "batch lane / lock lane, orders/s", values: sec.ratios("batch lane", "lock lane"), least: 6})
	return err
}

// soldOut is what all those hear who come too late: most of the requests of a sale.
func (b *bench) soldOut(ctx context.Context, sec *section) error {
	st, server, reference, err := b.pair(ctx, b.opts.lanes[0], bareGin)
	if err != nil {
		return err
	}
	defer st.stop(server, reference)
	const subject = "sold-out answers"
	err = b.rounds(ctx, sec, []*stack{st}, func(ctx context.Context, limit time.Duration) (*sample, error) {
		sales, err := st.sales(ctx, server, 1, 1)
		if err != nil {
			return nil, err
		}
		if err := buyOne(ctx, server, orderRequest(sales[0], st.last)); err != nil {
			return nil, err
		}
		l := load{conns: b.opts.conns, requests: st.requests(sales), repeat: true, limit: limit}
		m, err := st.measure(ctx, subject, []*process{server}, l)
		if err == nil {
			err = m.only("sold_out")
		}
		return m, err
	}, b.bare(st, reference))
	b.report.add(bar{what: "sold-out answers/s / bare gin", values: sec.ratios(subject, "bare gin"), least: 0.75})
	return err
}

// buyOne takes the last unit.
func buyOne(ctx context.Context, p *process, request []byte) error {
	c, err := dial(ctx, p.addr)
	if err != nil {
		return err
	}
	defer c.net.Close() //nolint:errcheck // nothing is to be saved
	a, err := c.do(request)
	if err == nil && a.status/100 != 2 {
		err = fmt.Errorf("%w: %d %s for the last unit", errWrongAnswers, a.status, a.code)
	}
	return err
}

// queue is the lane that protects the database, against a script call per request as most flash-sale code does it.
func (b *bench) queue(ctx context.Context, sec *section) error {
	st, server, reference, err := b.pair(ctx, "queue", ginWithScript)
	if err != nil {
		return err
	}
	defer st.stop(server, reference)
	const subject, yardstick = "queue lane", "gin + EVALSHA"
	sale := 0
	err = b.rounds(ctx, sec, []*stack{st}, buyers(st, subject, b.opts.conns, 1, server), func(ctx context.Context, limit time.Duration) (*sample, error) {
		sale++
		name := strconv.Itoa(sale)
		if err := st.rdb.Set(ctx, reserveKeys(name)[0], 1<<40, 0).Err(); err != nil {
			return nil, err
		}
		l := load{conns: b.opts.conns, requests: st.requests([]string{name}), repeat: true, limit: limit}
		m, err := st.measure(ctx, yardstick, []*process{reference}, l)
		if err != nil {
			return nil, err
		}
		return m, errors.Join(m.only(accepted), st.rdb.Unlink(ctx, reserveKeys(name)...).Err())
	})
	b.report.add(bar{what: "queue lane, accepted/s / gin with one EVALSHA per request", values: sec.ratios(subject, yardstick), least: 1.3})
	b.report.add(bar{what: "queue lane: seconds until the workers have committed all that was accepted", values: sec.drains(subject), most: 5})
	return err
}

// pair starts a server with a lane and the server to compare it with.
func (b *bench) pair(ctx context.Context, lane, reference string) (*stack, *process, *process, error) {
	st, err := b.stack(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	server, err := st.serve(ctx, lane)
	if err != nil {
		return nil, nil, nil, err
	}
	other, err := st.reference(ctx, reference)
	if err != nil {
		st.stop(server)
		return nil, nil, nil, err
	}
	return st, server, other, nil
}

func laneName(lane string) string { return lane + " lane" }

// writeProfile has the server profile itself while it sells, outside of the rounds.
func (b *bench) writeProfile(ctx context.Context, st *stack, p *process) error {
	b.progress("  profiling the server for %s", b.opts.sizes.profile)
	done := make(chan error, 1)
	go func() { done <- fetchProfile(ctx, p, b.opts.sizes.profile, b.opts.profile) }()
	for {
		if _, err := st.sell(ctx, "profile", []*process{p}, 1, load{conns: b.opts.conns, limit: b.opts.seconds}); err != nil {
			return errors.Join(err, <-done)
		}
		select {
		case err := <-done:
			return err
		default:
		}
	}
}

func fetchProfile(ctx context.Context, p *process, d time.Duration, path string) error {
	res, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.ops, int(d.Seconds())))
	if err != nil {
		return err
	}
	defer res.Body.Close()    //nolint:errcheck // read to the end, or the error says so
	f, err := os.Create(path) //nolint:gosec // named by a flag
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}
