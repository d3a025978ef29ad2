package repo

import (
	"bytes"
	"cmp"
	"slices"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// resolveConflicts determines after the insert which rows were stored, and answers the others. The usual reason for a
// skipped row is a repeated click. It costs two reads, and the transaction continues.
//
// A row with an Idempotency-Key is compared with the user's other orders even if it was stored: the index does not
// refuse the key on another voucher, in another slot, or after a cancellation, which frees the slot. The comparison
// must follow the insert and lock the orders that it reads. Then one of two concurrent transactions with the same key
// waits for the other, or loses a deadlock and runs again, and finds its order.
func (b *batch) resolveConflicts(tx *gorm.DB, count int64) error {
	inserted := b.inserts
	var missing []*pendingInsert
	if count < int64(len(b.inserts)) {
		stored, err := ordersByID(tx, b.inserts, identityColumns...)
		if err != nil {
			return err
		}

		inserted = make([]*pendingInsert, 0, count)
		for _, p := range b.inserts {
			r, there := stored[p.row.ID]
			switch {
			case !there:
				missing = append(missing, p)
			case !sameOrder(&r, &p.row):
				p.fail(domain.ErrIDTaken)
			default:
				inserted = append(inserted, p)
			}
		}

		if int64(len(inserted)) > count {
			// An earlier call has stored some of these rows.
			return b.retryWithPrecheck()
		}
	}

	for _, f := range b.followers {
		if !slices.Contains(inserted, f.leader) {
			// Its result assumed that the leader is stored.
			missing = append(missing, f.row)
		}
	}

	inserted, err := b.answerConflicts(tx, inserted, missing)
	if err != nil {
		return err
	}

	b.inserts = inserted
	if len(inserted) == 0 {
		return errNonePlaced
	}

	return nil
}

// retryWithPrecheck makes the transaction run again, reading the existing orders before the insert.
func (b *batch) retryWithPrecheck() error {
	b.precheck = true
	return errRetryBatch
}

// answerConflicts answers the missing rows from the other orders of their users, and likewise the rows with a key. It
// returns the rows of inserted that remain.
func (b *batch) answerConflicts(tx *gorm.DB, inserted, missing []*pendingInsert) ([]*pendingInsert, error) {
	toCheck := missing
	for _, p := range inserted {
		if p.key != nil {
			toCheck = append(toCheck, p)
		}
	}

	if len(toCheck) == 0 {
		return inserted, nil
	}

	others := knownOrders{}
	if err := b.store.addActiveOrders(tx, missing, inserted, others); err != nil {
		return nil, err
	}

	if err := b.store.addKeyedOrders(tx, missing, nil, others); err != nil {
		return nil, err
	}
	if err := b.store.addKeyedOrders(tx, inserted, inserted, others); err != nil {
		return nil, err
	}

	elsewhere, err := b.store.keysElsewhere(tx, toCheck)
	if err != nil {
		return nil, err
	}

	refused := make(map[*pendingInsert]bool, len(missing))
	for _, p := range toCheck {
		if p.key != nil && elsewhere[p.keyID()] {
			p.fail(domain.ErrIdempotencyMismatch)
			refused[p] = true
		} else if p.answerFrom(others[p.row.UserID]) != nil {
			refused[p] = true
		}
	}

	for _, p := range missing {
		if !refused[p] {
			// The order that occupied its slot has just ended.
			return nil, b.retryWithPrecheck()
		}
	}

	remaining := slices.DeleteFunc(slices.Clone(inserted), func(p *pendingInsert) bool { return refused[p] })
	if len(remaining) == len(inserted) {
		return inserted, nil
	}

	if slices.ContainsFunc(b.followers, func(f follower) bool { return refused[f.leader] }) {
		return nil, b.retryWithPrecheck()
	}

	return remaining, deleteRows(tx, slices.DeleteFunc(slices.Clone(inserted), func(p *pendingInsert) bool { return !refused[p] }))
}

// userOrders are orders of one user: the active ones, and those with the Idempotency-Keys or the passes in question.
type userOrders []orderRow

type knownOrders map[int64]userOrders

func (known knownOrders) read(tx *gorm.DB, q *sqldb.Statement) error {
	rows, err := sqldb.QueryRows[orderRow](tx, q)
	for i := range rows {
		r := &rows[i]
		if of := known[r.UserID]; !of.has(r.ID) {
			known[r.UserID] = append(of, *r)
		}
	}
	return err
}

func (of userOrders) has(id int64) bool {
	return slices.ContainsFunc(of, func(r orderRow) bool { return r.ID == id })
}

// withKeyOf returns the order that was placed under the Idempotency-Key of o within domain.KeyLife, preferably by the
// same request. It returns nil if there is none.
func (of userOrders) withKeyOf(o *orderRow) *orderRow {
	if o.IdemKey == nil {
		return nil
	}

	var found *orderRow
	for i := range of {
		r := &of[i]
		if !bytes.Equal(r.IdemKey, o.IdemKey) || o.CreatedAt.Sub(r.CreatedAt) >= domain.KeyLife {
			continue
		}

		found = r
		if bytes.Equal(r.IdemRequest, o.IdemRequest) {
			return found
		}
	}

	return found
}

func (of userOrders) activeOf(voucherID int64) userOrders {
	var held userOrders
	for _, r := range of {
		if r.VoucherID == voucherID && r.Slot != nil {
			held = append(held, r)
		}
	}
	return held
}

// withPassOf returns the order of o's sale that was placed with the same pass of a waiting room as o, or with a later one.
// It returns nil if there is none.
func (of userOrders) withPassOf(o *orderRow) *orderRow {
	if o.EntryRound == nil {
		return nil
	}

	i := slices.IndexFunc(of, func(r orderRow) bool {
		return r.VoucherID == o.VoucherID && r.EntryRound != nil && *r.EntryRound >= *o.EntryRound
	})
	if i < 0 {
		return nil
	}

	return &of[i]
}

func (of userOrders) newest() *orderRow {
	newest := slices.MaxFunc(of, func(a, b orderRow) int { return cmp.Compare(a.ID, b.ID) })
	return &newest
}

// freeSlot returns the lowest slot that no order in held occupies.
func freeSlot(held userOrders) int {
	for slot := 1; ; slot++ {
		if !slices.ContainsFunc(held, func(r orderRow) bool { return *r.Slot == slot }) {
			return slot
		}
	}
}

// addActiveOrders adds to known the active orders of the rows' users in the rows' sales, except the rows in except. The
// query lists pairs of user and voucher: with two IN lists MariaDB would look up every combination. It names its index,
// because MariaDB otherwise sometimes scans a table that has just grown.
func (s *Store) addActiveOrders(tx *gorm.DB, of, except []*pendingInsert, known knownOrders) error {
	if len(of) == 0 {
		return nil
	}

	q := &sqldb.Statement{}
	q.Add("SELECT * FROM voucher_orders" + s.db.Syntax().ForceIndex(sqldb.UKUserVoucherSlot) + " WHERE slot IS NOT NULL AND (")

	for i, p := range of {
		if i > 0 {
			q.Add(" OR ")
		}
		q.Add("user_id = ? AND voucher_id = ?", p.row.UserID, p.row.VoucherID)
	}

	q.Add(")")
	exclude(q, except)
	return known.read(tx, q)
}

// addKeyedOrders adds to known the orders that were placed under the keys of the rows, except the rows in except, which
// this transaction has inserted. With such rows it locks what it reads: another transaction may have inserted the same
// key at the same time. Without them it takes no locks.
func (s *Store) addKeyedOrders(tx *gorm.DB, of, except []*pendingInsert, known knownOrders) error {
	q := &sqldb.Statement{}
	q.Add("SELECT * FROM voucher_orders" + s.db.Syntax().ForceIndex("idx_user_idem_key") + " WHERE (")
	keys := 0
	for _, p := range of {
		if p.key == nil {
			continue
		}

		if keys > 0 {
			q.Add(" OR ")
		}

		q.Add("user_id = ? AND idem_key = ?", p.row.UserID, p.row.IdemKey)
		keys++
	}

	if keys == 0 {
		return nil
	}

	q.Add(")")
	exclude(q, except)

	if len(except) > 0 {
		q.Add(s.db.Syntax().ForUpdate)
	}

	return known.read(tx, q)
}

func exclude(q *sqldb.Statement, rows []*pendingInsert) {
	if len(rows) == 0 {
		return
	}
	ids := make([]any, len(rows))
	for i, p := range rows {
		ids[i] = p.row.ID
	}
	q.Add(" AND id NOT").In(ids)
}
