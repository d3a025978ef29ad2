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
	// maxLooks bounds how often one batch is tried because another transaction took a slot or an id in between.
	maxLooks = 20
	// maxDownTries bounds how often a batch is tried while the database is away; the pause before each try is downPause.
	maxDownTries = 3
	downPause    = 100 * time.Millisecond
)

// PlaceOrders implements service.OrderStore: a group commit. All rows are inserted by one statement, as if no buyer
// held an order yet; it leaves out rows that a unique index refuses, and only then are the orders of their buyers read.
// Rows are inserted by user id, so that transactions with the same buyers queue instead of deadlocking. The hot rows are
// updated last, by voucher id: their locks, for which every buyer of the vouchers queues, are held for one statement and
// the commit.
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

// place commits the rows together. If one of them is poison, which fails a transaction for a reason of its own, it is
// found by halving, and the rest lands.
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

// placeTogether runs the transaction until it is decided. What failed before its COMMIT was sent changed nothing, so
// it is tried again after a lost connection or a lock wait timeout. After a COMMIT without an answer the rows tell: all
// of them there means that it happened. Some of them prove nothing, since another process may have stored those alone,
// under the same ids (a queue entry that was delivered twice); then the transaction runs again.
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

// pause waits for d; false says that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Reasons to roll a transaction back.
var (
	// errLookAgain: it met something that its next run must know before it inserts.
	errLookAgain = errors.New("another order came in between")
	// errAllRefused: nothing is left, and every row has its answer.
	errAllRefused = errors.New("no order was placed")
)

// placing is one order on its way into the table.
type placing struct {
	row    orderRow
	limit  int // active orders of the voucher that the user may hold
	key    *service.RequestKey
	fence  context.Context // if not nil, the order is not committed after its end
	result *service.Placed
}

func (p *placing) fail(err error) { *p.result = service.Placed{Err: err} }
func (p *placing) land()          { *p.result = service.Placed{Order: p.row.order()} }
func (p *placing) fenced() bool   { return p.fence != nil && p.fence.Err() != nil }

// batch is one group commit. Its methods run inside the transaction and may run several times.
type batch struct {
	store *Store
	rows  []*placing // in the order of arrival

	careful   bool // read what is there before inserting
	lookUnits bool // take units sale by sale: one of them has too few

	inserts   []*placing // what this try inserts, in the order of arrival
	followers []follower // what it answers already, supposing that an insert lands
}

// follower is a row whose user has another one before it in the batch.
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

// assign gives every row a slot or its refusal. A row that is in the table already has landed before: a queue may
// deliver it twice.
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
			b.careful = true // it may be this very order, or its id is taken
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

// refusedBy answers a row that must not be inserted and returns the order of its user that is the reason; nil if there
// is none.
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

// sameOrder says whether a stored row is the order itself and not another one under its id: the id alone does not
// tell, for a counter that was lost gives numbers again.
func sameOrder(stored, o *orderRow) bool {
	return stored.UserID == o.UserID && stored.VoucherID == o.VoucherID && stored.CreatedAt.Equal(o.CreatedAt)
}

// identity are the columns that sameOrder compares, and the id.
var identity = []string{"id", "user_id", "voucher_id", "created_at"}

// existing reads the rows whose ids are taken.
func (b *batch) existing(tx *gorm.DB) (map[int64]orderRow, error) {
	if !b.careful {
		return nil, nil
	}
	return ordersByID(tx, b.rows)
}

// ordersByID reads the rows under the ids: all columns, or those that tell one order from another.
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

// known reads the orders of the users whose slots cannot be guessed: of those who may hold several, and, in a careful
// run, of all.
func (b *batch) known(tx *gorm.DB) (knownOrders, error) {
	var of []*placing
	for _, p := range b.rows {
		if b.careful || p.limit > 1 {
			of = append(of, p)
		}
	}
	known := knownOrders{}
	if err := b.store.heldOrders(tx, of, known); err != nil {
		return nil, err
	}
	return known, b.store.keyedOrders(tx, of, nil, known)
}

// insert stores the rows in one statement and returns how many a unique index let in. It is written out because gorm's
// reflection over the columns costs more than all else that this process does for an order.
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

// insertOrders is the statement for n rows. What it leaves out is NULL: it has not happened yet.
func insertOrders(n int) string {
	return insertHead + insertRow + strings.Repeat(","+insertRow, n-1)
}

// landed finds out whether all rows are in the table; gorm.ErrRecordNotFound says that they are not.
func (b *batch) landed(tx *gorm.DB) error {
	stored, err := ordersByID(tx, b.inserts, identity...)
	if err != nil {
		return err
	}
	for _, p := range b.inserts {
		if r, ok := stored[p.row.ID]; !ok || !sameOrder(&r, &p.row) {
			b.careful = true // some may be there, and must not take a unit again
			return gorm.ErrRecordNotFound
		}
	}
	return nil
}
