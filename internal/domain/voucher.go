package domain

import (
	"cmp"
	"fmt"
	"time"
)

// VoucherType distinguishes normal vouchers from those of a flash sale.
type VoucherType int8

// The voucher types, with their numbers in the database.
const (
	VoucherNormal  VoucherType = 0
	VoucherSeckill VoucherType = 1
)

// MarshalText implements encoding.TextMarshaler.
func (t VoucherType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t VoucherType) String() string {
	if t == VoucherSeckill {
		return "seckill"
	}
	return "normal"
}

// VoucherStatus is the status that the merchant sets. Only a voucher with VoucherOn is offered.
type VoucherStatus int8

// The voucher statuses, with their numbers in the database.
const (
	VoucherOn      VoucherStatus = 1
	VoucherOff     VoucherStatus = 2
	VoucherExpired VoucherStatus = 3
	VoucherDraft   VoucherStatus = 4 // never published
)

var voucherStatusWords = words[VoucherStatus]{
	VoucherOn:      "on",
	VoucherOff:     "off",
	VoucherExpired: "expired",
	VoucherDraft:   "draft",
}

func (s VoucherStatus) String() string { return voucherStatusWords.of(s) }

// MarshalText implements encoding.TextMarshaler.
func (s VoucherStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseVoucherStatus is the inverse of String. It returns false for an unknown word.
func ParseVoucherStatus(word string) (VoucherStatus, bool) { return voucherStatusWords.parse(word) }

// SaleState is the state of a voucher at a point in time.
type SaleState string

// The states of a sale. A normal voucher is on_sale while it is on, and ended otherwise. A draft is upcoming until the end
// of its window, and a sale that was taken off has ended.
const (
	StateUpcoming SaleState = "upcoming"
	StateOnSale   SaleState = "on_sale"
	StateSoldOut  SaleState = "sold_out"
	StateEnded    SaleState = "ended"
)

// Voucher is an item that a shop sells. Amounts are in the smallest unit of the currency (cents). Times are in UTC with
// millisecond precision.
type Voucher struct {
	ID       int64  `json:"id,string"`
	ShopID   int64  `json:"shop_id,string"`
	Title    string `json:"title"`
	SubTitle string `json:"sub_title"`
	Rules    string `json:"rules"`
	PayValue int64  `json:"pay_value"` // price
	// Value in the shop.
	ActualValue int64 `json:"actual_value"`
	// The currency of both amounts, ISO 4217; immutable.
	Currency string        `json:"currency"`
	Type     VoucherType   `json:"type"`
	Status   VoucherStatus `json:"status"`
	// The id of its picture; empty: none.
	ImageID string `json:"image_id,omitempty"`
	Validity
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at" gorm:"autoUpdateTime:false"`
	// Nil for a normal voucher.
	Sale *Sale `json:"-" gorm:"-"`
	// Only service.SaleLoader sets it.
	Offer *Offer `json:"-" gorm:"-"`
}

// Sale is the flash-sale part of a voucher. The window is [BeginAt, EndAt).
type Sale struct {
	InitialStock int64 `json:"initial_stock"`
	// Units added since the sale was created, less those removed.
	Added   int64     `json:"added_stock,omitempty" gorm:"->"`
	Stock   int64     `json:"stock"` // units left
	BeginAt time.Time `json:"begin_at"`
	EndAt   time.Time `json:"end_at"`
	// The most active orders of a user.
	LimitPerUser int   `json:"limit_per_user"`
	Entry        Entry `json:"-" gorm:"embedded"`
	// How long an order may remain unpaid; 0 selects the server's default.
	PayTimeout time.Duration `json:"-" gorm:"serializer:optional"`
	// See MaxUnpaid; nil selects its default.
	UnpaidLimit *int `json:"unpaid_limit,omitempty"`
	// The parts of the gate in lane queue, over which the stock is spread; at least 1.
	Segments int `json:"-"`
	// EndedUnpaid means that an order of the sale was cancelled or has expired. Only service.SaleLoader sets it, and only
	// if the sale limits unpaid orders.
	EndedUnpaid bool `json:"-" gorm:"-"`
	// ChangedAt differs after every sale and every return of units. Package service compares it: units that were
	// returned and sold again between two reads show in nothing else.
	ChangedAt time.Time `json:"-" gorm:"column:updated_at"`
}

// Unpublished reports whether only admins may know that the voucher exists.
func (v *Voucher) Unpublished() bool { return v.Status == VoucherOff || v.Status == VoucherDraft }

// State returns the state of the voucher at now.
func (v *Voucher) State(now time.Time) SaleState {
	switch {
	case v.Status == VoucherDraft && v.Sale != nil && now.Before(v.Sale.EndAt):
		// Within its window as well: it is sold from its publication on.
		return StateUpcoming
	case v.Status != VoucherOn:
		return StateEnded
	case v.Sale == nil:
		return StateOnSale
	case now.Before(v.Sale.BeginAt):
		return StateUpcoming
	case !now.Before(v.Sale.EndAt):
		return StateEnded
	case v.Sale.Stock <= 0:
		return StateSoldOut
	}

	return StateOnSale
}

// CheckOpen returns the reason why the voucher is not on sale at now: ErrNotFound (unpublished), ErrSaleNotStarted,
// ErrSaleEnded or ErrInvalidState (not a flash-sale voucher). It does not check the stock.
func (v *Voucher) CheckOpen(now time.Time) error {
	if v.Unpublished() {
		return ErrNotFound
	}

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

// Checklist is what an operator should know before publishing a draft. Problems prevent it, warnings do not. Each names
// a field of the voucher.
type Checklist struct {
	Problems []FieldError `json:"problems"`
	Warnings []FieldError `json:"warnings"`
}

// Checklist returns the checklist of the voucher at now. payTimeout applies to a sale without one of its own.
func (v *Voucher) Checklist(shopExists bool, payTimeout time.Duration, now time.Time) Checklist {
	// Empty lists, not null.
	problems := InvalidError{Fields: []FieldError{}}
	warnings := InvalidError{Fields: []FieldError{}}
	problems.AddIf(!shopExists, "shop_id", "is not the id of a shop")

	switch {
	case v.ActualValue == 0:
		problems.Add("actual_value", "must be more than 0")
	case v.PayValue > v.ActualValue:
		problems.Add("pay_value", "must not be higher than actual_value")
	case v.PayValue == v.ActualValue:
		warnings.Add("pay_value", "is not lower than actual_value: there is no discount")
	}

	// "no currency" and "for tests" of ISO 4217.
	problems.AddIf(v.Currency == "XXX" || v.Currency == "XTS", "currency", "is not a currency in which buyers can pay")
	warnings.AddIf(v.ImageID == "", "image_id", "is missing: the sale has no picture")
	problems.AddIf(v.ValidUntil != nil && !v.ValidUntil.After(now), "valid_until", "is over")

	if v.Sale == nil {
		return Checklist{problems.Fields, warnings.Fields}
	}

	switch {
	case !v.Sale.EndAt.After(now):
		problems.Add("end_at", "is over")
	case !v.Sale.BeginAt.After(now):
		warnings.Add("begin_at", "is over: the sale begins at once")
	}

	// That a sale is off is not the fault of its fields.
	draft := *v
	draft.Status = VoucherDraft
	failure, warning := draft.CheckSale(payTimeout)
	switch {
	case v.Sale.Stock < 1:
		problems.Add("stock", "must be more than 0")
	case failure != "":
		problems.Add("sale", "%s", failure)
	case warning != "":
		warnings.Add("sale", "%s", warning)
	}

	return Checklist{problems.Fields, warnings.Fields}
}

// CheckSale returns what is wrong with the sale of a published voucher, or that of a draft: a failure if no buyer could
// get a unit, a warning if units may remain unsold. payTimeout applies to a sale without one of its own.
func (v *Voucher) CheckSale(payTimeout time.Duration) (failure, warning string) {
	payTimeout = cmp.Or(v.Sale.PayTimeout, payTimeout)
	lasts := v.Sale.EndAt.Sub(v.Sale.BeginAt)
	switch {
	case lasts <= 0:
		failure = "ends before it begins"
	case v.Sale.LimitPerUser < 1:
		failure = "allows no orders per user (limit_per_user)"
	case v.Status == VoucherOff || v.Status == VoucherExpired:
		warning = "is not published"
	case v.Sale.Stock < 1:
		warning = "has no units"
	case lasts <= payTimeout:
		warning = fmt.Sprintf("lasts %s, so units that are not paid within %s return after its end", lasts, payTimeout)
	case v.Sale.PayTimeout != 0 && payTimeout < minPayTimeout:
		warning = fmt.Sprintf("has a pay_timeout of %s: payments arrive too late and are refunded", payTimeout)
	}

	return failure, warning
}

// minPayTimeout is the shortest payment deadline in which buyers can pay.
const minPayTimeout = time.Minute

// Copy returns a copy of the voucher with its own sale.
func (v *Voucher) Copy() Voucher {
	c := *v
	if v.Sale != nil {
		sale := *v.Sale
		c.Sale = &sale
	}
	return c
}

// SoldOut returns a copy of the voucher without stock.
func (v *Voucher) SoldOut() *Voucher {
	sold := v.Copy()
	sold.Sale.Stock = 0
	return &sold
}

// Until returns the next time after now at which the clock alone changes the state, or the year 9999 if there is none.
func (v *Voucher) Until(now time.Time) time.Time {
	switch {
	case v.Sale == nil:
	case now.Before(v.Sale.BeginAt):
		return v.Sale.BeginAt
	case now.Before(v.Sale.EndAt):
		return v.Sale.EndAt
	}
	return MaxTime
}

// Limits of the fields of a voucher. They keep sums of amounts and of stock far below the largest int64.
const (
	maxTitle   = 255
	maxRules   = 1024
	maxMoney   = 1_000_000_000_00 // cents: 1,000,000,000 units of the currency
	MaxStock   = 1_000_000_000    // units per sale
	maxPerUser = 100              // slot is a TINYINT

	MaxPayTimeout  = 86_400 // seconds
	maxUnpaidLimit = 100
	maxSegments    = 16

	// maxYearsAhead bounds the start. The longest time.Duration has 292 years.
	maxYearsAhead = 100
)

// The times that both databases can store and RFC 3339 can express. The SQLite driver reads numbers up to 10^12 as
// seconds instead of milliseconds, so it returns wrong times before September 2001.
var (
	minTime = time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC)
	MaxTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// VoucherFields are the fields that an admin can set in a new voucher and change later. A nil field is absent.
type VoucherFields struct {
	ShopID      *ID     `json:"shop_id"`
	Title       *string `json:"title"`
	SubTitle    *string `json:"sub_title"`
	Rules       *string `json:"rules"`
	PayValue    *int64  `json:"pay_value"`
	ActualValue *int64  `json:"actual_value"`
	// Checked by the store; "" removes the picture.
	ImageID      *string        `json:"image_id"`
	ValidFrom    Nullable[Time] `json:"valid_from"`
	ValidUntil   Nullable[Time] `json:"valid_until"`
	BeginAt      *Time          `json:"begin_at"`
	EndAt        *Time          `json:"end_at"`
	LimitPerUser *int           `json:"limit_per_user"`
	Entry        *EntryInput    `json:"entry"`
	PayTimeout   Nullable[int]  `json:"pay_timeout"` // in seconds
	UnpaidLimit  Nullable[int]  `json:"unpaid_limit"`
	Segments     *int           `json:"segments"`
}

// VoucherInput is the input for a new voucher. With Stock, BeginAt and EndAt it is a seckill voucher; without all three
// it is a normal one. BeginAt may be in the past. A draft needs a title only: with any field of a sale it is a seckill
// voucher.
type VoucherInput struct {
	VoucherFields
	Stock *int64 `json:"stock"`
	// ISO 4217; nil selects DefaultCurrency.
	Currency *string `json:"currency"`
	// Visible to admins only, until it is published.
	Draft bool `json:"-"`
	// Published even if its checklist has problems.
	Force bool `json:"force"`
}

// DefaultCurrency is the currency of a voucher if the input names none.
const DefaultCurrency = "CNY"

// Voucher validates the input and returns the voucher. The error is an *InvalidError that lists every invalid field.
func (in VoucherInput) Voucher(now time.Time) (Voucher, error) {
	v := Voucher{
		Type:      VoucherNormal,
		Status:    VoucherOn,
		Currency:  DefaultCurrency,
		CreatedAt: now,
		UpdatedAt: now,
	}

	if in.Draft {
		v.Status = VoucherDraft
	}

	var bad InvalidError
	bad.AddIf(in.ShopID == nil && !in.Draft, "shop_id", "is required")
	bad.AddIf(in.Title == nil, "title", "is required")
	bad.AddIf(in.PayValue == nil && !in.Draft, "pay_value", "is required")
	bad.AddIf(in.ActualValue == nil && !in.Draft, "actual_value", "is required")

	if in.Stock != nil || len(in.saleFields()) > 0 {
		in.startSale(&v, now, &bad)
	}

	if in.Currency != nil {
		v.Currency = *in.Currency
		bad.AddIf(!IsCurrency(v.Currency), "currency", "must be an ISO 4217 currency code, such as CNY")
	}

	in.apply(&v, now, &bad)
	return v, bad.Err()
}

// startSale makes v a sale without units. Its window is over, so that a draft cannot be published without another one.
func (v *Voucher) startSale(now time.Time) {
	v.Type = VoucherSeckill
	v.Sale = &Sale{
		BeginAt:      now,
		EndAt:        now,
		LimitPerUser: 1,
		Entry:        DefaultEntry,
		Segments:     1,
	}
}

func (in VoucherInput) startSale(v *Voucher, now time.Time, bad *InvalidError) {
	v.startSale(now)
	if !in.Draft || in.BeginAt != nil || in.EndAt != nil {
		v.Sale.BeginAt = time.Time{}
		v.Sale.EndAt = time.Time{}
		bad.AddIf(in.BeginAt == nil, "begin_at", "is required for a seckill voucher")
		bad.AddIf(in.EndAt == nil, "end_at", "is required for a seckill voucher")
	}

	switch {
	case in.Stock == nil && in.Draft:
		// Units are added before it is published.
	case in.Stock == nil:
		bad.Add("stock", "is required for a seckill voucher")
	case *in.Stock < 0 || *in.Stock > MaxStock:
		bad.Add("stock", "must be between 0 and %d", MaxStock)
	default:
		v.Sale.InitialStock = *in.Stock
		v.Sale.Stock = *in.Stock
	}
}

// VoucherChange is a change of a voucher. Nil fields stay unchanged. The stock changes only by a StockChange.
type VoucherChange struct {
	VoucherFields
	Status *VoucherStatus
}

// Apply validates the change at now and applies it to v. A draft without a sale becomes one with the first field of a sale.
// After an error the contents of v are undefined. Error: *InvalidError.
func (ch VoucherChange) Apply(v *Voucher, now time.Time) error {
	if v.Status == VoucherDraft && v.Sale == nil && len(ch.saleFields()) > 0 {
		v.startSale(now)
	}

	var bad InvalidError
	ch.apply(v, now, &bad)
	if ch.Status != nil {
		bad.AddIf(v.Status == VoucherDraft, "status", "of a draft changes only when it is published")
		v.Status = *ch.Status
	}
	return bad.Err()
}

func (f VoucherFields) apply(v *Voucher, now time.Time, bad *InvalidError) {
	if f.ShopID != nil {
		v.ShopID = int64(*f.ShopID)
		bad.AddIf(v.ShopID <= 0, "shop_id", "must be a positive id")
	}

	SetText(&v.Title, f.Title, "title", 1, maxTitle, bad)
	SetText(&v.SubTitle, f.SubTitle, "sub_title", 0, maxTitle, bad)
	SetText(&v.Rules, f.Rules, "rules", 0, maxRules, bad)
	setMoney(&v.PayValue, f.PayValue, "pay_value", bad)
	setMoney(&v.ActualValue, f.ActualValue, "actual_value", bad)

	if f.ImageID != nil {
		v.ImageID = *f.ImageID
	}

	f.applyToSale(v.Sale, now, bad)

	setBound(&v.ValidFrom, f.ValidFrom, "valid_from", bad)
	setBound(&v.ValidUntil, f.ValidUntil, "valid_until", bad)
	v.checkValidity(bad)
}

// applyToSale is apply for the fields of a sale. A normal voucher (s is nil) accepts none of them.
func (f VoucherFields) applyToSale(s *Sale, now time.Time, bad *InvalidError) {
	if s == nil {
		for _, field := range f.saleFields() {
			bad.Add(field, "is allowed only for a seckill voucher")
		}
		return
	}

	setTime(&s.BeginAt, f.BeginAt, "begin_at", bad)
	latest := now.AddDate(maxYearsAhead, 0, 0)
	if f.BeginAt != nil && f.BeginAt.After(latest) && !f.BeginAt.After(MaxTime) {
		bad.Add("begin_at", "must be at most %d years ahead", maxYearsAhead)
	}

	setTime(&s.EndAt, f.EndAt, "end_at", bad)
	moved := f.BeginAt != nil || f.EndAt != nil
	if moved && !s.BeginAt.IsZero() && !s.EndAt.IsZero() && !s.EndAt.After(s.BeginAt) {
		bad.Add("end_at", "must be after begin_at")
	}

	if n := f.LimitPerUser; n != nil {
		s.LimitPerUser = *n
		checkRange(*n, "limit_per_user", 1, maxPerUser, bad)
	}

	if f.Entry != nil {
		f.Entry.apply(&s.Entry, bad)
		if s.Entry.OpensAt.Equal(s.BeginAt.Add(-defaultLobby)) {
			s.Entry.OpensAt = time.Time{}
		}
	}

	if f.PayTimeout.Present {
		s.PayTimeout = 0
		if n := f.PayTimeout.Value; n != nil {
			s.PayTimeout = time.Duration(*n) * time.Second
			checkRange(*n, "pay_timeout", 1, MaxPayTimeout, bad)
		}
	}

	if f.UnpaidLimit.Present {
		s.UnpaidLimit = f.UnpaidLimit.Value
		if n := s.UnpaidLimit; n != nil {
			checkRange(*n, "unpaid_limit", 0, maxUnpaidLimit, bad)
		}
	}

	if n := f.Segments; n != nil {
		s.Segments = *n
		checkRange(*n, "segments", 1, maxSegments, bad)
	}

	if !s.Entry.OpensAt.IsZero() && !s.BeginAt.IsZero() && s.Entry.OpensAt.After(s.BeginAt) {
		bad.Add("entry.opens_at", "must not be after begin_at")
	}
}

// setBound is setTime for a time that null removes.
func setBound(dst **time.Time, src Nullable[Time], field string, bad *InvalidError) {
	if !src.Present {
		return
	}

	*dst = nil
	if src.Value != nil {
		*dst = new(time.Time)
		setTime(*dst, src.Value, field, bad)
	}
}

// saleFields returns the fields that only a sale can have. Any voucher is without what is removed.
func (f VoucherFields) saleFields() []string {
	var names []string
	for name, present := range map[string]bool{
		"begin_at":       f.BeginAt != nil,
		"end_at":         f.EndAt != nil,
		"limit_per_user": f.LimitPerUser != nil,
		"entry":          f.Entry != nil,
		"pay_timeout":    f.PayTimeout.Value != nil,
		"unpaid_limit":   f.UnpaidLimit.Value != nil,
		"segments":       f.Segments != nil,
	} {
		if present {
			names = append(names, name)
		}
	}

	return names
}

func checkRange[N int | int64](n N, field string, least, most N, bad *InvalidError) {
	bad.AddIf(n < least || n > most, field, "must be between %d and %d", least, most)
}

func setMoney(dst, src *int64, field string, bad *InvalidError) {
	if src == nil {
		return
	}
	*dst = *src
	bad.AddIf(*src < 0 || *src > maxMoney, field, "must be between 0 and %d cents", int64(maxMoney))
}

func setTime(dst *time.Time, src *Time, field string, bad *InvalidError) {
	if src == nil {
		return
	}
	*dst = Moment(src.Time)
	bad.AddIf(src.Before(minTime) || src.After(MaxTime), field, "must be in the years 2002 to 9998")
}

// StockChange adds units to a published sale, or removes them if Delta is negative.
type StockChange struct {
	VoucherID int64
	Delta     int64
	Reason    string
	By        Actor
	At        time.Time
	// The claim of the request; nil if it has no key.
	Claim *Claim
}

// Validate returns an *InvalidError if the change is not acceptable for any sale.
func (c *StockChange) Validate() error {
	var bad InvalidError
	outside := c.Delta < -MaxStock || c.Delta > MaxStock
	bad.AddIf(c.Delta == 0 || outside, "delta", "must be between -%d and %d and not 0", MaxStock, MaxStock)
	SetText(&c.Reason, &c.Reason, "reason", 1, maxTitle, &bad)
	return bad.Err()
}
