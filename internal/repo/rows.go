package repo

import (
	"time"

	"seckill/internal/domain"
)

// The rows of the tables. They do not leave this package; package service has its own types.

type voucherRow struct {
	ID          int64 `gorm:"primaryKey"`
	ShopID      int64
	Title       string
	SubTitle    string
	Rules       string
	PayValue    int64
	ActualValue int64
	Currency    string
	Type        int8
	Status      int8
	CreatedAt   time.Time
	UpdatedAt   time.Time `gorm:"autoUpdateTime:false"` // set by package service
}

func (voucherRow) TableName() string { return "vouchers" }

type saleRow struct {
	VoucherID    int64 `gorm:"primaryKey;autoIncrement:false"`
	InitialStock int64
	Stock        int64
	BeginAt      time.Time
	EndAt        time.Time
	LimitPerUser int
	CreatedAt    time.Time
	UpdatedAt    time.Time `gorm:"autoUpdateTime:false"` // set by package service
}

func (saleRow) TableName() string { return "seckill_vouchers" }

func newVoucherRow(v *domain.Voucher) voucherRow {
	return voucherRow{
		ID: v.ID, ShopID: v.ShopID, Title: v.Title, SubTitle: v.SubTitle, Rules: v.Rules,
		PayValue: v.PayValue, ActualValue: v.ActualValue, Currency: v.Currency, Type: int8(v.Type), Status: int8(v.Status),
		CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
	}
}

func (r *voucherRow) voucher(s *saleRow) domain.Voucher {
	v := domain.Voucher{
		ID: r.ID, ShopID: r.ShopID, Title: r.Title, SubTitle: r.SubTitle, Rules: r.Rules,
		PayValue: r.PayValue, ActualValue: r.ActualValue, Currency: r.Currency,
		Type: domain.VoucherType(r.Type), Status: domain.VoucherStatus(r.Status),
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if s != nil {
		v.Sale = &domain.Sale{
			InitialStock: s.InitialStock, Stock: s.Stock, BeginAt: s.BeginAt, EndAt: s.EndAt,
			LimitPerUser: s.LimitPerUser,
		}
	}
	return v
}

type orderRow struct {
	ID          int64 `gorm:"primaryKey;autoIncrement:false"`
	UserID      int64
	VoucherID   int64
	Slot        *int
	Status      int8
	Amount      int64
	Currency    string
	CreatedAt   time.Time
	ExpiresAt   time.Time
	PaidAt      *time.Time
	RedeemedAt  *time.Time
	CancelledAt *time.Time
	RefundedAt  *time.Time
	UpdatedAt   time.Time `gorm:"autoUpdateTime:false"` // set by package service
	IdemKey     []byte    // domain.KeyHash of the request's Idempotency-Key; nil without one
	IdemRequest []byte    // hash of the request's method, path and body; nil without a key
}

func (orderRow) TableName() string { return "voucher_orders" }

func newOrderRow(o *domain.Order) orderRow {
	return orderRow{
		ID: o.ID, UserID: o.UserID, VoucherID: o.VoucherID, Status: int8(o.Status), Amount: o.Amount,
		Currency: o.Currency, CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt, UpdatedAt: o.CreatedAt,
	}
}

func (r *orderRow) order() domain.Order {
	o := domain.Order{
		ID: r.ID, UserID: r.UserID, VoucherID: r.VoucherID, Status: domain.OrderStatus(r.Status), Amount: r.Amount,
		Currency: r.Currency, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, PaidAt: r.PaidAt, RedeemedAt: r.RedeemedAt,
		CancelledAt: r.CancelledAt, RefundedAt: r.RefundedAt,
	}
	if r.Slot != nil {
		o.Slot = *r.Slot
	}
	return o
}

// asPlaced returns the order as it was when it was placed, which is the answer to a repeated request.
func (r *orderRow) asPlaced() domain.Order {
	o := r.order()
	o.Status = domain.OrderPendingPayment
	o.PaidAt, o.RedeemedAt, o.CancelledAt, o.RefundedAt = nil, nil, nil, nil
	return o
}

type stockChangeRow struct {
	ID        int64 `gorm:"primaryKey"`
	VoucherID int64
	Delta     int64
	Reason    string
	ActorID   int64
	CreatedAt time.Time
}

func (stockChangeRow) TableName() string { return "stock_changes" }

type auditRow struct {
	ID        int64 `gorm:"primaryKey"`
	At        time.Time
	Actor     string
	ActorID   int64
	Action    string
	VoucherID int64
	OrderID   *int64
	Detail    string
}

func (auditRow) TableName() string { return "audit_log" }

func (r *auditRow) entry() domain.AuditEntry {
	e := domain.AuditEntry{
		ID: r.ID, At: r.At, Actor: domain.Actor{Kind: domain.ActorKind(r.Actor), ID: r.ActorID}, Action: r.Action,
		VoucherID: r.VoucherID, Detail: r.Detail,
	}
	if r.OrderID != nil {
		e.OrderID = *r.OrderID
	}
	return e
}

type paymentRow struct {
	ID          int64 `gorm:"primaryKey"`
	OrderID     int64
	Provider    string
	ProviderRef string
	Amount      int64
	Currency    string
	Status      int8
	RefundTries int
	NextTryAt   *time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time `gorm:"autoUpdateTime:false"` // set by package service
}

func (paymentRow) TableName() string { return "payments" }

func newPaymentRow(p *domain.Payment) paymentRow {
	return paymentRow{
		OrderID: p.OrderID, Provider: p.Provider, ProviderRef: p.Ref, Amount: p.Amount, Currency: p.Currency,
		Status: int8(p.Status), CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}

func (r *paymentRow) payment() domain.Payment {
	return domain.Payment{
		ID: r.ID, OrderID: r.OrderID, Provider: r.Provider, Ref: r.ProviderRef, Amount: r.Amount, Currency: r.Currency,
		Status: domain.PaymentStatus(r.Status), RefundTries: r.RefundTries, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

type shopRow struct {
	ID        int64 `gorm:"primaryKey"`
	Name      string
	TypeID    int64
	Images    string
	Area      string
	Address   string
	X, Y      float64
	AvgPrice  int64
	Sold      int
	Comments  int
	Score     int
	OpenHours string
	CreatedAt time.Time
	UpdatedAt time.Time `gorm:"autoUpdateTime:false"` // set by package service
}

func (shopRow) TableName() string { return "shops" }

func newShopRow(s *domain.Shop) shopRow {
	return shopRow{
		Name: s.Name, TypeID: s.TypeID, Images: s.Images, Area: s.Area, Address: s.Address, X: s.X, Y: s.Y,
		AvgPrice: s.AvgPrice, Sold: s.Sold, Comments: s.Comments, Score: s.Score, OpenHours: s.OpenHours,
		CreatedAt: s.CreatedAt, UpdatedAt: s.CreatedAt,
	}
}

func (r *shopRow) shop() domain.Shop {
	return domain.Shop{
		ID: r.ID, Name: r.Name, TypeID: r.TypeID, Images: r.Images, Area: r.Area, Address: r.Address, X: r.X, Y: r.Y,
		AvgPrice: r.AvgPrice, Sold: r.Sold, Comments: r.Comments, Score: r.Score, OpenHours: r.OpenHours,
		CreatedAt: r.CreatedAt,
	}
}
