package repo

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/service"
)

// forUpdate locks the rows that a query reads until the transaction ends. On SQLite, where the transaction has
// the whole database to itself, gorm leaves it out.
var forUpdate = clause.Locking{Strength: clause.LockingStrengthUpdate}

// ChangeLoginCode implements service.AuthStore.
func (s *Store) ChangeLoginCode(ctx context.Context, phone string, change func(*service.LoginCode) error) error {
	err := s.changeLoginCode(ctx, phone, change)
	if s.duplicate(err, primaryKey) { // the first code of a phone was asked for twice at once
		err = s.changeLoginCode(ctx, phone, change)
	}
	return err
}

func (s *Store) changeLoginCode(ctx context.Context, phone string, change func(*service.LoginCode) error) error {
	return s.write(ctx, func(tx *gorm.DB) error {
		var row loginCodeRow
		err := tx.Clauses(forUpdate).Where("phone = ?", phone).Take(&row).Error
		fresh := errors.Is(err, gorm.ErrRecordNotFound)
		if err != nil && !fresh {
			return err
		}
		lc := service.LoginCode{
			Phone: phone, Hash: row.CodeHash, Attempts: row.Attempts, SentAt: row.SentAt, ExpiresAt: row.ExpiresAt,
			WindowStart: row.WindowStart, SentCount: row.SentCount,
		}
		if err := change(&lc); err != nil {
			return err
		}
		row = loginCodeRow{
			Phone: phone, CodeHash: append([]byte{}, lc.Hash...), Attempts: lc.Attempts, SentAt: lc.SentAt,
			ExpiresAt: lc.ExpiresAt, WindowStart: lc.WindowStart, SentCount: lc.SentCount,
		}
		if fresh {
			return tx.Create(&row).Error
		}
		return tx.Select("*").Updates(&row).Error
	})
}

// OpenSession implements service.AuthStore.
func (s *Store) OpenSession(ctx context.Context, newcomer service.User, sess service.Session) (service.User, error) {
	var u userRow
	err := s.write(ctx, func(tx *gorm.DB) error {
		u = newUserRow(&newcomer)
		err := tx.Where("phone = ?", newcomer.Phone).Take(&u).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			u = newUserRow(&newcomer)
			if err = tx.Create(&u).Error; s.duplicate(err, ukPhone) { // two first logins at once
				err = tx.Clauses(forUpdate).Where("phone = ?", newcomer.Phone).Take(&u).Error
			}
		}
		if err != nil {
			return err
		}
		sess.UserID = u.ID
		row := newSessionRow(&sess)
		return tx.Create(&row).Error
	})
	return u.user(), err
}

// User implements service.AuthStore.
func (s *Store) User(ctx context.Context, id int64) (service.User, error) {
	var u userRow
	err := s.r.WithContext(ctx).Take(&u, id).Error
	return u.user(), s.translate(err)
}

// RotateSession implements service.AuthStore.
func (s *Store) RotateSession(
	ctx context.Context, id string, generation int64, now, expires, keepUntil time.Time,
) (service.User, error) {
	var (
		u     userRow
		reuse bool
	)
	err := s.write(ctx, func(tx *gorm.DB) error {
		reuse = false
		var row sessionRow
		if err := tx.Clauses(forUpdate).Where("id = ?", id).Take(&row).Error; err != nil {
			return err
		}
		if row.RevokedAt != nil || !now.Before(row.ExpiresAt) {
			return service.ErrUnauthenticated
		}
		if row.Generation != generation {
			reuse = true
			return revoke(tx, id, now, keepUntil)
		}
		u = userRow{}
		if err := tx.Take(&u, row.UserID).Error; err != nil {
			return err
		}
		return tx.Model(&row).Updates(map[string]any{"generation": generation + 1, "expires_at": expires}).Error
	})
	if reuse && err == nil || errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, service.ErrNotFound) {
		err = service.ErrUnauthenticated
	}
	return u.user(), err
}

// RevokeSession implements service.AuthStore.
func (s *Store) RevokeSession(ctx context.Context, id string, now, keepUntil time.Time) error {
	return s.write(ctx, func(tx *gorm.DB) error { return revoke(tx, id, now, keepUntil) })
}

// revoke ends a session and puts it on the list that all instances read.
func revoke(tx *gorm.DB, id string, now, keepUntil time.Time) error {
	err := tx.Model(&sessionRow{}).Where("id = ? AND revoked_at IS NULL", id).Update("revoked_at", now).Error
	if err != nil {
		return err
	}
	return tx.Create(&revocationRow{SessionID: id, KeepUntil: keepUntil}).Error
}

// RevocationsAfter implements service.RevocationStore.
func (s *Store) RevocationsAfter(ctx context.Context, seq int64, now time.Time) ([]service.Revocation, error) {
	var rows []revocationRow
	err := s.r.WithContext(ctx).Where("seq > ? AND keep_until > ?", seq, now).Order("seq").Find(&rows).Error
	if err != nil {
		return nil, s.translate(err)
	}
	list := make([]service.Revocation, len(rows))
	for i, r := range rows {
		list[i] = service.Revocation{Seq: r.Seq, SessionID: r.SessionID, KeepUntil: r.KeepUntil}
	}
	return list, nil
}

// PurgeSessions implements service.RevocationStore.
func (s *Store) PurgeSessions(ctx context.Context, now time.Time) error {
	return s.write(ctx, func(tx *gorm.DB) error {
		if err := tx.Where("keep_until < ?", now).Delete(&revocationRow{}).Error; err != nil {
			return err
		}
		return tx.Where("expires_at < ?", now).Delete(&sessionRow{}).Error
	})
}
