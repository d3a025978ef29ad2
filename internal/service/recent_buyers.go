package service

import (
	"sync"
	"time"

	"seckill/internal/domain"
)

// recentFor is the shortest time for which a purchase counts as recent. Most repeated clicks follow within two seconds.
const recentFor = 2 * time.Second

// recentBuyers is the set of users with a purchase in this process in the last seconds: a purchase stays for at least 2
// s and less than 6 s. A repeated click that it leads past the lane costs a third of the CPU time in lane lock, and two
// thirds in lane batch. Entries are dropped by generation, without a timer. It is safe for concurrent use. A nil pointer is
// an empty set.
type recentBuyers struct {
	mu sync.Mutex
	// Generations of recentFor each.
	current, previous map[domain.SaleUser]struct{}
	// The begin of the current generation.
	since time.Time
}

func newRecentBuyers() *recentBuyers { return &recentBuyers{current: map[domain.SaleUser]struct{}{}} }

func (r *recentBuyers) add(userID, voucherID int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rotate()
	r.current[domain.SaleUser{UserID: userID, VoucherID: voucherID}] = struct{}{}
}

func (r *recentBuyers) has(userID, voucherID int64) bool {
	if r == nil {
		return false
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	r.rotate()
	key := domain.SaleUser{UserID: userID, VoucherID: voucherID}
	_, current := r.current[key]
	_, previous := r.previous[key]

	return current || previous
}

// rotate begins a new generation if the current one is over. r.mu must be held.
func (r *recentBuyers) rotate() {
	age := time.Since(r.since)
	if age < recentFor {
		return
	}

	r.previous = r.current
	r.current = map[domain.SaleUser]struct{}{}
	r.since = time.Now()

	if age >= 2*recentFor {
		r.previous = nil
	}
}
