package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
)

const (
	// maxBuyers bounds the list of buyers, at 8 bytes each. In larger sales each repeated purchase costs a query.
	maxBuyers = 2_000_000
	// buyersTimeout bounds one read of the list.
	buyersTimeout = 10 * time.Second
	// firstBuyersWait bounds the wait of a purchase for the first list. After it, the purchase is decided without one.
	firstBuyersWait = 300 * time.Millisecond
	// The pause between two reads of the list is at least buyersPause, and buyersReadShare times the duration of the
	// last read. Even if units return all the time, the reads of a sale with 1,000,000 orders use 2 % of one CPU.
	buyersPause, buyersReadShare = time.Second, 50
	// buyersMaxAge is the age at which a list that is in use is read again, even if no unit is known to have returned:
	// the message about it may be lost, and the unit sold again before the next read of the voucher.
	buyersMaxAge = 10 * time.Second
	// soldAgainDelay is the time within which every process notices that a returned unit is sold again. A list that is
	// read later contains its buyer.
	soldAgainDelay = time.Second
	// maxLookups bounds the concurrent lookups of buyers' earlier orders, apart from searches by key, which share queries.
	maxLookups = 16
	// staleLookupsPerSecond bounds the lookups per second for users missing from an outdated list.
	staleLookupsPerSecond = 100
)

// HolderStore lists the buyers with an active order. It is safe for concurrent use.
type HolderStore interface {
	// Holders returns the users with an active order of the voucher, in no order and possibly repeated. Errors:
	// ErrTooMany (more than most), ErrGateCold, ErrGateLacking, ErrUnavailable.
	Holders(ctx context.Context, voucherID int64, most int) ([]int64, error)
}

// BuyerStore finds the buyers with an active order. It is safe for concurrent use.
type BuyerStore interface {
	HolderStore
	// ActiveOrders returns the number of the user's active orders of a voucher and the id of the newest, or 0 and 0.
	// Error: ErrUnavailable.
	ActiveOrders(ctx context.Context, userID, voucherID int64) (count int, newest int64, err error)
}

// ErrTooMany means that a list is longer than the caller allows.
var ErrTooMany = errors.New("too many")

// buyerList is the list of users with active orders in a sold-out sale. A purchase by a user outside the list is
// refused with sold_out, without a query. For a user on the list, the order is read and the answer is
// duplicate_order.
//
// The list is current while reads of the sale show the same last move of a unit as the read before the list. Otherwise
// it is kept, but a user outside it may have bought since, until the next read of the list. In lane queue the gate decides
// about them (answerSoldOut). Otherwise a repeated request is found by its key; a user without a key is found among the
// recentBuyers of this process, or by one of staleLookupsPerSecond queries, and is otherwise refused as sold out.
// Users whose order was cancelled or refunded stay on the list until the next read, which costs a query when they buy
// again.
//
// The zero value is ready. It is safe for concurrent use.
type buyerList struct {
	mu sync.Mutex
	// Sorted; never modified, only replaced.
	users []int64
	// Whether users were read.
	loaded bool
	// When that read began.
	began time.Time
	// When a unit last moved before that read.
	covers time.Time
	// When a returned unit was last seen.
	returned time.Time
	// Closed when the running read ends; nil if none runs.
	reading chan struct{}
	// When the next read may begin.
	next time.Time
}

// A standing is what the list of buyers tells about a user.
type standing int

const (
	mayBeBuyer standing = iota // there is no list yet
	isBuyer
	noBuyer
	wasNoBuyer // outside an outdated list
)

// standing returns what is known of a user without a query. It waits up to 300 ms for the first list.
func (s *Sales) standing(ctx context.Context, store HolderStore, voucherID, userID int64) standing {
	e, ok := s.cache.Get(voucherID)
	if !ok {
		return mayBeBuyer
	}

	// The sale comes first, so that the list has the buyers of all moves that this read shows. The snapshot is left
	// alone: in lane queue it shows the shortage before the database does.
	read := func(ctx context.Context) ([]int64, time.Time, error) {
		v, err := s.read(ctx, voucherID)
		if err != nil {
			return nil, time.Time{}, err
		}
		users, err := store.Holders(ctx, voucherID, maxBuyers)
		return users, changedAt(v), err
	}

	l := &e.buyers
	known, reading := l.find(ctx, e.voucher.Last(), read, userID)
	if reading == nil {
		return known
	}

	ctx, cancel := context.WithTimeout(ctx, firstBuyersWait)
	defer cancel()

	select {
	case <-reading:
		known, _ = l.find(ctx, e.voucher.Last(), read, userID)
	case <-ctx.Done():
	}

	return known
}

// readBuyers reads the users with active orders of a voucher, after a read of when a unit last moved.
type readBuyers func(ctx context.Context) (users []int64, covers time.Time, err error)

// find searches the list, and starts a read if one is due. snap is the present snapshot of the sale. Without a list it
// also returns the channel that is closed at the end of the running read, if any.
func (l *buyerList) find(
	ctx context.Context, snap *cache.Reading[*domain.Voucher], read readBuyers, userID int64,
) (standing, <-chan struct{}) {
	l.mu.Lock()
	now := time.Now()
	current := l.loaded && l.began.After(l.returned.Add(soldAgainDelay)) && l.covers.Equal(changedAt(snap.Value))
	due := !current || now.Sub(l.began) >= buyersMaxAge
	if l.reading == nil && due && !now.Before(l.next) {
		l.reading = make(chan struct{})
		go l.read(context.WithoutCancel(ctx), read, now)
	}

	// Without a read of the sale in the last second, a unit may have returned and been sold unnoticed.
	current = current && now.Sub(snap.Began) <= soldAgainDelay
	users := l.users
	loaded := l.loaded
	reading := l.reading
	l.mu.Unlock()

	if !loaded {
		return mayBeBuyer, reading
	}
	if _, bought := slices.BinarySearch(users, userID); bought {
		return isBuyer, nil
	}
	if current {
		return noBuyer, nil
	}
	return wasNoBuyer, nil
}

func changedAt(v *domain.Voucher) time.Time {
	if v == nil || v.Sale == nil {
		return time.Time{}
	}
	return v.Sale.ChangedAt
}

// read replaces the list. If the read fails, the old list stays.
func (l *buyerList) read(ctx context.Context, read readBuyers, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, buyersTimeout)
	defer cancel()

	users, covers, err := read(ctx)
	slices.Sort(users)
	users = slices.Clip(slices.Compact(users))
	l.mu.Lock()
	defer l.mu.Unlock()

	now := time.Now()
	pause := now.Sub(began)
	if err == nil || errors.Is(err, ErrTooMany) {
		pause *= buyersReadShare
	}

	l.next = now.Add(max(pause, buyersPause))

	if err == nil {
		l.users = users
		l.loaded = true
		l.began = began
		l.covers = covers
	}

	close(l.reading)
	l.reading = nil
}

// unitReturned marks the list as outdated, because a returned unit may be sold to a user outside it. Without a list or
// a running read it does nothing.
func (l *buyerList) unitReturned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded || l.reading != nil {
		l.returned = time.Now()
	}
}

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
