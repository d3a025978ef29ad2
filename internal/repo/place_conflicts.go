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
// The lookup of keys that other routes use must follow the insert: a request that leases the key later waits for this
// transaction and finds its order (refuseKeyOfOrder).
func (b *batch) resolveConflicts(tx *gorm.DB, count int64) error {
	inserted, missing, err := b.splitInserts(tx, count)
	if err != nil {
		return err
	}

	for _, f := range b.followers {
		if !slices.Contains(inserted, f.leader) && !slices.Contains(missing, f.row) {
			// Its result assumed that the leader is stored.
			missing = append(missing, f.row)
		}
	}

	elsewhere, err := b.store.keysElsewhere(tx, slices.Concat(inserted, missing))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(inserted, func(p *pendingInsert) bool { return p.order.Key != nil && elsewhere[p.keyID()] }) {
		return errReadUsers
	}

	if err := b.answerMissing(tx, missing, inserted, elsewhere); err != nil {
		return err
	}

	b.inserts = inserted
	if len(inserted) == 0 {
		return errNonePlaced
	}

	return nil
}

// splitInserts returns the rows that the insert stored, of which there are count, and the rows that it skipped. A row whose
// id another order has is answered, and in neither list.
func (b *batch) splitInserts(tx *gorm.DB, count int64) (inserted, missing []*pendingInsert, err error) {
	if count == int64(len(b.inserts)) {
		return b.inserts, nil, nil
	}

	stored, err := ordersByID(tx, b.inserts, identityColumns...)
	if err != nil {
		return nil, nil, err
	}

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
		return nil, nil, errReadUsers
	}

	return inserted, missing, nil
}

func (b *batch) answerMissing(tx *gorm.DB, missing, inserted []*pendingInsert, elsewhere map[keyID]bool) error {
	others := knownOrders{}
	if err := b.store.addActiveOrders(tx, missing, inserted, others); err != nil {
		return err
	}
	if err := b.store.addKeyedOrders(tx, missing, others); err != nil {
		return err
	}

	for _, p := range missing {
		switch {
		case p.order.Key != nil && elsewhere[p.keyID()]:
			p.fail(domain.ErrIdempotencyMismatch)
		case p.answerFrom(others[p.row.UserID]) == nil:
			// The order that occupied its slot has just ended, or the key has expired.
			return errReadUsers
		}
	}

	return nil
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

func (of userOrders) withKeyOf(o *orderRow) *orderRow {
	i := slices.IndexFunc(of, func(r orderRow) bool { return r.IdemKey != nil && bytes.Equal(r.IdemKey, o.IdemKey) })
	if i < 0 {
		return nil
	}
	return &of[i]
}

func (of userOrders) activeOf(voucherID int64) userOrders {
	var held userOrders
	for _, r := range of {
		if r.VoucherID == voucherID && r.Slot != 0 {
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

func (of userOrders) newest() int64 {
	return slices.MaxFunc(of, func(a, b orderRow) int { return cmp.Compare(a.ID, b.ID) }).ID
}

func freeSlot(held userOrders) int {
	for slot := 1; ; slot++ {
		if !slices.ContainsFunc(held, func(r orderRow) bool { return r.Slot == slot }) {
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

	for _, p := range of {
		q.Or("user_id = ? AND voucher_id = ?", p.row.UserID, p.row.VoucherID)
	}

	q.Add(")")
	exclude(q, except)
	return known.read(tx, q)
}

func (s *Store) addKeyedOrders(tx *gorm.DB, of []*pendingInsert, known knownOrders) error {
	q := &sqldb.Statement{}
	q.Add("SELECT * FROM voucher_orders" + s.db.Syntax().ForceIndex("uk_user_idem_key") + " WHERE ")

	keyed := false
	for _, p := range of {
		if p.order.Key != nil {
			q.Or("user_id = ? AND idem_key = ?", p.row.UserID, p.row.IdemKey)
			keyed = true
		}
	}

	if !keyed {
		return nil
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
