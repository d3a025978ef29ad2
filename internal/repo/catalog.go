package repo

import (
	"time"

	"seckill/internal/domain"
)

// The rows of the tables. They do not leave this package.

type voucherRow struct {
	domain.Voucher
	// Only of withShops.
	ShopName *string `gorm:"->"`
}

func (voucherRow) TableName() string { return "vouchers" }

type saleRow struct {
	VoucherID    int64 `gorm:"primaryKey;autoIncrement:false"`
	InitialStock int64
	// Only of saleColumns.
	Added        int64 `gorm:"->"`
	Stock        int64
	BeginAt      time.Time
	EndAt        time.Time
	LimitPerUser int
	EntryMode    int8
	PassTTL      int `gorm:"column:pass_ttl"` // seconds
	EntryEpoch   uint32

	EntryChallenge bool
	EntryOpensAt   *time.Time
	EntryRate      int
	EntryPaused    bool
	EntryMessage   string

	PayTimeout  *int // seconds
	UnpaidLimit *int
	Segments    int

	CreatedAt time.Time
	// Set by package service.
	UpdatedAt time.Time `gorm:"autoUpdateTime:false"`
}

func (saleRow) TableName() string { return "seckill_vouchers" }

// saleColumns selects the fields of a saleRow, including the sum of its stock changes, of which a sale has few.
const saleColumns = `seckill_vouchers.*,
	(SELECT COALESCE(SUM(delta), 0) FROM stock_changes c WHERE c.voucher_id = seckill_vouchers.voucher_id) AS added`

func (r *voucherRow) voucher(s *saleRow) domain.Voucher {
	v := r.Voucher
	if r.ShopName != nil {
		v.Offer = domain.NewOffer(&v, *r.ShopName)
	}

	if s != nil {
		v.Sale = &domain.Sale{
			InitialStock: s.InitialStock,
			Added:        s.Added,
			Stock:        s.Stock,
			BeginAt:      s.BeginAt,
			EndAt:        s.EndAt,
			LimitPerUser: s.LimitPerUser,
			Entry:        s.entry(),
			UnpaidLimit:  s.UnpaidLimit,
			Segments:     s.Segments,
			ChangedAt:    s.UpdatedAt,
		}

		if s.PayTimeout != nil {
			v.Sale.PayTimeout = time.Duration(*s.PayTimeout) * time.Second
		}
	}

	return v
}

// payTimeoutOf returns the column of a sale's time to pay: seconds, or nil for the default of the server.
func payTimeoutOf(s *domain.Sale) *int {
	if s.PayTimeout == 0 {
		return nil
	}
	seconds := int(s.PayTimeout / time.Second)
	return &seconds
}

func (s *saleRow) entry() domain.Entry {
	e := domain.Entry{
		Mode:      domain.EntryMode(s.EntryMode),
		Challenge: s.EntryChallenge,
		PassTTL:   time.Duration(s.PassTTL) * time.Second,
		Epoch:     s.EntryEpoch,
		Rate:      s.EntryRate,
		Paused:    s.EntryPaused,
		Message:   s.EntryMessage,
	}

	if s.EntryOpensAt != nil {
		e.OpensAt = *s.EntryOpensAt
	}

	return e
}

func (s *saleRow) setEntry(e *domain.Entry) {
	s.EntryMode = int8(e.Mode)
	s.PassTTL = int(e.PassTTL / time.Second)
	s.EntryEpoch = e.Epoch
	s.EntryChallenge = e.Challenge
	s.EntryRate = e.Rate
	s.EntryPaused = e.Paused
	s.EntryMessage = e.Message
	s.EntryOpensAt = nil

	if !e.OpensAt.IsZero() {
		s.EntryOpensAt = &e.OpensAt
	}
}

// entryColumns are the columns that setEntry sets.
var entryColumns = []string{
	"entry_mode", "pass_ttl", "entry_epoch", "entry_challenge", "entry_opens_at", "entry_rate", "entry_paused", "entry_message",
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
