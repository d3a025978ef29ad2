package repo

import (
	"context"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/kit/picture"
)

// SeedDemo stores the shops, pictures and vouchers that content returns if the database has neither shops nor vouchers, and
// reports whether it did. They keep their ids. Concurrent processes wait for each other, and only one of them stores the data.
func (s *Store) SeedDemo(
	ctx context.Context, content func() ([]domain.Shop, []picture.Picture, []domain.Voucher, error),
) (bool, error) {
	var seeded bool
	err := s.db.WithSchemaLock(ctx, func() error {
		var err error
		seeded, err = run(ctx, s.db.Write, func(tx *gorm.DB) (bool, error) {
			var n int64
			err := tx.Raw("SELECT (SELECT COUNT(*) FROM shops) + (SELECT COUNT(*) FROM vouchers)").Scan(&n).Error
			if err != nil || n > 0 {
				return false, err
			}

			shops, pictures, vouchers, err := content()
			if err != nil {
				return false, err
			}

			for i := range pictures {
				if err := insertPicture(tx, &pictures[i]); err != nil {
					return false, err
				}
			}

			if err := tx.Create(&shops).Error; err != nil {
				return false, err
			}

			for i := range vouchers {
				if err := insertVoucher(tx, &vouchers[i]); err != nil {
					return false, err
				}
			}

			return true, nil
		})

		return err
	})

	return seeded, err
}
