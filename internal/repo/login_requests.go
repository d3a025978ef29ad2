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
