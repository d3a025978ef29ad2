package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

// Ticket shows an admission of the user that is not an order in the database: it is queued, or it failed less than
// 24 hours ago. Its voucher is not known, so all shards are asked, in one round trip.
// Errors: service.ErrNotFound (also for another user's), ErrUnavailable.
func (g *Gate) Ticket(ctx context.Context, userID, orderID int64) (service.Ticket, error) {
	order := strconv.FormatInt(orderID, 10)
	cmds := make([]*redis.SliceCmd, shards)
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for s := range shards {
			cmds[s] = p.HMGet(ctx, shard(s).tickets(userID), order)
		}
		return nil
	})
	if err != nil {
		return service.Ticket{}, unavailable(err, "read ticket %d", orderID)
	}
	for _, cmd := range cmds {
		if text, ok := cmd.Val()[0].(string); ok {
			return parseTicket(userID, order, text)
		}
	}
	return service.Ticket{}, service.ErrNotFound
}

// Tickets shows all admissions of the user that are not orders in the database, the newest order id first.
func (g *Gate) Tickets(ctx context.Context, userID int64) ([]service.Ticket, error) {
	cmds := make([]*redis.MapStringStringCmd, shards)
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for s := range shards {
			cmds[s] = p.HGetAll(ctx, shard(s).tickets(userID))
		}
		return nil
	})
	if err != nil {
		return nil, unavailable(err, "read the tickets of user %d", userID)
	}
	var tickets []service.Ticket
	for _, cmd := range cmds {
		for order, text := range cmd.Val() {
			t, err := parseTicket(userID, order, text)
			if err != nil {
				return nil, err
			}
			tickets = append(tickets, t)
		}
	}
	slices.SortFunc(tickets, func(a, b service.Ticket) int { return cmp.Compare(b.OrderID, a.OrderID) })
	return tickets, nil
}

// parseTicket reads the text that common.lua writes: a word, and name=value after it.
func parseTicket(userID int64, order, text string) (service.Ticket, error) {
	status, rest, _ := strings.Cut(text, " ")
	f := &fields{values: map[string]string{"order": order}}
	for _, word := range strings.Fields(rest) {
		name, value, _ := strings.Cut(word, "=")
		f.values[name] = value
	}
	t := service.Ticket{Admission: f.admission()}
	t.OrderID, t.UserID = f.number("order"), userID
	if status == "failed" {
		t.Failed, t.FailedAt = f.values["reason"], f.millis("failed_at")
	}
	if f.err != nil {
		return service.Ticket{}, fmt.Errorf("ticket %s of user %d: %w", order, userID, f.err)
	}
	return t, nil
}
