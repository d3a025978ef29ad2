package repo

import (
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/auth"
	"seckill/internal/repo/sqldb"
)

// keepLoginRequests is how long requests for login codes are kept. It is longer than the codes are valid, to look into
// an attack.
const keepLoginRequests = 24 * time.Hour

type loginRequestRow struct {
	LoginID           string `gorm:"primaryKey"`
	Phone             string
	Asker             []byte
	CodeHash          []byte
	Attempts          int
	AttemptsWithoutID int
	CreatedAt         time.Time
	ExpiresAt         time.Time
}

func (loginRequestRow) TableName() string { return "login_codes" }

func newLoginRequestRow(r *auth.LoginRequest) loginRequestRow {
	return loginRequestRow{
		LoginID:           r.ID,
		Phone:             r.Phone,
		Asker:             r.Asker,
		CodeHash:          append([]byte{}, r.Hash...),
		Attempts:          r.Attempts,
		AttemptsWithoutID: r.AttemptsWithoutID,
		CreatedAt:         r.CreatedAt,
		ExpiresAt:         r.ExpiresAt,
	}
}

func (r *loginRequestRow) request() auth.LoginRequest {
	return auth.LoginRequest{
		ID:                r.LoginID,
		Phone:             r.Phone,
		Asker:             r.Asker,
		Hash:              r.CodeHash,
		Attempts:          r.Attempts,
		AttemptsWithoutID: r.AttemptsWithoutID,
		CreatedAt:         r.CreatedAt,
		ExpiresAt:         r.ExpiresAt,
	}
}

// AddLoginRequest implements auth.Store.
func (s *Store) AddLoginRequest(ctx context.Context, r auth.LoginRequest) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		row := newLoginRequestRow(&r)
		return tx.Create(&row).Error
	})
}

// DeleteLoginRequest implements auth.Store.
func (s *Store) DeleteLoginRequest(ctx context.Context, id string) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error { return tx.Delete(&loginRequestRow{LoginID: id}).Error })
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
