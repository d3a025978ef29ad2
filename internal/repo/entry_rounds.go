package repo

import (
	"gorm.io/gorm"
)

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
