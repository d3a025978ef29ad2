package repo

import (
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

type userRow struct {
	domain.User
	// The time of the last login.
	UpdatedAt time.Time `gorm:"autoUpdateTime:false"`
	DeletedAt *time.Time
}

func (userRow) TableName() string { return "users" }

// User implements auth.Store.
func (s *Store) User(ctx context.Context, id int64) (domain.User, error) {
	var u userRow
	err := takeUser(s.db.Reader(ctx), &u, id)
	return u.User, s.db.Translate(err)
}

// UserByPhone implements auth.Store.
func (s *Store) UserByPhone(ctx context.Context, phone string) (domain.User, error) {
	var u userRow
	err := s.db.Reader(ctx).Where("phone = ?", phone).Take(&u).Error
	return u.User, s.db.Translate(err)
}

func takeUser(db *gorm.DB, u *userRow, id int64) error {
	return db.Where("deleted_at IS NULL").Take(u, id).Error
}

// ShopsOf implements service.ShopStore.
func (s *Store) ShopsOf(ctx context.Context, userID int64) (domain.ShopIDs, error) {
	var u userRow
	err := s.db.Reader(ctx).Select("shop_ids").Where("id = ?", userID).Limit(1).Find(&u).Error
	return u.ShopIDs, s.db.Translate(err)
}

// Phones implements service.SearchStore.
func (s *Store) Phones(ctx context.Context, userIDs []int64) (map[int64]string, error) {
	rows, err := list[userRow](s, s.db.Reader(ctx).Select("id", "phone").Where("id IN ? AND deleted_at IS NULL", userIDs))
	return mapped(rows, func(r *userRow) (int64, string) { return r.ID, r.Phone }), err
}

// UsersByPhoneEnd implements service.SearchStore.
func (s *Store) UsersByPhoneEnd(ctx context.Context, end string, most int) ([]int64, error) {
	var ids []int64
	err := s.db.Reader(ctx).Model(&userRow{}).Where("phone_end = ? AND deleted_at IS NULL", end).Limit(most).Pluck("id", &ids).Error
	return ids, s.db.Translate(err)
}
