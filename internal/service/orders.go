package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
)

// placeTimeout bounds one purchase. Buyers have an answer within 5 s even if a dependency hangs.
// The remaining 2 s are for the release of a lock whose server does not answer.
const placeTimeout = 3 * time.Second

// OrderStore stores orders. Each method is one transaction. Errors are those of package domain. It is safe for
// concurrent use.
type OrderStore interface {
	// RepeatedOrders returns, for each purchase, the order that an earlier request with the same key placed within
	// domain.KeyLife before it, as it was placed, with Replayed set. Otherwise Err is ErrNotFound or ErrIdempotencyMismatch.
	RepeatedOrders(ctx context.Context, purchases []domain.Purchase) ([]domain.Placed, error)
	// MoveOrder makes a move. In the same transaction it returns the unit if the order stops being active, and writes
	// the audit log. If an earlier run of the request made the move, it returns the order in its present state. Errors:
	// ErrNotFound, ErrInvalidState, ErrUnavailable.
	MoveOrder(ctx context.Context, m domain.OrderMove) (domain.Order, error)
	// Order returns an order of the user, or of any user if userID is 0. Errors: ErrNotFound, ErrUnavailable.
	Order(ctx context.Context, userID, id int64) (domain.Order, error)
	BuyerStore
	ShopStore
	// FindOrders returns a page of the orders that match q, newest first. A search by status alone, or by status and
	// time, is sorted by ExpiresAt, any other by id. Errors: *InvalidError (the page), ErrUnavailable.
	FindOrders(ctx context.Context, q SearchQuery) ([]domain.Order, error)
	// KeepOffer stores an offer, unless it is stored. Orders refer to it for ever. It goes on until the given time, whether
	// or not ctx ends. Error: ErrUnavailable.
	KeepOffer(ctx context.Context, o *domain.Offer, until time.Time) error
	// AddOffers sets the offers of orders that are not read from the store. Error: ErrUnavailable.
	AddOffers(ctx context.Context, orders []domain.Order) error
}

// Lane is an order mode: a way from a purchase to a committed order. It is safe for concurrent use.
type Lane interface {
	// Place returns an order only after its row is durable, or with status OrderQueued. It returns at about the deadline
	// of the purchase, and ctx does not end before it. Errors: ErrSoldOut, *DuplicateOrderError, ErrPassExpired (it has
	// bought), ErrOrderInProgress, ErrIdempotencyMismatch, ErrOverloaded, ErrUnavailable.
	Place(ctx context.Context, p domain.Purchase) domain.Placed
}

// PassChecker checks entry passes, after the first one of a sale without I/O. It is safe for concurrent use.
type PassChecker interface {
	// Check returns the round of a pass that was issued for the user and the sale and is valid now; 0 if the sale has no
	// waiting room. Errors: ErrPassExpired for a pass of theirs that was valid once, ErrEntryRequired for anything else.
	Check(pass string, userID int64, v *domain.Voucher, now time.Time) (uint32, error)
	// RoomTime returns the time by which a sale with a waiting room begins and ends. Error: ErrUnavailable.
	RoomTime(ctx context.Context, voucherID int64) (time.Time, error)
}

// UnpaidLimits are the limits of unpaid orders. It is safe for concurrent use.
type UnpaidLimits interface {
	// MayOrder returns nil if the purchase is allowed. Errors: ErrUnpaidLimit, ErrUnpaidElsewhere, ErrPassExpired,
	// *RateLimitedError, *DuplicateOrderError, ErrOverloaded, ErrUnavailable.
	MayOrder(p *domain.Purchase, v *domain.Voucher) error
}

// OrderObserver receives the context, the outcome and the duration of every purchase. It must be fast and safe for
// concurrent use.
type OrderObserver func(ctx context.Context, err error, took time.Duration)

// OrdersConfig configures Orders.
type OrdersConfig struct {
	Store  OrderStore
	Sales  *Sales
	Lane   Lane
	Passes PassChecker
	Unpaid UnpaidLimits
	Now    func() time.Time
	// How long an order may remain unpaid, unless its sale decides.
	PayTimeout time.Duration
	// The most concurrent purchases in this process; further ones fail with ErrOverloaded.
	MaxInFlight int
	// The reservations of lane queue; nil in the other lanes.
	Queue   ReservationStore
	Returns UnitReleaser
	Codes   domain.RedeemCodes
	Observe OrderObserver
	// ObserveKey receives the outcome of each purchase with a key: "new", "replayed", "mismatch", "in_progress" or
	// "unavailable". It must be fast and safe for concurrent use.
	ObserveKey func(outcome string)
}

// Orders places, reads, cancels and redeems orders. It is safe for concurrent use.
type Orders struct {
	cfg OrdersConfig
	// Running purchases.
	inFlight *semaphore.Weighted
	// Running purchases with a key.
	keyed   singleflight.Group
	repeats *batch.Batcher[domain.Purchase, domain.Placed]
	// Nil in lane queue, where Redis refuses repeated purchases as cheaply.
	recent *recentBuyers
	// Lookups of a user's earlier orders.
	lookups *semaphore.Weighted
}

// ReservationStore gives access to the reservations of lane queue: admissions that are not orders in the database, or
// not yet. It is safe for concurrent use.
type ReservationStore interface {
	HolderStore
	// Ticket returns an admission of the user. voucherID may be 0 if it is unknown. Errors: ErrNotFound, ErrUnavailable.
	Ticket(ctx context.Context, userID, orderID, voucherID int64) (domain.Ticket, error)
	// Tickets returns all admissions of the user, newest first. Error: ErrUnavailable.
	Tickets(ctx context.Context, userID int64) ([]domain.Ticket, error)
	// Release returns the units of orders whose cancellation or refund is committed. A repeated call returns no unit
	// twice. Error: ErrUnavailable.
	Release(ctx context.Context, voucherID int64, held ...domain.Holder) error
	// AddStock changes the number of units left by delta. An addition is called after its commit in the database, a
	// removal before it. Errors: ErrInvalidState (fewer than -delta units are left; nothing changed), ErrUnavailable.
	AddStock(ctx context.Context, voucherID, delta int64) error
	// Unload discards the gate of a voucher; the next purchase loads it. Error: ErrUnavailable.
	Unload(ctx context.Context, voucherID int64) error
}

// NewOrders returns the service.
func NewOrders(cfg OrdersConfig) *Orders {
	o := &Orders{
		cfg:      cfg,
		inFlight: semaphore.NewWeighted(int64(cfg.MaxInFlight)),
		lookups:  semaphore.NewWeighted(maxLookups),
	}

	if cfg.Queue == nil {
		o.recent = newRecentBuyers()
	}

	fail := func(err error) domain.Placed { return domain.Placed{Err: domain.BatchError(err)} }
	o.repeats = batch.New(batch.Config[domain.Purchase, domain.Placed]{Run: o.findRepeated, Fail: fail})
	return o
}

// Place is PlaceOnce without an Idempotency-Key and without a pass.
func (s *Orders) Place(ctx context.Context, userID, voucherID int64, wait time.Duration) (domain.Order, error) {
	o, _, err := s.PlaceOnce(ctx, userID, voucherID, wait, nil, "")
	return o, err
}

// PlaceOnce buys one unit for the user. A returned order is committed and survives the failure of any process. In lane
// queue it may instead have the status OrderQueued: it will be committed, or fail with a reason. wait is how long
// PlaceOnce waits for that, at most about 3 s. The end of ctx does not stop a purchase that has begun; its outcome is
// in the list of the user's orders.
//
// If key is not nil, all requests with the key within domain.KeyLife have one effect, even if they are concurrent and
// reach different processes. The second result reports that an earlier request placed the order, which is returned as it
// was placed. Refusals are not stored: each request is decided anew. While the snapshot shows no stock and the list of buyers
// is current, the key is searched only for users with a possible active order.
//
// If the sale needs passes, pass must be valid for the user. With an expired pass, only the order of an earlier request
// with the key is returned.
//
// Errors: ErrNotFound, ErrInvalidState (not a flash-sale voucher), ErrSaleNotStarted, ErrSaleEnded, ErrSoldOut,
// ErrEntryRequired, ErrPassExpired, ErrUnpaidLimit, *RateLimitedError, *DuplicateOrderError, ErrOrderInProgress,
// ErrIdempotencyMismatch, ErrOverloaded, ErrUnavailable.
func (s *Orders) PlaceOnce(
	ctx context.Context, userID, voucherID int64, wait time.Duration, key *domain.RequestKey, pass string,
) (domain.Order, bool, error) {
	start := time.Now()
	p := &domain.Purchase{
		Admission: domain.Admission{
			UserID:    userID,
			VoucherID: voucherID,
			Key:       key,
		},
		Wait:     wait,
		Pass:     pass,
		Deadline: start.Add(placeTimeout),
	}

	if end, ok := ctx.Deadline(); ok {
		p.Deadline = domain.Earlier(p.Deadline, end)
	}

	decide := s.decide
	if key != nil {
		decide = s.decideKeyed
	}

	placed := decide(ctx, p)
	s.cfg.Observe(ctx, placed.Err, time.Since(start))
	return placed.Order, placed.Replayed, placed.Err
}

// decideKeyed is decide for a purchase with a key. In-flight duplicates in this process share one run.
func (s *Orders) decideKeyed(ctx context.Context, p *domain.Purchase) domain.Placed {
	first := false
	request := strconv.FormatInt(p.UserID, 10) + string(p.Key.Request[:]) + p.Key.Name
	v, _, _ := s.keyed.Do(request, func() (any, error) {
		first = true
		return s.decide(context.WithoutCancel(ctx), p), nil
	})

	placed, _ := v.(domain.Placed)
	placed.Replayed = placed.Replayed || !first && placed.Err == nil
	if placed.Replayed {
		s.cfg.ObserveKey("replayed")
	} else {
		s.cfg.ObserveKey(keyOutcome(placed.Err, "new"))
	}

	return placed
}

// decide answers a purchase: from the snapshot and the orders of the user if they suffice, otherwise through the lane.
func (s *Orders) decide(ctx context.Context, p *domain.Purchase) domain.Placed {
	v, err := s.cfg.Sales.Get(ctx, p.VoucherID)
	if err != nil {
		return domain.Placed{Err: err}
	}

	now, err := s.saleTime(ctx, v)
	if err != nil {
		return domain.Placed{Err: err}
	}

	p.At = domain.Moment(now)
	if err := v.CheckOpen(p.At); err != nil {
		// A repeated request returns its order until the key expires, even after the end of the sale.
		mayRepeat := !errors.Is(err, domain.ErrSaleNotStarted)
		if mayRepeat && (v.Sale == nil || p.At.Before(lastPurchase(v).Add(domain.KeyLife))) {
			return s.replayOr(ctx, p, err)
		}
		return domain.Placed{Err: err}
	}

	if v.Sale.Stock <= 0 {
		answer := s.answerSoldOut(ctx, p, v)
		if !errors.Is(answer.Err, errUndecided) {
			return answer
		}
	}

	if v.Sale.Entry.Mode != domain.EntryOpen {
		p.Round, err = s.cfg.Passes.Check(p.Pass, p.UserID, v, p.At)
		// A request without a pass causes no search.
		if errors.Is(err, domain.ErrPassExpired) {
			return s.replayOr(ctx, p, err)
		}
		if err != nil {
			return domain.Placed{Err: err}
		}
	}

	if s.recent.has(p.UserID, p.VoucherID) {
		answer := s.answerRecent(ctx, p, v)
		if answer.Err != nil || answer.Replayed {
			return answer
		}
	}

	if err := s.cfg.Unpaid.MayOrder(p, v); err != nil {
		return s.replayOr(ctx, p, err)
	}

	return s.place(ctx, p, v)
}

func (s *Orders) saleTime(ctx context.Context, v *domain.Voucher) (time.Time, error) {
	if v.Sale != nil && v.Sale.Entry.Mode == domain.EntryRoom {
		return s.cfg.Passes.RoomTime(ctx, v.ID)
	}
	return s.cfg.Now(), nil
}

func (s *Orders) place(ctx context.Context, p *domain.Purchase, v *domain.Voucher) domain.Placed {
	p.Amount = v.PayValue
	p.Currency = v.Currency
	p.Limit = v.Sale.LimitPerUser
	p.PayTimeout = v.Sale.PayTimeout
	p.ExpiresAt = p.At.Add(cmp.Or(p.PayTimeout, s.cfg.PayTimeout))
	p.Window = domain.Window{Begin: v.Sale.BeginAt, End: v.Sale.EndAt}

	if !s.inFlight.TryAcquire(1) {
		return domain.Placed{Err: domain.ErrOverloaded}
	}
	defer s.inFlight.Release(1)

	if err := s.keepOffer(ctx, p, v.Offer); err != nil {
		return domain.Placed{Err: err}
	}

	placed := s.cfg.Lane.Place(context.WithoutCancel(ctx), *p)
	switch {
	case placed.Err == nil:
		s.recent.add(p.UserID, p.VoucherID)
	case errors.Is(placed.Err, domain.ErrSoldOut):
		s.cfg.Sales.MarkSoldOut(p.VoucherID)
	}

	return placed
}

// offerWait is how long a purchase in lane queue waits until its offer is stored.
const offerWait = 250 * time.Millisecond

// keepOffer stores the offer of a purchase, which only the first purchase of an offer waits for. Lane queue admits buyers
// while the database does not answer: a later purchase stores the offer, and until then the order shows the voucher as it
// is.
func (s *Orders) keepOffer(ctx context.Context, p *domain.Purchase, offer *domain.Offer) error {
	if offer == nil {
		return nil
	}

	p.Offer = offer
	p.OfferID = offer.ID

	until := p.Deadline
	if s.cfg.Queue != nil {
		until = domain.Earlier(until, time.Now().Add(offerWait))
	}

	err := s.cfg.Store.KeepOffer(ctx, offer, until)
	if s.cfg.Queue != nil {
		return nil
	}
	return err
}

// lastPurchase returns the time after which no order of an ended sale was placed: its end, or the change that moved the
// end to the past.
func lastPurchase(v *domain.Voucher) time.Time {
	if v.UpdatedAt.After(v.Sale.EndAt) {
		return v.UpdatedAt
	}
	return v.Sale.EndAt
}

// errUndecided means that the lane has to decide about a purchase.
var errUndecided = errors.New("the lane decides")

// answerSoldOut answers a purchase for which the snapshot shows no stock: with the order of an earlier request with the
// same key, *DuplicateOrderError if the user has as many orders as allowed, or ErrSoldOut. It reads the store only if
// the user may have an active order. The orders of a user outside the list are counted unless too many such counts are
// running; the key is always searched. If the store cannot be read, the answer is its error, because the reply to an
// earlier request may be lost for the same reason.
//
// In lane queue the gate decides in that case: it has the orders of all buyers, and only it knows whether Redis may have
// lost one. It may also have a unit that returned after the snapshot, whose former buyer the snapshot does not show.
// Sales that limit such buyers therefore get none of its units. For the others the error is errUndecided.
func (s *Orders) answerSoldOut(ctx context.Context, p *domain.Purchase, v *domain.Voucher) domain.Placed {
	var store HolderStore = s.cfg.Store
	if s.cfg.Queue != nil {
		store = s.cfg.Queue
	}

	known := s.cfg.Sales.standing(ctx, store, v.ID, p.UserID)
	switch {
	case known == noBuyer:
		return domain.Placed{Err: domain.ErrSoldOut}
	case s.cfg.Queue != nil && !limited(v.Sale):
		return domain.Placed{Err: errUndecided}
	case s.cfg.Queue != nil:
		p.SoldOut = true
		return s.place(ctx, p, v)
	}

	counts := known == isBuyer || s.recent.has(p.UserID, p.VoucherID)
	mayCount := known == mayBeBuyer || known == wasNoBuyer && s.cfg.Sales.staleLookups.Allow()
	if mayCount && s.lookups.TryAcquire(1) {
		defer s.lookups.Release(1)
		counts = true
	}

	answer := s.replayOr(ctx, p, domain.ErrSoldOut)
	if answer.Err == nil || errors.Is(answer.Err, domain.ErrIdempotencyMismatch) {
		return answer
	}

	if counts {
		answer.Err = cmp.Or(s.checkLimit(ctx, p, v), answer.Err)
	}

	return answer
}

func limited(sale *domain.Sale) bool {
	return sale.Entry.Mode != domain.EntryOpen || sale.MaxUnpaid() > 0
}

// answerRecent answers a purchase of a user with another purchase in the last seconds, by one or two indexed reads and
// without the lane, in which presses at the same time may find the user's lock taken. It returns no order and no error if the
// lane has to decide: the user may buy again, too many lookups are running, or one of them failed.
func (s *Orders) answerRecent(ctx context.Context, p *domain.Purchase, v *domain.Voucher) domain.Placed {
	if !s.lookups.TryAcquire(1) {
		return domain.Placed{}
	}
	defer s.lookups.Release(1)

	found := s.findByKey(ctx, p)
	switch {
	case found.Err == nil || errors.Is(found.Err, domain.ErrIdempotencyMismatch):
		return found
	case !errors.Is(found.Err, domain.ErrNotFound):
		return domain.Placed{}
	}

	if err := s.checkLimit(ctx, p, v); errors.As(err, new(*domain.DuplicateOrderError)) {
		return domain.Placed{Err: err}
	}

	return domain.Placed{}
}

// replayOr answers a purchase that is refused now: with the order of an earlier request with the same key, or else with
// the refusal. Errors besides the refusal: those of findByKey.
func (s *Orders) replayOr(ctx context.Context, p *domain.Purchase, refusal error) domain.Placed {
	found := s.findByKey(ctx, p)
	if errors.Is(found.Err, domain.ErrNotFound) {
		found.Err = refusal
	}
	return found
}

// findByKey returns the order that an earlier request with the same key placed, as that request was answered. It
// searches the tickets before the store, so that an order which is committed in between is not missed. Errors:
// ErrNotFound (even for a purchase without a key), ErrIdempotencyMismatch, ErrUnavailable.
func (s *Orders) findByKey(ctx context.Context, p *domain.Purchase) domain.Placed {
	if p.Key == nil {
		return domain.Placed{Err: domain.ErrNotFound}
	}

	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()

	if s.cfg.Queue != nil {
		tickets, err := s.cfg.Queue.Tickets(ctx, p.UserID)
		if err != nil {
			return domain.Placed{Err: err}
		}

		for i := range tickets {
			t := &tickets[i]
			switch {
			case t.Key == nil || t.Key.Hash != p.Key.Hash || t.Failed != "":
			case t.Key.Request != p.Key.Request:
				return domain.Placed{Err: domain.ErrIdempotencyMismatch}
			default:
				return domain.Placed{Order: t.Order(s.cfg.PayTimeout), Replayed: true}
			}
		}
	}

	found := s.repeats.DoContext(ctx, 0, *p)
	if found.Err == nil && s.cfg.Queue != nil && p.Wait == 0 {
		found.Order.Status = domain.OrderQueued
	}

	return found
}

func (s *Orders) findRepeated(ctx context.Context, purchases []domain.Purchase) []domain.Placed {
	found, err := s.cfg.Store.RepeatedOrders(ctx, purchases)
	if err != nil {
		return slices.Repeat([]domain.Placed{{Err: err}}, len(purchases))
	}
	return found
}

// checkLimit returns *DuplicateOrderError if the user has as many active orders as the sale allows, and the error of
// the store if it cannot be read.
func (s *Orders) checkLimit(ctx context.Context, p *domain.Purchase, v *domain.Voucher) error {
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()

	count, newest, err := s.cfg.Store.ActiveOrders(ctx, p.UserID, v.ID)
	if count >= v.Sale.LimitPerUser {
		return &domain.DuplicateOrderError{OrderID: newest}
	}
	return err
}
