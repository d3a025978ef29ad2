package repo

import (
	"context"
	"slices"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

const auditTable = "audit_log"

// writeAudit writes log entries in the same transaction as the changes that they record.
func writeAudit(tx *gorm.DB, entries ...domain.AuditEntry) error {
	// Create sets the ids, and the transaction may run again.
	rows := slices.Clone(entries)
	return tx.Table(auditTable).Create(&rows).Error
}

// RecordChange implements service.ChangeLog.
func (s *Store) RecordChange(ctx context.Context, e domain.AuditEntry) error {
	return s.db.Translate(writeAudit(s.db.Writer(ctx), e))
}

// findAudit returns nil if the log has an entry about the order with this time, action and actor, and gorm.ErrRecordNotFound
// otherwise.
func findAudit(tx *gorm.DB, e domain.AuditEntry) error {
	return tx.Table(auditTable).Where("order_id = ? AND action = ? AND at = ? AND actor = ? AND actor_id = ?",
		e.OrderID, e.Action, e.At, e.Actor.Kind, e.Actor.ID).Take(&domain.AuditEntry{}).Error
}

// AuditLog implements domain.AuditStore.
func (s *Store) AuditLog(ctx context.Context, f domain.AuditFilter) ([]domain.AuditEntry, error) {
	q := newest(s.db.Reader(ctx).Table(auditTable), f.Page)
	for column, value := range map[string]int64{
		"voucher_id": f.VoucherID,
		"order_id":   f.OrderID,
		"actor_id":   f.ActorID,
	} {
		if value != 0 {
			q = q.Where(column+" = ?", value)
		}
	}

	if f.Actor != "" {
		q = q.Where("actor = ?", f.Actor)
	}
	if f.Action != "" {
		q = q.Where("action = ?", f.Action)
	}

	var entries []domain.AuditEntry
	err := q.Find(&entries).Error
	return entries, s.db.Translate(err)
}

// RecordRequest implements domain.AuditStore.
func (s *Store) RecordRequest(ctx context.Context, r *domain.AdminRequest) error {
	return s.db.Translate(s.db.Writer(ctx).Create(r).Error)
}

// FinishRequest implements domain.AuditStore.
func (s *Store) FinishRequest(ctx context.Context, id int64, status int) error {
	return s.db.Translate(s.db.Writer(ctx).Model(&domain.AdminRequest{ID: id}).Update("status", status).Error)
}

// AdminRequests implements domain.AuditStore.
func (s *Store) AdminRequests(ctx context.Context, f domain.RequestFilter) ([]domain.AdminRequest, error) {
	q := newest(s.db.Reader(ctx), f.Page)
	if f.UserID != 0 {
		q = q.Where("user_id = ?", f.UserID)
	}
	if f.Target != "" {
		q = q.Where("target = ?", f.Target)
	}
	var requests []domain.AdminRequest
	err := q.Find(&requests).Error
	return requests, s.db.Translate(err)
}
