package repo

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"seckill/internal/reconcile"
	"seckill/internal/service"
)

// gatePage is how many ids go into one query.
const gatePage = 1000

// GateState implements service.GateStore. All of it is of one moment, while buyers buy.
func (s *Store) GateState(ctx context.Context, voucherID int64, inFlight []int64) (service.GateState, error) {
	var state service.GateState
	err := s.census(ctx, func(tx *gorm.DB) error {
		state = service.GateState{}
		if err := tx.Model(&saleRow{}).Select("stock").Where("voucher_id = ?", voucherID).Take(&state.Stock).Error; err != nil {
			return err
		}
		err := eachActive(tx, voucherID, func(h service.Holder, _ bool) { state.Holders = append(state.Holders, h) })
		if err == nil {
			state.Settled, err = existing(tx, voucherID, inFlight)
		}
		return err
	})
	return state, s.translate(err)
}

// eachActive reads the active orders of a sale row by row: there may be millions.
func eachActive(tx *gorm.DB, voucherID int64, see func(h service.Holder, slotless bool)) error {
	rows, err := ofVoucher(tx, voucherID).Where("status IN ?", activeStatuses).Select("id", "user_id", "slot IS NULL").Rows()
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		var h service.Holder
		var slotless bool
		if err := rows.Scan(&h.OrderID, &h.UserID, &slotless); err != nil {
			return err
		}
		see(h, slotless)
	}
	return rows.Err()
}

// SaleLevel implements service.GateStore.
func (s *Store) SaleLevel(ctx context.Context, voucherID int64) (reconcile.SaleLevel, error) {
	var level reconcile.SaleLevel
	err := s.census(ctx, func(tx *gorm.DB) error {
		var sale saleRow
		err := tx.Select("stock", "limit_per_user").Where("voucher_id = ?", voucherID).Take(&sale).Error
		if err != nil {
			return err
		}
		level = reconcile.SaleLevel{Stock: sale.Stock, Limit: sale.LimitPerUser}
		level.Active, level.Sum, err = sumActive(tx, voucherID)
		return err
	})
	return level, s.translate(err)
}

// snapshot runs queries that all see the database as it was at one moment. On SQLite every transaction does.
func (s *Store) snapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	var opts *sql.TxOptions
	if s.Dialect() == "mysql" {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return s.r.WithContext(ctx).Transaction(fn, opts)
}
