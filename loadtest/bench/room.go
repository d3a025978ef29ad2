package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/kit/loop"
)

// room measures the polls of a waiting room with all users, before and after the start of the sale, and the memory per
// waiting buyer.
func (b *bench) room(ctx context.Context, sec *section) error {
	st, p, err := b.servers(ctx, "batch")
	if err != nil {
		return err
	}

	server := p[0]
	sale, err := st.openRoom(ctx, server)
	if err != nil {
		return err
	}

	before := residentMiB(server.PID())
	began := time.Now()
	requests, err := st.join(ctx, server, sale, b.opts.conns)
	if err != nil {
		return fmt.Errorf("join the room: %w", err)
	}

	sec.note("%d buyers got their places in %.1f s.", len(requests), time.Since(began).Seconds())

	if err := b.poll(ctx, sec, st, server, "polls in the lobby", requests); err != nil {
		return err
	}

	if err := st.change(ctx, server, sale, map[string]any{"begin_at": time.Now()}); err != nil {
		return fmt.Errorf("start the sale: %w", err)
	}

	// The draw of the lobby, and the first admissions.
	if err := loop.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}

	if err := b.poll(ctx, sec, st, server, "polls in the line", requests); err != nil {
		return err
	}

	after := residentMiB(server.PID())
	sec.note("The server uses %.0f MiB before and %.0f MiB with the waiting buyers: %.0f bytes each.",
		before, after, (after-before)*(1<<20)/float64(len(requests)))

	return nil
}

func (s *stack) openRoom(ctx context.Context, p *process) (string, error) {
	sales, err := s.sales(ctx, p, 1, int64(len(s.tokens)))
	if err != nil {
		return "", err
	}

	err = s.change(ctx, p, sales[0], map[string]any{
		"begin_at": time.Now().Add(10 * time.Minute),
		"end_at":   time.Now().Add(time.Hour),
		"entry": map[string]any{
			"mode":     "room",
			"rate":     500,
			"opens_at": time.Now().Add(-time.Minute),
			"pass_ttl": 3600,
		},
	})
	if err != nil {
		return "", fmt.Errorf("open the room: %w", err)
	}

	return sales[0], nil
}

func (b *bench) poll(ctx context.Context, sec *section, st *stack, server *process, subject string, requests [][]byte) error {
	samples, err := st.flood(ctx, b.load(subject, b.opts.length, requests, server), accepted, "200")
	if err != nil {
		return err
	}

	sec.samples = append(sec.samples, samples...)
	b.progress("  %-40s %s", subject, samples[0])

	return nil
}

func (s *stack) change(ctx context.Context, p *process, sale string, fields map[string]any) error {
	client, admin, err := s.admin(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()

	return client.ChangeVoucher(ctx, admin, sale, fields)
}

func (s *stack) join(ctx context.Context, p *process, sale string, conns int) ([][]byte, error) {
	path := "/api/v1/vouchers/" + sale + "/entry"
	requests := make([][]byte, len(s.tokens))
	group, ctx := errgroup.WithContext(ctx)

	for worker := range conns {
		group.Go(func() error {
			c, err := dial(ctx, p.Addr)
			if err != nil {
				return err
			}
			defer c.Close() //nolint:errcheck // only read from

			for i := worker; i < len(s.tokens); i += conns {
				ticket, err := place(c, httpRequest(http.MethodPost, path, s.tokens[i], ""))
				if err != nil {
					return err
				}

				requests[i] = httpRequest(http.MethodGet, path, s.tokens[i], "", "X-Entry-Ticket: "+ticket)
			}

			return nil
		})
	}

	return requests, group.Wait()
}

var ticketField = []byte(`"ticket":"`)

func place(c *conn, request []byte) (string, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return "", err
	}

	a, err := c.do(request)
	if err != nil {
		return "", err
	}

	_, rest, ok := bytes.Cut(c.response(), ticketField)
	if !ok {
		return "", fmt.Errorf("%w: %d %s instead of a place", errWrongAnswers, a.status, a.code)
	}

	ticket, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(ticket), nil
}
