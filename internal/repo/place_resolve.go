package repo

import (
	"bytes"
	"cmp"
	"slices"

	"gorm.io/gorm"

	"seckill/internal/service"
)

// resolve finds out after the insert which rows landed, and answers the others. A repeated press is the usual reason
// for a row that did not land; it costs two reads, and the transaction goes on.
//
// A row with an Idempotency-Key is compared with the user's other orders even if it landed: a cancelled order holds no
// slot, so no index refuses its repetition. This must come after the insert: two runs of one request want the same
// slot, and the later one waits at the index until the earlier one is committed and can be seen. Where a user may hold
// several orders the two may have found different slots free; reading for update makes one of them wait for the other.
func (b *batch) resolve(tx *gorm.DB, inserted int64) error {
	landed, missing := b.inserts, []*placing(nil)
	if inserted < int64(len(b.inserts)) {
		stored, err := ordersByID(tx, b.inserts, identity...)
		if err != nil {
			return err
		}
		landed = make([]*placing, 0, inserted)
		for _, p := range b.inserts {
			r, there := stored[p.row.ID]
			switch {
			case !there:
				missing = append(missing, p)
			case !sameOrder(&r, &p.row):
				p.fail(service.ErrIDTaken)
			default:
				landed = append(landed, p)
			}
		}
		if int64(len(landed)) > inserted {
			return b.lookAgain() // an earlier call has stored some of them
		}
	}
	for _, f := range b.followers {
		if !slices.Contains(landed, f.leader) {
			missing = append(missing, f.row) // its leader's reason is its own
		}
	}
	landed, err := b.compare(tx, landed, missing)
	if err != nil {
		return err
	}
	if b.inserts = landed; len(landed) == 0 {
		return errAllRefused
	}
	return nil
}

// lookAgain has the transaction rolled back and run again, with everything read before the insert.
func (b *batch) lookAgain() error {
	b.careful = true
	return errLookAgain
}

// compare answers the missing rows, and those with a key, by the other orders of their users. It returns the rows of
// landed that stay.
func (b *batch) compare(tx *gorm.DB, landed, missing []*placing) ([]*placing, error) {
	doubtful := missing
	for _, p := range landed {
		if p.key != nil {
			doubtful = append(doubtful, p)
		}
	}
	if len(doubtful) == 0 {
		return landed, nil
	}
	others := knownOrders{}
	if err := b.store.heldOrders(tx, missing, others); err != nil {
		return nil, err
	}
	if err := b.store.keyedOrders(tx, doubtful, landed, others); err != nil {
		return nil, err
	}
	elsewhere, err := b.store.keysElsewhere(tx, doubtful)
	if err != nil {
		return nil, err
	}
	refused := make(map[*placing]bool, len(missing))
	for _, p := range doubtful {
		if p.key != nil && elsewhere[keyID{p.row.UserID, p.key.Name}] {
			p.fail(service.ErrIdempotencyMismatch)
			refused[p] = true
		} else if p.refusedBy(others[p.row.UserID]) != nil {
			refused[p] = true
		}
	}
	for _, p := range missing {
		if !refused[p] {
			return nil, b.lookAgain() // the order that was in its way has just ended
		}
	}
	stay := slices.DeleteFunc(slices.Clone(landed), func(p *placing) bool { return refused[p] })
	if len(stay) == len(landed) {
		return landed, nil
	}
	if slices.ContainsFunc(b.followers, func(f follower) bool { return refused[f.leader] }) {
		return nil, b.lookAgain()
	}
	return stay, remove(tx, slices.DeleteFunc(slices.Clone(landed), func(p *placing) bool { return !refused[p] }))
}

// userOrders are orders of one user: those that hold a unit, and those with the Idempotency-Keys that were asked for.
type userOrders []orderRow

// knownOrders are orders by the id of their user.
type knownOrders map[int64]userOrders

// read adds the orders that a query returns.
func (known knownOrders) read(tx *gorm.DB, q *handwritten) error {
	rows, err := find[orderRow](tx, q)
	for i := range rows {
		r := &rows[i]
		if of := known[r.UserID]; !of.has(r.ID) {
			known[r.UserID] = append(of, *r)
		}
	}
	return err
}

// has says whether an order with this id is among them.
func (of userOrders) has(id int64) bool {
	return slices.ContainsFunc(of, func(r orderRow) bool { return r.ID == id })
}

// keyed returns the order that was placed under the Idempotency-Key of o within KeyLife, by the same request if there is
// one; nil if there is none.
func (of userOrders) keyed(o *orderRow) (found *orderRow) {
	if o.IdemKey == nil {
		return nil
	}
	for i := range of {
		r := &of[i]
		if !bytes.Equal(r.IdemKey, o.IdemKey) || o.CreatedAt.Sub(r.CreatedAt) >= service.KeyLife {
			continue
		}
		if found = r; bytes.Equal(r.IdemRequest, o.IdemRequest) {
			return found
		}
	}
	return found
}

// holding returns those that hold a unit of the voucher.
func (of userOrders) holding(voucherID int64) userOrders {
	var held userOrders
	for _, r := range of {
		if r.VoucherID == voucherID && r.Slot != nil {
			held = append(held, r)
		}
	}
	return held
}

func (of userOrders) newest() *orderRow {
	newest := slices.MaxFunc(of, func(a, b orderRow) int { return cmp.Compare(a.ID, b.ID) })
	return &newest
}

// freeSlot returns the lowest slot that no row has.
func freeSlot(held userOrders) int {
	for slot := 1; ; slot++ {
		if !slices.ContainsFunc(held, func(r orderRow) bool { return *r.Slot == slot }) {
			return slot
		}
	}
}

// heldOrders reads the active orders that the users of the rows have in the sales of the rows, and adds them to known.
// The index is named because MariaDB sometimes scans a table that has just grown.
func (s *Store) heldOrders(tx *gorm.DB, of []*placing, known knownOrders) error {
	if len(of) == 0 {
		return nil
	}
	users, vouchers := make([]any, len(of)), []any(nil)
	for i, p := range of {
		users[i] = p.row.UserID
		if !slices.Contains(vouchers, any(p.row.VoucherID)) {
			vouchers = append(vouchers, p.row.VoucherID)
		}
	}
	q := &handwritten{}
	q.add("SELECT * FROM voucher_orders" + s.dialect.ordersByUser + " WHERE slot IS NOT NULL AND user_id").in(users)
	q.add(" AND voucher_id").in(vouchers)
	return known.read(tx, q)
}

// keyedOrders reads the orders that were placed under the keys of the rows, those in except aside, and adds them to known.
func (s *Store) keyedOrders(tx *gorm.DB, of, except []*placing, known knownOrders) error {
	q := &handwritten{}
	q.add("SELECT * FROM voucher_orders" + s.dialect.ordersByKey + " WHERE (")
	keys, several := 0, false
	for _, p := range of {
		if p.key == nil {
			continue
		}
		if keys > 0 {
			q.add(" OR ")
		}
		q.add("user_id = ? AND idem_key = ?", p.row.UserID, p.row.IdemKey)
		keys, several = keys+1, several || p.limit > 1
	}
	if keys == 0 {
		return nil
	}
	q.add(")")
	if len(except) > 0 {
		ids := make([]any, len(except))
		for i, p := range except {
			ids[i] = p.row.ID
		}
		q.add(" AND id NOT").in(ids)
		if several {
			q.add(s.dialect.forUpdate)
		}
	}
	return known.read(tx, q)
}
