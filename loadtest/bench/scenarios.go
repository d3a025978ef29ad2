package main

import (
	"context"
	"time"
)

// scenario is a group of measurements with its own section in the report.
type scenario struct {
	name, title string
	run         func(*bench, context.Context, *section) error
}

var scenarios = []scenario{
	// The first: the orders of others stay unpaid, and a buyer with several unpaid orders gets no place.
	{"room", "The waiting room", (*bench).room},

	{"orders", "Durable orders", (*bench).orders},
	{"keys", "Orders with an Idempotency-Key", (*bench).keys},
	{"soldout", "Sold-out answers", (*bench).soldOut},
	{"readers", "Reads while selling", (*bench).readers},
	{"visitors", "Purchases beside visitors that read variants of the list", (*bench).visitors},
	{"queue", "Orders accepted into the queue", (*bench).queue},
	{"embedded", "The embedded default: SQLite, embedded Redis, lane lock", (*bench).embedded},
	{"lock", "Lock cycles", (*bench).lockCycles},
	{"vouchers", "Concurrent sales", (*bench).vouchersAtOnce},
	{"servers", "Server processes on one database", (*bench).serversAtOnce},
	{"history", "Existing orders", (*bench).history},
}

func scenarioNames() []string {
	list := make([]string, len(scenarios))
	for i, s := range scenarios {
		list[i] = s.name
	}
	return list
}

// contender measures one run of at most the given length. The first sample is the subject's, the others are of loads
// that ran at the same time.
type contender func(ctx context.Context, limit time.Duration) ([]*sample, error)

// rounds runs the contenders in turn, each round starting with another one, and verifies the invariants after each
// round. A short uncounted run of each contender comes first, in which a new server opens connections and sizes its
// heap.
func (b *bench) rounds(ctx context.Context, sec *section, stacks []*stack, contenders ...contender) error {
	for _, c := range contenders {
		if _, err := c(ctx, b.opts.length/5); err != nil {
			return err
		}
	}

	for round := range b.opts.rounds {
		for i := range contenders {
			samples, err := contenders[(i+round)%len(contenders)](ctx, b.opts.length)
			if err != nil {
				return err
			}

			sec.samples = append(sec.samples, samples...)
			for _, m := range samples {
				b.progress("  %d/%d  %-40s %s", round+1, b.opts.rounds, m.subject, m)
			}
		}

		for _, st := range stacks {
			if err := st.verify(ctx); err != nil {
				return err
			}
		}
	}

	return nil
}

// servers starts servers on the shared stack, given as lanes or kinds of reference servers. They run until the scenario
// ends.
func (b *bench) servers(ctx context.Context, kinds ...string) (*stack, []*process, error) {
	st, err := b.stack(ctx)
	if err != nil {
		return nil, nil, err
	}

	servers := make([]*process, len(kinds))
	for i, kind := range kinds {
		switch kind {
		case bareGin, ginWithScript:
			servers[i], err = st.reference(ctx, kind)
		default:
			servers[i], err = st.serve(ctx, kind)
		}

		if err != nil {
			return nil, nil, err
		}
	}

	return st, servers, nil
}

// load returns a load of all connections.
func (b *bench) load(subject string, limit time.Duration, requests [][]byte, servers ...*process) load {
	return load{
		subject:  subject,
		servers:  servers,
		conns:    b.opts.conns,
		requests: requests,
		limit:    limit,
	}
}

// sale returns a run of all connections.
func (b *bench) sale(subject string, servers ...*process) sale {
	return sale{load: b.load(subject, 0, nil, servers...)}
}

func buyers(st *stack, o sale) contender {
	return func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		o.limit = limit
		return st.sell(ctx, o, nil)
	}
}

const bareSubject = "bare gin"

// bare returns a contender that sends the requests of the stack's newest sale to the bare gin, repeatedly until the
// time is over.
func (b *bench) bare(st *stack, p *process) contender {
	return func(ctx context.Context, limit time.Duration) ([]*sample, error) {
		l := b.load(bareSubject, limit, st.requests([]string{st.newest}, false), p)
		return st.flood(ctx, l, created)
	}
}
