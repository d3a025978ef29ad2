package repo

import (
	"cmp"
	"context"
	"errors"
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

// PlaceOrders implements service.OrderStore: a group commit. The fast way supposes that no buyer holds an order yet
// and lets the indexes object; only then are they asked who does. Rows go in by user id, so that two transactions
// with the same buyers queue instead of locking each other out, and the hot rows come last, by voucher id: their locks,
// for which every buyer of the vouchers queues, are held for one statement and the commit.
func (s *Store) PlaceOrders(ctx context.Context, orders []service.Order, limit int) []service.Placed {
	results := make([]service.Placed, len(orders))
	rows := make([]*placing, len(orders))
	for i := range orders {
		rows[i] = &placing{row: newOrderRow(&orders[i]), result: &results[i]}
	}
	s.place(ctx, rows, limit)
	return results
}

// placing is one order on its way into the table.
type placing struct {
	row    orderRow
	result *service.Placed
}

func (p *placing) fail(err error) { *p.result = service.Placed{Err: err} }
func (p *placing) land()          { *p.result = service.Placed{Order: p.row.order()} }

// place commits the rows together. If one of them is poison, which fails a transaction for a reason of its own, it is
// found by halving, and the rest lands.
func (s *Store) place(ctx context.Context, rows []*placing, limit int) {
	err := s.placeTogether(ctx, rows, limit)
	switch {
	case err == nil:
	case len(rows) > 1 && !errors.Is(err, service.ErrUnavailable):
		half := len(rows) / 2
		s.place(ctx, rows[:half], limit)
		s.place(ctx, rows[half:], limit)
	default:
		for _, p := range rows {
			p.fail(err)
		}
	}
}

// placeTogether runs the transaction until it is decided. What failed before its COMMIT was sent changed nothing, so
// it is tried again after a lost connection or a lock that was not had in time. Where COMMIT was not answered, one of
// its rows tells: there, all are; not there, none is, and it is tried again as well.
func (s *Store) placeTogether(ctx context.Context, rows []*placing, limit int) error {
	b := &batch{store: s, rows: rows, limit: limit, lookHolders: limit > 1}
	for looks, downs := 0, 0; ; {
		err := s.write(ctx, b.commit)
		if b.landed() {
			err = s.settle(ctx, err, func(tx *gorm.DB) error {
				first := b.inserts[0].row
				return tx.Where("id = ? AND user_id = ?", first.ID, first.UserID).Take(&orderRow{}).Error
			})
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
	// errLookAgain: it met an order for which it had not looked.
	errLookAgain = errors.New("another order came in between")
	// errAllRefused: nothing is left, and every row has its answer.
	errAllRefused = errors.New("no order was placed")
)

// batch is one group commit. Its methods run inside the transaction and may run several times.
type batch struct {
	store *Store
	rows  []*placing // in the order of arrival
	limit int

	lookHolders bool // ask who holds orders before inserting
	lookIDs     bool // ask which ids exist before inserting
	lookUnits   bool // take units sale by sale: one of them has too few

	inserts []*placing // what this try inserts, in the order of arrival
}

func (b *batch) landed() bool { return len(b.inserts) > 0 }

func (b *batch) commit(tx *gorm.DB) error {
	if err := b.assign(tx); err != nil || len(b.inserts) == 0 {
		return err
	}
	if err := b.insert(tx); err != nil {
		return err
	}
	for _, p := range b.inserts {
		p.land()
	}
	return b.takeUnits(tx)
}

// assign gives every row a slot or its refusal. A row that is in the table already has landed before: a queue may
// deliver it twice.
func (b *batch) assign(tx *gorm.DB) error {
	b.inserts = b.inserts[:0]
	existing, err := b.existing(tx)
	if err != nil {
		return err
	}
	held, err := b.holders(tx)
	if err != nil {
		return err
	}
	for _, p := range b.rows {
		if e, ok := existing[p.row.ID]; ok {
			if !sameOrder(&e, &p.row) {
				p.fail(service.ErrIDTaken)
				continue
			}
			*p.result = service.Placed{Order: e.order(), Before: true}
			continue
		}
		buyer := buyerOf(&p.row)
		mine := held[buyer]
		if slices.ContainsFunc(mine, func(r orderRow) bool { return r.ID == p.row.ID }) {
			b.lookIDs = true // it may be this very order
			return errLookAgain
		}
		if len(mine) >= b.limit {
			p.fail(&service.DuplicateOrderError{OrderID: newest(mine)})
			continue
		}
		slot := freeSlot(mine)
		p.row.Slot = &slot
		held[buyer] = append(mine, p.row)
		b.inserts = append(b.inserts, p)
	}
	return nil
}

// sameOrder says whether a stored row is the order itself and not another one under its id: the id alone does not
// tell, for a counter that was lost gives numbers again.
func sameOrder(stored, o *orderRow) bool {
	return stored.UserID == o.UserID && stored.VoucherID == o.VoucherID && stored.CreatedAt.Equal(o.CreatedAt)
}

// existing reads the rows whose ids are taken.
func (b *batch) existing(tx *gorm.DB) (map[int64]orderRow, error) {
	if !b.lookIDs {
		return nil, nil
	}
	ids := make([]int64, len(b.rows))
	for i, p := range b.rows {
		ids[i] = p.row.ID
	}
	var rows []orderRow
	if err := tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}
	byID := make(map[int64]orderRow, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	return byID, nil
}

// buyer is a user in one sale.
type buyer struct{ user, voucher int64 }

func buyerOf(r *orderRow) buyer { return buyer{user: r.UserID, voucher: r.VoucherID} }

// holders reads the active orders of the buyers, and what else they hold in these sales.
func (b *batch) holders(tx *gorm.DB) (map[buyer][]orderRow, error) {
	held := make(map[buyer][]orderRow, len(b.rows))
	if !b.lookHolders {
		return held, nil
	}
	var users, vouchers []int64
	for _, p := range b.rows {
		users = append(users, p.row.UserID)
		if !slices.Contains(vouchers, p.row.VoucherID) {
			vouchers = append(vouchers, p.row.VoucherID)
		}
	}
	var rows []orderRow
	err := tx.Select("id", "user_id", "voucher_id", "slot").
		Where("user_id IN ? AND voucher_id IN ? AND slot IS NOT NULL", users, vouchers).Find(&rows).Error
	for _, r := range rows {
		held[buyerOf(&r)] = append(held[buyerOf(&r)], r)
	}
	return held, err
}

func newest(rows []orderRow) int64 {
	return slices.MaxFunc(rows, func(a, b orderRow) int { return cmp.Compare(a.ID, b.ID) }).ID
}

// freeSlot returns the lowest slot that no row has.
func freeSlot(rows []orderRow) int {
	for slot := 1; ; slot++ {
		if !slices.ContainsFunc(rows, func(r orderRow) bool { return *r.Slot == slot }) {
			return slot
		}
	}
}

// insert stores the rows in one statement. It is written out because gorm's reflection over 13 columns costs more
// than all else that this process does for an order.
func (b *batch) insert(tx *gorm.DB) error {
	rows := make([]*orderRow, len(b.inserts))
	for i, p := range b.inserts {
		rows[i] = &p.row
	}
	slices.SortFunc(rows, func(a, b *orderRow) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.VoucherID, b.VoucherID), cmp.Compare(*a.Slot, *b.Slot))
	})
	args := make([]any, 0, len(rows)*insertColumns)
	for _, r := range rows {
		args = append(args, r.ID, r.UserID, r.VoucherID, *r.Slot, r.Status, r.Amount, r.Currency, r.CreatedAt, r.ExpiresAt, r.UpdatedAt)
	}
	_, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, insertOrders(len(rows)), args...)
	switch {
	case b.store.duplicate(err, primaryKey):
		b.lookIDs = true
		return errLookAgain
	case b.store.duplicate(err, ukUserVoucherSlot):
		b.lookHolders = true
		return errLookAgain
	}
	return err
}

const (
	insertColumns = 10
	insertHead    = "INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, currency, created_at, expires_at, updated_at) VALUES "
	insertRow     = "(?,?,?,?,?,?,?,?,?,?)"
)

// insertOrders is the statement for n rows. What it leaves out is NULL: it has not happened yet.
func insertOrders(n int) string {
	return insertHead + insertRow + strings.Repeat(","+insertRow, n-1)
}
