package repo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

type noticeRow struct {
	domain.UnreadNotice
	// The hash of the notice.
	Hash []byte `gorm:"column:content"`
}

func (noticeRow) TableName() string { return "payment_notices" }

func newNoticeRow(n domain.UnreadNotice) noticeRow {
	hash := n.Content()
	row := noticeRow{UnreadNotice: n, Hash: hash[:]}
	row.Reason = cut(n.Reason)
	row.Times = 1
	row.LastAt = n.ReceivedAt
	row.OrderID = max(0, n.OrderID)
	if row.Body == nil {
		row.Body = []byte{}
	}
	return row
}

// maxNote bounds a stored reason, in characters.
const maxNote = 255

func cut(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "?"))
	return string(runes[:min(len(runes), maxNote)])
}

// KeepNotice implements domain.PaymentStore. A notice that was closed stays closed when it arrives again.
func (s *Store) KeepNotice(ctx context.Context, n domain.UnreadNotice) error {
	row := newNoticeRow(n)

	return s.db.Write(ctx, func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "provider"}, {Name: "content"}},
			DoUpdates: clause.Assignments(map[string]any{
				"times":   gorm.Expr("payment_notices.times + 1"),
				"last_at": row.LastAt,
				"reason":  row.Reason,
				"body":    row.Body,
			}),
		}).Omit("id").Create(&row).Error
	})
}

// UnreadNotices implements domain.NoticeStore.
func (s *Store) UnreadNotices(ctx context.Context, f domain.NoticeFilter) ([]domain.UnreadNotice, error) {
	q := newest(s.db.Reader(ctx).Model(&noticeRow{}), f.Page)
	if f.Open {
		q = q.Where("closed_at IS NULL")
	}
	return list[domain.UnreadNotice](s, q)
}

// CloseNotice implements domain.NoticeStore.
func (s *Store) CloseNotice(ctx context.Context, c domain.NoticeClosing) error {
	return s.writeOnce(ctx, c.Claim, doneBefore, func(tx *gorm.DB) (int64, error) {
		var row noticeRow
		if err := tx.Clauses(sqldb.ForUpdate).Take(&row, c.ID).Error; err != nil {
			return 0, err
		}
		if row.ClosedAt != nil {
			return 0, domain.ErrInvalidState
		}
		if err := tx.Model(&noticeRow{}).Where("id = ?", c.ID).Update("closed_at", c.At).Error; err != nil {
			return 0, err
		}

		return c.ID, writeAudit(tx, domain.AuditEntry{
			At:      c.At,
			Actor:   c.By,
			Action:  domain.ActionCloseNotice,
			OrderID: row.OrderID,
			Detail:  fmt.Sprintf("notice %d: %s", c.ID, c.Reason),
		})
	})
}

// PurgeNotices deletes the notices that were closed before a time.
func (s *Store) PurgeNotices(ctx context.Context, before time.Time) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		return tx.Where("closed_at < ?", before).Delete(&noticeRow{}).Error
	})
}

// OpenNotices implements alerts.Failures.
func (s *Store) OpenNotices(ctx context.Context) (int64, error) {
	var n int64
	err := s.db.Reader(ctx).Model(&noticeRow{}).Where("closed_at IS NULL").Count(&n).Error
	return n, s.db.Translate(err)
}
