package catalog

import (
	"context"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/shop"
)

// SeedDemo stores the demo shops and vouchers if the database has neither, and reports whether it did. Concurrent
// processes wait for each other, and only one of them stores the data.
func (s *Store) SeedDemo(ctx context.Context, shops []shop.Shop, vouchers []domain.Voucher) (seeded bool, err error) {
	err = s.db.WithSchemaLock(ctx, func(ctx context.Context) error {
		return s.db.Write(ctx, func(tx *gorm.DB) error {
			var n int64
			if err := tx.Raw("SELECT (SELECT COUNT(*) FROM shops) + (SELECT COUNT(*) FROM vouchers)").Scan(&n).Error; err != nil {
				return err
			}
			if seeded = n == 0; !seeded {
				return nil
			}
			return insertDemo(tx, shops, vouchers)
		})
	})
	return seeded, err
}

func insertDemo(tx *gorm.DB, shops []shop.Shop, vouchers []domain.Voucher) error {
	ids := make(map[int64]int64, len(shops)) // id in shops -> id in the table
	for i := range shops {
		row := newShopRow(&shops[i])
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		ids[shops[i].ID] = row.ID
	}
	for _, v := range vouchers {
		v.ShopID = ids[v.ShopID]
		if err := insertVoucher(tx, &v); err != nil {
			return err
		}
	}
	return nil
}
