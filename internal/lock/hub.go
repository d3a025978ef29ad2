package lock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// confirmTimeout bounds the wait for the subscription's confirmation. A waiter without it may miss its wake message
	// and then acquires the lock when it retries.
	confirmTimeout = time.Second

	// idleTimeout is how long a subscription is kept after its last waiter: under contention the next one arrives soon.
	idleTimeout = 100 * time.Millisecond
)

// A hub wakes the waiters of one client. It has one connection and one channel, and neither while there are no waiters.
type hub struct {
	rdb     redis.UniversalClient
	channel string

	mu      sync.Mutex
	waiters map[string]*waiter // by id
	perLock map[string]int     // number of waiters by the key of their lock
	sub     *subscription
	closed  bool

	waiting   sync.WaitGroup // waiters
	listening sync.WaitGroup // subscriptions
}

// A waiter is a claim that has joined a hub.
type waiter struct {
	lock    string // its key
	woken   chan struct{}
	handoff *handoff // the lock handed over to it; nil if none
}

// A handoff is a lock that a release of the same client has handed over to a waiter.
type handoff struct {
	since time.Time // before the lease began
	token int64
}

// A subscription lasts from the first waiter until idleTimeout after the last.
type subscription struct {
	stop context.CancelFunc

	// confirmed is closed when the server has confirmed the subscription.
	confirmed chan struct{}

	// idle ends the subscription. It is nil while there are waiters.
	idle *time.Timer
}

func newHub(rdb redis.UniversalClient, channel string) *hub {
	return &hub{
		rdb:     rdb,
		channel: channel,
		waiters: map[string]*waiter{},
		perLock: map[string]int{},
	}
}

// subscribed reports whether a waiter that joins now is certain to receive its wake messages.
func (h *hub) subscribed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sub != nil && isClosed(h.sub.confirmed)
}

// join adds a waiter for the lock with that key. woken receives when the waiter should try again; it holds at most one
// message. confirmed is closed as soon as the waiter is certain to receive its messages. The caller must call leave
// afterwards.
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
	h.perLock[lock]++
	h.waiting.Add(1)
	return w.woken, h.sub.confirmed, nil
}

func (h *hub) waitersFor(lock string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.perLock[lock]
}

func (h *hub) leave(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	lock := h.waiters[id].lock
	h.perLock[lock]--
	if h.perLock[lock] == 0 {
		delete(h.perLock, lock)
	}

	delete(h.waiters, id)
	h.waiting.Done()
	if sub := h.sub; len(h.waiters) == 0 && sub != nil {
		sub.idle = time.AfterFunc(idleTimeout, func() { h.retire(sub) })
	}
}

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

// subscribe starts a subscription without waiting for the server. The caller holds mu.
func (h *hub) subscribe() *subscription {
	ctx, stop := context.WithCancel(context.Background())
	sub := &subscription{stop: stop, confirmed: make(chan struct{})}
	h.listening.Go(func() { h.listen(ctx, sub.confirmed) })
	return sub
}

// listen delivers wake messages until ctx ends. It reconnects whenever the connection is lost.
func (h *hub) listen(ctx context.Context, confirmed chan struct{}) {
	pubsub := h.rdb.Subscribe(ctx, h.channel)
	defer func() { _ = pubsub.Close() }()

	messages := pubsub.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return
		case msg, ok := <-messages:
			if !ok {
				return // the Redis client was closed too early
			}
			h.receive(msg, confirmed)
		}
	}
}

func (h *hub) receive(msg any, confirmed chan struct{}) {
	switch msg := msg.(type) {
	case *redis.Message:
		h.wake(msg.Payload)
	case *redis.Subscription:
		if !isClosed(confirmed) {
			close(confirmed)
			return
		}
		// Messages may have been lost with the connection before this one.
		h.wakeAll()
	}
}

func (h *hub) wake(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w, ok := h.waiters[id]; ok {
		notify(w.woken)
	}
}

// handOver gives a waiter the lock. One that has left has acquired the lock itself, or its own release frees it, or its
// caller was told ErrUncertain. The id does not show which, so it must not be released here.
func (h *hub) handOver(id string, given handoff) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w, ok := h.waiters[id]; ok {
		w.handoff = &given
		notify(w.woken)
	}
}

func (h *hub) takeHandoff(id string) *handoff {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiters[id]
	given := w.handoff
	w.handoff = nil
	return given
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		notify(w.woken)
	}
}

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
