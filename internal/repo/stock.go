package repo

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// saleGroup is the inserted rows of one sale.
type saleGroup struct {
	voucherID int64
	rows      []*pendingInsert // in the order of arrival
}

// groupBySale groups the rows by sale, in the order of voucher ids. All transactions lock the hot rows in this order,
// so they do not deadlock.
func groupBySale(rows []*pendingInsert) []saleGroup {
	var all []saleGroup
	for _, p := range rows {
		i, found := slices.BinarySearchFunc(all, p.row.VoucherID, func(s saleGroup, id int64) int { return cmp.Compare(s.voucherID, id) })
		if !found {
			all = slices.Insert(all, i, saleGroup{voucherID: p.row.VoucherID})
		}
		all[i].rows = append(all[i].rows, p)
	}
	return all
}

// takeUnits deducts one unit for each inserted row. The condition in the UPDATE decides, not an earlier read: of 100
// units exactly 100 are sold. If a sale has fewer units than rows, its last rows are deleted again.
func (b *batch) takeUnits(tx *gorm.DB) error {
	sales, at := groupBySale(b.inserts), b.rows[0].row.CreatedAt
	if len(sales) > 1 && !b.takePerSale {
		enough, err := takeFromEach(tx, sales, at)
		if err != nil || enough {
			return err
		}
		b.takePerSale = true // the statement does not report which sale has too few
		return errRetryBatch
	}
	b.inserts = b.inserts[:0]
	var dropped []*pendingInsert
	for _, sale := range sales {
		left, err := takeAtMost(tx, sale.voucherID, len(sale.rows), at)
		if err != nil {
			return err
		}
		b.inserts = append(b.inserts, sale.rows[:left]...)
		dropped = append(dropped, sale.rows[left:]...)
	}
	b.refuseSoldOut(dropped)
	if len(b.inserts) == 0 {
		return errNonePlaced
	}
	if err := b.store.dropPlaced(tx, dropped); err != nil {
		return err
	}
	return deleteRows(tx, dropped)
}

// takeAtMost takes n units, or all that are left if these are fewer, and returns their number.
func takeAtMost(tx *gorm.DB, voucherID int64, n int, at time.Time) (left int, err error) {
	enough, err := takeUnits(tx, voucherID, n, at)
	if err != nil || enough {
		return n, err
	}
	if n == 1 {
		return 0, nil
	}
	// The row lock keeps the stock unchanged until it is taken.
	err = tx.Table("seckill_vouchers").Clauses(sqldb.ForUpdate).Where("voucher_id = ?", voucherID).Select("stock").Scan(&left).Error
	left = min(left, n) // units may have been returned since the UPDATE failed
	if err != nil || left == 0 {
		return 0, err
	}
	if enough, err = takeUnits(tx, voucherID, left, at); err == nil && !enough {
		err = errRetryBatch // cannot happen under the lock; if it does, nothing may be committed
	}
	return left, err
}

// deleteRows deletes rows that this transaction has inserted.
func deleteRows(tx *gorm.DB, rows []*pendingInsert) error {
	if len(rows) == 0 {
		return nil
	}
	return tx.Where("id IN ?", idsOf(rows)).Delete(&orderRow{}).Error
}

// refuseSoldOut answers rows without a unit, and their followers of the same sale, with domain.ErrSoldOut.
func (b *batch) refuseSoldOut(dropped []*pendingInsert) {
	for _, p := range dropped {
		p.fail(domain.ErrSoldOut)
	}
	for _, f := range b.followers {
		if slices.Contains(dropped, f.leader) && f.row.row.VoucherID == f.leader.row.VoucherID {
			f.row.fail(domain.ErrSoldOut)
		}
	}
}

// takeUnits takes n units, or none and returns false.
func takeUnits(tx *gorm.DB, voucherID int64, n int, at time.Time) (bool, error) {
	res := tx.Table("seckill_vouchers").Where("voucher_id = ? AND stock >= ?", voucherID, n).
		Updates(map[string]any{"stock": gorm.Expr("stock - ?", n), "updated_at": at})
	return res.RowsAffected > 0, res.Error
}

// takeFromEach takes the units of all groups with one statement. If it returns false, it has changed only the sales
// with enough units, and the transaction must not be committed.
func takeFromEach(tx *gorm.DB, sales []saleGroup, at time.Time) (bool, error) {
	var units, where strings.Builder
	var unitArgs, whereArgs []any
	for i, s := range sales {
		if i > 0 {
			where.WriteString(" OR ")
		}
		units.WriteString(" WHEN ? THEN ?")
		where.WriteString("(voucher_id = ? AND stock >= ?)")
		unitArgs = append(unitArgs, s.voucherID, len(s.rows))
		whereArgs = append(whereArgs, s.voucherID, len(s.rows))
	}
	args := append(append(unitArgs, at), whereArgs...)
	res := tx.Exec("UPDATE seckill_vouchers SET stock = stock - CASE voucher_id"+units.String()+" END, updated_at = ? WHERE "+where.String(), args...)
	return res.RowsAffected == int64(len(sales)), res.Error
}
