package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
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

// idleConnections is what people who wait for the sale to begin cost.
func (b *bench) idleConnections(ctx context.Context, sec *section) error {
	st, server, err := b.single(ctx)
	if err != nil {
		return err
	}
	defer st.stop(server)
	before := residentMB(server.cmd.Process.Pid)
	conns, err := openIdle(ctx, server.addr, b.opts.sizes.idle)
	defer func() {
		for _, c := range conns {
			_ = c.net.Close()
		}
	}()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		sec.note("Left out: this system allows only %d connections at once (ulimit -n).", len(conns))
		return nil
	}
	if err != nil {
		return err
	}
	after := residentMB(server.cmd.Process.Pid)
	sec.note("The server has %.0f MiB without a connection and %.0f MiB with %d idle ones after a request each, %.1f KiB a connection.",
		before, after, len(conns), (after-before)*1024/float64(len(conns)))
	return nil
}

var healthRequest = []byte("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

// openIdle opens connections that have been used once, also when it fails.
func openIdle(ctx context.Context, addr string, n int) (conns []*conn, err error) {
	for range n {
		c, err := dial(ctx, addr)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
		if err := c.net.SetDeadline(time.Now().Add(answerPatience)); err != nil {
			return conns, err
		}
		a, err := c.do(healthRequest)
		if err == nil && a.status != 200 {
			err = fmt.Errorf("%w: %d on /healthz", errWrongAnswers, a.status)
		}
		if err != nil {
			return conns, err
		}
		c.buf = nil // ten thousand of them are this program's memory, not the server's
	}
	return conns, nil
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
