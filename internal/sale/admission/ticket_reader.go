package admission

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// ticketPause is the pause before the next read for each request of the last read beyond the first, at most
	// maxTicketPause. It lets many callers share a read; a single caller never waits.
	ticketPause    = 2 * time.Millisecond
	maxTicketPause = 50 * time.Millisecond
	// ticketTimeout bounds one read.
	ticketTimeout = 2 * time.Second
	// maxUsers is the number of users that one command reads. It blocks Redis while it runs.
	maxUsers = 500
	// maxHints is the number of orders in each of the two generations of the voucher cache.
	maxHints = 100_000
)

// ticketReader reads tickets for all callers of a process: requests that arrive during a read share the next one. It
// caches the places of tickets, so that only the first request for an order that another process admitted searches all
// shards. It is safe for concurrent use.
type ticketReader struct {
	rdb redis.UniversalClient

	// working is the context of serve, which close cancels; done is for its goroutine.
	working context.Context
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu      sync.Mutex
	waiting []*ticketRequest
	reading bool // serve runs
	closed  bool
	young   map[domain.Holder]ticketPlace
	// old is the previous generation of young.
	old map[domain.Holder]ticketPlace
}

type ticketPlace struct {
	voucherID int64
	shard     Shard
}

type ticketRequest struct {
	domain.Holder
	// place is where the ticket was before the search; zero: unknown.
	place ticketPlace
	// found is the place of a queued ticket.
	found  ticketPlace
	done   chan struct{} // closed after ticket and err are set
	ticket domain.Ticket
	err    error
}

func newTicketReader(rdb redis.UniversalClient) *ticketReader {
	t := &ticketReader{rdb: rdb}
	t.working, t.stop = context.WithCancel(context.Background())
	return t
}

// close cancels a running read and waits for it.
func (t *ticketReader) close() {
	t.stop()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.done.Wait()
}

// enqueue adds a request to the next read. It returns false if the reader is closed.
func (t *ticketReader) enqueue(r *ticketRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.closed {
		return false
	}

	if !t.reading {
		t.reading = true
		t.done.Go(t.serve)
	}

	r.place = t.cachedPlace(r.Holder)
	t.waiting = append(t.waiting, r)
	return true
}

// cachedPlace returns the place of a ticket, or the zero place. The caller holds t.mu.
func (t *ticketReader) cachedPlace(h domain.Holder) ticketPlace {
	if at, ok := t.young[h]; ok {
		return at
	}
	return t.old[h]
}

// remember caches the place of the tickets of orders. When the cache is full, it drops the older generation.
func (t *ticketReader) remember(at ticketPlace, hs ...domain.Holder) {
	t.mu.Lock()
	defer t.mu.Unlock()

	for _, h := range hs {
		if t.young == nil || len(t.young) >= maxHints {
			t.old = t.young
			t.young = make(map[domain.Holder]ticketPlace)
		}
		t.young[h] = at
	}
}

// serve reads tickets until no request is waiting.
func (t *ticketReader) serve() {
	for {
		t.mu.Lock()
		requests := t.waiting
		t.waiting = nil
		t.reading = len(requests) > 0
		t.mu.Unlock()

		if len(requests) == 0 {
			return
		}

		t.read(requests)
		for _, r := range requests {
			close(r.done)
		}

		if n := len(requests) - 1; n > 0 {
			// An error means that the reader was closed. Then the next read fails at once.
			_ = loop.Sleep(t.working, min(time.Duration(n)*ticketPause, maxTicketPause))
		}
	}
}

// read completes requests. Those with a known place cost one command per 500 requests of a shard, and one per
// place. The others are looked up together in all shards.
func (t *ticketReader) read(requests []*ticketRequest) {
	ctx, cancel := context.WithTimeout(t.working, ticketTimeout)
	defer cancel()

	err := t.readQueued(ctx, requests)
	if err == nil {
		err = t.readFailed(ctx, slices.DeleteFunc(slices.Clone(requests), (*ticketRequest).completed))
	}

	if err != nil {
		for _, r := range requests {
			r.ticket = domain.Ticket{}
			r.err = unavailable(err, "read ticket %d", r.OrderID)
		}
	}
}

// completed reports whether the request has a ticket or an error.
func (r *ticketRequest) completed() bool { return r.ticket.OrderID != 0 || r.err != nil }

// shards returns the shards that may have the ticket.
func (r *ticketRequest) shards() []Shard {
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

// readQueued completes requests for queued admissions.
func (t *ticketReader) readQueued(ctx context.Context, requests []*ticketRequest) error {
	inShard := map[Shard][]*ticketRequest{}
	lines := map[ticketPlace]*redis.SliceCmd{}
	type page struct {
		requests []*ticketRequest
		rows     *redis.SliceCmd
		shard    Shard
	}
	var pages []page
	_, err := t.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, r := range requests {
			for _, s := range r.shards() {
				inShard[s] = append(inShard[s], r)
			}
			if r.place != (ticketPlace{}) && lines[r.place] == nil {
				lines[r.place] = readLine(ctx, p, r.place)
			}
		}

		for s, requests := range inShard {
			for some := range slices.Chunk(requests, maxUsers) {
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
			page.requests[i].find(page.shard, text)
		}
	}

	t.fillAhead(ctx, requests, lines)
	return nil
}

// find completes the request if the rows of its user in a shard contain the order.
func (r *ticketRequest) find(s Shard, rows string) {
	tickets, err := queuedTickets(rows)
	if err != nil {
		r.err = err
		return
	}
	if i := slices.IndexFunc(tickets, func(t domain.Ticket) bool { return t.OrderID == r.OrderID }); i >= 0 {
		r.ticket = tickets[i]
		r.found = ticketPlace{tickets[i].VoucherID, s}
	}
}

// fillAhead sets Ahead of the tickets that were found, and caches their places. lines has the replies to readLine for
// the places that were known before.
func (t *ticketReader) fillAhead(ctx context.Context, requests []*ticketRequest, lines map[ticketPlace]*redis.SliceCmd) {
	var found []domain.Ticket
	var places []ticketPlace
	for _, r := range requests {
		switch {
		case r.ticket.OrderID == 0:
		case r.place == ticketPlace{}:
			t.remember(r.found, r.Holder)
			found = append(found, r.ticket)
			places = append(places, r.found)
		default:
			setAhead(&r.ticket, lines[r.place])
		}
	}

	if len(found) == 0 {
		return
	}

	readAhead(ctx, t.rdb, found, places)

	for _, r := range requests {
		if r.ticket.OrderID != 0 && r.place == (ticketPlace{}) {
			r.ticket = found[0]
			found = found[1:]
		}
	}
}

// readFailed completes requests for failed admissions, or sets domain.ErrNotFound.
func (t *ticketReader) readFailed(ctx context.Context, requests []*ticketRequest) error {
	if len(requests) == 0 {
		return nil
	}

	cmds := make([][]*redis.SliceCmd, len(requests))
	_, err := t.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, r := range requests {
			for _, s := range r.shards() {
				cmds[i] = append(cmds[i], p.HMGet(ctx, s.Failed(r.UserID), strconv.FormatInt(r.OrderID, 10)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	for i, r := range requests {
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
