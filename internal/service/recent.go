package service

import (
	"sync"
	"time"
)

// recentFor is how long a purchase counts as recent, at least: people press again within a second or two.
const recentFor = 2 * time.Second

// recentBuyers are the purchases of this process in the last seconds: a hint, which forgets all older ones at a time. A nil
// pointer knows none. It is safe for concurrent use.
type recentBuyers struct {
	mu          sync.Mutex
	now, before map[saleUser]struct{}
	since       time.Time // when now began
}

// saleUser is a user in one sale.
type saleUser struct{ user, voucher int64 }

func newRecentBuyers() *recentBuyers { return &recentBuyers{now: map[saleUser]struct{}{}} }

func (r *recentBuyers) add(userID, voucherID int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	r.now[saleUser{userID, voucherID}] = struct{}{}
}

func (r *recentBuyers) has(userID, voucherID int64) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	key := saleUser{userID, voucherID}
	_, now := r.now[key]
	_, before := r.before[key]
	return now || before
}

// forget drops purchases that are older than twice recentFor. The caller holds the lock.
func (r *recentBuyers) forget() {
	age := time.Since(r.since)
	if age < recentFor {
		return
	}
	r.before, r.now, r.since = r.now, map[saleUser]struct{}{}, time.Now()
	if age >= 2*recentFor {
		r.before = nil
	}
}
