package repo

import (
	"cmp"
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

type sessionRow struct {
	auth.Session
	RevokedAt *time.Time
	// Instead of that of the session: nil from before the column until the next exchange.
	DeviceHash *string
	// Nil if the last exchange was before the column.
	RotatedAt *time.Time
}

func (sessionRow) TableName() string { return "sessions" }

func newSessionRow(s *auth.Session) sessionRow {
	return sessionRow{Session: *s, DeviceHash: &s.DeviceHash}
}

// repeats reports whether r repeats the last exchange of the session within its grace. Only the device that made the
// exchange may repeat it, so a session without one has no grace. The clock of the server that made the exchange may be ahead.
func (row *sessionRow) repeats(r *auth.Rotation) bool {
	return row.DeviceHash != nil && row.RotatedAt != nil && row.Generation == r.Generation+1 &&
		r.Grace > 0 && r.Now.Sub(*row.RotatedAt) < r.Grace
}

// OpenSession implements auth.Store.
func (s *Store) OpenSession(
	ctx context.Context, g auth.Guess, newcomer domain.User, sess auth.Session, check func(*auth.LoginRequest) bool, confirm auth.ConfirmFunc,
) (domain.User, error) {
	var u userRow
	// The transaction commits even after a wrong guess, because it counts the guess.
	var refusal error

	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		refusal = domain.ErrWrongCode
		row, err := lockLoginRequest(tx, g)
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return nil
		}
		if err != nil {
			return err
		}

		r := row.LoginRequest
		hash := r.Hash
		right := check(&r)

		row = newLoginRequestRow(r)
		if err := tx.Select("*").Updates(&row).Error; err != nil || !right {
			return err
		}

		refusal = nil
		if u, err = findOrCreateUser(tx, &newcomer); err != nil {
			return err
		}

		sess.SecondFactor, err = confirmFactor(tx, &u, confirm)
		if errors.Is(err, domain.ErrWrongTOTP) {
			refusal = err
			// The check has counted the attempt.
			row.Hash = hash
			return tx.Select("*").Updates(&row).Error
		}

		if err != nil {
			return err
		}

		sess.UserID = u.ID
		session := newSessionRow(&sess)
		return tx.Create(&session).Error
	})

	return u.User, cmp.Or(err, refusal)
}

func findOrCreateUser(tx *gorm.DB, newcomer *domain.User) (userRow, error) {
	var u userRow
	err := tx.Where("phone = ?", newcomer.Phone).Take(&u).Error
	// Locked, so that no erasure of the user runs between this and the new session.
	if err == nil {
		err = tx.Clauses(sqldb.ForUpdate).Where("phone = ?", newcomer.Phone).Take(&u, u.ID).Error
	}

	if err == nil {
		return u, tx.Model(&u).Update("updated_at", newcomer.CreatedAt).Error
	}
	if !errors.Is(err, gorm.ErrRecordNotFound) {
		return u, err
	}

	// SeedUsers, or a login with another request, may create it meanwhile.
	created := userRow{User: *newcomer, UpdatedAt: newcomer.CreatedAt}
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&created).Error; err != nil {
		return u, err
	}

	u = userRow{}
	err = tx.Clauses(sqldb.ForUpdate).Where("phone = ?", newcomer.Phone).Take(&u).Error
	return u, err
}

// RotateSession implements auth.Store.
func (s *Store) RotateSession(ctx context.Context, r auth.Rotation) (domain.User, bool, error) {
	var u userRow
	var row sessionRow
	// The transaction commits, because it revokes the session.
	var refusal error

	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		refusal = nil
		row = sessionRow{}
		if err := tx.Clauses(sqldb.ForUpdate).Where("id = ?", r.SessionID).Take(&row).Error; err != nil {
			return err
		}

		end := row.CreatedAt.Add(auth.SessionMaxAge)
		if row.RevokedAt != nil || !r.Now.Before(row.ExpiresAt) || !r.Now.Before(end) {
			return domain.ErrUnauthenticated
		}

		copied := row.DeviceHash != nil && *row.DeviceHash != r.DeviceHash
		repeated := row.repeats(&r)
		if copied || row.Generation != r.Generation && !repeated {
			refusal = domain.ErrTokenReused
			return revokeAll(tx, []string{r.SessionID}, r.Now)
		}

		u = userRow{}
		if err := takeUser(tx, &u, row.UserID); err != nil || repeated {
			return err
		}

		if r.Expires.Before(end) {
			end = r.Expires
		}

		return tx.Model(&row).Updates(map[string]any{
			"generation":  r.Generation + 1,
			"expires_at":  end,
			"rotated_at":  r.Now,
			"device_hash": r.DeviceHash,
		}).Error
	})

	if refusal == nil {
		err = s.db.ResolveUnknownCommit(ctx, err, func(tx *gorm.DB) error {
			return tx.Where("id = ? AND generation = ? AND revoked_at IS NULL", r.SessionID, r.Generation+1).Take(&sessionRow{}).Error
		})
	}

	err = cmp.Or(err, refusal)
	if errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, domain.ErrNotFound) {
		err = domain.ErrUnauthenticated
	}

	return u.User, row.SecondFactor, err
}

// SessionUser implements auth.Store.
func (s *Store) SessionUser(ctx context.Context, id string) (domain.User, time.Time, error) {
	var row sessionRow
	var u userRow
	db := s.db.Reader(ctx)
	err := db.Where("id = ? AND revoked_at IS NULL", id).Take(&row).Error
	if err == nil {
		err = takeUser(db, &u, row.UserID)
	}
	if err = s.db.Translate(err); errors.Is(err, domain.ErrNotFound) {
		err = domain.ErrUnauthenticated
	}

	return u.User, row.ExpiresAt, err
}

// RevokeSession implements auth.Store.
func (s *Store) RevokeSession(ctx context.Context, id string, now time.Time) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error { return revokeAll(tx, []string{id}, now) })
}

// RevokeSessions implements auth.Store.
func (s *Store) RevokeSessions(ctx context.Context, userID int64, now time.Time) ([]string, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) ([]string, error) {
		forgotten := gorm.Expr("device_generation + 1")
		if err := tx.Model(&userRow{}).Where("id = ?", userID).Update("device_generation", forgotten).Error; err != nil {
			return nil, err
		}
		return revokeOfUser(tx, userID, now)
	})
}

func revokeOfUser(tx *gorm.DB, userID int64, now time.Time) ([]string, error) {
	var ids []string
	err := tx.Model(&sessionRow{}).Clauses(sqldb.ForUpdate).
		Where("user_id = ? AND revoked_at IS NULL", userID).Order("id").Pluck("id", &ids).Error
	if err != nil {
		return nil, err
	}
	return ids, revokeAll(tx, ids, now)
}

func revokeAll(tx *gorm.DB, ids []string, now time.Time) error {
	if len(ids) == 0 {
		return nil
	}

	// The rows expire at once, so that they are purged.
	err := tx.Model(&sessionRow{}).Where("id IN ? AND revoked_at IS NULL", ids).
		Updates(map[string]any{"revoked_at": now, "expires_at": now}).Error
	if err != nil {
		return err
	}

	rows := column(ids, func(id *string) auth.Revocation { return auth.NewRevocation(*id, now) })
	return tx.CreateInBatches(&rows, sqldb.PurgeBatch).Error
}

// RevocationsAfter implements auth.RevocationStore.
func (s *Store) RevocationsAfter(ctx context.Context, seq int64, now time.Time) ([]auth.Revocation, error) {
	return list[auth.Revocation](s, s.db.Reader(ctx).Where("seq > ? AND keep_until > ?", seq, now).Order("seq"))
}

// PurgeSessions implements auth.RevocationStore.
func (s *Store) PurgeSessions(ctx context.Context, now time.Time) (int, error) {
	requests, err := purge[loginRequestRow](ctx, s, "login_id", "created_at < ?", now.Add(-keepLoginRequests))
	if err != nil {
		return requests, err
	}

	revocations, err := purge[auth.Revocation](ctx, s, "seq", "keep_until < ?", now)
	if err != nil {
		return requests + revocations, err
	}

	sessions, err := purge[sessionRow](ctx, s, "id", "expires_at < ?", now)
	return requests + revocations + sessions, err
}

// purge deletes a batch of the rows that are over, and returns how many it found. It reads their keys before, without locks,
// and checks the condition again: a row may have been extended, or a key used anew, since.
func purge[R any](ctx context.Context, s *Store, key, over string, args ...any) (int, error) {
	rows, err := list[R](s, s.db.Reader(ctx).Select(key).Where(over, args...).Limit(sqldb.PurgeBatch))
	if err != nil || len(rows) == 0 {
		return 0, err
	}

	return len(rows), s.db.Write(ctx, func(tx *gorm.DB) error { return tx.Where(over, args...).Delete(&rows).Error })
}

// keepLoginRequests is how long requests for login codes are kept. It is longer than the codes are valid, to look into
// an attack.
const keepLoginRequests = 24 * time.Hour

type loginRequestRow struct{ auth.LoginRequest }

func (loginRequestRow) TableName() string { return "login_codes" }

// newLoginRequestRow returns the row of a request, in which an empty hash is not NULL.
func newLoginRequestRow(r auth.LoginRequest) loginRequestRow {
	r.Hash = append([]byte{}, r.Hash...)
	return loginRequestRow{r}
}

// AddLoginRequest implements auth.Store.
func (s *Store) AddLoginRequest(ctx context.Context, r auth.LoginRequest) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		row := newLoginRequestRow(r)
		return tx.Create(&row).Error
	})
}

// DeleteLoginRequest implements auth.Store.
func (s *Store) DeleteLoginRequest(ctx context.Context, id string) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error { return tx.Where("login_id = ?", id).Delete(&loginRequestRow{}).Error })
}

// lockLoginRequest reads and locks the request to which a guess belongs, so guesses at one code run one after another.
func lockLoginRequest(tx *gorm.DB, g auth.Guess) (loginRequestRow, error) {
	var row loginRequestRow
	q := tx.Clauses(sqldb.ForUpdate).Where("phone = ?", g.Phone)
	if g.LoginID != "" {
		q = q.Where("login_id = ?", g.LoginID)
	} else {
		q = q.Where("asker IN ? AND expires_at > ? AND LENGTH(code_hash) > 0", g.Askers, g.Now).Order("created_at DESC")
	}
	return row, q.Take(&row).Error
}
