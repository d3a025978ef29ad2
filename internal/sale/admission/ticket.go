package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// Ticket returns an admission of the user that is not an order in the database: it is queued, or it failed in the last
// 24 hours. Concurrent callers share reads. If the order's voucher is not known (0), all shards are searched. Errors:
// domain.ErrNotFound (even if another user has the order), ErrUnavailable.
func (g *Gate) Ticket(ctx context.Context, userID, orderID, voucherID int64) (domain.Ticket, error) {
	// The callers share the reads of Redis, but none waits for the voucher of another.
	r := g.tickets.DoContext(ctx, 0, ticketKey{userID, orderID, g.shardsWith(ctx, userID, voucherID)})
	if r.err != nil && !errors.Is(r.err, domain.ErrNotFound) {
		return domain.Ticket{}, unavailable(r.err, "read ticket %d", orderID)
	}
	return r.ticket, r.err
}

func first(cmd *redis.SliceCmd) string {
	text, _ := cmd.Val()[0].(string)
	return text
}

// Tickets returns all admissions of the user that are not orders in the database, the highest order id first.
// Error: domain.ErrUnavailable.
func (g *Gate) Tickets(ctx context.Context, userID int64) ([]domain.Ticket, error) {
	user := strconv.FormatInt(userID, 10)
	var queued [Shards]*redis.SliceCmd
	var failed [Shards]*redis.MapStringStringCmd
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for s := range Shards {
			queued[s] = p.HMGet(ctx, s.Queued(), user)
			failed[s] = p.HGetAll(ctx, s.Failed(userID))
		}
		return nil
	})
	if err != nil {
		return nil, unavailable(err, "read the tickets of user %d", userID)
	}

	var waiting []queuedTicket
	for s := range Shards {
		found, err := queuedTickets(first(queued[s]))
		if err != nil {
			return nil, err
		}

		for i := range found {
			waiting = append(waiting, queuedTicket{&found[i], s})
		}
	}
	g.setAhead(ctx, waiting)

	var tickets []domain.Ticket
	for _, t := range waiting {
		tickets = append(tickets, *t.Ticket)
	}

	for _, reply := range failed {
		for _, text := range reply.Val() {
			t, err := failedTicket(text)
			if err != nil {
				return nil, err
			}
			tickets = append(tickets, t)
		}
	}

	// An id can repeat after Redis lost its counter. The queued ticket then hides the failed one.
	slices.SortStableFunc(tickets, func(a, b domain.Ticket) int { return cmp.Compare(b.OrderID, a.OrderID) })
	tickets = slices.CompactFunc(tickets, func(a, b domain.Ticket) bool { return a.OrderID == b.OrderID })

	return tickets, nil
}

// queuedTicket is a ticket and the shard in which it was found.
type queuedTicket struct {
	*domain.Ticket
	shard Shard
}

func (t queuedTicket) meta() string { return t.shard.Meta(t.VoucherID) }

// setAhead sets Ahead of queued tickets. If Redis fails, Ahead stays unset: the tickets are useful without it.
func (g *Gate) setAhead(ctx context.Context, tickets []queuedTicket) {
	// By key: the last queue position that was assigned, and the number of admissions in the queue.
	lines := map[string]*redis.SliceCmd{}
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range tickets {
			if key := t.meta(); lines[key] == nil {
				lines[key] = p.HMGet(ctx, key, "line", "queued")
			}
		}
		return nil
	})
	if err != nil {
		return
	}

	for _, t := range tickets {
		line := struct {
			Last   int64 `redis:"line"`
			Queued int64 `redis:"queued"`
		}{}
		if lines[t.meta()].Scan(&line) != nil || t.Place == 0 || line.Queued == 0 {
			// The gate is cold.
			continue
		}

		// The queue of a segment is first in, first out, so the admissions still in it have the last positions that were
		// assigned. After the gate was lost or unloaded, positions begin at 1 again. Older tickets then show too many
		// ahead, never too few.
		ahead := max(0, min(t.Place-1-(line.Last-line.Queued), line.Queued-1))
		t.Ahead = &ahead
	}
}

func queuedTickets(rows string) ([]domain.Ticket, error) {
	if rows == "" {
		return nil, nil
	}

	as, err := parseRows(rows)
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}

	tickets := make([]domain.Ticket, len(as))
	for i := range as {
		tickets[i].Admission = as[i]
	}

	return tickets, nil
}

// failedTicket parses a failed ticket as settle.lua writes it: reason, time in ms and row.
func failedTicket(text string) (domain.Ticket, error) {
	reason, rest, _ := strings.Cut(text, " ")
	_, row, _ := strings.Cut(rest, " ")
	a, err := parseRow(row)
	if err != nil {
		return domain.Ticket{}, fmt.Errorf("ticket: %w", err)
	}

	return domain.Ticket{Admission: a, Failed: reason}, nil
}
