package repo

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

type secondFactorRow struct {
	UserID int64 `gorm:"primaryKey;autoIncrement:false"`
	auth.SecondFactor
	EnrolledAt time.Time
}

func (secondFactorRow) TableName() string { return "second_factors" }

// confirmFactor calls confirm with the user's second factor, and stores the factor after an accepted password.
func confirmFactor(tx *gorm.DB, u *userRow, confirm auth.ConfirmFunc) (bool, error) {
	var row secondFactorRow
	err := tx.Clauses(sqldb.ForUpdate).Where("user_id = ?", u.ID).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return confirm(u.User, nil)
	}
	if err != nil {
		return false, err
	}

	factor := row.SecondFactor
	confirmed, err := confirm(u.User, &factor)
	if err != nil || !confirmed {
		return false, err
	}

	used := tx.Model(&row).Where("last_step < ?", factor.LastStep).
		Updates(map[string]any{"last_step": factor.LastStep, "secret": factor.Secret})
	if used.Error == nil && used.RowsAffected == 0 {
		return false, domain.ErrWrongTOTP
	}

	return true, used.Error
}

// Enroll implements auth.AdminStore.
func (s *Store) Enroll(
	ctx context.Context, newcomer domain.User, seal func(userID int64) []byte, now time.Time,
) (domain.User, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) (domain.User, error) {
		u, err := findOrCreateUser(tx, &newcomer)
		if err == nil {
			err = requireShops(tx, newcomer.ShopIDs)
		}
		if err != nil {
			return u.User, err
		}

		// They bind the tokens of a former redeemer until these are refused.
		if newcomer.Role.May(domain.MayRedeem) {
			u.ShopIDs = newcomer.ShopIDs
		}
		if err := setRole(tx, &u, newcomer.Role, now); err != nil || seal == nil {
			return u.User, err
		}

		return u.User, tx.Create(&secondFactorRow{
			UserID:       u.ID,
			SecondFactor: auth.SecondFactor{Secret: seal(u.ID)},
			EnrolledAt:   now,
		}).Error
	})
}

func requireShops(tx *gorm.DB, ids []int64) error {
	for _, id := range ids {
		var n int64
		if err := tx.Table("shops").Where("id = ?", id).Count(&n).Error; err != nil {
			return err
		}
		if n == 0 {
			return domain.Invalid("shops", "there is no shop %d", id)
		}
	}
	return nil
}

// RemoveAdmin implements auth.AdminStore.
func (s *Store) RemoveAdmin(ctx context.Context, phone string, now time.Time) (domain.User, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) (domain.User, error) {
		var u userRow
		err := tx.Where("phone = ?", phone).Take(&u).Error
		if err == nil {
			err = setRole(tx, &u, domain.RoleBuyer, now)
		}
		return u.User, err
	})
}

func setRole(tx *gorm.DB, u *userRow, role domain.Role, now time.Time) error {
	u.Role = role
	u.UpdatedAt = now

	if err := tx.Select("role", "shop_ids", "updated_at").Updates(u).Error; err != nil {
		return err
	}
	if err := tx.Where("user_id = ?", u.ID).Delete(&secondFactorRow{}).Error; err != nil {
		return err
	}

	_, err := revokeOfUser(tx, u.ID, now)
	return err
}

// Admins implements auth.AdminStore.
func (s *Store) Admins(ctx context.Context, phones []string) ([]domain.Admin, error) {
	users, err := list[userRow](s, s.db.Reader(ctx).Where("role <> ? OR phone IN ?", domain.RoleBuyer, phones).Order("id"))
	if err != nil {
		return nil, err
	}

	factors, err := list[secondFactorRow](s, s.db.Reader(ctx))
	enrolled := byKey(factors, func(f *secondFactorRow) int64 { return f.UserID })
	return column(users, func(u *userRow) domain.Admin {
		return domain.Admin{
			User:       u.User,
			EnrolledAt: enrolled[u.ID].EnrolledAt,
			Factor:     enrolled[u.ID].Secret,
		}
	}), err
}
