package admission

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/service"
)

const (
	// deskPause is how long the next read of tickets waits for each further caller that the last one had, so that in a
	// crowd callers share a read, and maxDeskPause for how long at most. A lone caller never waits.
	deskPause    = 2 * time.Millisecond
	maxDeskPause = 50 * time.Millisecond
	// deskTimeout bounds one read.
	deskTimeout = 2 * time.Second
	// maxHints is how many orders of each of two generations the desk knows the voucher of.
	maxHints = 100_000
)

// desk reads tickets for all callers of a process: those that come while a read is under way share the next one. It
// remembers the vouchers of orders, so that only the first look at an order that another process admitted has to search
// all shards. It is safe for concurrent use.
type desk struct {
	gate *Gate

	mu      sync.Mutex
	waiting []*ticketLook
	reading bool
	young   map[service.Holder]int64 // order and user -> voucher
	old     map[service.Holder]int64
}

// ticketLook is a caller that waits for a ticket.
type ticketLook struct {
	service.Holder
	voucherID int64 // 0: not known
	done      chan struct{}
	ticket    service.Ticket
	err       error
}

// look returns the ticket of an order.
func (d *desk) look(ctx context.Context, h service.Holder) (service.Ticket, error) {
	l := &ticketLook{Holder: h, done: make(chan struct{})}
	if !d.join(l) {
		return service.Ticket{}, unavailable(redis.ErrClosed, "read ticket %d", h.OrderID)
	}
	select {
	case <-l.done:
		return l.ticket, l.err
	case <-ctx.Done():
		return service.Ticket{}, unavailable(ctx.Err(), "read ticket %d", h.OrderID)
	}
}

// join has a look answered by the next read, unless the gate is closed.
func (d *desk) join(l *ticketLook) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.reading && !d.gate.spawn(d.serve) {
		return false
	}
	d.reading = true
	l.voucherID = d.hint(l.Holder)
	d.waiting = append(d.waiting, l)
	return true
}

// hint returns the voucher of an order, or 0.
func (d *desk) hint(h service.Holder) int64 {
	if voucherID, ok := d.young[h]; ok {
		return voucherID
	}
	return d.old[h]
}

// remember notes the voucher of orders.
func (d *desk) remember(voucherID int64, hs ...service.Holder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range hs {
		if d.young == nil || len(d.young) >= maxHints {
			d.young, d.old = make(map[service.Holder]int64), d.young
		}
		d.young[h] = voucherID
	}
}

// serve reads until no caller waits.
func (d *desk) serve() {
	for {
		d.mu.Lock()
		looks := d.waiting
		d.waiting = nil
		d.reading = len(looks) > 0
		d.mu.Unlock()
		if len(looks) == 0 {
			return
		}
		d.read(looks)
		for _, l := range looks {
			close(l.done)
		}
		if n := len(looks) - 1; n > 0 {
			_ = wait(d.gate.working, min(time.Duration(n)*deskPause, maxDeskPause)) // at its end the next reads fail at once
		}
	}
}

// read answers looks. Those of which the voucher is known cost one command for each 500 in a shard, and one for each
// voucher. The others are searched for in all shards, together.
func (d *desk) read(looks []*ticketLook) {
	ctx, cancel := context.WithTimeout(d.gate.working, deskTimeout)
	defer cancel()
	err := d.readQueued(ctx, looks)
	if err == nil {
		err = d.readFailed(ctx, slices.DeleteFunc(slices.Clone(looks), func(l *ticketLook) bool { return l.ticket.OrderID != 0 || l.err != nil }))
	}
	if err != nil {
		for _, l := range looks {
			l.ticket, l.err = service.Ticket{}, unavailable(err, "read ticket %d", l.OrderID)
		}
	}
}

// shards are those in which the ticket of a look may be.
func (l *ticketLook) shards() []shard {
	if l.voucherID != 0 {
		return []shard{shardOf(l.voucherID)}
	}
	return allShards
}

var allShards = func() (all []shard) {
	for s := range shard(shards) {
		all = append(all, s)
	}
	return all
}()

// readQueued finds the tickets of admissions that are queued.
func (d *desk) readQueued(ctx context.Context, looks []*ticketLook) error {
	inShard := map[shard][]*ticketLook{}
	lines := map[int64]*redis.SliceCmd{}
	type page struct {
		looks []*ticketLook
		rows  *redis.SliceCmd
	}
	var pages []page
	_, err := d.gate.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, l := range looks {
			for _, s := range l.shards() {
				inShard[s] = append(inShard[s], l)
			}
			if l.voucherID != 0 && lines[l.voucherID] == nil {
				lines[l.voucherID] = readLine(ctx, p, l.voucherID)
			}
		}
		for s, looks := range inShard {
			for some := range slices.Chunk(looks, maxRows) {
				users := make([]string, len(some))
				for i, l := range some {
					users[i] = strconv.FormatInt(l.UserID, 10)
				}
				pages = append(pages, page{some, p.HMGet(ctx, s.queued(), users...)})
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
			page.looks[i].find(text)
		}
	}
	return d.place(ctx, looks, lines)
}

// find takes the ticket of the look out of the rows of its user.
func (l *ticketLook) find(rows string) {
	tickets, err := queuedTickets(rows)
	if err != nil {
		l.err = err
		return
	}
	if i := slices.IndexFunc(tickets, func(t service.Ticket) bool { return t.OrderID == l.OrderID }); i >= 0 {
		l.ticket = tickets[i]
	}
}

// place sets Ahead of the tickets that were found, and remembers their vouchers. Tickets are worth showing without it.
func (d *desk) place(ctx context.Context, looks []*ticketLook, lines map[int64]*redis.SliceCmd) error {
	var found []service.Ticket
	for _, l := range looks {
		switch {
		case l.ticket.OrderID == 0:
		case l.voucherID == 0:
			d.remember(l.ticket.VoucherID, l.Holder)
			found = append(found, l.ticket)
		default:
			setAhead(&l.ticket, lines[l.voucherID])
		}
	}
	if len(found) == 0 {
		return nil
	}
	d.gate.findPlaces(ctx, found)
	for _, l := range looks {
		if l.ticket.OrderID != 0 && l.voucherID == 0 {
			l.ticket, found = found[0], found[1:]
		}
	}
	return nil
}

// readFailed finds the tickets of admissions that failed.
func (d *desk) readFailed(ctx context.Context, looks []*ticketLook) error {
	if len(looks) == 0 {
		return nil
	}
	cmds := make([][]*redis.SliceCmd, len(looks))
	_, err := d.gate.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range looks {
			for _, s := range l.shards() {
				cmds[i] = append(cmds[i], p.HMGet(ctx, s.failed(l.UserID), strconv.FormatInt(l.OrderID, 10)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, l := range looks {
		l.err = service.ErrNotFound
		for _, cmd := range cmds[i] {
			if text := first(cmd); text != "" {
				l.ticket, l.err = failedTicket(text)
				break
			}
		}
	}
	return nil
}
