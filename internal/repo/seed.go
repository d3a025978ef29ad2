package repo

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/picture"
)

// seedPhone returns the phone of the i-th load-test user. No real number begins with 100, so these users cannot log in.
func seedPhone(i int) string { return fmt.Sprintf("100%08d", i) }

// seedBatch is the number of rows per INSERT, far below the number of bound variables that SQLite allows.
const seedBatch = 500

// SeedUsers ensures that n load-test users exist and opens a session for each, which ends at expires. It returns the
// identities in the order of the users. Later calls reuse the users.
func (s *Store) SeedUsers(ctx context.Context, n int, now, expires time.Time) ([]auth.Identity, error) {
	ids := make([]auth.Identity, 0, n)
	for from := 0; from < n; from += seedBatch {
		batch, err := s.seedUsers(ctx, from, min(from+seedBatch, n), now, expires)
		if err != nil {
			return nil, err
		}
		ids = append(ids, batch...)
	}
	return ids, nil
}

func (s *Store) seedUsers(ctx context.Context, from, to int, now, expires time.Time) ([]auth.Identity, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) ([]auth.Identity, error) {
		phones := make([]string, 0, to-from)
		users := make([]userRow, 0, to-from)
		for i := from; i < to; i++ {
			phones = append(phones, seedPhone(i))

			users = append(users, userRow{UpdatedAt: now, User: domain.User{
				Phone:     seedPhone(i),
				NickName:  fmt.Sprintf("buyer_%d", i),
				Role:      domain.RoleBuyer,
				CreatedAt: now,
			}})
		}

		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&users).Error; err != nil {
			return nil, err
		}

		var stored []userRow
		if err := tx.Where("phone IN ?", phones).Order("phone").Find(&stored).Error; err != nil {
			return nil, err
		}

		ids := make([]auth.Identity, len(stored))
		sessions := make([]sessionRow, len(stored))
		for i, u := range stored {
			sess := auth.Session{
				ID:         auth.NewSessionID(),
				UserID:     u.ID,
				Generation: 1,
				CreatedAt:  now,
				ExpiresAt:  expires,
			}

			sessions[i] = newSessionRow(&sess)

			ids[i] = auth.Identity{
				UserID:    u.ID,
				SessionID: sess.ID,
				Role:      domain.RoleBuyer,
			}
		}

		return ids, tx.Create(&sessions).Error
	})
}

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
