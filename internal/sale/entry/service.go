package entry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/domain"
)

// Sales returns vouchers as they were less than a second ago. Errors: domain.ErrNotFound, domain.ErrUnavailable.
type Sales interface {
	Get(ctx context.Context, id int64) (*domain.Voucher, error)
}

// Limits are the limits of unpaid orders.
type Limits interface {
	// MayEnter returns why a user gets no pass for the sale at now, or nil and the user's record in a sale with a waiting
	// room. Errors: domain.ErrUnpaidLimit, domain.ErrUnpaidElsewhere, *domain.DuplicateOrderError (the user holds as many
	// orders as a sale with a waiting room allows), *domain.RateLimitedError, domain.ErrOverloaded, domain.ErrUnavailable.
	MayEnter(ctx context.Context, userID int64, v *domain.Voucher, now time.Time) (domain.SaleRecord, error)
}

// Reservations are the orders of lane queue that the database may not know yet. They are safe for concurrent use.
type Reservations interface {
	// Tickets returns the orders of a user that are queued or have failed, newest first. Error: domain.ErrUnavailable.
	Tickets(ctx context.Context, userID int64) ([]domain.Ticket, error)
}

// Service admits buyers. It is safe for concurrent use.
type Service struct {
	Sales     Sales
	Passes    *Passes
	Tickets   *Tickets
	Rooms     *Rooms
	Limits    Limits
	Queued    Reservations // nil unless the lane is queue
	Human     HumanProof
	Solutions UsedSolutions
	Now       func() time.Time
}

// State is the state of a buyer at the entry of a sale.
type State string

// The states of a buyer.
const (
	Lobby    State = "lobby"    // waits for the start
	Waiting  State = "waiting"  // waits for the turn
	Admitted State = "admitted" // may buy
)

// Admission is the answer to a buyer at the entry.
type Admission struct {
	State State `json:"state"`
	// Pass is that of admitted buyers; empty if the sale needs none.
	Pass      string    `json:"pass,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of the pass

	// The rest is of a waiting room. Ticket is the proof of the place.
	Ticket  string `json:"ticket,omitempty"`
	Paused  bool   `json:"paused,omitempty"`
	Message string `json:"message,omitempty"`

	// Position counts from 1, and Ahead is the number of buyers before it. Both are absent in other states than waiting.
	Position int  `json:"position,omitempty"`
	Ahead    *int `json:"ahead,omitempty"`
	// ETA is the time until the turn, in seconds; 0 if unknown.
	ETA int64 `json:"eta_seconds,omitempty"`
	// Poll is the time until the next poll, in milliseconds.
	Poll  int64       `json:"poll_after_ms,omitempty"`
	Lobby *LobbyPlace `json:"lobby,omitempty"`
}

// LobbyPlace is the place of a buyer in the order of arrival, and the lobby, whose order follows from size and seed.
type LobbyPlace struct {
	Number uint32 `json:"number"`
	// 0 before the start.
	Size uint32 `json:"size,omitempty"`
	Seed string `json:"seed,omitempty"` // in hexadecimal
}

// Enter admits a user to a sale that is on, or gives the user a place in its waiting room. A repeated call returns the
// same place, or another pass. solution may be empty if the sale demands none; only an entry uses it up, so buyers can
// solve a challenge before the start. Errors: domain.ErrNotFound, domain.ErrInvalidState (not a flash-sale voucher),
// *domain.ChallengeRequiredError, domain.ErrSaleNotStarted (for a room: it has not opened), domain.ErrSaleEnded,
// domain.ErrSoldOut, domain.ErrOverloaded, domain.ErrUnavailable, and those of Limits.
func (s *Service) Enter(ctx context.Context, userID, voucherID int64, solution string) (Admission, error) {
	v, err := s.Sales.Get(ctx, voucherID)
	if err != nil {
		return Admission{}, err
	}
	if v.Sale != nil && v.Sale.Entry.Mode == domain.EntryRoom {
		return s.join(ctx, userID, v, solution)
	}

	now := domain.Moment(s.Now())
	closed := checkSale(v, now)
	if closed != nil && !errors.Is(closed, domain.ErrSaleNotStarted) {
		return Admission{}, closed
	}

	proof, err := s.prove(ctx, userID, v, solution)
	if err != nil {
		return Admission{}, err
	}

	if closed != nil {
		return Admission{}, closed
	}
	if v.Sale.Entry.Mode == domain.EntryOpen {
		return Admission{State: Admitted}, nil
	}
	if _, err := s.Limits.MayEnter(ctx, userID, v, now); err != nil {
		return Admission{}, err
	}
	if err := s.useUp(ctx, userID, v.ID, proof); err != nil {
		return Admission{}, err
	}

	expires := now.Add(v.Sale.Entry.PassTTL)
	return Admission{
		State:     Admitted,
		Pass:      s.Passes.Issue(userID, voucherID, v.Sale.Entry.Epoch, 0, expires),
		ExpiresAt: expires,
	}, nil
}

func (s *Service) join(ctx context.Context, userID int64, v *domain.Voucher, solution string) (Admission, error) {
	l, err := s.Rooms.open(ctx, v.ID)
	if err != nil {
		return Admission{}, err
	}

	if err := s.checkRoom(v); err != nil {
		return Admission{}, err
	}

	proof, err := s.prove(ctx, userID, v, solution)
	if err != nil {
		return Admission{}, err
	}

	// The queue comes first, so that an order which is committed in between is found.
	queued := s.queued(ctx, userID, v.ID)
	record, err := s.Limits.MayEnter(ctx, userID, v, domain.Moment(s.Rooms.clock.now()))
	if err != nil {
		return Admission{}, err
	}
	if len(queued) > 0 && record.Active+len(queued) >= v.Sale.LimitPerUser {
		return Admission{}, &domain.DuplicateOrderError{OrderID: queued[0].OrderID}
	}

	a, err := s.place(ctx, userID, v, l, record)
	if err != nil {
		return Admission{}, err
	}

	// Last, so that an entry that fails uses up nothing. A place is of no use without the answer.
	if err := s.useUp(ctx, userID, v.ID, proof); err != nil {
		return Admission{}, err
	}

	return a, nil
}

// place gives a user the place in the line, or another one if the turn of it is over.
func (s *Service) place(ctx context.Context, userID int64, v *domain.Voucher, l *line, record domain.SaleRecord) (Admission, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()

	request := domain.PlaceRequest{VoucherID: v.ID, UserID: userID, Lost: -1}
	for {
		place := s.Rooms.joins.DoContext(ctx, v.ID, request)
		if place.Err != nil {
			return Admission{}, place.Err
		}

		a, round, err := l.poll(place.Value, v.Sale, s.Rooms.clock.now())
		missed := errors.Is(err, domain.ErrPlaceLost) || record.HasUsed(round)
		if missed && request.Lost < 0 {
			// The turn of the user is over; the next place is at the end of the line.
			request.Lost = int64(place.Value)
			continue
		}

		if err != nil {
			return Admission{}, err
		}
		return s.withProofs(a, userID, v, round), nil
	}
}

// queuedTimeout bounds a look at the queue, so that a Redis that hangs delays no buyer of a waiting room.
const queuedTimeout = 300 * time.Millisecond

// queued returns the user's orders of the sale that are queued, newest first. Without Redis it returns none: nobody can
// buy then, and buyers still get their places.
func (s *Service) queued(ctx context.Context, userID, voucherID int64) []domain.Ticket {
	if s.Queued == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, queuedTimeout)
	defer cancel()

	tickets, err := s.Queued.Tickets(ctx, userID)
	if err != nil {
		return nil
	}

	return slices.DeleteFunc(tickets, func(t domain.Ticket) bool { return t.VoucherID != voucherID || t.Failed != "" })
}

// joinTimeout bounds the time that a user waits for a place.
const joinTimeout = 3 * time.Second

// checkSale returns the error of Voucher.CheckOpen, or ErrSoldOut if no unit is left.
func checkSale(v *domain.Voucher, now time.Time) error {
	err := v.CheckOpen(now)
	if err == nil && v.Sale.Stock <= 0 {
		err = domain.ErrSoldOut
	}
	return err
}

// checkRoom is checkSale for a waiting room, which opens before the sale.
func (s *Service) checkRoom(v *domain.Voucher) error {
	now := s.Rooms.clock.now()
	err := checkSale(v, now)
	if errors.Is(err, domain.ErrSaleNotStarted) && !now.Before(v.Sale.Entry.Opens(v.Sale.BeginAt)) {
		return nil
	}
	return err
}

// Ask returns the present state of the place of a ticket, from memory, and marks its user as present. Errors:
// domain.ErrNotFound, domain.ErrInvalidState (the sale has no room), domain.ErrEntryRequired (not a ticket of the user),
// domain.ErrPlaceLost, domain.ErrSaleNotStarted, domain.ErrSaleEnded, domain.ErrSoldOut, domain.ErrUnavailable.
func (s *Service) Ask(ctx context.Context, userID, voucherID int64, ticket string) (Admission, error) {
	v, err := s.Sales.Get(ctx, voucherID)
	switch {
	case err != nil:
		return Admission{}, err
	case v.Unpublished():
		return Admission{}, domain.ErrNotFound
	case v.Sale == nil || v.Sale.Entry.Mode != domain.EntryRoom:
		return Admission{}, domain.ErrInvalidState
	}

	number, err := s.Tickets.Number(ticket, userID, voucherID)
	if err != nil {
		return Admission{}, err
	}

	l, err := s.Rooms.open(ctx, voucherID)
	if err != nil {
		return Admission{}, err
	}

	// The buyer counts as present in a sale that is sold out, too: units may come back.
	a, round, lost := l.poll(number, v.Sale, s.Rooms.clock.now())
	if err := cmp.Or(s.checkRoom(v), lost); err != nil {
		return Admission{}, err
	}

	return s.withProofs(a, userID, v, round), nil
}

// withProofs adds the ticket of the place, and the pass of an admitted user.
func (s *Service) withProofs(a Admission, userID int64, v *domain.Voucher, round uint32) Admission {
	a.Ticket = s.Tickets.Issue(userID, v.ID, a.Lobby.Number)
	if a.State == Admitted {
		a.Pass = s.Passes.Issue(userID, v.ID, v.Sale.Entry.Epoch, round, a.ExpiresAt)
	}
	return a
}

// Leave gives up the place of a ticket. It does nothing if the user has no such place. Errors: domain.ErrEntryRequired
// (not a ticket of the user), domain.ErrOverloaded, domain.ErrUnavailable.
func (s *Service) Leave(ctx context.Context, userID, voucherID int64, ticket string) error {
	number, err := s.Tickets.Number(ticket, userID, voucherID)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()

	l, err := s.Rooms.open(ctx, voucherID)
	if err != nil {
		return err
	}

	turned, round := l.turnOf(number)
	place := domain.RoomPlace{
		VoucherID: voucherID,
		UserID:    userID,
		Number:    number,
		Over:      turned,
		Pass:      round > 0,
	}
	if place.Pass {
		place.Bought = slices.ContainsFunc(s.queued(ctx, userID, voucherID), func(t domain.Ticket) bool { return t.Round == round })
	}

	if err := s.Rooms.leaves.DoContext(ctx, voucherID, place); err != nil {
		return err
	}

	l.leave(number)
	return nil
}

// Check implements service.PassChecker.
func (s *Service) Check(pass string, userID int64, v *domain.Voucher, now time.Time) (uint32, error) {
	return s.Passes.Check(pass, userID, v.ID, v.Sale.Entry.Epoch, now)
}

// RoomTime implements service.PassChecker: the time of the database, which admits buyers and limits their passes.
func (s *Service) RoomTime(ctx context.Context, voucherID int64) (time.Time, error) {
	if _, err := s.Rooms.open(ctx, voucherID); err != nil {
		return time.Time{}, err
	}
	return s.Rooms.clock.now(), nil
}
