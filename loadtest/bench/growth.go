package main

import (
	"context"
	"fmt"
)

// latency shows what more connections than the server can work on at once cost the buyers.
func (b *bench) latency(ctx context.Context, sec *section) error {
	st, server, err := b.single(ctx)
	if err != nil {
		return err
	}
	defer st.stop(server)
	var contenders []contender
	for _, conns := range b.opts.sizes.latency {
		subject := fmt.Sprintf("%s, %d connections", laneName(b.opts.lanes[0]), conns)
		contenders = append(contenders, buyers(st, subject, conns, 1, server))
	}
	return b.rounds(ctx, sec, []*stack{st}, contenders...)
}

// vouchersAtOnce spreads the same crowd over more and more sales.
func (b *bench) vouchersAtOnce(ctx context.Context, sec *section) error {
	st, server, err := b.single(ctx)
	if err != nil {
		return err
	}
	defer st.stop(server)
	var contenders []contender
	for _, n := range b.opts.sizes.vouchers {
		subject := fmt.Sprintf("%s, vouchers: %d", laneName(b.opts.lanes[0]), n)
		contenders = append(contenders, buyers(st, subject, b.opts.conns, n, server))
	}
	return b.rounds(ctx, sec, []*stack{st}, contenders...)
}

// serversAtOnce spreads the same crowd over more and more processes, which share this machine.
func (b *bench) serversAtOnce(ctx context.Context, sec *section) error {
	st, err := b.stack(ctx)
	if err != nil {
		return err
	}
	var servers []*process
	defer func() { st.stop(servers...) }()
	var contenders []contender
	for _, n := range b.opts.sizes.servers {
		for len(servers) < n {
			p, err := st.serve(ctx, b.opts.lanes[0])
			if err != nil {
				return err
			}
			servers = append(servers, p)
		}
		subject := fmt.Sprintf("%s, servers: %d", laneName(b.opts.lanes[0]), n)
		contenders = append(contenders, buyers(st, subject, b.opts.conns, 1, servers[:n]...))
	}
	return b.rounds(ctx, sec, []*stack{st}, contenders...)
}

// single starts one server with the first of the lanes.
func (b *bench) single(ctx context.Context) (*stack, *process, error) {
	st, err := b.stack(ctx)
	if err != nil {
		return nil, nil, err
	}
	server, err := st.serve(ctx, b.opts.lanes[0])
	return st, server, err
}
