package repo

import (
	"context"
	"fmt"
	"net/http"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

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
	kept := whereKeys(s.db.Writer(ctx).Model(&keyRow{}), keyOf(c)).Where("claim = ? AND status = 0", c.Token).Updates(map[string]any{
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
	row, err := s.readKeyRow(s.db.Writer(ctx), keyOf(c))
	switch {
	case err != nil:
		return err
	case row == nil && transient, row != nil && row.Claim == c.Token:
		return nil
	}

	return errLeaseLost
}

// KeysOf implements domain.PersonalStore.
func (s *Store) KeysOf(ctx context.Context, userID int64, after string, limit int) ([]domain.KeyRecord, error) {
	return list[domain.KeyRecord](s, s.db.Reader(ctx).Table("idempotency_keys").
		Where("user_id = ? AND idem_key > ?", userID, []byte(after)).Order("idem_key").Limit(limit))
}
