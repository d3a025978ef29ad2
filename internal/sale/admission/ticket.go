package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// Ticket returns an admission of the user that is not an order in the database: it is queued, or it failed in the last
// 24 hours. Concurrent callers share reads. If the order's voucher is not known (0), all shards are searched. Errors:
// domain.ErrNotFound (even if another user has the order), ErrUnavailable.
func (g *Gate) Ticket(ctx context.Context, userID, orderID, voucherID int64) (domain.Ticket, error) {
	// The callers share the reads of Redis, but none waits for the voucher of another.
	found, err := g.readTickets(ctx, ticketKey{userID: userID, orderID: orderID, shards: g.shardsWith(ctx, userID, voucherID)})
	if err != nil {
		return domain.Ticket{}, err
	}
	if len(found) == 0 {
		return domain.Ticket{}, domain.ErrNotFound
	}
	return found[0], nil
}

// Tickets returns all admissions of the user that are not orders in the database, the highest order id first.
// Error: domain.ErrUnavailable.
func (g *Gate) Tickets(ctx context.Context, userID int64) ([]domain.Ticket, error) {
	tickets, err := g.readTickets(ctx, ticketKey{userID: userID, shards: allShards})

	// An id can repeat after Redis lost its counter. The queued ticket then hides the failed one.
	slices.SortStableFunc(tickets, func(a, b domain.Ticket) int { return cmp.Compare(b.OrderID, a.OrderID) })
	tickets = slices.CompactFunc(tickets, func(a, b domain.Ticket) bool { return a.OrderID == b.OrderID })

	return tickets, err
}

// queuedTicket is a ticket in the queue, the shard in which it was found, and the read that searched it.
type queuedTicket struct {
	domain.Ticket
	shard Shard
	read  *ticketRead
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

	for i := range tickets {
		t := &tickets[i]
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
