package admission

import (
	"context"
	"slices"
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

// ticketKey names a ticket and the shards that may have it.
type ticketKey struct {
	userID, orderID int64
	shards          []Shard
}

// ticketRead is the read of one ticket.
type ticketRead struct {
	ticketKey
	// ticket was found in the shard; zero if it is not queued.
	ticket domain.Ticket
	shard  Shard
	err    error
}

func (g *Gate) newTicketReads() *batch.Batcher[ticketKey, ticketRead] {
	return batch.New(batch.Config[ticketKey, ticketRead]{
		Run:  g.readTickets,
		Fail: func(err error) ticketRead { return ticketRead{err: err} },
	})
}

// readTickets reads the tickets of a batch, those in the queue with one command per shard.
func (g *Gate) readTickets(ctx context.Context, of []ticketKey) []ticketRead {
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

	for s, some := range inShard {
		for i, rows := range rows[s].Val() {
			text, _ := rows.(string)
			some[i].find(s, text)
		}
	}

	var found []queuedTicket
	for i := range reads {
		if r := &reads[i]; r.ticket.OrderID != 0 {
			found = append(found, queuedTicket{&r.ticket, r.shard})
		}
	}
	g.setAhead(ctx, found)
	return nil
}

func (r *ticketRead) find(s Shard, rows string) {
	tickets, err := queuedTickets(rows)
	if err != nil {
		r.err = err
		return
	}

	if at := slices.IndexFunc(tickets, func(t domain.Ticket) bool { return t.OrderID == r.orderID }); at >= 0 {
		r.ticket = tickets[at]
		r.shard = s
	}
}

// readFailed sets the tickets of failed admissions among the rest, or domain.ErrNotFound.
func (g *Gate) readFailed(ctx context.Context, reads []ticketRead) error {
	var rest []*ticketRead
	var cmds [][]*redis.SliceCmd
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range reads {
			r := &reads[i]
			if r.ticket.OrderID != 0 || r.err != nil {
				continue
			}

			var failed []*redis.SliceCmd
			for _, s := range r.shards {
				failed = append(failed, p.HMGet(ctx, s.Failed(r.userID), strconv.FormatInt(r.orderID, 10)))
			}
			rest = append(rest, r)
			cmds = append(cmds, failed)
		}
		return nil
	})
	if err != nil {
		return err
	}

	for i, r := range rest {
		r.err = domain.ErrNotFound
		for _, cmd := range cmds[i] {
			if text := first(cmd); text != "" {
				r.ticket, r.err = failedTicket(text)
				break
			}
		}
	}

	return nil
}
