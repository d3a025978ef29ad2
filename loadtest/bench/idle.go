package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"seckill/internal/ops/rush"
	"seckill/loadtest/bench/loadgen"
	"seckill/loadtest/bench/report"
	"seckill/loadtest/bench/sysinfo"
)

// idleConnections measures the server's memory per idle connection, as of buyers before the start of a sale.
func (b *bench) idleConnections(ctx context.Context, sec *report.Section) error {
	_, p, err := b.servers(ctx, b.anyLane())
	if err != nil {
		return err
	}
	server := p[0]
	return b.idle(ctx, sec, server, "connections after a request each", func() (net.Conn, error) { return openIdle(ctx, server.addr) })
}

// streamsOfUser is the number of event streams per user. The limit of the server is slightly higher.
const streamsOfUser = 6

// idleStreams measures the server's memory per event stream of an unpaid order.
func (b *bench) idleStreams(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, b.anyLane())
	if err != nil {
		return err
	}

	server := p[0]
	users := min(len(st.tokens), (b.opts.sizes.idle+streamsOfUser-1)/streamsOfUser)
	sales, err := st.sales(ctx, server, 1, int64(users))
	if err != nil {
		return err
	}

	client, err := rush.NewClient("http://"+server.addr, 1)
	if err != nil {
		return err
	}
	defer client.Close()

	requests := make([][]byte, users)
	for i, token := range st.tokens[:users] {
		o, err := client.Place(ctx, token, sales[0])
		if err != nil {
			return fmt.Errorf("order %d: %w", i+1, err)
		}
		requests[i] = fmt.Appendf(nil,
			"GET /api/v1/orders/%s/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n", o.ID, token)
	}

	opened := 0

	return b.idle(ctx, sec, server, "event streams of unpaid orders", func() (net.Conn, error) {
		opened++
		return openStream(ctx, server.addr, requests[opened%users])
	})
}

// idle opens many connections of a kind and reports how much the server's memory grows.
func (b *bench) idle(ctx context.Context, sec *report.Section, server *process, kind string, open func() (net.Conn, error)) error {
	before := sysinfo.ResidentMiB(server.cmd.Process.Pid)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()

	for range b.opts.sizes.idle {
		c, err := open()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			sec.Note("Skipped: this system allows only %d open connections (ulimit -n).", len(conns))
			return nil
		}

		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}

		conns = append(conns, c)
	}

	after := sysinfo.ResidentMiB(server.cmd.Process.Pid)
	sec.Note("The server uses %.0f MiB without and %.0f MiB with %d idle %s: %.1f KiB each.",
		before, after, len(conns), kind, (after-before)*1024/float64(len(conns)))

	return nil
}

var healthRequest = []byte("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

// openIdle opens a connection and sends one request.
func openIdle(ctx context.Context, addr string) (net.Conn, error) {
	c, err := loadgen.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}

	a := loadgen.Answer{}
	err = c.NetConn().SetDeadline(time.Now().Add(loadgen.AnswerTimeout))
	if err == nil {
		a, err = c.Do(healthRequest)
	}
	if err == nil && a.Status != 200 {
		err = fmt.Errorf("%w: %d on /healthz", loadgen.ErrWrongAnswers, a.Status)
	}

	if err != nil {
		return nil, errors.Join(err, c.Close())
	}

	return c.NetConn(), nil
}

// openStream opens an event stream and waits for its first event.
func openStream(ctx context.Context, addr string, request []byte) (net.Conn, error) {
	client, err := loadgen.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}

	c := client.NetConn()
	if err = c.SetDeadline(time.Now().Add(loadgen.AnswerTimeout)); err == nil {
		_, err = c.Write(request)
	}

	var received []byte
	buf := make([]byte, 4<<10)
	for err == nil && !bytes.Contains(received, []byte("event: order\n")) {
		var n int
		n, err = c.Read(buf)
		received = append(received, buf[:n]...)
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("event stream: %w after %q", err, received), c.Close())
	}

	return c, nil
}
