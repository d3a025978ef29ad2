package service

import (
	"context"
	"errors"
	"time"
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
	Key     string   // its Idempotency-Key
	Request [16]byte // a hash of its method, path and body
}

// Placed is what became of one order of PlaceOrders.
type Placed struct {
	Order    Order
	Err      error
	Before   bool // it was stored before this call, under the same id, user, voucher and time
	Replayed bool // an earlier request with the same key placed it; Order is as it was placed
}

// Lane is a way from a purchase to a committed order. Place returns the order only after its row is durable, or
// OrderQueued. It ends at about the purchase's deadline; its context does not end before that.
// Errors: ErrSoldOut, *DuplicateOrderError, ErrOrderInProgress, ErrOverloaded, ErrUnavailable.
type Lane interface {
	Place(ctx context.Context, p Purchase) (Order, error)
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
}

// Orders is the voucher-order service: it places, shows and cancels orders. It is safe for concurrent use.
type Orders struct {
	cfg   OrdersConfig
	room  chan struct{} // one element per purchase in flight
	looks chan struct{} // one element per buyer of whom the store is asked although nothing is left
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
	return &Orders{cfg: cfg, room: make(chan struct{}, cfg.MaxInFlight), looks: make(chan struct{}, maxLooks)}
}

// Place buys one unit for the user. When it returns an order, the order is committed, whatever dies next; in the lane
// queue it may also be OrderQueued: then it will be committed, or fail with a reason, and wait is how long the buyer
// wants to wait for that (at most about 3 s). A buyer who hangs up does not stop a purchase that has begun: its outcome is found in the user's orders.
// With a claim (ClaimOf), the order of an earlier run of the request is returned again.
//
// Errors: ErrNotFound, ErrInvalidState (not a flash-sale voucher), ErrSaleNotStarted, ErrSaleEnded, ErrSoldOut,
// *DuplicateOrderError, ErrOrderInProgress, ErrOverloaded, ErrUnavailable.
func (s *Orders) Place(ctx context.Context, userID, voucherID int64, wait time.Duration) (Order, error) {
	start := time.Now()
	p := Purchase{UserID: userID, VoucherID: voucherID, Wait: wait, Claim: ClaimOf(ctx)}
	deadline := start.Add(placeTimeout)
	if end, ok := ctx.Deadline(); ok {
		deadline = earlier(deadline, end)
	}
	o, err := s.place(ctx, p, deadline)
	s.cfg.Observe(err, time.Since(start))
	return o, err
}

func (s *Orders) place(ctx context.Context, p Purchase, deadline time.Time) (Order, error) {
	if p.Claim != nil && p.Claim.Again {
		if o, err := s.placedBefore(ctx, &p); !errors.Is(err, ErrNotFound) {
			return o, err
		}
	}
	v, err := s.cfg.Sales.Get(ctx, p.VoucherID)
	if err != nil {
		return Order{}, err
	}
	now := Moment(s.cfg.Now())
	p.At = now
	if c := p.Claim; c != nil && c.ResourceID != 0 {
		if p.At = c.ResourceAt; !c.Again {
			now = p.At
		}
	}
	if err := checkOpen(&v, now); err != nil {
		return Order{}, err
	}
	if v.Sale.Stock <= 0 {
		return Order{}, s.soldOut(ctx, p.UserID, &v, deadline)
	}
	p.Amount, p.Currency, p.Limit, p.ExpiresAt = v.PayValue, v.Currency, v.Sale.LimitPerUser, now.Add(s.cfg.PayTimeout)
	p.Window = Window{Begin: v.Sale.BeginAt, End: v.Sale.EndAt}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		return Order{}, ErrOverloaded
	}
	p.Deadline = deadline
	o, err := s.cfg.Lane.Place(context.WithoutCancel(ctx), p)
	switch {
	case err == nil:
		s.cfg.Sales.bought(p.VoucherID, p.UserID)
	case errors.Is(err, ErrSoldOut):
		s.cfg.Sales.MarkSoldOut(p.VoucherID)
	}
	return o, err
}

// placedBefore returns the order that an earlier run of the request placed, before anybody asks whether the sale still
// goes on. ErrNotFound: there is none so far; if one is under way, placing it again under its id is the same order.
func (s *Orders) placedBefore(ctx context.Context, p *Purchase) (Order, error) {
	c := p.Claim
	if c.ResourceID == 0 {
		return Order{}, ErrNotFound
	}
	o, err := c.store.ClaimedOrder(ctx, c)
	switch {
	case errors.Is(err, ErrIDTaken): // by another buyer: the counter was lost, and this request needs a fresh one
		c.ResourceID = 0
		return Order{}, ErrNotFound
	case !errors.Is(err, ErrNotFound) || s.cfg.Queue == nil:
		return o, err
	}
	t, err := s.cfg.Queue.Ticket(ctx, p.UserID, c.ResourceID)
	switch {
	case err != nil:
		return Order{}, err
	case t.Failed != "" || t.VoucherID != p.VoucherID || !t.At.Equal(c.ResourceAt):
		return Order{}, ErrNotFound // it failed, and nobody was told: it may be tried again
	}
	return t.order(s.cfg.PayTimeout), nil
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

// soldOut answers a buyer of whom only the snapshot was asked: one who holds as many orders as allowed hears of them,
// everybody else that nothing is left. Whether somebody holds one is known without asking the store, except of those
// who do; where it cannot be found out, the shortage is the truth that is known.
func (s *Orders) soldOut(ctx context.Context, userID int64, v *Voucher, deadline time.Time) error {
	var store HolderStore = s.cfg.Store
	if s.cfg.Queue != nil {
		store = s.cfg.Queue
	}
	may, sure := s.cfg.Sales.mayHold(ctx, store, v.ID, userID)
	if !may {
		return ErrSoldOut
	}
	if !sure {
		select {
		case s.looks <- struct{}{}:
			defer func() { <-s.looks }()
		default:
			return ErrSoldOut
		}
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	count, newest, err := store.ActiveOrders(ctx, userID, v.ID)
	switch {
	case err != nil && sure:
		return err
	case count >= v.Sale.LimitPerUser:
		return &DuplicateOrderError{OrderID: newest}
	}
	return ErrSoldOut
}
