package accounts

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

type sessionRow struct {
	ID         string `gorm:"primaryKey"`
	UserID     int64
	Generation int64
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RevokedAt  *time.Time
	DeviceHash *string    // nil in a session from before the column until a browser with a device exchanges its token
	RotatedAt  *time.Time // nil if the last exchange was before the column
}

func (sessionRow) TableName() string { return "sessions" }

func newSessionRow(s *auth.Session) sessionRow {
	return sessionRow{
		ID: s.ID, UserID: s.UserID, Generation: s.Generation, CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt, DeviceHash: &s.DeviceHash,
	}
}

// repeatable reports whether r repeats the last exchange of the session within its grace.
func (row *sessionRow) repeatable(r *auth.Rotation) bool {
	rotated := row.ExpiresAt.Add(r.Now.Sub(r.Expires))
	if row.RotatedAt != nil {
		rotated = *row.RotatedAt
	}
	return row.Generation == r.Generation+1 && r.Now.Sub(rotated) < r.Grace
}

type revocationRow struct {
	Seq       int64 `gorm:"primaryKey"`
	SessionID string
	KeepUntil time.Time
}

func (revocationRow) TableName() string { return "revocations" }

type loginCodeRow struct {
	Phone       string `gorm:"primaryKey"`
	CodeHash    []byte
	Attempts    int
	SentAt      time.Time
	ExpiresAt   time.Time
	WindowStart time.Time
	SentCount   int
}

func (loginCodeRow) TableName() string { return "login_codes" }

func newLoginCodeRow(lc *auth.LoginCode) loginCodeRow {
	return loginCodeRow{
		Phone: lc.Phone, CodeHash: append([]byte{}, lc.Hash...), Attempts: lc.Attempts, SentAt: lc.SentAt,
		ExpiresAt: lc.ExpiresAt, WindowStart: lc.WindowStart, SentCount: lc.SentCount,
	}
}

func (r *loginCodeRow) loginCode(phone string) auth.LoginCode {
	return auth.LoginCode{
		Phone: phone, Hash: r.CodeHash, Attempts: r.Attempts, SentAt: r.SentAt, ExpiresAt: r.ExpiresAt,
		WindowStart: r.WindowStart, SentCount: r.SentCount,
	}
}

// ChangeLoginCode implements auth.Store.
func (s *Store) ChangeLoginCode(ctx context.Context, phone string, change func(*auth.LoginCode) error) error {
	err := s.changeLoginCode(ctx, phone, change)
	if s.db.Duplicate(err, sqldb.PrimaryKey) { // two requests inserted the first code of this phone at once
		err = s.changeLoginCode(ctx, phone, change)
	}
	return err
}

func (s *Store) changeLoginCode(ctx context.Context, phone string, change func(*auth.LoginCode) error) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		row, err := lockLoginCode(tx, phone)
		fresh := errors.Is(err, gorm.ErrRecordNotFound)
		if err != nil && !fresh {
			return err
		}
		lc := row.loginCode(phone)
		if err := change(&lc); err != nil {
			return err
		}
		row = newLoginCodeRow(&lc)
		if fresh {
			return tx.Create(&row).Error
		}
		return tx.Select("*").Updates(&row).Error
	})
}

// lockLoginCode reads and locks the row of a phone, so guesses at one code run one after another.
func lockLoginCode(tx *gorm.DB, phone string) (loginCodeRow, error) {
	var row loginCodeRow
	err := tx.Clauses(sqldb.ForUpdate).Where("phone = ?", phone).Take(&row).Error
	return row, err
}

// OpenSession implements auth.Store.
func (s *Store) OpenSession(
	ctx context.Context, newcomer domain.User, sess auth.Session, use func(*auth.LoginCode) bool,
) (domain.User, error) {
	var (
		u     userRow
		right bool
	)
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		right = false
		code, err := lockLoginCode(tx, newcomer.Phone)
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		lc := code.loginCode(newcomer.Phone)
		right = use(&lc)
		code = newLoginCodeRow(&lc)
		if err := tx.Select("*").Updates(&code).Error; err != nil || !right {
			return err // the transaction commits even after a wrong guess, because it counts the guess
		}
		if u, err = s.findOrCreateUser(tx, &newcomer); err != nil {
			return err
		}
		sess.UserID = u.ID
		row := newSessionRow(&sess)
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return revokeOldest(tx, &sess)
	})
	if err == nil && !right {
		err = domain.ErrWrongCode
	}
	return u.user(), err
}

// revokeOldest ends the oldest sessions of the user of latest beyond auth.MaxSessions.
func revokeOldest(tx *gorm.DB, latest *auth.Session) error {
	var ids []string
	err := tx.Model(&sessionRow{}).
		Where("user_id = ? AND revoked_at IS NULL AND expires_at > ?", latest.UserID, latest.CreatedAt).
		Order("created_at DESC, id").Offset(auth.MaxSessions).Limit(sqldb.PurgeBatch).Pluck("id", &ids).Error
	if err != nil {
		return err
	}
	return revokeAll(tx, ids, latest.CreatedAt, latest.CreatedAt.Add(auth.SeedTTL))
}

func (s *Store) findOrCreateUser(tx *gorm.DB, newcomer *domain.User) (userRow, error) {
	var u userRow
	err := tx.Where("phone = ?", newcomer.Phone).Take(&u).Error
	if !errors.Is(err, gorm.ErrRecordNotFound) {
		return u, err
	}
	u = newUserRow(newcomer)
	if err = tx.Create(&u).Error; s.db.Duplicate(err, sqldb.UKPhone) { // SeedUsers inserts users without locking a login code
		err = tx.Clauses(sqldb.ForUpdate).Where("phone = ?", newcomer.Phone).Take(&u).Error
	}
	return u, err
}

// RotateSession implements auth.Store.
func (s *Store) RotateSession(ctx context.Context, r auth.Rotation) (domain.User, error) {
	var (
		u      userRow
		stolen bool
	)
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		stolen = false
		var row sessionRow
		if err := tx.Clauses(sqldb.ForUpdate).Where("id = ?", r.SessionID).Take(&row).Error; err != nil {
			return err
		}
		end := row.CreatedAt.Add(auth.SessionMaxAge)
		if row.RevokedAt != nil || !r.Now.Before(row.ExpiresAt) || !r.Now.Before(end) {
			return domain.ErrUnauthenticated
		}
		copied := row.DeviceHash != nil && *row.DeviceHash != r.DeviceHash
		repeated := row.repeatable(&r)
		if copied || row.Generation != r.Generation && !repeated {
			stolen = true
			return revokeAll(tx, []string{r.SessionID}, r.Now, r.KeepUntil)
		}
		u = userRow{}
		if err := tx.Take(&u, row.UserID).Error; err != nil || repeated {
			return err
		}
		if r.Expires.Before(end) {
			end = r.Expires
		}
		changes := map[string]any{"generation": r.Generation + 1, "expires_at": end, "rotated_at": r.Now}
		if row.DeviceHash == nil && r.DeviceHash != "" {
			changes["device_hash"] = r.DeviceHash
		}
		return tx.Model(&row).Updates(changes).Error
	})
	if !stolen {
		err = s.db.ResolveUnknownCommit(ctx, err, func(tx *gorm.DB) error {
			return tx.Where("id = ? AND generation = ? AND revoked_at IS NULL", r.SessionID, r.Generation+1).Take(&sessionRow{}).Error
		})
	}
	if stolen && err == nil || errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, domain.ErrNotFound) {
		err = domain.ErrUnauthenticated
	}
	return u.user(), err
}

// SlideSession implements auth.Store.
func (s *Store) SlideSession(ctx context.Context, id string, after, expires time.Time) (domain.User, error) {
	var u userRow
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		u = userRow{}
		var row sessionRow
		if err := tx.Clauses(sqldb.ForUpdate).Where("id = ?", id).Take(&row).Error; err != nil {
			return err
		}
		if row.RevokedAt != nil || !row.ExpiresAt.After(after) {
			return domain.ErrUnauthenticated
		}
		extended := expires
		if end := row.CreatedAt.Add(auth.IdleSessionMaxAge); end.Before(extended) {
			extended = end
		}
		if err := tx.Take(&u, row.UserID).Error; err != nil || !extended.After(row.ExpiresAt) {
			return err
		}
		return tx.Model(&row).Update("expires_at", extended).Error
	})
	if errors.Is(err, domain.ErrNotFound) {
		err = domain.ErrUnauthenticated
	}
	return u.user(), err
}

// RevokeSession implements auth.Store.
func (s *Store) RevokeSession(ctx context.Context, id string, now, keepUntil time.Time) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error { return revokeAll(tx, []string{id}, now, keepUntil) })
}

// RevokeSessions implements auth.Store.
func (s *Store) RevokeSessions(ctx context.Context, userID int64, now, keepUntil time.Time) ([]string, error) {
	var ids []string
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		ids = nil
		err := tx.Model(&sessionRow{}).Clauses(sqldb.ForUpdate).
			Where("user_id = ? AND revoked_at IS NULL", userID).Order("id").Pluck("id", &ids).Error
		if err != nil {
			return err
		}
		return revokeAll(tx, ids, now, keepUntil)
	})
	return ids, err
}

// revokeAll ends sessions and adds them to the revocations that all instances read.
func revokeAll(tx *gorm.DB, ids []string, now, keepUntil time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	err := tx.Model(&sessionRow{}).Where("id IN ? AND revoked_at IS NULL", ids).Update("revoked_at", now).Error
	if err != nil {
		return err
	}
	rows := make([]revocationRow, len(ids))
	for i, id := range ids {
		rows[i] = revocationRow{SessionID: id, KeepUntil: keepUntil}
	}
	return tx.CreateInBatches(&rows, sqldb.PurgeBatch).Error
}

// RevocationsAfter implements auth.RevocationStore.
func (s *Store) RevocationsAfter(ctx context.Context, seq int64, now time.Time) ([]auth.Revocation, error) {
	var rows []revocationRow
	err := s.db.Reader(ctx).Where("seq > ? AND keep_until > ?", seq, now).Order("seq").Find(&rows).Error
	if err != nil {
		return nil, s.db.Translate(err)
	}
	list := make([]auth.Revocation, len(rows))
	for i, r := range rows {
		list[i] = auth.Revocation{Seq: r.Seq, SessionID: r.SessionID, KeepUntil: r.KeepUntil}
	}
	return list, nil
}

// PurgeSessions implements auth.RevocationStore. It reads the rows before the transaction, without locks.
func (s *Store) PurgeSessions(ctx context.Context, now time.Time) (int, error) {
	var (
		seqs     []int64
		sessions []string
	)
	r := s.db.Reader(ctx)
	if err := r.Model(&revocationRow{}).Where("keep_until < ?", now).Limit(sqldb.PurgeBatch).Pluck("seq", &seqs).Error; err != nil {
		return 0, s.db.Translate(err)
	}
	if err := r.Model(&sessionRow{}).Where("expires_at < ?", now).Limit(sqldb.PurgeBatch).Pluck("id", &sessions).Error; err != nil {
		return 0, s.db.Translate(err)
	}
	if len(seqs)+len(sessions) == 0 {
		return 0, nil
	}
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		if err := tx.Where("seq IN ?", seqs).Delete(&revocationRow{}).Error; err != nil {
			return err
		}
		// Check the time again: a session may have been extended since it was read.
		return tx.Where("id IN ? AND expires_at < ?", sessions, now).Delete(&sessionRow{}).Error
	})
	return len(seqs) + len(sessions), err
}
