package repo

import (
	"context"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/ops/reconcile"
)

// idsPerQuery is the most ids in one query.
const idsPerQuery = 1000

// GateGeneration implements domain.GateStore.
func (s *Store) GateGeneration(ctx context.Context, voucherID int64) (int64, error) {
	var generation int64
	err := s.db.Reader(ctx).Table("seckill_vouchers").Select("gate_generation").Where("voucher_id = ?", voucherID).Take(&generation).Error
	return generation, s.db.Translate(err)
}

// FenceGate implements domain.GateStore. It waits for the commits that have locked the sale's row, and those after it
// read the new generation. The sale counts as changed, so that lists of its buyers are read again.
func (s *Store) FenceGate(ctx context.Context, voucherID, from int64) (bool, error) {
	return runAt(ctx, s, func(tx *gorm.DB, now time.Time) (bool, error) {
		res := tx.Table("seckill_vouchers").Where("voucher_id = ? AND gate_generation = ?", voucherID, from).
			Updates(map[string]any{"gate_generation": from + 1, "updated_at": now})
		return res.RowsAffected > 0, res.Error
	})
}

// GateState implements domain.GateStore.
func (s *Store) GateState(ctx context.Context, voucherID int64, inFlight []int64) (domain.GateState, error) {
	return run(ctx, s.db.LongSnapshot, func(tx *gorm.DB) (domain.GateState, error) {
		var state domain.GateState
		err := tx.Table("seckill_vouchers").Select("stock").Where("voucher_id = ?", voucherID).Take(&state.Stock).Error
		if err == nil {
			err = eachActive(tx, voucherID, func(h domain.Holder, _ bool) { state.Holders = append(state.Holders, h) })
		}
		if err == nil {
			state.Settled, err = storedIDs(tx, voucherID, inFlight)
		}

		return state, err
	})
}

// eachActive calls visit for each active order of a sale. It reads row by row, because there may be millions.
func eachActive(tx *gorm.DB, voucherID int64, visit func(h domain.Holder, slotless bool)) error {
	rows, err := ofVoucher(tx, voucherID).Where("status IN ?", domain.ActiveStatuses()).Select("id", "user_id", "slot IS NULL").Rows()
	if err != nil {
		return err
	}

	// rows.Err returns the error.
	defer func() { _ = rows.Close() }()

	for rows.Next() {
		var h domain.Holder
		var slotless bool
		if err := rows.Scan(&h.OrderID, &h.UserID, &slotless); err != nil {
			return err
		}
		visit(h, slotless)
	}

	return rows.Err()
}

// SaleLevel implements reconcile.Store.
func (s *Store) SaleLevel(ctx context.Context, voucherID int64) (reconcile.SaleLevel, error) {
	return run(ctx, s.db.LongSnapshot, func(tx *gorm.DB) (reconcile.SaleLevel, error) {
		var sale saleRow
		if err := tx.Select("stock").Take(&sale, voucherID).Error; err != nil {
			return reconcile.SaleLevel{}, err
		}

		level := reconcile.SaleLevel{Stock: sale.Stock}
		var err error
		level.Active, level.Sum, err = sumActive(tx, voucherID)
		return level, err
	})
}
