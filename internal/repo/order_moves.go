package repo

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// MoveOrder implements service.OrderStore.
func (s *Store) MoveOrder(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	return s.moveOnce(ctx, m, func(*gorm.DB, *orderRow) error { return nil })
}

func (s *Store) moveOnce(ctx context.Context, m domain.OrderMove, then func(tx *gorm.DB, moved *orderRow) error) (domain.Order, error) {
	var row orderRow
	err := s.writeOnce(ctx, m.Claim, readAgain(ctx, &row.Order, s.anyOrder), func(tx *gorm.DB) (int64, error) {
		var err error
		if row, err = s.lockShownOrder(tx, m.By.Owner(), m.OrderID); err != nil {
			return 0, err
		}

		if m.Check != nil {
			if err := m.Check(&row.Order); err != nil {
				return 0, err
			}
		}

		if m.Move == domain.MoveUndoRedeem {
			if err := requirePaid(tx, row.ID); err != nil {
				return 0, err
			}
		}

		if err := s.move(tx, &row, m); err != nil {
			return 0, err
		}

		return m.OrderID, then(tx, &row)
	})

	err = s.db.ResolveUnknownCommit(ctx, err, s.moveLogged(m))
	return row.Order, err
}

func (s *Store) anyOrder(ctx context.Context, id int64) (domain.Order, error) {
	return s.Order(ctx, 0, id)
}

func requirePaid(tx *gorm.DB, orderID int64) error {
	var payments []domain.PaymentStatus
	err := tx.Model(&paymentRow{}).Where("order_id = ?", orderID).Pluck("status", &payments).Error
	if err != nil {
		return err
	}

	if !slices.Contains(payments, domain.PaymentSucceeded) && slices.ContainsFunc(payments, domain.PaymentStatus.Returned) {
		return domain.ErrInvalidState
	}

	return nil
}

// moveLogged finds out whether a move with an unanswered COMMIT happened: the audit log then has an entry with its
// time.
func (s *Store) moveLogged(m domain.OrderMove) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error {
		return tx.Table(auditTable).Where("order_id = ? AND action = ? AND at = ? AND actor = ? AND actor_id = ?",
			m.OrderID, m.Move.Name, m.At, m.By.Kind, m.By.ID).Take(&domain.AuditEntry{}).Error
	}
}

// lockOrder reads and locks an order. Every transaction locks the order before its payments and before the hot row of
// its sale.
func lockOrder(tx *gorm.DB, userID, id int64) (orderRow, error) {
	return takeOrder(tx.Clauses(sqldb.ForUpdate), userID, id)
}

func (s *Store) lockShownOrder(tx *gorm.DB, userID, id int64) (orderRow, error) {
	row, err := lockOrder(tx, userID, id)
	if err == nil {
		err = s.addOffers(tx, &row.Order)
	}
	return row, err
}

// move applies a move to an order that the transaction has locked, and updates row. The condition on the status
// decides, not the earlier read.
func (s *Store) move(tx *gorm.DB, row *orderRow, m domain.OrderMove) error {
	o := row.Order
	m.Move.Apply(&o, m.At)
	res := tx.Model(&orderRow{}).Where("id = ? AND status = ?", row.ID, m.Move.From).Updates(movedColumns(&o, m.At))
	switch {
	case res.Error != nil:
		return res.Error
	case res.RowsAffected == 0:
		return domain.ErrInvalidState
	}

	row.Order = o

	err := writeOrderAudit(tx, row, m.Move.Name, m.By, m.At, m.Detail)
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

// QueryBeforeClosing makes CloseExpired wait for the answers to queries of payments at a provider. It must be called before
// the store is used.
func (s *Store) QueryBeforeClosing(provider string) { s.queried = provider }

// noAnswer selects the pending payments of an order whose provider has not been queried since the time to pay ended.
const noAnswer = `SELECT 1 FROM payments p WHERE p.order_id = voucher_orders.id AND p.status = ? AND p.provider = ?
	AND (p.queried_at IS NULL OR p.queried_at < voucher_orders.expires_at)`

// expiredRead is how many times as many expired orders are read as a sale may close at once, so that those of a sale whose
// row is locked hide no others.
const expiredRead = 10

// CloseExpired implements service.CloserStore. It waits for no order. Each sale has a transaction of its own: another
// transaction may have locked its hot row for long, and the waiting one must not hold the rows of other sales. The order
// of the sales is that of a map, so that those behind it get their turn.
func (s *Store) CloseExpired(ctx context.Context, limit int, unanswered bool) ([]domain.Order, error) {
	sales, err := runAt(ctx, s, func(tx *gorm.DB, at time.Time) (map[int64][]int64, error) {
		var rows []orderRow
		err := s.expired(tx, at, unanswered).Select("id", "voucher_id").Order("expires_at").Limit(expiredRead * limit).Find(&rows).Error

		sales := map[int64][]int64{}
		for i := range rows {
			if ids := sales[rows[i].VoucherID]; len(ids) < limit {
				sales[rows[i].VoucherID] = append(ids, rows[i].ID)
			}
		}
		return sales, err
	})

	var closed []domain.Order
	for _, ids := range sales {
		orders, failed := runAt(ctx, s, func(tx *gorm.DB, at time.Time) ([]domain.Order, error) {
			rows, err := lockDue[orderRow](s.expired(tx, at, unanswered).Where("id IN ?", ids), "expires_at", limit)
			if err != nil || len(rows) == 0 {
				return nil, err
			}
			return s.expire(tx, rows, at)
		})

		closed = append(closed, orders...)
		err = errors.Join(err, failed)
	}

	return closed, err
}

func (s *Store) expired(tx *gorm.DB, at time.Time, unanswered bool) *gorm.DB {
	expired := tx.Where("status = ? AND expires_at <= ?", domain.OrderPendingPayment, at)
	switch {
	case s.queried == "":
		return expired
	case unanswered:
		return expired.Where("(expires_at <= ? OR NOT EXISTS ("+noAnswer+"))", at.Add(-domain.CloseGrace), domain.PaymentPending, s.queried)
	default:
		return expired.Where("NOT EXISTS ("+noAnswer+")", domain.PaymentPending, s.queried)
	}
}

// expire applies domain.MoveExpire to orders of one sale that the transaction has locked. It uses one UPDATE and one INSERT
// per log for all of them. As in every transaction, the hot row comes last.
func (s *Store) expire(tx *gorm.DB, rows []orderRow, at time.Time) ([]domain.Order, error) {
	m := domain.MoveExpire
	ids := make([]int64, len(rows))
	orders := make([]domain.Order, len(rows))
	entries := make([]domain.AuditEntry, len(rows))

	for i := range rows {
		o := rows[i].Order
		m.Apply(&o, at)
		ids[i] = o.ID
		orders[i] = o

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

	if err := returnUnits(tx, rows[0].VoucherID, len(rows), at); err != nil {
		return nil, err
	}

	return orders, nil
}
