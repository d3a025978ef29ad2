package repo

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// anyGeneration is the generation of rows that were admitted without a gate.
const anyGeneration = -1

// saleGroup is the inserted rows of one sale that have the same generation.
type saleGroup struct {
	voucherID  int64
	generation int64
	// In the order of arrival.
	rows []*pendingInsert
}

func (s saleGroup) compare(other saleGroup) int {
	return cmp.Or(cmp.Compare(s.voucherID, other.voucherID), cmp.Compare(s.generation, other.generation))
}

func (s saleGroup) having(units int) (string, []any) {
	if s.generation == anyGeneration {
		return "voucher_id = ? AND stock >= ?", []any{s.voucherID, units}
	}
	return "voucher_id = ? AND stock >= ? AND gate_generation = ?", []any{s.voucherID, units, s.generation}
}

// groupBySale groups the rows by sale, in the order of voucher ids. All transactions lock the hot rows in this order,
// so they do not deadlock.
func groupBySale(rows []*pendingInsert) []saleGroup {
	var all []saleGroup
	for _, p := range rows {
		group := saleGroup{voucherID: p.row.VoucherID, generation: anyGeneration}
		if p.generation != nil {
			group.generation = *p.generation
		}

		i, found := slices.BinarySearchFunc(all, group, saleGroup.compare)
		if !found {
			all = slices.Insert(all, i, group)
		}

		all[i].rows = append(all[i].rows, p)
	}

	return all
}

// takeUnits deducts one unit for each inserted row. The condition in the UPDATE decides, not an earlier read: of 100
// units exactly 100 are sold. If a sale has fewer units than rows, its last rows are deleted again, and so are all rows of
// another generation than the sale's.
func (b *batch) takeUnits(tx *gorm.DB) error {
	sales := groupBySale(b.inserts)
	at := b.rows[0].row.CreatedAt
	if len(sales) > 1 && !b.takePerSale {
		enough, err := takeFromEach(tx, sales, at)
		if err != nil || enough {
			return err
		}

		// The statement does not report which sale has too few, or another generation.
		b.takePerSale = true
		return errRetryBatch
	}

	b.inserts = b.inserts[:0]
	var dropped []*pendingInsert
	for _, sale := range sales {
		left, refusal, err := takeAtMost(tx, sale, at)
		if err != nil {
			return err
		}

		b.inserts = append(b.inserts, sale.rows[:left]...)
		b.refuse(sale.rows[left:], refusal)
		dropped = append(dropped, sale.rows[left:]...)
	}

	if len(b.inserts) == 0 {
		return errNonePlaced
	}
	if err := b.store.dropPlaced(tx, dropped); err != nil {
		return err
	}

	return deleteRows(tx, dropped)
}

// takeAtMost takes a unit for each row of a sale, or all that are left if these are fewer. It returns their number, and
// the refusal of the last rows, which get none.
func takeAtMost(tx *gorm.DB, sale saleGroup, at time.Time) (left int, refusal, err error) {
	n := len(sale.rows)
	enough, err := takeUnits(tx, sale, n, at)
	if err != nil || enough {
		return n, nil, err
	}

	if n == 1 && sale.generation == anyGeneration {
		return 0, domain.ErrSoldOut, nil
	}

	// The row lock keeps the stock unchanged until it is taken.
	var row struct {
		Stock          int
		GateGeneration int64
	}

	found := tx.Table("seckill_vouchers").Clauses(sqldb.ForUpdate).Where("voucher_id = ?", sale.voucherID).
		Select("stock", "gate_generation").Scan(&row)
	if found.Error != nil {
		return 0, nil, found.Error
	}
	if found.RowsAffected > 0 && sale.generation != anyGeneration && sale.generation != row.GateGeneration {
		return 0, domain.ErrGateReplaced, nil
	}

	// Units may have been returned since the UPDATE failed.
	left = min(row.Stock, n)
	if left == 0 {
		return 0, domain.ErrSoldOut, nil
	}

	if enough, err = takeUnits(tx, sale, left, at); err == nil && !enough {
		// Cannot happen under the lock; if it does, nothing may be committed.
		err = errRetryBatch
	}

	return left, domain.ErrSoldOut, err
}

func deleteRows(tx *gorm.DB, rows []*pendingInsert) error {
	if len(rows) == 0 {
		return nil
	}
	return tx.Where("id IN ?", idsOf(rows)).Delete(&orderRow{}).Error
}

// refuse answers rows without a unit, and their followers. Those of another sale can only be tried again.
func (b *batch) refuse(dropped []*pendingInsert, refusal error) {
	for _, p := range dropped {
		p.fail(refusal)
	}
	for _, f := range b.followers {
		same := f.row.row.VoucherID == f.leader.row.VoucherID
		if slices.Contains(dropped, f.leader) && (same || errors.Is(refusal, domain.ErrUnavailable)) {
			f.row.fail(refusal)
		}
	}
}

func takeUnits(tx *gorm.DB, sale saleGroup, n int, at time.Time) (bool, error) {
	where, args := sale.having(n)
	res := tx.Table("seckill_vouchers").Where(where, args...).
		Updates(map[string]any{"stock": gorm.Expr("stock - ?", n), "updated_at": at})
	return res.RowsAffected > 0, res.Error
}

// takeFromEach takes the units of all groups with one statement. If it returns false, it has changed only some of the
// sales, and the transaction must not be committed. It does so for groups of one sale, because at most one of them has
// the sale's generation.
func takeFromEach(tx *gorm.DB, sales []saleGroup, at time.Time) (bool, error) {
	var units, where strings.Builder
	var unitArgs, whereArgs []any
	for i, s := range sales {
		if i > 0 {
			where.WriteString(" OR ")
		}

		units.WriteString(" WHEN ? THEN ?")
		having, args := s.having(len(s.rows))
		where.WriteString("(" + having + ")")
		unitArgs = append(unitArgs, s.voucherID, len(s.rows))
		whereArgs = append(whereArgs, args...)
	}

	args := append(append(unitArgs, at), whereArgs...)
	res := tx.Exec("UPDATE seckill_vouchers SET stock = stock - CASE voucher_id"+units.String()+" END, updated_at = ? WHERE "+where.String(), args...)
	return res.RowsAffected == int64(len(sales)), res.Error
}
