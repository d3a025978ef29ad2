package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// Ticket shows an admission of the user that is not an order in the database: it is queued, or it failed less than
// 24 hours ago. Callers share reads; of an order that this process did not admit, the first one searches all shards.
// Errors: service.ErrNotFound (also for another user's), ErrUnavailable.
func (g *Gate) Ticket(ctx context.Context, userID, orderID int64) (service.Ticket, error) {
	return g.desk.look(ctx, service.Holder{OrderID: orderID, UserID: userID})
}

// first is what HMGET of one field found, or empty.
func first(cmd *redis.SliceCmd) string {
	text, _ := cmd.Val()[0].(string)
	return text
}

// Tickets shows all admissions of the user that are not orders in the database, the newest order id first.
func (g *Gate) Tickets(ctx context.Context, userID int64) ([]service.Ticket, error) {
	user := strconv.FormatInt(userID, 10)
	var queued [shards]*redis.SliceCmd
	var failed [shards]*redis.MapStringStringCmd
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for s := range shard(shards) {
			queued[s], failed[s] = p.HMGet(ctx, s.queued(), user), p.HGetAll(ctx, s.failed(userID))
		}
		return nil
	})
	if err != nil {
		return nil, unavailable(err, "read the tickets of user %d", userID)
	}
	var tickets []service.Ticket
	for s := range shards {
		waiting, err := queuedTickets(first(queued[s]))
		if err != nil {
			return nil, err
		}
		tickets = append(tickets, waiting...)
	}
	for s := range shards {
		for _, text := range failed[s].Val() {
			t, err := failedTicket(text)
			if err != nil {
				return nil, err
			}
			tickets = append(tickets, t)
		}
	}
	// Of an id that was handed out twice, after Redis lost the counter, the one that is queued is shown.
	slices.SortStableFunc(tickets, func(a, b service.Ticket) int { return cmp.Compare(b.OrderID, a.OrderID) })
	tickets = slices.CompactFunc(tickets, func(a, b service.Ticket) bool { return a.OrderID == b.OrderID })
	g.findPlaces(ctx, tickets)
	return tickets, nil
}

// findPlaces sets Ahead of the tickets that are queued. The queue of a voucher is left in the order in which it was
// entered, so what is still in it has the last of the places that were given. It says nothing where Redis says nothing:
// the tickets are worth showing without it.
func (g *Gate) findPlaces(ctx context.Context, tickets []service.Ticket) {
	lines := make(map[int64]*redis.SliceCmd, 1) // by voucher
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range tickets {
			if id := tickets[i].VoucherID; lines[id] == nil {
				lines[id] = readLine(ctx, p, id)
			}
		}
		return nil
	})
	if err != nil {
		return
	}
	for i := range tickets {
		setAhead(&tickets[i], lines[tickets[i].VoucherID])
	}
}

// readLine reads how many places of a voucher's line were given, and how many of them are in the queue.
func readLine(ctx context.Context, p redis.Pipeliner, voucherID int64) *redis.SliceCmd {
	return p.HMGet(ctx, keysOf(voucherID).meta, "line", "queued")
}

// setAhead sets Ahead of a ticket that is queued, if the gate is not cold.
func setAhead(t *service.Ticket, counters *redis.SliceCmd) {
	line := struct {
		Last   int64 `redis:"line"`
		Queued int64 `redis:"queued"`
	}{}
	if t.Failed != "" || t.Place == 0 || counters.Scan(&line) != nil || line.Queued == 0 {
		return
	}
	// A gate that was rebuilt gives places from 1 again; a ticket from before shows too many ahead at most.
	ahead := max(0, min(t.Place-1-(line.Last-line.Queued), line.Queued-1))
	t.Ahead = &ahead
}

// queuedTickets reads the rows of a user.
func queuedTickets(rows string) ([]service.Ticket, error) {
	if rows == "" {
		return nil, nil
	}
	as, err := parseRows(rows)
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	tickets := make([]service.Ticket, len(as))
	for i, a := range as {
		a.ReplyTo = "" // it says where to tell the outcome, not what it is
		tickets[i].Admission = a
	}
	return tickets, nil
}

// failedTicket reads what settle.lua writes: reason, time in ms and row.
func failedTicket(text string) (service.Ticket, error) {
	reason, rest, _ := strings.Cut(text, " ")
	ms, row, _ := strings.Cut(rest, " ")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return service.Ticket{}, fmt.Errorf("ticket %q: %w", text, err)
	}
	a, err := parseRow(row)
	if err != nil {
		return service.Ticket{}, fmt.Errorf("ticket: %w", err)
	}
	a.ReplyTo = ""
	return service.Ticket{Admission: a, Failed: reason, FailedAt: time.UnixMilli(at).UTC()}, nil
}
