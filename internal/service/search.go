package service

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"

	"seckill/internal/domain"
)

// OrderSearch selects orders of all users, for an admin. Zero fields match all orders.
type OrderSearch struct {
	ID        int64
	VoucherID int64
	UserID    int64
	Phone     string // of the user, as typed
	Status    domain.OrderStatus
	Page      domain.Page
}

// FoundOrder is an order with the phone number of its user, for an admin.
type FoundOrder struct {
	domain.Order
	Phone string // empty if the user does not exist any more
}

// OrderFinder searches orders of all users. Errors: ErrUnavailable, besides those given below.
type OrderFinder interface {
	// FindOrders returns a page of the orders that match f, newest first. f.Phone is ignored. A search by status alone
	// is sorted by ExpiresAt, any other by id.
	FindOrders(ctx context.Context, f OrderSearch) ([]domain.Order, error)
	// Phones returns the phone numbers of users, by user id.
	Phones(ctx context.Context, userIDs []int64) (map[int64]string, error)
	// UserIDByPhone returns the user with the phone number. Error: ErrNotFound.
	UserIDByPhone(ctx context.Context, phone string) (int64, error)
}

// PhoneNumbers parses phone numbers.
type PhoneNumbers interface {
	// Canonical returns the form in which accounts store the number. Error: *InvalidError.
	Canonical(text string) (string, error)
}

// seededPhone matches the phone numbers of load-test users. They are not valid for a login.
var seededPhone = regexp.MustCompile(`^100[0-9]{8}$`)

// Search returns a page of the orders that match f, newest first. Queued and failed admissions are included only if f
// selects a user, because Redis stores them by user. Errors: *InvalidError (the phone number), ErrUnavailable.
func (s *Orders) Search(ctx context.Context, f OrderSearch) ([]FoundOrder, error) {
	if f.Phone != "" {
		var err error
		if f, err = s.resolvePhone(ctx, f); errors.Is(err, domain.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	var waiting []domain.Order
	if s.cfg.Queue != nil && f.UserID != 0 && (f.Status == 0 || !f.Status.Stored()) {
		// Before the store is read, as in List.
		var err error
		if waiting, err = s.unstoredOrders(ctx, domain.OrderFilter{UserID: f.UserID, Status: f.Status, Page: f.Page}); err != nil {
			return nil, err
		}
		waiting = slices.DeleteFunc(waiting, func(o domain.Order) bool {
			return f.VoucherID != 0 && o.VoucherID != f.VoucherID || f.ID != 0 && o.ID != f.ID
		})
	}
	var orders []domain.Order
	if f.Status == 0 || f.Status.Stored() {
		var err error
		if orders, err = s.cfg.Store.FindOrders(ctx, f); err != nil {
			return nil, err
		}
	}
	if len(waiting) > 0 {
		waiting, err := s.dropStored(ctx, f.UserID, waiting)
		if err != nil {
			return nil, err
		}
		orders = append(orders, waiting...)
		slices.SortFunc(orders, func(a, b domain.Order) int { return cmp.Compare(b.ID, a.ID) })
		orders = orders[:min(len(orders), f.Page.Limit)]
	}
	return s.withPhones(ctx, orders)
}

// resolvePhone turns a search by phone number into one by user. Errors: ErrNotFound (no user matches), *InvalidError,
// ErrUnavailable.
func (s *Orders) resolvePhone(ctx context.Context, f OrderSearch) (OrderSearch, error) {
	phone := f.Phone
	if !seededPhone.MatchString(phone) {
		var err error
		if phone, err = s.cfg.Phones.Canonical(phone); err != nil {
			return f, err
		}
	}
	id, err := s.cfg.Store.UserIDByPhone(ctx, phone)
	if err != nil {
		return f, err
	}
	if f.UserID != 0 && f.UserID != id {
		return f, domain.ErrNotFound
	}
	f.UserID = id
	return f, nil
}

// withPhones adds the phone numbers of the users.
func (s *Orders) withPhones(ctx context.Context, orders []domain.Order) ([]FoundOrder, error) {
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

// Find returns an order of any user, without its redeem code. An order that is not in the database is found only if
// userID is its user; otherwise userID may be 0. Errors: ErrNotFound, ErrUnavailable.
func (s *Orders) Find(ctx context.Context, userID, id int64) (FoundOrder, error) {
	o, err := s.cfg.Store.Order(ctx, userID, id)
	if errors.Is(err, domain.ErrNotFound) && userID != 0 {
		o, err = s.Get(ctx, userID, id)
	}
	if err != nil {
		return FoundOrder{}, err
	}
	o.RedeemCode = "" // only the owner may have it
	found, err := s.withPhones(ctx, []domain.Order{o})
	if err != nil {
		return FoundOrder{}, err
	}
	return found[0], nil
}
