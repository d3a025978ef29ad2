package service

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/currency"
)

// VoucherType tells an ordinary voucher from one that is sold in a flash sale.
type VoucherType int8

// The voucher types, with the numbers they have in the database.
const (
	VoucherNormal  VoucherType = 0
	VoucherSeckill VoucherType = 1
)

func (t VoucherType) String() string {
	if t == VoucherSeckill {
		return "seckill"
	}
	return "normal"
}

// VoucherStatus says whether the merchant offers the voucher.
type VoucherStatus int8

// The voucher statuses, with the numbers they have in the database.
const (
	VoucherOn      VoucherStatus = 1
	VoucherOff     VoucherStatus = 2
	VoucherExpired VoucherStatus = 3
)

func (s VoucherStatus) String() string {
	switch s {
	case VoucherOn:
		return "on"
	case VoucherOff:
		return "off"
	case VoucherExpired:
		return "expired"
	}
	return "unknown"
}

// SaleState is where a voucher stands at a moment.
type SaleState string

// The states of a sale. A normal voucher is on_sale while it is on, and ended otherwise.
const (
	StateUpcoming SaleState = "upcoming"
	StateOnSale   SaleState = "on_sale"
	StateSoldOut  SaleState = "sold_out"
	StateEnded    SaleState = "ended"
)

// Voucher is what a shop sells. Money is in the smallest unit of its currency (cents). Times are UTC with milliseconds.
type Voucher struct {
	ID          int64
	ShopID      int64
	Title       string
	SubTitle    string
	Rules       string
	PayValue    int64  // what the buyer pays
	ActualValue int64  // what the voucher is worth in the shop
	Currency    string // of both, ISO 4217; it does not change
	Type        VoucherType
	Status      VoucherStatus
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Sale        *Sale // nil for a normal voucher
}

// Sale is the flash-sale part of a voucher. The window is [BeginAt, EndAt).
type Sale struct {
	InitialStock int64
	Stock        int64 // units left
	BeginAt      time.Time
	EndAt        time.Time
	LimitPerUser int // active orders a user may hold
}

// State says where the voucher stands at now.
func (v *Voucher) State(now time.Time) SaleState {
	switch {
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

// Until returns the end of the time, from now on, in which the clock alone does not change the state.
func (v *Voucher) Until(now time.Time) time.Time {
	switch {
	case v.Sale == nil:
	case now.Before(v.Sale.BeginAt):
		return v.Sale.BeginAt
	case now.Before(v.Sale.EndAt):
		return v.Sale.EndAt
	}
	return maxTime
}

// Bounds of a voucher's fields. Sums of money and stock stay far inside an int64.
const (
	maxTitle   = 255
	maxRules   = 1024
	maxMoney   = 1_000_000_000_00 // a thousand million, in cents
	MaxStock   = 1_000_000_000    // units of a sale
	maxPerUser = 100              // slot is a TINYINT
)

// The years that both databases can store and RFC 3339 can write. The SQLite driver reads numbers up to 10^12 as
// seconds, not milliseconds, so times before September 2001 would come back wrong.
var (
	minTime = time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC)
	maxTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// VoucherFields are what an admin can set of a voucher, both when it is created and afterwards. Nil fields are not
// given.
type VoucherFields struct {
	ShopID       *int64
	Title        *string
	SubTitle     *string
	Rules        *string
	PayValue     *int64
	ActualValue  *int64
	BeginAt      *time.Time
	EndAt        *time.Time
	LimitPerUser *int
}

// VoucherInput is what an admin gives to create a voucher. Stock, BeginAt and EndAt together make it a
// seckill voucher; without all three it is a normal one. A window may have begun already.
type VoucherInput struct {
	VoucherFields
	Stock    *int64
	Currency *string // ISO 4217; nil: DefaultCurrency
}

// DefaultCurrency is that of a voucher for which none is named.
const DefaultCurrency = "CNY"

// voucher checks the input and makes the voucher of it.
func (in VoucherInput) voucher(now time.Time) (Voucher, error) {
	v := Voucher{Type: VoucherNormal, Status: VoucherOn, Currency: DefaultCurrency, CreatedAt: now, UpdatedAt: now}
	var bad InvalidError
	for _, f := range []struct {
		name   string
		absent bool
	}{
		{"shop_id", in.ShopID == nil}, {"title", in.Title == nil},
		{"pay_value", in.PayValue == nil}, {"actual_value", in.ActualValue == nil},
	} {
		if f.absent {
			bad.add(f.name, "is required")
		}
	}
	if in.Stock != nil || in.BeginAt != nil || in.EndAt != nil || in.LimitPerUser != nil {
		in.startSale(&v, &bad)
	}
	if in.Currency != nil {
		if v.Currency = *in.Currency; !isCurrency(v.Currency) {
			bad.add("currency", "must be a currency of ISO 4217, such as CNY")
		}
	}
	in.apply(&v, &bad)
	return v, bad.orNil()
}

// startSale makes v a seckill voucher.
func (in VoucherInput) startSale(v *Voucher, bad *InvalidError) {
	v.Type = VoucherSeckill
	v.Sale = &Sale{LimitPerUser: 1}
	if in.BeginAt == nil {
		bad.add("begin_at", "is required for a seckill voucher")
	}
	if in.EndAt == nil {
		bad.add("end_at", "is required for a seckill voucher")
	}
	switch {
	case in.Stock == nil:
		bad.add("stock", "is required for a seckill voucher")
	case *in.Stock < 0 || *in.Stock > MaxStock:
		bad.add("stock", "must be between 0 and %d", MaxStock)
	default:
		v.Sale.InitialStock, v.Sale.Stock = *in.Stock, *in.Stock
	}
}

// VoucherChange is what an admin changes of a voucher; nil fields stay as they are. Stock is not among them:
// it is changed by a booked addition, never overwritten.
type VoucherChange struct {
	VoucherFields
	Status *VoucherStatus
}

// Apply checks the change against v and carries it out on it. On an error v is undefined.
func (ch VoucherChange) Apply(v *Voucher) error {
	var bad InvalidError
	ch.apply(v, &bad)
	if ch.Status != nil {
		v.Status = *ch.Status
	}
	return bad.orNil()
}

// apply checks the fields that are given and sets them on v.
func (f VoucherFields) apply(v *Voucher, bad *InvalidError) {
	if f.ShopID != nil {
		if v.ShopID = *f.ShopID; v.ShopID <= 0 {
			bad.add("shop_id", "must be a positive id")
		}
	}
	setText(&v.Title, f.Title, "title", 1, maxTitle, bad)
	setText(&v.SubTitle, f.SubTitle, "sub_title", 0, maxTitle, bad)
	setText(&v.Rules, f.Rules, "rules", 0, maxRules, bad)
	setMoney(&v.PayValue, f.PayValue, "pay_value", bad)
	setMoney(&v.ActualValue, f.ActualValue, "actual_value", bad)
	f.applyToSale(v.Sale, bad)
}

func (f VoucherFields) applyToSale(s *Sale, bad *InvalidError) {
	if s == nil {
		for field, given := range map[string]bool{
			"begin_at": f.BeginAt != nil, "end_at": f.EndAt != nil, "limit_per_user": f.LimitPerUser != nil,
		} {
			if given {
				bad.add(field, "is not a field of a normal voucher")
			}
		}
		return
	}
	setTime(&s.BeginAt, f.BeginAt, "begin_at", bad)
	setTime(&s.EndAt, f.EndAt, "end_at", bad)
	if !s.BeginAt.IsZero() && !s.EndAt.IsZero() && !s.EndAt.After(s.BeginAt) {
		bad.add("end_at", "must be after begin_at")
	}
	if f.LimitPerUser != nil {
		if s.LimitPerUser = *f.LimitPerUser; s.LimitPerUser < 1 || s.LimitPerUser > maxPerUser {
			bad.add("limit_per_user", "must be between 1 and %d", maxPerUser)
		}
	}
}

// isCurrency says whether code is a currency of ISO 4217, in capitals.
func isCurrency(code string) bool {
	unit, err := currency.ParseISO(code)
	return err == nil && unit.String() == code
}

func setText(dst, src *string, field string, least, most int, bad *InvalidError) {
	if src == nil {
		return
	}
	*dst = *src
	if n := utf8.RuneCountInString(*src); n < least || n > most {
		bad.add(field, "must have %d to %d characters", least, most)
	} else if strings.ContainsFunc(*src, unprintable) || least > 0 && strings.TrimSpace(*src) == "" {
		bad.add(field, "must be readable text")
	}
}

// unprintable says whether r is a control character other than a line break or a tab.
func unprintable(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t'
}

func setMoney(dst, src *int64, field string, bad *InvalidError) {
	if src == nil {
		return
	}
	if *dst = *src; *src < 0 || *src > maxMoney {
		bad.add(field, "must be between 0 and %d cents", int64(maxMoney))
	}
}

func setTime(dst, src *time.Time, field string, bad *InvalidError) {
	if src == nil {
		return
	}
	*dst = Moment(*src)
	if src.Before(minTime) || src.After(maxTime) {
		bad.add(field, "must be between the years 2002 and 9998")
	}
}

// Moment is t as the database keeps it: UTC, whole milliseconds.
func Moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
