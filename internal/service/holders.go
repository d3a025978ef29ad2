package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxHolders bounds the list of those who bought, at 8 bytes each. For larger sales the store is asked each time.
	maxHolders = 2_000_000
	// holdersTimeout bounds the reading of the list.
	holdersTimeout = 10 * time.Second
	// holdersWait bounds the time that a purchase waits for the first list. Then it is answered without one.
	holdersWait = 300 * time.Millisecond
	// A list is read again after holdersPause, and after holdersShare times as long as it took to read: a sale of
	// 1,000,000 orders, from which units come back all the time, then costs 2 % of a processor.
	holdersPause, holdersShare = time.Second, 50
	// holdersSettle is the time after which every process knows that a unit which came back is sold again. A list that
	// was read later has its buyer.
	holdersSettle = time.Second
	// maxBoughtSince bounds the purchases that are noted beside a list; with more of them the list is dropped.
	maxBoughtSince = 10_000
	// maxLooks bounds the buyers for whom the store is asked at once while there is no list.
	maxLooks = 16
	// looksPerSecond bounds the buyers for whom the store is asked because a list is not up to date.
	looksPerSecond = 100
)

// HolderStore knows who bought.
type HolderStore interface {
	// Holders returns the users who hold an active order of the voucher, in no order and possibly repeated; more
	// than most is ErrTooMany.
	Holders(ctx context.Context, voucherID int64, most int) ([]int64, error)
	// ActiveOrders counts the user's active orders of a voucher and names the newest; 0, 0 if there is none.
	ActiveOrders(ctx context.Context, userID, voucherID int64) (count int, newest int64, err error)
}

// ErrTooMany says that a list is longer than its reader can bear.
var ErrTooMany = errors.New("too many")

// holders is the list of users with active orders in a sale that is sold out. Users outside the list are answered
// sold_out without a query; for users on it the order is looked up, and the answer is duplicate_order.
//
// The list outlives units that come back. Purchases of this process are added to it. Buyers of another process are found
// when the list is read again, or by one of looksPerSecond queries; until then they are answered sold_out. Users who
// gave their unit back stay on the list, which costs a query when they return. The zero value is ready.
type holders struct {
	mu      sync.Mutex
	users   []int64             // sorted; it does not change, but is replaced
	known   bool                // users were read
	began   time.Time           // when that read began
	since   map[int64]time.Time // who bought here after that, and when
	back    time.Time           // when a unit was last seen to come back
	reading chan struct{}       // closed when the read that is under way ends; nil: none is
	next    time.Time           // when the next read may begin
}

// mayHold reports whether the user may hold an order; sure says that "no" can be relied on. It waits a moment for the
// list to be read for the first time.
func (s *Sales) mayHold(ctx context.Context, store HolderStore, voucherID, userID int64) (may, sure bool) {
	e, ok := s.cache.GetIfPresent(voucherID)
	if !ok {
		return true, false
	}
	h := &e.holders
	may, sure, reading := h.find(ctx, store, voucherID, userID)
	if reading != nil && awaitFor(ctx, reading, holdersWait) {
		may, sure, _ = h.find(ctx, store, voucherID, userID)
	}
	if !may && !sure {
		return s.looks.Allow(), false
	}
	return may, sure
}

// find searches the list, and begins to read it if that is due. Without a list it returns true, false and, while that is
// being read, a channel that is closed at the end.
func (h *holders) find(ctx context.Context, store HolderStore, voucherID, userID int64) (may, sure bool, reading <-chan struct{}) {
	h.mu.Lock()
	now := time.Now()
	current := h.known && h.began.After(h.back.Add(holdersSettle))
	if h.reading == nil && !current && !now.Before(h.next) {
		h.reading = make(chan struct{})
		go h.read(context.WithoutCancel(ctx), store, voucherID, now)
	}
	users, known, reading := h.users, h.known, h.reading
	_, bought := h.since[userID]
	h.mu.Unlock()
	if !known && !bought {
		return true, false, reading
	}
	if !bought {
		_, bought = slices.BinarySearch(users, userID)
	}
	return bought, bought || current, nil
}

// awaitFor reports whether done is closed within d.
func awaitFor(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// read fills the list. If that fails, the old one stays.
func (h *holders) read(ctx context.Context, store HolderStore, voucherID int64, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, holdersTimeout)
	defer cancel()
	users, err := store.Holders(ctx, voucherID, maxHolders)
	slices.Sort(users)
	users = slices.Clip(slices.Compact(users))
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	pause := now.Sub(began)
	if err == nil || errors.Is(err, ErrTooMany) {
		pause *= holdersShare
	}
	h.next = now.Add(max(pause, holdersPause))
	if err == nil {
		h.users, h.known, h.began = users, true, began
		maps.DeleteFunc(h.since, func(_ int64, at time.Time) bool { return at.Before(began) })
	}
	close(h.reading)
	h.reading = nil
}

// unitBack notes that there is a unit to be had again. Before the list is read for the first time that says nothing.
func (h *holders) unitBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known || h.reading != nil {
		h.back = time.Now()
	}
}

// bought notes that a purchase of this process succeeded.
func (s *Sales) bought(voucherID, userID int64) {
	e, ok := s.cache.GetIfPresent(voucherID)
	if !ok {
		return
	}
	h := &e.holders
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.known && h.reading == nil: // the first read will find it
	case len(h.since) >= maxBoughtSince: // the sale goes on
		h.users, h.known, h.since, h.back = nil, false, nil, time.Now()
	default:
		if h.since == nil {
			h.since = map[int64]time.Time{}
		}
		h.since[userID] = time.Now()
	}
}
