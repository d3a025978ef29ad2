package repo

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"seckill/internal/service"
)

// gatePage is how many ids go into one query.
const gatePage = 1000

// GateState implements service.GateStore. All of it is of one moment, while buyers buy.
func (s *Store) GateState(ctx context.Context, voucherID int64, inFlight []int64) (service.GateState, error) {
	var state service.GateState
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		state = service.GateState{}
		if err := tx.Model(&saleRow{}).Select("stock").Where("voucher_id = ?", voucherID).Take(&state.Stock).Error; err != nil {
			return err
		}
		err := tx.Model(&orderRow{}).Select("id AS order_id, user_id").
			Where("voucher_id = ? AND status IN ?", voucherID, activeStatuses).Scan(&state.Holders).Error
		for len(inFlight) > 0 && err == nil {
			n := min(len(inFlight), gatePage)
			var some []int64
			err = tx.Model(&orderRow{}).Where("id IN ? AND voucher_id = ?", inFlight[:n], voucherID).Pluck("id", &some).Error
			state.Settled = append(state.Settled, some...)
			inFlight = inFlight[n:]
		}
		return err
	})
	return state, s.translate(err)
}

// SaleLevel implements service.GateStore.
func (s *Store) SaleLevel(ctx context.Context, voucherID int64) (service.SaleLevel, error) {
	var level service.SaleLevel
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Model(&saleRow{}).Select("stock").Where("voucher_id = ?", voucherID).Take(&level.Stock).Error; err != nil {
			return err
		}
		return tx.Model(&orderRow{}).Where("voucher_id = ? AND status IN ?", voucherID, activeStatuses).
			Select("COUNT(*), CAST(COALESCE(SUM(id % ?), 0) AS SIGNED)", service.LevelDigits).Row().Scan(&level.Active, &level.Sum)
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
