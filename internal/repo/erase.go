package repo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// EraseUser implements auth.Store.
func (s *Store) EraseUser(ctx context.Context, e auth.Erasure) ([]string, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) ([]string, error) {
		var u userRow
		err := takeUser(tx.Clauses(sqldb.ForUpdate), &u, e.UserID)
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}

		var sessions []string
		err = tx.Model(&sessionRow{}).Clauses(sqldb.ForUpdate).Where("user_id = ?", u.ID).Pluck("id", &sessions).Error
		if err != nil {
			return nil, err
		}

		if !e.IdleSince.IsZero() {
			// The user may have come back, or bought with a token that outlives the session, since IdleUsers read the account.
			var idle int64
			if err := whereIdle(tx.Model(&userRow{}), e.IdleSince).Where("id = ?", u.ID).Count(&idle).Error; err != nil || idle == 0 {
				return nil, err
			}
		}

		return sessions, erase(tx, &u, sessions, e)
	})
}

// erase removes the person from the row of a user that the transaction has locked, and ends the sessions.
func erase(tx *gorm.DB, u *userRow, sessions []string, e auth.Erasure) error {
	if err := revokeAll(tx, sessions, e.Now); err != nil {
		return err
	}
	if err := tx.Where("phone = ?", u.Phone).Delete(&loginRequestRow{}).Error; err != nil {
		return err
	}

	for _, row := range []any{&keyRow{}, &secondFactorRow{}} {
		if err := tx.Where("user_id = ?", u.ID).Delete(row).Error; err != nil {
			return err
		}
	}

	return tx.Model(u).Updates(map[string]any{
		"phone":      tombstone(u.ID),
		"nick_name":  "",
		"icon":       "",
		"role":       string(domain.RoleBuyer),
		"deleted_at": e.Now,
		"updated_at": e.Now,
	}).Error
}

// tombstone returns the phone of an erased user. It is unique, is not a number, and fits into the column for every id.
func tombstone(userID int64) string { return fmt.Sprintf("x%d", userID) }

// IdleUsers implements auth.Store. It reads the users in the order of their ids, PurgeBatch per call, so that no call
// reads a large table.
func (s *Store) IdleUsers(ctx context.Context, after int64, since time.Time) ([]domain.User, int64, error) {
	r := s.db.Reader(ctx)
	var window []int64
	err := r.Model(&userRow{}).Where("id > ?", after).Order("id").Limit(sqldb.PurgeBatch).Pluck("id", &window).Error
	if err != nil || len(window) == 0 {
		return nil, 0, s.db.Translate(err)
	}

	last := window[len(window)-1]

	idle, err := list[userRow](s, whereIdle(r, since).Where("id > ? AND id <= ?", after, last))
	return column(idle, func(u *userRow) domain.User { return u.User }), last, err
}

// whereIdle selects the users without a session, without a login and an order since the given time, and without an order
// that is unfinished.
func whereIdle(db *gorm.DB, since time.Time) *gorm.DB {
	return db.Where("deleted_at IS NULL AND updated_at < ?", since).
		Where("NOT EXISTS (SELECT 1 FROM sessions s WHERE s.user_id = users.id)").
		Where("NOT EXISTS (SELECT 1 FROM voucher_orders o WHERE o.user_id = users.id AND (o.created_at >= ? OR o.status IN ?))",
			since, []domain.OrderStatus{domain.OrderPendingPayment, domain.OrderPaid, domain.OrderRefunding})
}

// SessionsOf implements domain.PersonalStore.
func (s *Store) SessionsOf(ctx context.Context, userID int64) ([]domain.SessionRecord, error) {
	return list[domain.SessionRecord](s, s.db.Reader(ctx).Model(&sessionRow{}).Where("user_id = ?", userID).Order("created_at, id"))
}

// LoginCodesOf implements domain.PersonalStore.
func (s *Store) LoginCodesOf(ctx context.Context, phone string) ([]domain.LoginCodeRecord, error) {
	return list[domain.LoginCodeRecord](s, s.db.Reader(ctx).Model(&loginRequestRow{}).Where("phone = ?", phone).Order("created_at, login_id"))
}

// SecondFactorsOf implements domain.PersonalStore.
func (s *Store) SecondFactorsOf(ctx context.Context, userID int64) ([]domain.FactorRecord, error) {
	return list[domain.FactorRecord](s, s.db.Reader(ctx).Model(&secondFactorRow{}).Where("user_id = ?", userID))
}
