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
	// A list that is not current is read again after buyersFresh, or after buyersPause times the duration of its read if that
	// is longer: even if units return all the time, the reads of a sale with 1,000,000 orders use 2 % of one CPU.
	buyersFresh, buyersPause = time.Second, 50
	// buyersMaxAge is the age at which a list that is in use is read again, even if no unit is known to have moved: another
	// program may have stored an order.
	buyersMaxAge = 10 * time.Second
	// unseen is the age of a sale from which a unit may have returned and been sold unnoticed.
	unseen = time.Second
	// maxNewBuyers bounds the purchases that are added to a list. With more, the sale is not sold out any more.
	maxNewBuyers = 10_000
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
// The list is current while reads of the sale show the same last move of a unit as the read before the list; a sale that
// is only marked as sold out shows none. Otherwise it is kept, and purchases of this process are added to it, but a user
// outside it may be a buyer of another process until the next read of the list. In lane queue the gate decides about them
// (answerSoldOut). Otherwise a repeated request is found by its key; a user without a key is found by one of
// staleLookupsPerSecond queries, and is otherwise refused as sold out.
// Users whose order was cancelled or refunded stay on the list until the next read, which costs a query when they buy
// again.
//
// It is safe for concurrent use.
type buyerList struct {
	stored cache.Refreshed[buyers]

	mu sync.Mutex
	// Buyers of this process, and when they bought; nil until the first read begins, which finds the orders before it.
	own map[int64]time.Time
}

// buyers are the users of a list as they were read; never modified.
type buyers struct {
	// Sorted.
	users []int64
	// When a unit last moved before the read.
	covers time.Time
	// Whether there are too many of them.
	tooMany bool
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
func (s *Sales) standing(ctx context.Context, voucherID, userID int64) standing {
	e, ok := s.cache.Get(voucherID)
	if !ok {
		return mayBeBuyer
	}

	l := &e.buyers
	snap := e.voucher.Last()
	list := l.stored.Last()
	switch {
	case list == nil:
		l.keepOwn()
		ctx, cancel := context.WithTimeout(ctx, firstBuyersWait)
		defer cancel()
		// Without a list after an error, too.
		_, _ = l.stored.Get(ctx)
	case !list.Value.current(snap) || time.Since(list.Began) >= buyersMaxAge:
		// Starts the next read if the pause is over.
		l.stored.Kept(ctx, 0)
	}

	return l.find(e.voucher.Last(), userID)
}

// find searches the list. snap is the present snapshot of the sale.
func (l *buyerList) find(snap *cache.Reading[*domain.Voucher], userID int64) standing {
	l.mu.Lock()
	at, bought := l.own[userID]
	l.mu.Unlock()

	list := l.stored.Last()
	switch {
	case bought && (list == nil || !at.Before(list.Began)):
		return isBuyer
	case list == nil || list.Value.tooMany:
		return mayBeBuyer
	}

	if _, bought := slices.BinarySearch(list.Value.users, userID); bought {
		return isBuyer
	}
	if list.Value.current(snap) {
		return noBuyer
	}
	return wasNoBuyer
}

// current reports whether no unit has moved since the read, as far as a snapshot of the sale shows.
func (b buyers) current(snap *cache.Reading[*domain.Voucher]) bool {
	return b.covers.Equal(changedAt(snap.Value)) && time.Since(snap.Began) <= unseen
}

func changedAt(v *domain.Voucher) time.Time {
	if v == nil || v.Sale == nil {
		return time.Time{}
	}
	return v.Sale.ChangedAt
}

// readBuyers reads the sale first, so that the list has the buyers of all moves that this read shows. The snapshot is left
// alone: in lane queue it shows the shortage before the database does.
func (s *Sales) readBuyers(ctx context.Context, voucherID int64) (buyers, error) {
	v, err := s.read(ctx, voucherID)
	if err != nil {
		return buyers{}, err
	}

	users, err := s.holders.Holders(ctx, voucherID, maxBuyers)
	if errors.Is(err, ErrTooMany) {
		return buyers{tooMany: true}, nil
	}

	slices.Sort(users)
	return buyers{users: slices.Clip(slices.Compact(users)), covers: changedAt(v)}, err
}

func (s *Sales) addBuyer(voucherID, userID int64) {
	e, ok := s.cache.Get(voucherID)
	if !ok {
		return
	}

	l := &e.buyers
	l.mu.Lock()
	defer l.mu.Unlock()

	switch {
	case l.own == nil:
		return
	case len(l.own) >= maxNewBuyers:
		l.own = map[int64]time.Time{}
	}

	l.own[userID] = time.Now()
}

func (l *buyerList) keepOwn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		l.own = map[int64]time.Time{}
	}
}
