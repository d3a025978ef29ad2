package accounts

import (
	"time"

	"seckill/internal/auth"
)

type sessionRow struct {
	ID         string `gorm:"primaryKey"`
	UserID     int64
	Generation int64
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RevokedAt  *time.Time
}

func (sessionRow) TableName() string { return "sessions" }

func newSessionRow(s *auth.Session) sessionRow {
	return sessionRow{
		ID: s.ID, UserID: s.UserID, Generation: s.Generation, CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt,
	}
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
