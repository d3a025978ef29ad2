package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// confirmTimeout bounds the wait for the subscription's confirmation. Who
	// is not sure to be woken finds out by asking again, only later.
	confirmTimeout = time.Second

	// remembered is how long a waiter that is gone may be left a lock: as long as
	// the server keeps it in the queue, and a little longer.
	remembered = 6 * time.Second

	// linger is how long a subscription outlives its last waiter: under
	// contention the next one is about to come.
	linger = 100 * time.Millisecond
)

// A hub wakes the waiters of one client. It has one connection and one channel,
// and none of them while nobody waits.
type hub struct {
	rdb     redis.UniversalClient
	channel string

	mu      sync.Mutex
	waiters map[string]*waiter // by id
	lines   map[string]int     // how many of them wait for the lock of that key
	gone    []gone             // who stopped waiting lately, the first first
	sub     *subscription
	closed  bool

	waiting   sync.WaitGroup // waiters
	listening sync.WaitGroup // subscriptions
}

// A waiter is who has joined a hub.
type waiter struct {
	lock  string // its key
	woken chan struct{}
	heir  *inheritance // what it was left, nil if nothing
}

// An inheritance is a lock that a release of the same client left to a waiter.
type inheritance struct {
	since time.Time // before the lease began
	token int64
}

// A gone waiter has released what its id has; a question of its own that was
// still on its way may bring it back into the queue, and a release leave it the
// lock.
type gone struct {
	id string
	at time.Time
}

// A subscription lives from the first waiter until some time after the last.
type subscription struct {
	stop      context.CancelFunc
	confirmed chan struct{} // closed when the server has said so
	idle      *time.Timer   // ends it; nil while somebody waits
}

func newHub(rdb redis.UniversalClient, channel string) *hub {
	return &hub{rdb: rdb, channel: channel, waiters: map[string]*waiter{}, lines: map[string]int{}}
}

// live says whether a waiter who joins now would be sure to be woken.
func (h *hub) live() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sub != nil && isClosed(h.sub.confirmed)
}

// join makes a waiter for the lock of that key. It receives from woken when it should ask again; wakes
// that come meanwhile are one. The second channel is closed as soon as it is
// sure to be woken. The caller leaves afterwards.
func (h *hub) join(id, lock string) (woken, confirmed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, ErrClosed
	}
	if h.sub == nil {
		h.sub = h.subscribe()
	}
	if h.sub.idle != nil {
		h.sub.idle.Stop()
		h.sub.idle = nil
	}
	w := &waiter{lock: lock, woken: make(chan struct{}, 1)}
	h.waiters[id] = w
	h.lines[lock]++
	h.waiting.Add(1)
	return w.woken, h.sub.confirmed, nil
}

// inLine is how many wait for the lock of that key.
func (h *hub) inLine(lock string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[lock]
}

// leave ends what join began. got says whether the waiter has the lock. It
// returns true if a lock was left to a waiter that does not want it any more.
func (h *hub) leave(id string, got bool) (unwanted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiters[id]
	if h.lines[w.lock]--; h.lines[w.lock] == 0 {
		delete(h.lines, w.lock)
	}
	if !got {
		unwanted = w.heir != nil
		h.forgetGone()
		h.gone = append(h.gone, gone{id: id, at: time.Now()})
	}
	delete(h.waiters, id)
	h.waiting.Done()
	if sub := h.sub; len(h.waiters) == 0 && sub != nil {
		sub.idle = time.AfterFunc(linger, func() { h.retire(sub) })
	}
	return unwanted
}

// forgetGone forgets who is gone for long. The caller holds mu.
func (h *hub) forgetGone() {
	old := 0
	for old < len(h.gone) && time.Since(h.gone[old].at) > remembered {
		old++
	}
	h.gone = slices.Delete(h.gone, 0, old)
}

// retire is the idle timer's function.
func (h *hub) retire(sub *subscription) {
	h.mu.Lock()
	wanted := len(h.waiters) > 0 || h.sub != sub
	if !wanted {
		h.sub = nil
	}
	h.mu.Unlock()
	if !wanted {
		sub.stop()
	}
}

// subscribe begins a subscription. It does not wait for the server. The caller
// holds mu.
func (h *hub) subscribe() *subscription {
	ctx, stop := context.WithCancel(context.Background())
	sub := &subscription{stop: stop, confirmed: make(chan struct{})}
	h.listening.Go(func() { h.listen(ctx, sub.confirmed) })
	return sub
}

// listen passes wakes on until ctx ends. It connects again whenever the
// connection is lost.
func (h *hub) listen(ctx context.Context, confirmed chan struct{}) {
	pubsub := h.rdb.Subscribe(ctx, h.channel)
	defer func() { _ = pubsub.Close() }()
	messages := pubsub.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return
		case msg, ok := <-messages:
			if !ok { // the Redis client was closed before its time
				return
			}
			switch msg := msg.(type) {
			case *redis.Message:
				h.wake(msg.Payload)
			case *redis.Subscription:
				if isClosed(confirmed) {
					h.wakeAll() // wakes may have been lost with the connection
				} else {
					close(confirmed)
				}
			}
		}
	}
}

func (h *hub) wake(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w, ok := h.waiters[id]; ok {
		notify(w.woken)
	}
}

// leaveTo tells a waiter that it has the lock. It returns false if the waiter is
// gone without the lock; one that is not here either may have got it by asking.
func (h *hub) leaveTo(id string, i inheritance) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w, ok := h.waiters[id]; ok {
		w.heir = &i
		notify(w.woken)
	}
	return !slices.ContainsFunc(h.gone, func(g gone) bool { return g.id == id })
}

// inherited takes what a waiter was left, or nil.
func (h *hub) inherited(id string) *inheritance {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiters[id]
	i := w.heir
	w.heir = nil
	return i
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		notify(w.woken)
	}
}

// close refuses further waiters, waits for those that there are to leave, and
// ends the subscription.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.waiting.Wait()
	h.mu.Lock()
	sub := h.sub
	h.sub = nil
	h.mu.Unlock()
	if sub != nil {
		sub.stop()
	}
	h.listening.Wait()
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
