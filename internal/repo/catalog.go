package repo

import (
	"context"
	"database/sql"
	"reflect"
	"time"

	"gorm.io/gorm/schema"

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

// newSaleRow returns the row of a sale, which has at least one segment.
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

// optional is the serializer of durations, which are columns of seconds, and of times. The zero value is NULL, but 0 seconds in
// a column that is never NULL.
type optional struct{}

// Scan implements schema.SerializerInterface.
func (optional) Scan(ctx context.Context, field *schema.Field, row reflect.Value, value any) error {
	if field.FieldType == reflect.TypeFor[time.Time]() {
		var at sql.NullTime
		err := at.Scan(value)
		field.ReflectValueOf(ctx, row).Set(reflect.ValueOf(at.Time))
		return err
	}

	var seconds sql.NullInt64
	err := seconds.Scan(value)
	field.ReflectValueOf(ctx, row).SetInt(seconds.Int64 * int64(time.Second))
	return err
}

// Value implements schema.SerializerInterface.
func (optional) Value(_ context.Context, field *schema.Field, _ reflect.Value, value any) (any, error) {
	d, isDuration := value.(time.Duration)
	switch {
	case isDuration && (d != 0 || field.NotNull):
		return int64(d / time.Second), nil
	case reflect.ValueOf(value).IsZero():
		return nil, nil //nolint:nilnil // NULL
	}
	return value, nil
}

// entryColumns are the columns of a domain.Entry.
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
