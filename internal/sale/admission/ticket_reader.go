package admission

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
	"seckill/internal/kit/loop"
)

const (
	// ticketPause is how long a read waits for each of its tickets beyond the first, at most maxTicketPause, before the
	// next read begins. It lets many callers share a read; a single caller never waits.
	ticketPause    = 2 * time.Millisecond
	maxTicketPause = 50 * time.Millisecond
	// fullRead is the largest number of tickets in a read, as that of calls in a batch.
	fullRead = 500
)

// ticketKey names tickets of a user.
type ticketKey struct {
	userID int64
	// 0 stands for all orders of the user.
	orderID int64
	// Those that may have the tickets.
	shards []Shard
}

func (k *ticketKey) names(orderID int64) bool { return k.orderID == 0 || k.orderID == orderID }

// ticketRead is the read of the tickets of a key. Those in the queue come first.
type ticketRead struct {
	ticketKey
	tickets []domain.Ticket
	err     error
}

func (g *Gate) newTicketReads() *batch.Batcher[ticketKey, ticketRead] {
	return batch.New(batch.Config[ticketKey, ticketRead]{
		Run:  g.runReads,
		Fail: func(err error) ticketRead { return ticketRead{err: err} },
	})
}

func (g *Gate) readTickets(ctx context.Context, key ticketKey) ([]domain.Ticket, error) {
	// A search of all shards, one of which may hang, has batches of its own.
	r := g.tickets.DoContext(ctx, int64(len(key.shards)), key)
	if r.err != nil {
		return nil, unavailable(r.err, "read the tickets of user %d", key.userID)
	}
	return r.tickets, nil
}

// runReads reads the tickets of a batch, those in the queue with one command per shard.
func (g *Gate) runReads(ctx context.Context, of []ticketKey) []ticketRead {
	reads := make([]ticketRead, len(of))
	for i, k := range of {
		reads[i] = ticketRead{ticketKey: k}
	}

	err := g.readQueued(ctx, reads)
	if err == nil {
		err = g.readFailed(ctx, reads)
	}
	if err != nil {
		for i := range reads {
			reads[i].err = err
		}
	}

	// A full read needs no pause to be shared.
	if len(of) < fullRead {
		_ = loop.Sleep(ctx, min(time.Duration(len(of)-1)*ticketPause, maxTicketPause))
	}
	return reads
}

// shardsWith returns the shards that may have an order of the user: one if the voucher is known, and not 0.
func (g *Gate) shardsWith(ctx context.Context, userID, voucherID int64) []Shard {
	if voucherID == 0 {
		return allShards
	}
	n, err := g.cfg.Segments(ctx, voucherID)
	if err != nil {
		return allShards
	}
	return []Shard{segmentShard(voucherID, home(userID, n))}
}

var allShards = func() []Shard {
	var all []Shard
	for s := range Shards {
		all = append(all, s)
	}
	return all
}()

func (g *Gate) readQueued(ctx context.Context, reads []ticketRead) error {
	inShard := map[Shard][]*ticketRead{}
	for i := range reads {
		for _, s := range reads[i].shards {
			inShard[s] = append(inShard[s], &reads[i])
		}
	}

	rows := map[Shard]*redis.SliceCmd{}
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for s, some := range inShard {
			users := make([]string, len(some))
			for i, r := range some {
				users[i] = strconv.FormatInt(r.userID, 10)
			}
			rows[s] = p.HMGet(ctx, s.Queued(), users...)
		}
		return nil
	})
	if err != nil {
		return err
	}

	var found []queuedTicket
	for s, some := range inShard {
		for i, rows := range rows[s].Val() {
			text, _ := rows.(string)
			found = append(found, some[i].find(s, text)...)
		}
	}

	g.setAhead(ctx, found)
	for _, t := range found {
		t.read.tickets = append(t.read.tickets, t.Ticket)
	}

	return nil
}

// find returns the tickets that the read searches among the rows of its user in a shard.
func (r *ticketRead) find(s Shard, rows string) []queuedTicket {
	if rows == "" {
		return nil
	}

	as, err := parseRows(rows)
	if err != nil {
		r.err = fmt.Errorf("ticket: %w", err)
		return nil
	}

	var found []queuedTicket
	for i := range as {
		if r.names(as[i].OrderID) {
			found = append(found, queuedTicket{domain.Ticket{Admission: as[i]}, s, r})
		}
	}

	return found
}

// readFailed adds the failed tickets, unless the one that is searched was in the queue.
func (g *Gate) readFailed(ctx context.Context, reads []ticketRead) error {
	cmds := make([][]*redis.MapStringStringCmd, len(reads))
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range reads {
			r := &reads[i]
			if r.orderID != 0 && len(r.tickets) > 0 {
				continue
			}

			for _, s := range r.shards {
				cmds[i] = append(cmds[i], p.HGetAll(ctx, s.Failed(r.userID)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	for i, failed := range cmds {
		for _, cmd := range failed {
			reads[i].addFailed(cmd.Val())
		}
	}

	return nil
}

// addFailed adds those of a user's failed tickets, by order id, that the read searches.
func (r *ticketRead) addFailed(tickets map[string]string) {
	for order, text := range tickets {
		// Ids are well-formed.
		if id, _ := strconv.ParseInt(order, 10, 64); !r.names(id) {
			continue
		}

		t, err := failedTicket(text)
		if err != nil {
			r.err = err
			return
		}
		r.tickets = append(r.tickets, t)
	}
}
