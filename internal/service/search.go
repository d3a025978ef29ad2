package service

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
)

// OrderSearch selects orders of all users, for an admin. Zero fields select nothing away.
type OrderSearch struct {
	ID        int64
	VoucherID int64
	UserID    int64
	Phone     string // of the user, as a person types it
	Status    OrderStatus
	Page      Page
}

// FoundOrder is an order as an admin sees it.
type FoundOrder struct {
	Order
	Phone string // of its user; empty if he is gone
}

// OrderFinder finds orders of all users.
type OrderFinder interface {
	// FindOrders returns the newest orders of a search, whose Phone is not read. Those of one status and of any voucher
	// and user come by the time until which they had to be paid, all others by their id.
	FindOrders(ctx context.Context, f OrderSearch) ([]Order, error)
	// Phones returns the phones of users, by their ids.
	Phones(ctx context.Context, userIDs []int64) (map[int64]string, error)
	// UserIDByPhone finds a user. Error: ErrNotFound.
	UserIDByPhone(ctx context.Context, phone string) (int64, error)
}

// AdminMoves are the moves that an admin may make with an order in this status.
func AdminMoves(s OrderStatus) []string {
	names := []string{}
	for _, m := range Moves() {
		byAdmin := m == MoveCancel || m == MoveRefund || m == MoveRedeem
		if byAdmin && m.From == s {
			names = append(names, m.Name)
		}
	}
	return names
}

// seededPhone is the number of a load-test user, which nobody can log in with.
var seededPhone = regexp.MustCompile(`^100[0-9]{8}$`)

// Search shows orders of all users from the newest to the oldest. What waits in the queue, or failed there, is among
// them if the search names its user: Redis keeps it by user. Errors: *InvalidError (phone), ErrUnavailable.
func (s *Orders) Search(ctx context.Context, f OrderSearch) ([]FoundOrder, error) {
	if f.Phone != "" {
		var err error
		if f, err = s.ofPhone(ctx, f); errors.Is(err, ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	var waiting []Order
	if s.cfg.Queue != nil && f.UserID != 0 && (f.Status == 0 || !f.Status.Stored()) {
		// Before the store is asked, as in List.
		var err error
		if waiting, err = s.tickets(ctx, OrderFilter{UserID: f.UserID, Status: f.Status, Page: f.Page}); err != nil {
			return nil, err
		}
		waiting = slices.DeleteFunc(waiting, func(o Order) bool {
			return f.VoucherID != 0 && o.VoucherID != f.VoucherID || f.ID != 0 && o.ID != f.ID
		})
	}
	var orders []Order
	if f.Status == 0 || f.Status.Stored() {
		var err error
		if orders, err = s.cfg.Store.FindOrders(ctx, f); err != nil {
			return nil, err
		}
	}
	if len(waiting) > 0 {
		waiting, err := s.unstored(ctx, f.UserID, waiting)
		if err != nil {
			return nil, err
		}
		orders = append(orders, waiting...)
		slices.SortFunc(orders, func(a, b Order) int { return cmp.Compare(b.ID, a.ID) })
		orders = orders[:min(len(orders), f.Page.Limit)]
	}
	return s.withPhones(ctx, orders)
}

// ofPhone makes a search by phone one by user. ErrNotFound: there is none.
func (s *Orders) ofPhone(ctx context.Context, f OrderSearch) (OrderSearch, error) {
	phone := f.Phone
	if !seededPhone.MatchString(phone) {
		var err error
		if phone, err = ParsePhone(phone); err != nil {
			return f, err
		}
	}
	id, err := s.cfg.Store.UserIDByPhone(ctx, phone)
	if err != nil {
		return f, err
	}
	if f.UserID != 0 && f.UserID != id {
		return f, ErrNotFound
	}
	f.UserID = id
	return f, nil
}

func (s *Orders) withPhones(ctx context.Context, orders []Order) ([]FoundOrder, error) {
	if len(orders) == 0 {
		return nil, nil
	}
	users := make([]int64, len(orders))
	for i, o := range orders {
		users[i] = o.UserID
	}
	phones, err := s.cfg.Store.Phones(ctx, users)
	if err != nil {
		return nil, err
	}
	found := make([]FoundOrder, len(orders))
	for i, o := range orders {
		found[i] = FoundOrder{Order: o, Phone: phones[o.UserID]}
	}
	return found, nil
}

// Find shows one order of anybody. One that is not in the database is found only if userID says whose it is, which is
// else 0. Errors: ErrNotFound, ErrUnavailable.
func (s *Orders) Find(ctx context.Context, userID, id int64) (FoundOrder, error) {
	o, err := s.cfg.Store.Order(ctx, userID, id)
	if errors.Is(err, ErrNotFound) && userID != 0 {
		o, err = s.Get(ctx, userID, id)
	}
	if err != nil {
		return FoundOrder{}, err
	}
	o.RedeemCode = "" // it proves that somebody is the owner
	found, err := s.withPhones(ctx, []Order{o})
	if err != nil {
		return FoundOrder{}, err
	}
	return found[0], nil
}
