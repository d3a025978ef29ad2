package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"golang.org/x/sync/singleflight"
)

// placeTimeout bounds one purchase or one cancellation. Of the 5 s within which a buyer has an answer while a
// dependency is stuck, it leaves the rest to the release of a lock whose server does not answer.
const placeTimeout = 3 * time.Second

// OrderFilter selects orders of one user for a list.
type OrderFilter struct {
	UserID int64
	Status OrderStatus // 0: any
	Page   Page
}

// OrderStore keeps orders. Its methods are transactions; errors are those of this package.
type OrderStore interface {
	// PlaceOrders inserts orders, each under a free slot of its user, and takes a unit of its voucher for each, all in
	// one transaction. Each order has its own answer, as if they had come one after the other: the order as stored, or
	// ErrSoldOut, *DuplicateOrderError, ErrIDTaken, ErrIdempotencyMismatch, ErrUnavailable. An order that was stored by
	// an earlier call succeeds again, and takes nothing.
	PlaceOrders(ctx context.Context, orders []NewOrder) []Placed
	// RepeatedOrders finds what earlier requests with the same keys placed within KeyLife: of each purchase the order as
	// it was placed, Replayed; or, in Err, ErrNotFound or ErrIdempotencyMismatch.
	RepeatedOrders(ctx context.Context, purchases []KeyedPurchase) ([]Placed, error)
	// MoveOrder makes a move, with what follows from it: the unit returns, the audit log knows.
	// Errors: ErrNotFound, ErrInvalidState, *DoneBeforeError, ErrUnavailable.
	MoveOrder(ctx context.Context, m OrderMove) (Order, error)
	// Order returns an order of the user, or of anybody if userID is 0. Errors: ErrNotFound, ErrUnavailable.
	Order(ctx context.Context, userID, id int64) (Order, error)
	// StoredOrders returns those of the ids that are orders of the user.
	StoredOrders(ctx context.Context, userID int64, ids []int64) ([]int64, error)
	HolderStore
	OrderFinder
	ListOrders(ctx context.Context, f OrderFilter) ([]Order, error)
}

// NewOrder is an order to be placed, with what decides whether it may be.
type NewOrder struct {
	Order
	Limit int         // active orders of the voucher that the user may hold
	Key   *RequestKey // of a request with an Idempotency-Key; nil without one
	// Fence, if it is not nil, is the context of a lock: once it has ended, the order is refused with ErrUnavailable
	// instead of being committed.
	Fence context.Context
}

// RequestKey recognises a request that places an order, when it is sent again.
type RequestKey struct {
	Name    string   // its Idempotency-Key; empty where only the hash is known
	Hash    [16]byte // of Name
	Request [16]byte // a hash of its method, path and body
}

// NewRequestKey makes the key of a request; fingerprint is of its method, path and body.
func NewRequestKey(name string, fingerprint [32]byte) *RequestKey {
	k := &RequestKey{Name: name, Hash: KeyHash(name)}
	copy(k.Request[:], fingerprint[:])
	return k
}

// KeyHash is what an order keeps of an Idempotency-Key: of a fixed, small size.
func KeyHash(name string) (hash [16]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(hash[:], sum[:])
	return hash
}

// KeyedPurchase is a purchase as far as its key goes.
type KeyedPurchase struct {
	UserID int64
	Key    *RequestKey
	At     time.Time
}

// Placed is what became of one order of PlaceOrders.
type Placed struct {
	Order    Order
	Err      error
	Before   bool // it was stored before this call, under the same id, user, voucher and time
	Replayed bool // an earlier request with the same key placed it; Order is as it was placed
}

// Lane is a way from a purchase to a committed order. Place returns the order only after its row is durable, or
// OrderQueued; replayed says that an earlier request with the same key placed it. It ends at about the purchase's
// deadline; its context does not end before that.
// Errors: ErrSoldOut, *DuplicateOrderError, ErrOrderInProgress, ErrIdempotencyMismatch, ErrOverloaded, ErrUnavailable.
type Lane interface {
	Place(ctx context.Context, p Purchase) (o Order, replayed bool, err error)
}

// OrderObserver is told the outcome of every purchase. It must be safe for concurrent use and quick.
type OrderObserver func(err error, took time.Duration)

// OrdersConfig is what Orders needs.
type OrdersConfig struct {
	Store       OrderStore
	Sales       *Sales
	Lane        Lane
	Now         func() time.Time
	PayTimeout  time.Duration // how long an order may stay unpaid
	MaxInFlight int           // purchases at once in this process; more are answered ErrOverloaded
	Queue       Queue         // what waits in the lane queue; nil in the other lanes
	Codes       RedeemCodes
	Moved       func(orderID int64) // as in Returns
	Observe     OrderObserver       // may be nil
	// ObserveKey receives how each purchase with a key went: "new", "replayed", "mismatch", "in_progress",
	// "unavailable". It may be nil, and must be safe for concurrent use and quick.
	ObserveKey func(outcome string)
}

// Orders is the voucher-order service: it places, shows and cancels orders. It is safe for concurrent use.
type Orders struct {
	cfg    OrdersConfig
	room   chan struct{}      // one element per purchase in flight
	twins  singleflight.Group // purchases with a key that are under way
	recent *recentBuyers      // nil in the lane queue, where Redis answers them as cheaply
	looks  chan struct{}      // one element per buyer of whom the store is asked although nothing is left
}

// Queue is what the service must know of the lane queue: admissions that are not orders in the database (yet).
type Queue interface {
	HolderStore
	// Ticket shows an admission of the user. Errors: ErrNotFound, ErrUnavailable.
	Ticket(ctx context.Context, userID, orderID int64) (Ticket, error)
	// Tickets shows all of them, the newest first.
	Tickets(ctx context.Context, userID int64) ([]Ticket, error)
	// Release gives back the units of orders of a voucher whose end is committed, once however often it is called.
	Release(ctx context.Context, voucherID int64, held ...Holder) error
	// AddStock takes over a change of the units left; delta may be negative, and is then committed in the database only
	// afterwards. Errors: ErrInvalidState (fewer units are left, and nothing changed), ErrUnavailable.
	AddStock(ctx context.Context, voucherID, delta int64) error
}

// NewOrders makes the service.
func NewOrders(cfg OrdersConfig) *Orders {
	if cfg.Observe == nil {
		cfg.Observe = func(error, time.Duration) {}
	}
	if cfg.ObserveKey == nil {
		cfg.ObserveKey = func(string) {}
	}
	o := &Orders{cfg: cfg, room: make(chan struct{}, cfg.MaxInFlight), looks: make(chan struct{}, maxLooks)}
	if cfg.Queue == nil {
		o.recent = newRecentBuyers()
	}
	return o
}

// Place is PlaceOnce for a request without a key.
func (s *Orders) Place(ctx context.Context, userID, voucherID int64, wait time.Duration) (Order, error) {
	o, _, err := s.PlaceOnce(ctx, userID, voucherID, wait, nil)
	return o, err
}

// PlaceOnce buys one unit for the user. When it returns an order, the order is committed, whatever dies next; in the
// lane queue it may also be OrderQueued: then it will be committed, or fail with a reason, and wait is how long the
// buyer wants to wait for that (at most about 3 s). A buyer who hangs up does not stop a purchase that has begun: its
// outcome is found in the user's orders.
//
// With a key (which may be nil), the request has one effect however often, wherever and however concurrently it is sent
// within KeyLife: replayed says that the order was placed by an earlier one, and then the order is as it was placed. A
// refusal is decided anew each time. While the sale is sold out by the snapshot, the key is looked up only for users who
// may hold an order.
//
// Errors: ErrNotFound, ErrInvalidState (not a flash-sale voucher), ErrSaleNotStarted, ErrSaleEnded, ErrSoldOut,
// *DuplicateOrderError, ErrOrderInProgress, ErrIdempotencyMismatch, ErrOverloaded, ErrUnavailable.
func (s *Orders) PlaceOnce(
	ctx context.Context, userID, voucherID int64, wait time.Duration, key *RequestKey,
) (o Order, replayed bool, err error) {
	start := time.Now()
	p := Purchase{UserID: userID, VoucherID: voucherID, Wait: wait, Key: key, Deadline: start.Add(placeTimeout)}
	if end, ok := ctx.Deadline(); ok {
		p.Deadline = earlier(p.Deadline, end)
	}
	if key == nil {
		o, _, err = s.place(ctx, p)
	} else {
		o, replayed, err = s.placeKeyed(ctx, p)
	}
	s.cfg.Observe(err, time.Since(start))
	return o, replayed, err
}

// placeKeyed shares one run among the requests that are the same and under way in this process.
func (s *Orders) placeKeyed(ctx context.Context, p Purchase) (o Order, replayed bool, err error) {
	type outcome struct {
		order    Order
		replayed bool
	}
	mine := false
	same := strconv.FormatInt(p.UserID, 10) + string(p.Key.Request[:]) + p.Key.Name
	v, err, _ := s.twins.Do(same, func() (any, error) {
		mine = true
		o, replayed, err := s.place(context.WithoutCancel(ctx), p)
		return outcome{o, replayed}, err
	})
	result, _ := v.(outcome)
	replayed = result.replayed || !mine && err == nil
	switch {
	case replayed:
		s.cfg.ObserveKey("replayed")
	case errors.Is(err, ErrIdempotencyMismatch):
		s.cfg.ObserveKey("mismatch")
	case errors.Is(err, ErrOrderInProgress):
		s.cfg.ObserveKey("in_progress")
	case errors.Is(err, ErrUnavailable):
		s.cfg.ObserveKey("unavailable")
	default:
		s.cfg.ObserveKey("new")
	}
	return result.order, replayed, err
}

func (s *Orders) place(ctx context.Context, p Purchase) (o Order, replayed bool, err error) {
	v, err := s.cfg.Sales.Get(ctx, p.VoucherID)
	if err != nil {
		return Order{}, false, err
	}
	p.At = Moment(s.cfg.Now())
	if err := checkOpen(&v, p.At); err != nil {
		asked := p.Key != nil && !errors.Is(err, ErrSaleNotStarted)
		if asked && (v.Sale == nil || p.At.Before(v.Sale.EndAt.Add(KeyLife))) {
			return s.repeated(ctx, &p, err)
		}
		return Order{}, false, err
	}
	if v.Sale.Stock <= 0 {
		return s.soldOut(ctx, &p, &v)
	}
	if s.recent.has(p.UserID, p.VoucherID) {
		if o, replayed, err = s.pressedAgain(ctx, &p, &v); err != nil || replayed {
			return o, replayed, err
		}
	}
	p.Amount, p.Currency, p.Limit, p.ExpiresAt = v.PayValue, v.Currency, v.Sale.LimitPerUser, p.At.Add(s.cfg.PayTimeout)
	p.Window = Window{Begin: v.Sale.BeginAt, End: v.Sale.EndAt}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		return Order{}, false, ErrOverloaded
	}
	o, replayed, err = s.cfg.Lane.Place(context.WithoutCancel(ctx), p)
	switch {
	case err == nil:
		s.cfg.Sales.bought(p.VoucherID, p.UserID)
		s.recent.add(p.UserID, p.VoucherID)
	case errors.Is(err, ErrSoldOut):
		s.cfg.Sales.MarkSoldOut(p.VoucherID)
	}
	return o, replayed, err
}

// repeated answers a purchase that is refused now, unless it is the repetition of one that was not.
func (s *Orders) repeated(ctx context.Context, p *Purchase, refused error) (o Order, replayed bool, err error) {
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	timer := time.NewTimer(holdersWait)
	defer timer.Stop()
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	case <-timer.C:
		return Order{}, false, ErrOverloaded
	}
	switch o, err = s.lookUp(ctx, p); {
	case errors.Is(err, ErrNotFound):
		return Order{}, false, refused
	case err != nil:
		return Order{}, false, err
	}
	return o, true, nil
}

// lookUp returns the order that an earlier request with the same key placed, in the form in which it was answered: first
// among those that are on their way to the database, then there. Errors: ErrNotFound, ErrIdempotencyMismatch,
// ErrUnavailable.
func (s *Orders) lookUp(ctx context.Context, p *Purchase) (Order, error) {
	if s.cfg.Queue != nil {
		tickets, err := s.cfg.Queue.Tickets(ctx, p.UserID)
		if err != nil {
			return Order{}, err
		}
		for i := range tickets {
			t := &tickets[i]
			switch {
			case t.Key == nil || t.Key.Hash != p.Key.Hash || t.Failed != "":
			case t.Key.Request != p.Key.Request:
				return Order{}, ErrIdempotencyMismatch
			default:
				return t.order(s.cfg.PayTimeout), nil
			}
		}
	}
	found, err := s.cfg.Store.RepeatedOrders(ctx, []KeyedPurchase{{UserID: p.UserID, Key: p.Key, At: p.At}})
	if err != nil {
		return Order{}, err
	}
	if s.cfg.Queue != nil && p.Wait == 0 {
		found[0].Order.Status = OrderQueued
	}
	return found[0].Order, found[0].Err
}

// pressedAgain answers a user who bought a moment ago, without a lock and a place in a batch: by one or two indexed reads.
// If the user may buy again, or there is no room for the reads, nothing is returned, and the lane decides.
func (s *Orders) pressedAgain(ctx context.Context, p *Purchase, v *Voucher) (o Order, replayed bool, err error) {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	default:
		return Order{}, false, nil
	}
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	if p.Key != nil {
		switch o, err = s.lookUp(ctx, p); {
		case err == nil:
			return o, true, nil
		case errors.Is(err, ErrIdempotencyMismatch):
			return Order{}, false, err
		case !errors.Is(err, ErrNotFound):
			return Order{}, false, nil // the lane reports the trouble, if it lasts
		}
	}
	count, newest, err := s.cfg.Store.ActiveOrders(ctx, p.UserID, p.VoucherID)
	if err == nil && count >= v.Sale.LimitPerUser {
		return Order{}, false, &DuplicateOrderError{OrderID: newest}
	}
	return Order{}, false, nil
}

// checkOpen says why nobody can buy v at now, sold out aside.
func checkOpen(v *Voucher, now time.Time) error {
	switch v.State(now) {
	case StateUpcoming:
		return ErrSaleNotStarted
	case StateEnded:
		return ErrSaleEnded
	}
	if v.Sale == nil {
		return ErrInvalidState
	}
	return nil
}

// soldOut answers a purchase for which the snapshot has no unit: with the user's order if this request placed it before,
// *DuplicateOrderError if the user holds as many as allowed, else ErrSoldOut. The store is read only for users who may
// hold an order; where the answer cannot be found out, it is ErrSoldOut, which is true.
func (s *Orders) soldOut(ctx context.Context, p *Purchase, v *Voucher) (o Order, replayed bool, err error) {
	var store HolderStore = s.cfg.Store
	if s.cfg.Queue != nil {
		store = s.cfg.Queue
	}
	may, sure := s.cfg.Sales.mayHold(ctx, store, v.ID, p.UserID)
	if !may {
		return Order{}, false, ErrSoldOut
	}
	if p.Key != nil && sure {
		if o, replayed, err = s.repeated(ctx, p, ErrSoldOut); !errors.Is(err, ErrSoldOut) {
			return o, replayed, err
		}
	}
	if !sure {
		select {
		case s.looks <- struct{}{}:
			defer func() { <-s.looks }()
		default:
			return Order{}, false, ErrSoldOut
		}
	}
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	if p.Key != nil && !sure {
		switch o, err = s.lookUp(ctx, p); {
		case err == nil:
			return o, true, nil
		case errors.Is(err, ErrIdempotencyMismatch):
			return Order{}, false, err
		}
	}
	count, newest, err := store.ActiveOrders(ctx, p.UserID, v.ID)
	switch {
	case err != nil && sure:
		return Order{}, false, err
	case count >= v.Sale.LimitPerUser:
		return Order{}, false, &DuplicateOrderError{OrderID: newest}
	}
	return Order{}, false, ErrSoldOut
}
