package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/loadtest/bench/loadgen"
	"seckill/loadtest/bench/report"
	"seckill/loadtest/bench/sysinfo"
)

// roomRate is how many buyers per second the room admits.
const roomRate = 500

// room measures a waiting room with all users: memory and CPU time per waiting buyer, and the admissions per second
// while the buyers ask without a pause.
func (b *bench) room(ctx context.Context, sec *report.Section) error {
	st, p, err := b.servers(ctx, b.anyLane())
	if err != nil {
		return err
	}

	server := p[0]
	waiting := len(st.tokens)
	sales, err := st.sales(ctx, server, 1, int64(waiting))
	if err != nil {
		return err
	}

	path := "/api/v1/vouchers/" + sales[0] + "/entry"

	err = st.change(ctx, server, sales[0], map[string]any{
		"begin_at": time.Now().Add(10 * time.Minute),
		"end_at":   time.Now().Add(time.Hour),
		"entry": map[string]any{
			"mode":     "room",
			"rate":     roomRate,
			"opens_at": time.Now().Add(-time.Minute),
			"pass_ttl": 3600,
		},
	})
	if err != nil {
		return fmt.Errorf("open the room: %w", err)
	}

	before := sysinfo.ResidentMiB(server.cmd.Process.Pid)
	began := time.Now()
	requests, err := st.join(ctx, server, path, b.opts.conns)
	if err != nil {
		return fmt.Errorf("join the room: %w", err)
	}

	took := time.Since(began)
	sec.Note("%d buyers got their places in %.1f s.", waiting, took.Seconds())

	commands, err := st.redisCommands(ctx)
	if err != nil {
		return err
	}

	ask := func(subject string) (*report.Sample, error) {
		l := loadgen.Load{
			Conns:    b.opts.conns,
			Requests: requests,
			Endless:  true,
			Limit:    max(b.opts.seconds, 2*time.Second),
		}

		samples, err := st.measure(ctx, part{subject, p, l})
		if err != nil {
			return nil, err
		}

		sec.Samples = append(sec.Samples, samples...)
		b.progress("  %-40s %s", subject, samples[0])
		return samples[0], samples[0].Only(accepted, "200")
	}

	lobby, err := ask("polls in the lobby")
	if err != nil {
		return err
	}

	if err := st.change(ctx, server, sales[0], map[string]any{"begin_at": time.Now()}); err != nil {
		return fmt.Errorf("start the sale: %w", err)
	}

	// The start, and the first admissions to buyers who asked before it.
	time.Sleep(3 * time.Second)
	first, err := st.admitted(ctx, sales[0])
	if err != nil {
		return err
	}

	line, err := ask("polls in the line")
	if err != nil {
		return err
	}

	last, err := st.admitted(ctx, sales[0])
	if err != nil {
		return err
	}

	sec.Note("The server uses %.0f MiB before and %.0f MiB with %d waiting buyers: %.0f bytes each.", before,
		sysinfo.ResidentMiB(server.cmd.Process.Pid), waiting, (sysinfo.ResidentMiB(server.cmd.Process.Pid)-before)*(1<<20)/float64(waiting))

	executed, err := st.redisCommands(ctx)
	if err != nil {
		return err
	}

	asked := lobby.Total() + line.Total()
	sec.Note("Redis executed %d commands while %d polls were answered.", executed-commands, asked)

	b.report.Add(report.Bar{
		What:   fmt.Sprintf("waiting room of %d: admitted per second / rate", waiting),
		Values: []float64{float64(last-first) / line.Elapsed.Seconds() / roomRate},
		Least:  0.9,
	})

	return nil
}

// change changes a voucher as an admin.
func (s *stack) change(ctx context.Context, p *process, sale string, fields map[string]any) error {
	client, admin, err := s.admin(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ChangeVoucher(ctx, admin, sale, fields)
}

var ticketField = []byte(`"ticket":"`)

// join gets a place for each user and returns the requests that ask for its state.
func (s *stack) join(ctx context.Context, p *process, path string, conns int) ([][]byte, error) {
	requests := make([][]byte, len(s.tokens))
	group, ctx := errgroup.WithContext(ctx)
	for worker := range conns {
		group.Go(func() error {
			c, err := loadgen.Dial(ctx, p.addr)
			if err != nil {
				return err
			}
			defer c.Close() //nolint:errcheck // only read from

			if err := c.NetConn().SetDeadline(time.Now().Add(loadgen.AnswerTimeout)); err != nil {
				return err
			}

			for i := worker; i < len(s.tokens); i += conns {
				a, err := c.Do(loadgen.Request(http.MethodPost, path, s.tokens[i], "", ""))
				if err != nil {
					return err
				}

				_, rest, ok := bytes.Cut(c.Response(), ticketField)
				if !ok {
					return fmt.Errorf("%w: %d %s instead of a place", loadgen.ErrWrongAnswers, a.Status, a.Code)
				}

				ticket, _, _ := bytes.Cut(rest, []byte{'"'})
				requests[i] = loadgen.Request(http.MethodGet, path, s.tokens[i], "", "", "X-Entry-Ticket: "+string(ticket))
			}

			return nil
		})
	}

	return requests, group.Wait()
}

// redisCommands returns how many commands Redis has executed.
func (s *stack) redisCommands(ctx context.Context) (int64, error) {
	info, err := s.rdb.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	var n int64
	_, err = fmt.Sscan(infoField(info, "total_commands_processed"), &n)
	return n, err
}

// admitted returns how many buyers of a sale have been admitted.
func (s *stack) admitted(ctx context.Context, sale string) (int64, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT data FROM room_log WHERE kind = 1 AND voucher_id = ?", sale)
	if err != nil {
		return 0, err
	}
	defer rows.Close() //nolint:errcheck // only read from

	var n int64
	for rows.Next() {
		var numbers []byte
		if err := rows.Scan(&numbers); err != nil {
			return 0, err
		}

		for _, b := range numbers {
			// The last byte of a number.
			if b < 0x80 {
				n++
			}
		}
	}

	return n, rows.Err()
}
