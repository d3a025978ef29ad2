package repo

import (
	"gorm.io/gorm"

	"seckill/internal/repo/sqldb"
)

// checkPasses makes the transaction run again, with a read before the insert, if a pass of the inserted rows has bought:
// another server may have placed its order, and even ended it, since this transaction began. The unique index refuses
// such a row only while that order holds the slot that this row has taken.
//
// Every order of a sale is placed under the lock of its stock, which this transaction holds by now. The others are
// therefore visible to the query, whatever became of them, or wait for this transaction, so that it needs no locks.
func (b *batch) checkPasses(tx *gorm.DB) error {
	placed := withPass(b.inserts)
	if len(placed) == 0 {
		return nil
	}

	others := knownOrders{}
	if err := b.store.addPassOrders(tx, placed, b.inserts, others); err != nil {
		return err
	}

	for _, p := range placed {
		if others[p.row.UserID].withPassOf(&p.row) != nil {
			return errReadUsers
		}
	}

	return nil
}

func withPass(rows []*pendingInsert) []*pendingInsert {
	var with []*pendingInsert
	for _, p := range rows {
		if p.row.EntryRound != nil {
			with = append(with, p)
		}
	}
	return with
}

// addPassOrders adds to known the orders, active or ended, that the rows' users have placed in the rows' sales with
// passes, from the oldest pass of the rows of a sale on, except the rows in except. All rows have a pass. The query lists
// the users of each sale, as in SaleRecords.
func (s *Store) addPassOrders(tx *gorm.DB, of, except []*pendingInsert, known knownOrders) error {
	if len(of) == 0 {
		return nil
	}

	q := &sqldb.Statement{}
	q.Add("SELECT * FROM voucher_orders" + s.db.Syntax().ForceIndex(sqldb.UKUserVoucherSlot) + " WHERE (")

	for _, sale := range groupBySale(of) {
		oldest := *sale.rows[0].row.EntryRound
		users := make([]any, len(sale.rows))
		for j, p := range sale.rows {
			oldest = min(oldest, *p.row.EntryRound)
			users[j] = p.row.UserID
		}

		q.Or("voucher_id = ? AND entry_round >= ? AND user_id", sale.voucherID, oldest)
		q.In(users)
	}

	q.Add(")")
	exclude(q, except)
	return known.read(tx, q)
}

// countPasses counts the placed orders against the rounds of their passes. That they share the transaction of the orders
// makes the count true whichever server placed them, and whatever failed meanwhile. Transactions of one sale queue for
// its stock before, so they do not deadlock here.
func countPasses(tx *gorm.DB, placed []*pendingInsert) error {
	type round struct {
		voucherID int64
		seq       uint32
	}

	orders := map[round]int{}
	for _, p := range placed {
		if p.row.EntryRound != nil {
			orders[round{p.row.VoucherID, *p.row.EntryRound}]++
		}
	}

	// One statement for all rounds with the same number of orders: most have one.
	type group struct {
		voucherID int64
		orders    int
	}

	rounds := map[group][]uint32{}
	for r, n := range orders {
		g := group{r.voucherID, n}
		rounds[g] = append(rounds[g], r.seq)
	}

	for g, seqs := range rounds {
		err := tx.Exec("UPDATE room_log SET bought = bought + ? WHERE voucher_id = ? AND seq IN ?", g.orders, g.voucherID, seqs).Error
		if err != nil {
			return err
		}
	}

	return nil
}
