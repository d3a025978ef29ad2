package repo

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

const auditTable = "audit_log"

func writeAudit(tx *gorm.DB, entries ...domain.AuditEntry) error {
	// Create sets the ids, and the transaction may run again.
	rows := slices.Clone(entries)
	return tx.Table(auditTable).Create(&rows).Error
}

// RecordChange implements service.DeadLetterLog.
func (s *Store) RecordChange(ctx context.Context, e domain.AuditEntry) error {
	return s.db.Translate(writeAudit(s.db.Writer(ctx), e))
}

func writeChange(tx *gorm.DB, voucherID int64, action string, by domain.Actor, at time.Time, detail string) error {
	return writeAudit(tx, domain.AuditEntry{
		At:        at,
		Actor:     by,
		Action:    action,
		VoucherID: voucherID,
		Detail:    detail,
	})
}

func writeOrderAudit(tx *gorm.DB, order *orderRow, action string, by domain.Actor, at time.Time, detail string) error {
	return writeAudit(tx, domain.AuditEntry{
		At:        at,
		Actor:     by,
		Action:    action,
		VoucherID: order.VoucherID,
		OrderID:   order.ID,
		Detail:    detail,
	})
}

// AuditLog implements domain.AuditStore.
func (s *Store) AuditLog(ctx context.Context, f domain.AuditFilter) ([]domain.AuditEntry, error) {
	// The fields that are not zero.
	matching := domain.AuditEntry{
		VoucherID: f.VoucherID,
		OrderID:   f.OrderID,
		Action:    f.Action,
		Actor:     domain.Actor{Kind: f.Actor, ID: f.ActorID},
	}
	return list[domain.AuditEntry](s, newest(s.db.Reader(ctx).Table(auditTable).Where(&matching), f.Page))
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
	matching := domain.AdminRequest{UserID: f.UserID, Target: f.Target}
	return list[domain.AdminRequest](s, newest(s.db.Reader(ctx).Where(&matching), f.Page))
}
