package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

// keyRow is a row of idempotency_keys with the columns that are read.
type keyRow struct {
	UserID      int64  `gorm:"primaryKey"`
	IdemKey     []byte `gorm:"primaryKey"`
	Fingerprint []byte
	Claim       int64
	Runs        int
	ResourceID  *int64
	ResourceAt  *time.Time
	Done        bool
	domain.Answer
	// Whether the lease has not ended.
	Locked bool
	// Whether the lifetime is over.
	Expired bool
}

func (keyRow) TableName() string { return "idempotency_keys" }

type keyID struct {
	UserID int64
	Key    string
}

func (r *keyRow) keyID() keyID { return keyID{r.UserID, string(r.IdemKey)} }

func whereKey(db *gorm.DB, of *domain.Claim) *gorm.DB {
	return db.Where("user_id = ? AND idem_key = ?", of.UserID, []byte(of.Key))
}

func (s *Store) readKeyRow(db *gorm.DB, of *domain.Claim) (*keyRow, error) {
	k := s.db.Syntax()
	var row keyRow
	err := whereKey(db, of).Select("user_id, idem_key, fingerprint, claim, runs, resource_id, resource_at, done, status, location, " +
		"content_type, body, locked_until > " + k.Now + " AS locked, expires_at <= " + k.Now + " AS expired").Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, nil
	}
	return &row, err
}

// ClaimKey implements service.KeyStore. A row identifies its lease by the token of the claim, so the call can be
// repeated.
func (s *Store) ClaimKey(ctx context.Context, c *domain.Claim) domain.KeyState {
	var state domain.KeyState
	err := s.db.RetryUnavailable(ctx, func() error {
		var err error
		state, err = s.claimKey(ctx, c)
		return err
	})
	if err != nil {
		return domain.KeyState{Err: err}
	}
	return state
}

func (s *Store) claimKey(ctx context.Context, c *domain.Claim) (domain.KeyState, error) {
	none := domain.KeyState{}
	atLimit := false

	// Most keys are new. A row that exists may be locked by the run that has its lease.
	if !c.Seen {
		var err error
		if atLimit, err = s.atKeyLimit(ctx, c.UserID); err != nil {
			return none, err
		}

		if !atLimit {
			inserted, err := s.insertKey(s.db.Writer(ctx), c)
			if err != nil {
				return none, err
			}
			if inserted {
				return s.refuseKeyOfOrder(ctx, c, domain.KeyState{Runs: 1})
			}
		}
	}

	row, err := s.readKeyRow(s.db.Writer(ctx), c)
	switch {
	case err != nil:
		return none, err
	case row == nil && atLimit:
		return domain.KeyState{Err: &domain.RateLimitedError{RetryAfter: domain.KeyLifeOfError}}, nil
	case row != nil && row.canTakeOver(c):
		if row, err = s.takeOver(ctx, c, row); err != nil {
			return none, err
		}
	}

	return s.refuseKeyOfOrder(ctx, c, row.leaseState(c))
}

func (s *Store) atKeyLimit(ctx context.Context, userID int64) (bool, error) {
	var n int64
	err := s.db.Writer(ctx).Model(&keyRow{}).Where("user_id = ? AND expires_at > "+s.db.Syntax().Now, userID).Count(&n).Error
	return n >= domain.MaxKeys, err
}

func (s *Store) insertKey(db *gorm.DB, c *domain.Claim) (bool, error) {
	k := s.db.Syntax()
	query := "INSERT INTO idempotency_keys (user_id, idem_key, fingerprint, claim, runs, done, status, location, content_type, body, " +
		"locked_until, created_at, expires_at) VALUES (?,?,?,?,1,0,0,'','',NULL," + fmt.Sprintf(k.InMillis, domain.KeyLease.Milliseconds()) + "," +
		k.Now + "," + fmt.Sprintf(k.InMillis, domain.KeyLife.Milliseconds()) + ")" + k.SkipExisting

	res := db.Exec(query, c.UserID, []byte(c.Key), c.Fingerprint[:], c.Token)
	return res.RowsAffected == 1, res.Error
}

// canTakeOver reports whether the claim may take over the row: its lifetime is over, or its lease ended without an
// answer and the request is the same.
func (r *keyRow) canTakeOver(c *domain.Claim) bool {
	return r.Claim != c.Token && (r.Expired || r.Status == 0 && !r.Locked && bytes.Equal(r.Fingerprint, c.Fingerprint[:]))
}

func (r *keyRow) leaseState(c *domain.Claim) domain.KeyState {
	switch {
	case r == nil:
		// Purged between two reads.
		return domain.KeyState{Err: domain.ErrOrderInProgress}
	case r.Claim == c.Token && r.Status == 0:
		st := domain.KeyState{Runs: r.Runs}
		// Noted, and not set by writeOnce.
		if r.ResourceID != nil && r.ResourceAt != nil {
			st.ResourceID = *r.ResourceID
		}
		return st
	case !bytes.Equal(r.Fingerprint, c.Fingerprint[:]):
		return domain.KeyState{Err: domain.ErrIdempotencyMismatch}
	case r.Status == 0:
		return domain.KeyState{Err: domain.ErrOrderInProgress}
	}

	return domain.KeyState{Answer: &r.Answer}
}

// takeOver leases a row whose run died or whose lifetime is over, provided that it has not changed since it was read. It
// returns the row as it is then, or nil if it was purged. The resource that an earlier run noted stays; that run can no
// longer write.
func (s *Store) takeOver(ctx context.Context, c *domain.Claim, seen *keyRow) (*keyRow, error) {
	k := s.db.Syntax()
	return run(ctx, s.db.RunTx, func(tx *gorm.DB) (*keyRow, error) {
		unchanged := whereKey(tx.Model(&keyRow{}), c).Where("claim = ?", seen.Claim)
		var err error

		if seen.Expired {
			// As a new key.
			err = unchanged.Where("expires_at <= " + k.Now).Delete(&keyRow{}).Error
			if err == nil {
				_, err = s.insertKey(tx, c)
			}
		} else {
			err = unchanged.Where("status = 0 AND locked_until <= " + k.Now).Updates(map[string]any{
				"claim":        c.Token,
				"locked_until": gorm.Expr(fmt.Sprintf(k.InMillis, domain.KeyLease.Milliseconds())),
				"runs":         gorm.Expr("runs + 1"),
			}).Error
		}

		if err != nil {
			return nil, err
		}

		return s.readKeyRow(tx, c)
	})
}

// PurgeKeys implements service.KeyStore.
func (s *Store) PurgeKeys(ctx context.Context) (int, error) {
	return purge[keyRow](ctx, s, "user_id, idem_key", "expires_at <= "+s.db.Syntax().Now)
}

// KeepAnswer implements service.KeyStore.
func (s *Store) KeepAnswer(ctx context.Context, c *domain.Claim, a domain.Answer) error {
	return s.db.RetryUnavailable(ctx, func() error { return s.keepAnswer(ctx, c, a) })
}

func (s *Store) keepAnswer(ctx context.Context, c *domain.Claim, a domain.Answer) error {
	transient := a.Transient
	if transient {
		a = domain.Answer{}
	}

	life := domain.KeyLife
	if a.Status >= http.StatusBadRequest {
		life = domain.KeyLifeOfError
	}

	k := s.db.Syntax()
	kept := whereKey(s.db.Writer(ctx).Model(&keyRow{}), c).Where("claim = ? AND status = 0", c.Token).Updates(map[string]any{
		"status":       a.Status,
		"location":     a.Location,
		"content_type": a.ContentType,
		"body":         a.Body,
		"locked_until": gorm.Expr(k.Now),
		"expires_at":   gorm.Expr(fmt.Sprintf(k.InMillis, life.Milliseconds())),
	})
	if kept.Error != nil || kept.RowsAffected > 0 {
		return kept.Error
	}

	// An earlier call, whose reply was lost, may have stored it. A key that was never claimed need not be released.
	row, err := s.readKeyRow(s.db.Writer(ctx), c)
	switch {
	case err != nil:
		return err
	case row == nil && transient, row != nil && row.Claim == c.Token:
		return nil
	}

	return errLeaseLost
}

// KeysOf implements domain.PersonalStore.
func (s *Store) KeysOf(ctx context.Context, userID int64) ([]domain.KeyRecord, error) {
	return list[domain.KeyRecord](s, s.db.Reader(ctx).Table("idempotency_keys").Where("user_id = ?", userID).Order("idem_key"))
}
