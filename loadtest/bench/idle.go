package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"seckill/internal/rush"
)

// idleConnections measures the server's memory per idle connection, as of buyers before the start of a sale.
func (b *bench) idleConnections(ctx context.Context, sec *section) error {
	_, p, err := b.servers(ctx, b.anyLane())
	if err != nil {
		return err
	}
	server := p[0]
	return b.idle(ctx, sec, server, "connections after a request each", func() (*conn, error) { return openIdle(ctx, server.addr) })
}

// streamsOfUser is the number of event streams per user. The limit of the server is slightly higher.
const streamsOfUser = 6

// idleStreams measures the server's memory per event stream of an unpaid order.
func (b *bench) idleStreams(ctx context.Context, sec *section) error {
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
	return b.idle(ctx, sec, server, "event streams of unpaid orders", func() (*conn, error) {
		opened++
		return openStream(ctx, server.addr, requests[opened%users])
	})
}

// idle opens many connections of a kind and reports how much the server's memory grows.
func (b *bench) idle(ctx context.Context, sec *section, server *process, kind string, open func() (*conn, error)) error {
	before := residentMB(server.cmd.Process.Pid)
	var conns []*conn
	defer func() {
		for _, c := range conns {
			_ = c.net.Close()
		}
	}()
	for range b.opts.sizes.idle {
		c, err := open()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			sec.note("Skipped: this system allows only %d open connections (ulimit -n).", len(conns))
			return nil
		}
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		c.buf = nil // saves memory of this program; idle connections need no buffer
		conns = append(conns, c)
	}
	after := residentMB(server.cmd.Process.Pid)
	sec.note("The server uses %.0f MiB without and %.0f MiB with %d idle %s: %.1f KiB each.",
		before, after, len(conns), kind, (after-before)*1024/float64(len(conns)))
	return nil
}

var healthRequest = []byte("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

// openIdle opens a connection and sends one request.
func openIdle(ctx context.Context, addr string) (*conn, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	a, err := answer{}, c.net.SetDeadline(time.Now().Add(answerTimeout))
	if err == nil {
		a, err = c.do(healthRequest)
	}
	if err == nil && a.status != 200 {
		err = fmt.Errorf("%w: %d on /healthz", errWrongAnswers, a.status)
	}
	if err != nil {
		return nil, errors.Join(err, c.net.Close())
	}
	return c, nil
}

// openStream opens an event stream and waits for its first event.
func openStream(ctx context.Context, addr string, request []byte) (*conn, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err = c.net.SetDeadline(time.Now().Add(answerTimeout)); err == nil {
		_, err = c.net.Write(request)
	}
	for err == nil && !bytes.Contains(c.buf[:c.read], []byte("event: order\n")) {
		var n int
		n, err = c.net.Read(c.buf[c.read:])
		c.read += n
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("event stream: %w after %q", err, c.buf[:c.read]), c.net.Close())
	}
	return c, nil
}
