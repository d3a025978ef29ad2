package repo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/service"
)

const (
	// maxLooks bounds the runs of one batch that conflict with other transactions.
	maxLooks = 20
	// maxDownTries bounds the runs of one batch that find the database unavailable; downPause is the pause between them.
	maxDownTries = 3
	downPause    = 100 * time.Millisecond
)

// PlaceOrders implements service.OrderStore as a group commit. One statement inserts all rows as if no buyer had an active
// order. It skips rows that a unique index refuses, and only then are the orders of those buyers read. Rows are inserted
// in the order of user ids, so that transactions with the same buyers queue instead of deadlocking. The hot rows with the
// stock are updated last, in the order of voucher ids. All buyers of a sale queue for that lock, and it is held only for
// one statement and the commit.
func (s *Store) PlaceOrders(ctx context.Context, orders []service.NewOrder) []service.Placed {
	results := make([]service.Placed, len(orders))
	rows := make([]*placing, len(orders))
	for i := range orders {
		o := &orders[i]
		rows[i] = &placing{row: newOrderRow(&o.Order), limit: o.Limit, key: o.Key, fence: o.Fence, result: &results[i]}
		if o.Key != nil {
			rows[i].row.IdemKey, rows[i].row.IdemRequest = o.Key.Hash[:], o.Key.Request[:]
		}
	}
	s.place(ctx, rows)
	return results
}

// place commits the rows together. If a single row makes the transaction fail, halving isolates it and the others are
// committed.
func (s *Store) place(ctx context.Context, rows []*placing) {
	err := s.placeTogether(ctx, rows)
	switch {
	case err == nil:
	case len(rows) > 1 && !errors.Is(err, service.ErrUnavailable):
		half := len(rows) / 2
		s.place(ctx, rows[:half])
		s.place(ctx, rows[half:])
	default:
		for _, p := range rows {
			p.fail(err)
		}
	}
}

// placeTogether runs the transaction until its outcome is known. A failure before COMMIT changes nothing, so the
// transaction runs again after a lost connection or a lock wait timeout. After an unanswered COMMIT the rows are read. If
// all of them are stored, it happened. Only some of them prove nothing, because another process may have stored those under
// the same ids (a stream entry that was delivered twice); then the transaction runs again.
func (s *Store) placeTogether(ctx context.Context, rows []*placing) error {
	b := &batch{store: s, rows: rows}
	for looks, downs := 0, 0; ; {
		err := s.write(ctx, b.commit)
		if len(b.inserts) > 0 {
			err = s.settle(ctx, err, b.landed)
		}
		switch {
		case errors.Is(err, errAllRefused):
			return nil
		case errors.Is(err, errLookAgain):
			if looks++; looks == maxLooks {
				return errors.Join(service.ErrOrderInProgress, err)
			}
		case errors.Is(err, service.ErrUnavailable):
			if downs++; downs == maxDownTries || !pause(ctx, downPause) {
				return err
			}
		default:
			return err
		}
	}
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Reasons to roll back the transaction of a batch.
var (
	// errLookAgain means that the transaction must run again, with one of its assumptions replaced by a read.
	errLookAgain = errors.New("a concurrent order was in conflict")
	// errAllRefused means that no row is left to commit. Every row has its result.
	errAllRefused = errors.New("no order was placed")
)

// placing is one order of a batch.
type placing struct {
	row    orderRow
	limit  int // most active orders of the voucher that the user may have
	key    *service.RequestKey
	fence  context.Context // if not nil, the order is not committed after this context has ended
	result *service.Placed
}

func (p *placing) fail(err error) { *p.result = service.Placed{Err: err} }
func (p *placing) land()          { *p.result = service.Placed{Order: p.row.order()} }
func (p *placing) fenced() bool   { return p.fence != nil && p.fence.Err() != nil }

// batch is one group commit. Its methods run inside the transaction and may run several times.
type batch struct {
	store *Store
	rows  []*placing // in the order of arrival

	careful   bool // read the existing orders before inserting
	lookUnits bool // take units sale by sale, because one sale has too few

	inserts   []*placing // the rows that this run inserts, in the order of arrival
	followers []follower // the rows whose result assumes that a row of inserts is stored
}

// follower is a row that is answered from an earlier row of its user in the batch, its leader.
type follower struct{ row, leader *placing }

func (b *batch) commit(tx *gorm.DB) error {
	if err := b.assign(tx); err != nil || len(b.inserts) == 0 {
		return err
	}
	inserted, err := b.insert(tx)
	if err != nil {
		return err
	}
	if err := b.resolve(tx, inserted); err != nil {
		return err
	}
	for _, p := range b.inserts {
		p.land()
	}
	if err := b.takeUnits(tx); err != nil {
		return err
	}
	if slices.ContainsFunc(b.inserts, (*placing).fenced) {
		return errLookAgain
	}
	return nil
}

// assign gives each row a slot or a result. A row that is stored already is a success, because a stream entry may be
// delivered twice.
func (b *batch) assign(tx *gorm.DB) error {
	b.inserts, b.followers = b.inserts[:0], b.followers[:0]
	existing, err := b.existing(tx)
	if err != nil {
		return err
	}
	known, err := b.known(tx)
	if err != nil {
		return err
	}
	var elsewhere map[keyID]bool
	if b.careful {
		if elsewhere, err = b.store.keysElsewhere(tx, b.rows); err != nil {
			return err
		}
	}
	for _, p := range b.rows {
		if p.fenced() {
			p.fail(fmt.Errorf("%w: %w", service.ErrUnavailable, context.Cause(p.fence)))
			continue
		}
		if e, ok := existing[p.row.ID]; ok {
			if !sameOrder(&e, &p.row) {
				p.fail(service.ErrIDTaken)
				continue
			}
			*p.result = service.Placed{Order: e.order(), Before: true}
			continue
		}
		if p.key != nil && elsewhere[keyID{p.row.UserID, p.key.Name}] {
			p.fail(service.ErrIdempotencyMismatch)
			continue
		}
		of := known[p.row.UserID]
		if of.has(p.row.ID) {
			b.careful = true // it is this order, or another one with its id
			return errLookAgain
		}
		if because := p.refusedBy(of); because != nil {
			if i := slices.IndexFunc(b.inserts, func(q *placing) bool { return q.row.ID == because.ID }); i >= 0 {
				b.followers = append(b.followers, follower{row: p, leader: b.inserts[i]})
			}
			continue
		}
		slot := freeSlot(of.holding(p.row.VoucherID))
		p.row.Slot = &slot
		known[p.row.UserID] = append(of, p.row)
		b.inserts = append(b.inserts, p)
	}
	return nil
}

// refusedBy answers p if an order of its user prevents the insert, and returns that order. Otherwise it returns nil.
func (p *placing) refusedBy(of userOrders) *orderRow {
	if earlier := of.keyed(&p.row); earlier != nil {
		if bytes.Equal(earlier.IdemRequest, p.row.IdemRequest) {
			*p.result = service.Placed{Order: earlier.asPlaced(), Replayed: true}
		} else {
			p.fail(service.ErrIdempotencyMismatch)
		}
		return earlier
	}
	if held := of.holding(p.row.VoucherID); len(held) >= p.limit {
		newest := held.newest()
		p.fail(&service.DuplicateOrderError{OrderID: newest.ID})
		return newest
	}
	return nil
}

// sameOrder reports whether a stored row is the order o itself. Equal ids do not prove it, because a lost id counter
// repeats numbers.
func sameOrder(stored, o *orderRow) bool {
	return stored.UserID == o.UserID && stored.VoucherID == o.VoucherID && stored.CreatedAt.Equal(o.CreatedAt)
}

// identity lists the id and the columns that sameOrder compares.
var identity = []string{"id", "user_id", "voucher_id", "created_at"}

// existing reads the stored orders with the ids of the batch, if the run is careful.
func (b *batch) existing(tx *gorm.DB) (map[int64]orderRow, error) {
	if !b.careful {
		return nil, nil
	}
	return ordersByID(tx, b.rows)
}

// ordersByID reads the stored orders with the ids of the rows: the given columns, or all of them if none is given.
func ordersByID(tx *gorm.DB, of []*placing, columns ...string) (map[int64]orderRow, error) {
	q := tx.Where("id IN ?", idsOf(of))
	if len(columns) > 0 {
		q = q.Select(columns)
	}
	var rows []orderRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, err
	}
	byID := make(map[int64]orderRow, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	return byID, nil
}

func idsOf(rows []*placing) []int64 {
	ids := make([]int64, len(rows))
	for i, p := range rows {
		ids[i] = p.row.ID
	}
	return ids
}

// known reads the orders of the users whose free slot cannot be assumed: of users with a limit above 1 and, if the run is
// careful, of all users.
func (b *batch) known(tx *gorm.DB) (map[int64]userOrders, error) {
	var of []*placing
	for _, p := range b.rows {
		if b.careful || p.limit > 1 {
			of = append(of, p)
		}
	}
	return b.store.readUserOrders(tx, of, nil)
}

// insert stores the rows with one statement and returns the number that the unique indexes accepted. It does not use gorm,
// whose reflection over the columns costs more than everything else that this process does for an order.
func (b *batch) insert(tx *gorm.DB) (int64, error) {
	rows := make([]*orderRow, len(b.inserts))
	for i, p := range b.inserts {
		rows[i] = &p.row
	}
	slices.SortFunc(rows, func(a, b *orderRow) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.VoucherID, b.VoucherID), cmp.Compare(*a.Slot, *b.Slot))
	})
	args := make([]any, 0, len(rows)*insertColumns)
	for _, r := range rows {
		args = append(args, r.ID, r.UserID, r.VoucherID, *r.Slot, r.Status, r.Amount, r.Currency, r.CreatedAt, r.ExpiresAt, r.UpdatedAt,
			r.IdemKey, r.IdemRequest)
	}
	res, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, insertOrders(len(rows))+b.store.dialect.keys.unlessThere, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

const (
	insertColumns = 12
	insertHead    = "INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, currency, created_at, expires_at, updated_at, " +
		"idem_key, idem_request) VALUES "
	insertRow = "(?,?,?,?,?,?,?,?,?,?,?,?)"
)

// insertOrders returns the statement for n rows. The columns that it omits are NULL: paid_at, redeemed_at and so on.
func insertOrders(n int) string {
	return insertHead + insertRow + strings.Repeat(","+insertRow, n-1)
}

// landed returns nil if all rows are stored and gorm.ErrRecordNotFound otherwise.
func (b *batch) landed(tx *gorm.DB) error {
	stored, err := ordersByID(tx, b.inserts, identity...)
	if err != nil {
		return err
	}
	for _, p := range b.inserts {
		if r, ok := stored[p.row.ID]; !ok || !sameOrder(&r, &p.row) {
			b.careful = true // rows that are stored must not take a unit again
			return gorm.ErrRecordNotFound
		}
	}
	return nil
}
