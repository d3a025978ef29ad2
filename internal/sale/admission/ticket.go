package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// Ticket returns an admission of the user that is not an order in the database: it is queued, or it failed in the last
// 24 hours. Concurrent callers share reads. The first call for an order that another process admitted searches all
// shards. Errors: domain.ErrNotFound (even if another user has the order), ErrUnavailable.
func (g *Gate) Ticket(ctx context.Context, userID, orderID int64) (domain.Ticket, error) {
	r := g.tickets.DoContext(ctx, 0, domain.Holder{OrderID: orderID, UserID: userID})
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

	// Places are by order id.
	var tickets []domain.Ticket
	places := map[int64]ticketPlace{}
	for s := range Shards {
		found, err := queuedTickets(first(queued[s]))
		if err != nil {
			return nil, err
		}

		for i := range found {
			places[found[i].OrderID] = ticketPlace{found[i].VoucherID, s}
		}
		tickets = append(tickets, found...)
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

	// The queued tickets and their places.
	var waiting []*domain.Ticket
	var at []ticketPlace
	for i := range tickets {
		if t := &tickets[i]; t.Failed == "" {
			waiting = append(waiting, t)
			at = append(at, places[t.OrderID])
		}
	}

	g.setAhead(ctx, waiting, at, placeLines{})
	return tickets, nil
}

// placeLines are the last queue position that was assigned at each place, and the number of admissions in its queue.
type placeLines map[ticketPlace]*redis.SliceCmd

func (l placeLines) read(ctx context.Context, p redis.Pipeliner, at ticketPlace) {
	if l[at] == nil {
		l[at] = p.HMGet(ctx, at.shard.Meta(at.voucherID), "line", "queued")
	}
}

// setAhead sets Ahead of queued tickets, which were found at these places. It reads the lines that are missing. If Redis
// fails, Ahead stays unset: the tickets are useful without it.
func (g *Gate) setAhead(ctx context.Context, tickets []*domain.Ticket, places []ticketPlace, lines placeLines) {
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, at := range places {
			lines.read(ctx, p, at)
		}
		return nil
	})
	if err != nil {
		return
	}

	for i, t := range tickets {
		line := struct {
			Last   int64 `redis:"line"`
			Queued int64 `redis:"queued"`
		}{}
		if lines[places[i]].Scan(&line) != nil || t.Place == 0 || line.Queued == 0 {
			// The gate is cold.
			continue
		}

		// The queue of a place is first in, first out, so the admissions still in it have the last positions that were
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
	for i, a := range as {
		// Where the outcome is published is internal.
		a.ReplyTo = ""
		tickets[i].Admission = a
	}

	return tickets, nil
}

// failedTicket parses a failed ticket as settle.lua writes it: reason, time in ms and row.
func failedTicket(text string) (domain.Ticket, error) {
	reason, rest, _ := strings.Cut(text, " ")
	ms, row, _ := strings.Cut(rest, " ")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return domain.Ticket{}, fmt.Errorf("ticket %q: %w", text, err)
	}

	a, err := parseRow(row)
	if err != nil {
		return domain.Ticket{}, fmt.Errorf("ticket: %w", err)
	}

	a.ReplyTo = ""
	return domain.Ticket{
		Admission: a,
		Failed:    reason,
		FailedAt:  time.UnixMilli(at).UTC(),
	}, nil
}
