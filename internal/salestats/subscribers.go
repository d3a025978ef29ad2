package salestats

import (
	"slices"
	"sync"
	"time"

	"seckill/internal/service"
)

const (
	// maxWatches bounds the subscriptions of this process. An idle one costs about 30 KiB, most of it in net/http.
	maxWatches = 20_000
	// maxWatchesOfUser bounds the subscriptions of one user: open pages, and connections not yet detected as dead.
	maxWatchesOfUser = 16
	// watchRetry is the RetryAfter of a subscription beyond maxWatchesOfUser.
	watchRetry = 10 * time.Second
)

// Watchers is a registry of subscriptions to orders, or to sales, on this process. A notification carries no data: the
// subscriber reads the current state. It is safe for concurrent use.
type Watchers struct {
	mu     sync.Mutex
	byID   map[int64][]*Watch
	byUser map[int64]int
	all    int
	closed bool
	done   chan struct{}
}

// Watch is a subscription to one order or sale.
type Watch struct {
	// Changed receives a value when the order or sale may have changed. Changes before the value is received are
	// coalesced.
	Changed <-chan struct{}
	// Done is closed when the process stops.
	Done <-chan struct{}

	changed    chan struct{}
	userID, id int64
}

// NewWatchers returns an empty registry.
func NewWatchers() *Watchers {
	return &Watchers{byID: map[int64][]*Watch{}, byUser: map[int64]int{}, done: make(chan struct{})}
}

// Watch subscribes a user to an order or sale. The caller must call Unwatch afterwards.
// Errors: ErrOverloaded (too many subscriptions, or the process stops), *RateLimitedError (too many of this user).
func (w *Watchers) Watch(userID, id int64) (*Watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || w.all >= maxWatches:
		return nil, service.ErrOverloaded
	case w.byUser[userID] >= maxWatchesOfUser:
		return nil, &service.RateLimitedError{RetryAfter: watchRetry}
	}
	changed := make(chan struct{}, 1)
	watch := &Watch{Changed: changed, Done: w.done, changed: changed, userID: userID, id: id}
	w.byID[id] = append(w.byID[id], watch)
	w.byUser[userID]++
	w.all++
	return watch, nil
}

// Unwatch ends a subscription. It does nothing if that has ended already.
func (w *Watchers) Unwatch(watch *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := w.byID[watch.id]
	i := slices.Index(same, watch)
	if i < 0 {
		return
	}
	if same = slices.Delete(same, i, i+1); len(same) > 0 {
		w.byID[watch.id] = same
	} else {
		delete(w.byID, watch.id)
	}
	if w.byUser[watch.userID]--; w.byUser[watch.userID] == 0 {
		delete(w.byUser, watch.userID)
	}
	w.all--
}

// Wake notifies the subscribers of an order or sale. It does not block.
func (w *Watchers) Wake(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.byID[id] {
		watch.wake()
	}
}

// WakeAll notifies all subscribers. It does not block.
func (w *Watchers) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, same := range w.byID {
		for _, watch := range same {
			watch.wake()
		}
	}
}

func (w *Watch) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Count returns the number of subscriptions.
func (w *Watchers) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// Close ends all subscriptions by closing Done, and refuses further ones.
func (w *Watchers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.done)
	}
}
