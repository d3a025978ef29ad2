package service

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// maxHolders bounds the list of those who bought, at 8 bytes each. Of larger sales the store is asked each time.
	maxHolders = 2_000_000
	// holdersTimeout bounds the reading of the list.
	holdersTimeout = 10 * time.Second
	// holdersWait is how long a buyer waits for the list before he is answered without it.
	holdersWait = 300 * time.Millisecond
	// maxLooks bounds the buyers for whom the store is asked at once while there is no list.
	maxLooks = 16
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

// holders are the users who bought of a sale that is sold out. After the end most of the crowd comes once more, and
// this tells the few who must hear of their order from the many who can be answered at once. It is read once for each
// time that the sale runs out. It may miss somebody who bought a unit that came back for a moment: he hears sold_out.
type holders struct {
	ready chan struct{} // closed when the fields below are set
	users []int64       // sorted
	known bool          // false: could not be read, or there are too many
}

// mayHold asks whether the user may hold an order; sure says that "no" can be relied on. It waits a moment for the
// list to be read.
func (s *Sales) mayHold(ctx context.Context, store HolderStore, voucherID, userID int64) (may, sure bool) {
	e, ok := s.cache.GetIfPresent(voucherID)
	if !ok {
		return true, false
	}
	h := e.holders.Load()
	if h == nil {
		h = &holders{ready: make(chan struct{})}
		if e.holders.CompareAndSwap(nil, h) {
			go h.read(context.WithoutCancel(ctx), store, voucherID, func() { e.holders.CompareAndSwap(h, nil) })
		} else if h = e.holders.Load(); h == nil {
			return true, false // a unit has just come back
		}
	}
	select {
	case <-h.ready:
	default:
		if !h.await(ctx) {
			return true, false
		}
	}
	if !h.known {
		return true, false
	}
	_, found := slices.BinarySearch(h.users, userID)
	return found, true
}

func (h *holders) await(ctx context.Context) bool {
	timer := time.NewTimer(holdersWait)
	defer timer.Stop()
	select {
	case <-h.ready:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// read fills the list. One that could not be read is dropped, so that the next buyer tries again.
func (h *holders) read(ctx context.Context, store HolderStore, voucherID int64, drop func()) {
	ctx, cancel := context.WithTimeout(ctx, holdersTimeout)
	defer cancel()
	users, err := store.Holders(ctx, voucherID, maxHolders)
	slices.Sort(users)
	h.users, h.known = slices.Clip(slices.Compact(users)), err == nil
	if err != nil && !errors.Is(err, ErrTooMany) {
		drop()
	}
	close(h.ready)
}

// bought notes that a purchase of this process succeeded: a list of holders without it is out of date.
func (s *Sales) bought(voucherID int64) {
	if e, ok := s.cache.GetIfPresent(voucherID); ok && e.holders.Load() != nil {
		e.holders.Store(nil)
	}
}
