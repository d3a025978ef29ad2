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
	VoucherID int64 `gorm:"primaryKey;autoIncrement:false"`
	domain.Sale
	CreatedAt time.Time
}

func newSaleRow(voucherID int64, s *domain.Sale) saleRow {
	row := saleRow{VoucherID: voucherID, Sale: *s}
	row.Segments = max(1, s.Segments)
	return row
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
		v.Sale = &s.Sale
	}

	return v
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
