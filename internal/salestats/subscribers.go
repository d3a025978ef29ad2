package salestats

import (
	"slices"
	"sync"
	"time"

	"seckill/internal/service"
)

const (
	// maxWatches bounds those who watch orders through this process. An idle one costs some 30 KiB, most of it in
	// net/http.
	maxWatches = 20_000
	// maxWatchesOfUser bounds those of one user: his pages, with room for connections that nobody has noticed to be
	// dead.
	maxWatchesOfUser = 16
	watchRetry       = 10 * time.Second
)

// Watchers knows who watches which order through this process, and wakes them when it may have changed. It says nothing
// about what the order is now: whoever is woken looks. It is safe for concurrent use.
type Watchers struct {
	mu      sync.Mutex
	byOrder map[int64][]*Watch
	byUser  map[int64]int
	all     int
	closed  bool
	done    chan struct{}
}

// Watch is somebody's interest in an order.
type Watch struct {
	// Changed receives when the order may have changed; what happens meanwhile is one.
	Changed <-chan struct{}
	// Done is closed when the process stops.
	Done <-chan struct{}

	changed         chan struct{}
	userID, orderID int64
}

// NewWatchers makes an empty registry.
func NewWatchers() *Watchers {
	return &Watchers{byOrder: map[int64][]*Watch{}, byUser: map[int64]int{}, done: make(chan struct{})}
}

// Watch registers a user's interest in an order. The caller calls Unwatch afterwards.
// Errors: ErrOverloaded (too many watch, or the process stops), *RateLimitedError (too many of this user).
func (w *Watchers) Watch(userID, orderID int64) (*Watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || w.all >= maxWatches:
		return nil, service.ErrOverloaded
	case w.byUser[userID] >= maxWatchesOfUser:
		return nil, &service.RateLimitedError{RetryAfter: watchRetry}
	}
	changed := make(chan struct{}, 1)
	watch := &Watch{Changed: changed, Done: w.done, changed: changed, userID: userID, orderID: orderID}
	w.byOrder[orderID] = append(w.byOrder[orderID], watch)
	w.byUser[userID]++
	w.all++
	return watch, nil
}

// Unwatch ends what Watch began.
func (w *Watchers) Unwatch(watch *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := w.byOrder[watch.orderID]
	i := slices.Index(mine, watch)
	if i < 0 {
		return
	}
	if mine = slices.Delete(mine, i, i+1); len(mine) > 0 {
		w.byOrder[watch.orderID] = mine
	} else {
		delete(w.byOrder, watch.orderID)
	}
	if w.byUser[watch.userID]--; w.byUser[watch.userID] == 0 {
		delete(w.byUser, watch.userID)
	}
	w.all--
}

// Wake wakes those who watch an order. It does not block.
func (w *Watchers) Wake(orderID int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.byOrder[orderID] {
		select {
		case watch.changed <- struct{}{}:
		default:
		}
	}
}

// WakeAll wakes everybody. It does not block.
func (w *Watchers) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watches := range w.byOrder {
		for _, watch := range watches {
			select {
			case watch.changed <- struct{}{}:
			default:
			}
		}
	}
}

// Count says how many watch.
func (w *Watchers) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// Close tells all who watch that the process stops, and refuses further ones.
func (w *Watchers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.done)
	}
}
