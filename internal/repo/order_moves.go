package repo

import (
	"context"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// MoveOrder implements service.OrderStore.
func (s *Store) MoveOrder(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	var row orderRow
	err := writeOnce(ctx, s.db, m.Claim, func(tx *gorm.DB) (int64, error) {
		var err error
		if row, err = lockOrder(tx, m.UserID, m.OrderID); err != nil {
			return 0, err
		}

		if err := s.readOffer(tx, &row); err != nil {
			return 0, err
		}

		if m.Check != nil {
			before := row.order()
			if err := m.Check(&before); err != nil {
				return 0, err
			}
		}

		if m.Move == domain.MoveUndoRedeem {
			if err := checkUndo(tx, &row, m.At); err != nil {
				return 0, err
			}
		}

		return m.OrderID, s.move(tx, &row, m)
	})

	err = s.db.ResolveUnknownCommit(ctx, err, s.moveLogged(m))
	return row.order(), err
}

// checkUndo returns domain.ErrInvalidState if the redemption of an order cannot be undone: the time is over, or the money of
// the order has gone back, so that it is not paid any more.
func checkUndo(tx *gorm.DB, order *orderRow, at time.Time) error {
	if err := order.order().CheckUndo(at); err != nil {
		return err
	}

	var kept, returned int64
	payments := tx.Model(&paymentRow{}).Where("order_id = ?", order.ID)
	if err := payments.Session(&gorm.Session{}).Where("status = ?", domain.PaymentSucceeded).Count(&kept).Error; err != nil {
		return err
	}

	err := payments.Session(&gorm.Session{}).
		Where("status IN ?", []domain.PaymentStatus{domain.PaymentRefunded, domain.PaymentDisputed}).Count(&returned).Error
	if err != nil {
		return err
	}

	if kept == 0 && returned > 0 {
		return domain.ErrInvalidState
	}

	return nil
}

// moveLogged finds out whether a move with an unanswered COMMIT happened: the audit log then has an entry with its
// time.
func (s *Store) moveLogged(m domain.OrderMove) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error {
		return findAudit(tx, domain.AuditEntry{
			OrderID: m.OrderID,
			Action:  m.Move.Name,
			At:      m.At,
			Actor:   m.By,
		})
	}
}

// lockOrder reads and locks an order. Every transaction locks the order before its payments and before the hot row of
// its sale.
func lockOrder(tx *gorm.DB, userID, id int64) (orderRow, error) {
	q := tx.Clauses(sqldb.ForUpdate)
	if userID != 0 {
		q = q.Where("user_id = ?", userID)
	}
	var row orderRow
	err := q.Take(&row, id).Error
	return row, err
}

// move applies a move to an order that the transaction has locked, and updates row. The condition on the status
// decides, not the earlier read.
func (s *Store) move(tx *gorm.DB, row *orderRow, m domain.OrderMove) error {
	o := row.order()
	m.Move.Apply(&o, m.At)
	res := tx.Model(&orderRow{}).Where("id = ? AND status = ?", row.ID, m.Move.From).Updates(movedColumns(&o, m.At))
	switch {
	case res.Error != nil:
		return res.Error
	case res.RowsAffected == 0:
		return domain.ErrInvalidState
	}

	row.Order = o

	err := writeAudit(tx, domain.AuditEntry{
		At:        m.At,
		Actor:     m.By,
		Action:    m.Move.Name,
		VoucherID: row.VoucherID,
		OrderID:   row.ID,
		Detail:    m.Detail,
	})
	if err == nil {
		err = s.recordMove(tx, m.Move, m.At, row.ID)
	}

	if err != nil || !m.Move.ReturnsUnit() {
		return err
	}

	// The hot row last.
	return returnUnits(tx, row.VoucherID, 1, m.At)
}

func movedColumns(o *domain.Order, at time.Time) map[string]any {
	columns := map[string]any{
		"status":       o.Status,
		"paid_at":      o.PaidAt,
		"redeemed_at":  o.RedeemedAt,
		"cancelled_at": o.CancelledAt,
		"refunded_at":  o.RefundedAt,
		"updated_at":   at,
	}

	if !o.Status.Active() {
		columns["slot"] = nil
	}

	return columns
}

func returnUnits(tx *gorm.DB, voucherID int64, n int, at time.Time) error {
	return tx.Table("seckill_vouchers").Where("voucher_id = ?", voucherID).
		Updates(map[string]any{"stock": gorm.Expr("stock + ?", n), "updated_at": at}).Error
}

// closeGrace is how long an order stays open after its time to pay if the provider does not answer about its payment.
const closeGrace = 30 * time.Second

// QueryBeforeClosing makes CloseExpired wait for the answers to queries of payments at a provider. It must be called before
// the store is used.
func (s *Store) QueryBeforeClosing(provider string) { s.queried = provider }

// unanswered selects the pending payments of an order whose provider has not been queried since the time to pay ended.
const unanswered = `SELECT 1 FROM payments p WHERE p.order_id = voucher_orders.id AND p.status = ? AND p.provider = ?
	AND (p.queried_at IS NULL OR p.queried_at < voucher_orders.expires_at)`

// CloseExpired implements service.CloserStore. It waits for no order. As in every transaction, the hot rows come last,
// in the order of voucher ids.
func (s *Store) CloseExpired(ctx context.Context, limit int) ([]domain.Order, error) {
	var closed []domain.Order
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		closed = nil
		at, err := s.db.Now(tx)
		if err != nil {
			return err
		}

		var rows []orderRow
		expired := tx.Clauses(sqldb.SkipLocked).Where("status = ? AND expires_at <= ?", domain.OrderPendingPayment, at)
		if s.queried != "" {
			expired = expired.Where("(expires_at <= ? OR NOT EXISTS ("+unanswered+"))", at.Add(-closeGrace), domain.PaymentPending, s.queried)
		}

		err = expired.Order("expires_at").Limit(limit).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return err
		}

		closed, err = s.expire(tx, rows, at)
		return err
	})
	if err != nil {
		return nil, err
	}

	return closed, nil
}

// expire applies domain.MoveExpire to orders that the transaction has locked. It uses one UPDATE and one INSERT per log
// for all of them, and one UPDATE per sale.
func (s *Store) expire(tx *gorm.DB, rows []orderRow, at time.Time) ([]domain.Order, error) {
	m := domain.MoveExpire
	ids := make([]int64, len(rows))
	orders := make([]domain.Order, len(rows))
	entries := make([]domain.AuditEntry, len(rows))
	units := map[int64]int{}

	for i := range rows {
		o := rows[i].order()
		m.Apply(&o, at)
		ids[i] = o.ID
		orders[i] = o
		units[o.VoucherID]++

		entries[i] = domain.AuditEntry{
			At:        at,
			Actor:     domain.Actor{Kind: domain.ActorSystem},
			Action:    m.Name,
			VoucherID: o.VoucherID,
			OrderID:   o.ID,
		}
	}

	res := tx.Model(&orderRow{}).Where("id IN ? AND status = ?", ids, m.From).
		Updates(map[string]any{
			"status":       m.To,
			"slot":         nil,
			"cancelled_at": at,
			"updated_at":   at,
		})

	switch {
	case res.Error != nil:
		return nil, res.Error
	case int(res.RowsAffected) != len(rows):
		// Cannot happen under the locks; if it does, nothing may be committed.
		return nil, domain.ErrInvalidState
	}

	if err := writeAudit(tx, entries...); err != nil {
		return nil, err
	}
	if err := s.recordMove(tx, m, at, ids...); err != nil {
		return nil, err
	}

	for _, voucher := range slices.Sorted(maps.Keys(units)) {
		if err := returnUnits(tx, voucher, units[voucher], at); err != nil {
			return nil, err
		}
	}

	return orders, nil
}
