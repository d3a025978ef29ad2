package repo

import (
	"context"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

// audit writes log entries in the same transaction as the changes that they record.
func audit(tx *gorm.DB, entries ...domain.AuditEntry) error {
	rows := make([]auditRow, len(entries))
	for i, e := range entries {
		rows[i] = auditRow{
			At: e.At, Actor: string(e.Actor.Kind), ActorID: e.Actor.ID, Action: e.Action, VoucherID: e.VoucherID, Detail: e.Detail,
		}
		if e.OrderID != 0 {
			rows[i].OrderID = &entries[i].OrderID
		}
	}
	return tx.Create(&rows).Error
}

// AuditLog implements domain.AuditStore.
func (s *Store) AuditLog(ctx context.Context, f domain.AuditFilter) ([]domain.AuditEntry, error) {
	q := s.db.Reader(ctx).Order("id DESC").Limit(f.Page.Limit)
	for column, value := range map[string]int64{"voucher_id": f.VoucherID, "order_id": f.OrderID, "actor_id": f.ActorID} {
		if value != 0 {
			q = q.Where(column+" = ?", value)
		}
	}
	if f.Page.Before > 0 {
		q = q.Where("id < ?", f.Page.Before)
	}
	var rows []auditRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, s.db.Translate(err)
	}
	entries := make([]domain.AuditEntry, len(rows))
	for i := range rows {
		entries[i] = rows[i].entry()
	}
	return entries, nil
}
