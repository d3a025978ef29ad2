package service

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"seckill/internal/domain"
)

// SearchFilter selects orders. Zero fields match all orders. The first and the last id follow from the times.
type SearchFilter struct {
	SearchQuery

	// The number of the user, as typed.
	Phone string
	// The last four digits of the user's phone number.
	PhoneEnd string
	// A part of the voucher's title.
	Title string
	// The provider's reference of one of the payments, as pasted.
	Payment string
}

// SearchQuery selects orders by their columns. Zero fields match all orders.
type SearchQuery struct {
	ID int64
	// At most maxSearchSales, newest first.
	Vouchers []int64
	// At most maxSearchUsers.
	Users  []int64
	Status domain.OrderStatus
	// From <= CreatedAt < To.
	From, To time.Time
	// The ids of orders that were placed between From and To are within FirstID and LastID.
	FirstID, LastID int64
	Page            domain.Page
}

// FoundOrder is an order with the phone number of its user.
type FoundOrder struct {
	domain.Order
	// Empty if the user does not exist any more.
	Phone string
}

// ShopStore has the shops to which redeemers are bound.
type ShopStore interface {
	// ShopsOf returns those of a user. Error: ErrUnavailable.
	ShopsOf(ctx context.Context, userID int64) (domain.ShopIDs, error)
}

// SearchStore reads the database. Error: ErrUnavailable, besides those given below.
type SearchStore interface {
	// CountOrders returns the number of the voucher's orders with a status, and the sum of their amounts.
	CountOrders(ctx context.Context, voucherID int64, status domain.OrderStatus) (n, amount int64, err error)
	// OrderOfPayment returns the id of the order of a payment. Error: ErrNotFound.
	OrderOfPayment(ctx context.Context, ref string) (int64, error)
	ShopStore
	// Phones returns the phone numbers of users, by user id.
	Phones(ctx context.Context, userIDs []int64) (map[int64]string, error)
	// UserByPhone returns the user with the phone number. Error: ErrNotFound.
	UserByPhone(ctx context.Context, phone string) (domain.User, error)
	// UsersByPhoneEnd returns at most most users whose phone number ends with the four digits.
	UsersByPhoneEnd(ctx context.Context, end string, most int) ([]int64, error)
	// VouchersByTitle returns the newest vouchers with text in their titles, at most most of them.
	VouchersByTitle(ctx context.Context, text string, most int) ([]int64, error)
}

// PhoneNumbers parses phone numbers.
type PhoneNumbers interface {
	// Canonical returns the form in which accounts store the number. Error: *InvalidError.
	Canonical(text string) (string, error)
}

// Search finds orders. It is safe for concurrent use.
type Search struct {
	Store  SearchStore
	Orders *Orders
	Phones PhoneNumbers
	Codes  domain.RedeemCodes
	// FirstID returns the smallest id of orders that are placed at t or later.
	FirstID func(t time.Time) int64
}

const (
	// maxSearchUsers and maxSearchSales bound the users and the vouchers that a search turns into orders.
	maxSearchUsers = 1000
	maxSearchSales = 50
	// idSlack is the largest difference between the time in an id and the time of its order. The first comes from the clock
	// of a server. In a sale with a waiting room the second comes from that of the database; elsewhere the clock of the
	// server may have been set in between.
	idSlack = 15 * time.Minute
)

// seededPhone matches the phone numbers of load-test users. They are not valid for a login.
var seededPhone = regexp.MustCompile(`^100[0-9]{8}$`)

var phoneEnd = regexp.MustCompile(`^[0-9]{4}$`)

// Find returns a page of the orders that match f, as Orders.Find does. Errors: *InvalidError, ErrUnavailable.
func (s *Search) Find(ctx context.Context, f SearchFilter) ([]FoundOrder, error) {
	q, err := s.resolve(ctx, f)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	orders, err := s.Orders.Find(ctx, q)
	if err != nil {
		return nil, err
	}

	return s.withPhones(ctx, orders)
}

func (q *SearchQuery) matches(o *domain.Order) bool {
	switch {
	case q.ID != 0 && o.ID != q.ID, q.Page.Before > 0 && o.ID >= q.Page.Before:
		return false
	case q.Vouchers != nil && !slices.Contains(q.Vouchers, o.VoucherID), q.Status != 0 && o.Status != q.Status:
		return false
	}

	return !o.CreatedAt.Before(q.From) && (q.To.IsZero() || o.CreatedAt.Before(q.To))
}

func (s *Search) resolve(ctx context.Context, f SearchFilter) (SearchQuery, error) {
	q := f.SearchQuery

	for _, step := range []func(context.Context, *SearchFilter, *SearchQuery) error{s.byPhone, s.byPhoneEnd, s.byTitle, s.byPayment} {
		if err := step(ctx, &f, &q); err != nil {
			return q, err
		}
	}

	if !f.From.IsZero() {
		q.FirstID = s.FirstID(f.From.Add(-idSlack))
	}
	if !f.To.IsZero() {
		q.LastID = s.FirstID(f.To.Add(idSlack))
	}

	return q, nil
}

func (s *Search) byPhone(ctx context.Context, f *SearchFilter, q *SearchQuery) error {
	if f.Phone == "" {
		return nil
	}

	phone := domain.Typed(f.Phone)
	if !seededPhone.MatchString(phone) {
		var err error
		if phone, err = s.Phones.Canonical(f.Phone); err != nil {
			return err
		}
	}

	u, err := s.Store.UserByPhone(ctx, phone)
	if err != nil {
		return err
	}

	return narrowIDs(&q.Users, []int64{u.ID})
}

func (s *Search) byPhoneEnd(ctx context.Context, f *SearchFilter, q *SearchQuery) error {
	if f.PhoneEnd == "" {
		return nil
	}

	end := domain.TypedCode(f.PhoneEnd)
	if !phoneEnd.MatchString(end) {
		return domain.Invalid("phone_end", "must be four digits")
	}

	users, err := s.Store.UsersByPhoneEnd(ctx, end, maxSearchUsers+1)
	if err != nil {
		return err
	}
	if len(users) > maxSearchUsers {
		return domain.Invalid("phone_end", "matches more than %d users; search by the whole number", maxSearchUsers)
	}

	return narrowIDs(&q.Users, users)
}

func (s *Search) byTitle(ctx context.Context, f *SearchFilter, q *SearchQuery) error {
	if f.Title == "" {
		return nil
	}

	vouchers, err := s.Store.VouchersByTitle(ctx, f.Title, maxSearchSales+1)
	if err != nil {
		return err
	}
	if len(vouchers) > maxSearchSales {
		return domain.Invalid("title", "matches more than %d vouchers; use more of the title", maxSearchSales)
	}

	return narrowIDs(&q.Vouchers, vouchers)
}

func (s *Search) byPayment(ctx context.Context, f *SearchFilter, q *SearchQuery) error {
	if f.Payment == "" {
		return nil
	}

	id, err := s.Store.OrderOfPayment(ctx, domain.Pasted(f.Payment))
	if err != nil {
		return err
	}
	if q.ID != 0 && q.ID != id {
		return domain.ErrNotFound
	}

	q.ID = id
	return nil
}

// narrowIDs removes from ids those that are not in found; nil stands for all ids. Error: ErrNotFound (none is left).
func narrowIDs(ids *[]int64, found []int64) error {
	if *ids != nil {
		found = slices.DeleteFunc(found, func(id int64) bool { return !slices.Contains(*ids, id) })
	}
	if len(found) == 0 {
		return domain.ErrNotFound
	}
	*ids = found
	return nil
}

func (s *Search) withPhones(ctx context.Context, orders []domain.Order) ([]FoundOrder, error) {
	if len(orders) == 0 {
		return nil, nil
	}

	users := make([]int64, len(orders))
	for i, o := range orders {
		users[i] = o.UserID
	}

	phones, err := s.Store.Phones(ctx, users)
	if err != nil {
		return nil, err
	}

	found := make([]FoundOrder, len(orders))
	for i, o := range orders {
		found[i] = FoundOrder{Order: o, Phone: phones[o.UserID]}
	}

	return found, nil
}

// One returns an order of any user, without its redeem code. An order that is not in the database is found only if
// userID is its user; otherwise userID may be 0. Errors: ErrNotFound, ErrUnavailable.
func (s *Search) One(ctx context.Context, userID, id int64) (FoundOrder, error) {
	o, err := s.Orders.Get(ctx, userID, id)
	if err != nil {
		return FoundOrder{}, err
	}

	// Only the owner may have it.
	o.RedeemCode = ""
	found, err := s.withPhones(ctx, []domain.Order{o})
	if err != nil {
		return FoundOrder{}, err
	}

	return found[0], nil
}

// ByCode returns the order of a redeem code, whatever its status, to a user who could redeem it. Errors: ErrUnknownCode,
// ErrNotFound, *OtherShopError, ErrUnavailable.
func (s *Search) ByCode(ctx context.Context, userID int64, code string) (FoundOrder, error) {
	id, err := s.Codes.Parse(code)
	if err != nil {
		return FoundOrder{}, err
	}

	shops, err := s.Store.ShopsOf(ctx, userID)
	if err != nil {
		return FoundOrder{}, err
	}

	o, err := s.One(ctx, 0, id)
	if err == nil {
		err = shops.Check(&o.Order)
	}

	return o, err
}
