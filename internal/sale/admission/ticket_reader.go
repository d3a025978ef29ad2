package admission

import (
	"context"
	"slices"
	"strconv"
	"sync"
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
	// maxUsers is the number of users that one command reads. It blocks Redis while it runs.
	maxUsers = 500
	// maxPlaces is the number of orders in each of the two generations of the places.
	maxPlaces = 100_000
)

// ticketPlace is where a ticket is queued: the voucher and the shard.
type ticketPlace struct {
	voucherID int64
	shard     Shard
}

// ticketPlaces has the places of the newest orders, so that only the first read of an order that another process admitted
// searches all shards. It is safe for concurrent use.
type ticketPlaces struct {
	mu    sync.Mutex
	young map[domain.Holder]ticketPlace
	// old is the previous generation of young.
	old map[domain.Holder]ticketPlace
}

func (p *ticketPlaces) get(h domain.Holder) ticketPlace {
	p.mu.Lock()
	defer p.mu.Unlock()

	if at, ok := p.young[h]; ok {
		return at
	}
	return p.old[h]
}

func (p *ticketPlaces) set(at ticketPlace, hs ...domain.Holder) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, h := range hs {
		if p.young == nil || len(p.young) >= maxPlaces {
			p.old = p.young
			p.young = make(map[domain.Holder]ticketPlace)
		}
		p.young[h] = at
	}
}

// ticketRead is the read of the ticket of one order.
type ticketRead struct {
	domain.Holder
	// place is where the ticket is queued; zero: unknown.
	place  ticketPlace
	ticket domain.Ticket
	err    error
}

func (g *Gate) newTicketReads() *batch.Batcher[domain.Holder, ticketRead] {
	return batch.New(batch.Config[domain.Holder, ticketRead]{
		Run:  g.readTickets,
		Fail: func(err error) ticketRead { return ticketRead{err: err} },
	})
}

// readTickets reads tickets. Those with a known place cost one command per 500 tickets of a shard, and one per place. The
// others are looked up together in all shards.
func (g *Gate) readTickets(ctx context.Context, of []domain.Holder) []ticketRead {
	reads := make([]ticketRead, len(of))
	for i, h := range of {
		reads[i] = ticketRead{Holder: h, place: g.places.get(h)}
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
	if n := len(of) - 1; n < maxUsers-1 {
		_ = loop.Sleep(ctx, min(time.Duration(n)*ticketPause, maxTicketPause))
	}
	return reads
}

func (r *ticketRead) shards() []Shard {
	if r.place != (ticketPlace{}) {
		return []Shard{r.place.shard}
	}
	return allShards
}

var allShards = func() []Shard {
	var all []Shard
	for s := range Shards {
		all = append(all, s)
	}
	return all
}()

func (g *Gate) readQueued(ctx context.Context, reads []ticketRead) error {
	type page struct {
		reads []*ticketRead
		rows  *redis.SliceCmd
		shard Shard
	}

	var pages []page
	inShard := map[Shard][]*ticketRead{}
	lines := placeLines{}
	_, err := g.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range reads {
			r := &reads[i]
			for _, s := range r.shards() {
				inShard[s] = append(inShard[s], r)
			}
			if r.place != (ticketPlace{}) {
				lines.read(ctx, p, r.place)
			}
		}

		for s, some := range inShard {
			for some := range slices.Chunk(some, maxUsers) {
				users := make([]string, len(some))
				for i, r := range some {
					users[i] = strconv.FormatInt(r.UserID, 10)
				}
				pages = append(pages, page{some, p.HMGet(ctx, s.Queued(), users...), s})
			}
		}

		return nil
	})
	if err != nil {
		return err
	}

	for _, page := range pages {
		for i, rows := range page.rows.Val() {
			text, _ := rows.(string)
			g.find(page.reads[i], page.shard, text)
		}
	}

	// Only tickets whose places were found now need a second round trip.
	var found []*domain.Ticket
	var places []ticketPlace
	for i := range reads {
		if r := &reads[i]; r.ticket.OrderID != 0 {
			found = append(found, &r.ticket)
			places = append(places, r.place)
		}
	}
	g.setAhead(ctx, found, places, lines)
	return nil
}

func (g *Gate) find(r *ticketRead, s Shard, rows string) {
	tickets, err := queuedTickets(rows)
	if err != nil {
		r.err = err
		return
	}

	at := slices.IndexFunc(tickets, func(t domain.Ticket) bool { return t.OrderID == r.OrderID })
	if at < 0 {
		return
	}

	r.ticket = tickets[at]
	if found := (ticketPlace{r.ticket.VoucherID, s}); found != r.place {
		r.place = found
		g.places.set(found, r.Holder)
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
			for _, s := range r.shards() {
				failed = append(failed, p.HMGet(ctx, s.Failed(r.UserID), strconv.FormatInt(r.OrderID, 10)))
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
