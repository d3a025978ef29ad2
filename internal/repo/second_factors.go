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
	UserID     int64 `gorm:"primaryKey;autoIncrement:false"`
	Secret     []byte
	LastStep   int64
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

	factor := auth.SecondFactor{Secret: row.Secret, LastStep: row.LastStep}
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
	ctx context.Context, newcomer domain.User, seal func(userID int64) []byte, now, keepUntil time.Time,
) (domain.User, error) {
	var u userRow
	err := s.db.Write(ctx, func(tx *gorm.DB) (err error) {
		if u, err = s.findOrCreateUser(tx, &newcomer); err != nil {
			return err
		}
		if err := requireShops(tx, newcomer.ShopIDs); err != nil {
			return err
		}

		// They bind the tokens of a former redeemer until these are refused.
		if newcomer.Role.May(domain.MayRedeem) {
			u.ShopIDs = newcomer.ShopIDs
		}
		if err := setRole(tx, &u, newcomer.Role, now, keepUntil); err != nil || seal == nil {
			return err
		}

		return tx.Create(&secondFactorRow{
			UserID:     u.ID,
			Secret:     seal(u.ID),
			EnrolledAt: now,
		}).Error
	})

	return u.User, err
}

// requireShops returns a *domain.InvalidError if one of the shops does not exist.
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
func (s *Store) RemoveAdmin(ctx context.Context, phone string, now, keepUntil time.Time) (domain.User, error) {
	var u userRow
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		u = userRow{}
		if err := tx.Where("phone = ?", phone).Take(&u).Error; err != nil {
			return err
		}
		return setRole(tx, &u, domain.RoleBuyer, now, keepUntil)
	})
	return u.User, err
}

// setRole stores the shops of a user, changes the role, deletes their second factor and ends their sessions.
func setRole(tx *gorm.DB, u *userRow, role domain.Role, now, keepUntil time.Time) error {
	u.Role = role
	u.UpdatedAt = now

	if err := tx.Select("role", "shop_ids", "updated_at").Updates(u).Error; err != nil {
		return err
	}
	if err := tx.Where("user_id = ?", u.ID).Delete(&secondFactorRow{}).Error; err != nil {
		return err
	}

	var sessions []string
	if err := tx.Model(&sessionRow{}).Where("user_id = ? AND revoked_at IS NULL", u.ID).Pluck("id", &sessions).Error; err != nil {
		return err
	}

	return revokeAll(tx, sessions, now, keepUntil)
}

// Admins implements auth.AdminStore.
func (s *Store) Admins(ctx context.Context, phones []string) ([]domain.Admin, error) {
	r := s.db.Reader(ctx)
	var users []userRow
	if err := r.Where("role <> ? OR phone IN ?", domain.RoleBuyer, phones).Order("id").Find(&users).Error; err != nil {
		return nil, s.db.Translate(err)
	}

	var factors []secondFactorRow
	if err := r.Find(&factors).Error; err != nil {
		return nil, s.db.Translate(err)
	}

	enrolled := map[int64]secondFactorRow{}
	for _, f := range factors {
		enrolled[f.UserID] = f
	}

	admins := make([]domain.Admin, len(users))
	for i := range users {
		admins[i] = domain.Admin{
			User:       users[i].User,
			EnrolledAt: enrolled[users[i].ID].EnrolledAt,
			Factor:     enrolled[users[i].ID].Secret,
		}
	}

	return admins, nil
}
