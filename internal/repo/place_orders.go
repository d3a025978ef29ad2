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

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/repo/sqldb"
)

// maxConflicts bounds the runs of one batch that conflict with other transactions, or with themselves: two of its rows may
// have the same id, because a lost id counter repeats numbers. No read before the insert shows that, and every run would be
// the same until ctx ends, and again in the next call. Halving separates them.
const maxConflicts = 20

// PlaceOrders implements service.OrderStore as a group commit. One statement inserts all rows as if no buyer had an
// active order. It skips rows that a unique index refuses, and only then are the orders of those buyers read. Rows are
// inserted in the order of user ids, so that transactions with the same buyers queue instead of deadlocking. The hot
// rows with the stock are updated last, in the order of voucher ids. All buyers of a sale queue for that lock, and it
// is held only for one statement and the commit; in a sale with a waiting room for checkPasses and countPasses as well.
func (s *Store) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	results := make([]domain.Placed, len(orders))
	rows := make([]*pendingInsert, len(orders))
	for i := range orders {
		rows[i] = newPendingInsert(&orders[i], &results[i])
	}

	s.commitIsolating(ctx, rows)
	s.addReplayedOffers(ctx, results)
	return results
}

// commitIsolating commits the rows together. If a single row makes the transaction fail, halving isolates it and the
// others are committed.
func (s *Store) commitIsolating(ctx context.Context, rows []*pendingInsert) {
	err := s.commitBatch(ctx, rows)
	switch {
	case err == nil:
	case len(rows) > 1 && !errors.Is(err, domain.ErrUnavailable):
		half := len(rows) / 2
		s.commitIsolating(ctx, rows[:half])
		s.commitIsolating(ctx, rows[half:])
	default:
		for _, p := range rows {
			p.fail(err)
		}
	}
}

// commitBatch runs the transaction until its outcome is known. A failure before COMMIT changes nothing, so the
// transaction runs again after a lost connection or a lock wait timeout. After an unanswered COMMIT the rows are read.
// If all of them are stored, the COMMIT happened. If only some are, another process may have stored them under the same
// ids (a stream entry that was delivered twice), and the transaction runs again.
func (s *Store) commitBatch(ctx context.Context, rows []*pendingInsert) error {
	var known doubts
	for conflicts, outages := 0, 0; ; {
		b := &batch{}
		err := s.db.Write(ctx, func(tx *gorm.DB) error {
			*b = batch{store: s, rows: rows, doubts: known}
			return b.commit(tx)
		})

		known.commit = known.commit || sqldb.Unanswered(err)
		if len(b.inserts) > 0 {
			err = s.db.ResolveUnknownCommit(ctx, err, b.allStored)
		}

		var again *runAgain
		switch {
		case errors.Is(err, errNonePlaced):
			return nil
		case errors.As(err, &again):
			known = known.and(again.doubts)
			if conflicts++; conflicts == maxConflicts {
				return errors.Join(domain.ErrOrderInProgress, err)
			}
		case errors.Is(err, domain.ErrUnavailable):
			if outages++; outages == sqldb.MaxOutages || loop.Sleep(ctx, sqldb.OutagePause) != nil {
				return err
			}
		default:
			return err
		}
	}
}

// Reasons to roll back the transaction of a batch.
var (
	// errNonePlaced means that no row is left to commit. Every row has its result.
	errNonePlaced = errors.New("no order was placed")

	errReadUsers      = &runAgain{doubts{users: true}}
	errTakeSaleBySale = &runAgain{doubts{stock: true}}
	errRunAgain       = &runAgain{}
)

// runAgain means that the transaction must run again with these doubts.
type runAgain struct{ doubts }

func (*runAgain) Error() string { return "a concurrent order was in conflict" }

// doubts is what a run of a batch does not assume, because an earlier run was wrong.
type doubts struct {
	// That the users have no orders, and their keys no other use. The run reads them before it inserts.
	users bool
	// That each sale has enough units. The run takes them sale by sale.
	stock bool
	// That no earlier run has stored the rows: its COMMIT was not answered, and may happen even after a read that did not find
	// them. The run reads as for users.
	commit bool
}

func (d doubts) and(o doubts) doubts {
	return doubts{
		users:  d.users || o.users,
		stock:  d.stock || o.stock,
		commit: d.commit || o.commit,
	}
}

func (d doubts) precheck() bool { return d.users || d.commit }

// pendingInsert is one order of a batch.
type pendingInsert struct {
	order  *domain.NewOrder
	row    orderRow
	result *domain.Placed
}

func newPendingInsert(o *domain.NewOrder, result *domain.Placed) *pendingInsert {
	row := orderRow{Order: o.Order, UpdatedAt: o.CreatedAt}
	if o.Key != nil {
		row.IdemKey = o.Key.Hash[:]
		row.IdemRequest = o.Key.Request[:]
	}
	if o.Round > 0 {
		row.EntryRound = &o.Round
	}

	return &pendingInsert{o, row, result}
}

func (p *pendingInsert) fail(err error)   { *p.result = domain.Placed{Err: err} }
func (p *pendingInsert) succeed()         { *p.result = domain.Placed{Order: p.row.Order} }
func (p *pendingInsert) keyID() keyID     { return keyID{UserID: p.row.UserID, Key: p.order.Key.Name} }
func (p *pendingInsert) fenceEnded() bool { return p.order.Fence != nil && p.order.Fence.Err() != nil }

// batch is one run of a group commit.
type batch struct {
	store *Store
	// In the order of arrival.
	rows   []*pendingInsert
	doubts doubts

	// The rows that this run inserts, in the order of arrival.
	inserts []*pendingInsert
	// The rows whose result assumes that a row of inserts is stored.
	followers []follower
}

// follower is a row whose answer depends on an earlier row of its user in the batch, its leader. It may have several.
type follower struct{ row, leader *pendingInsert }

func (b *batch) commit(tx *gorm.DB) error {
	if err := b.assign(tx); err != nil || len(b.inserts) == 0 {
		return err
	}

	count, err := b.insert(tx)
	if err != nil {
		return err
	}

	if err := b.resolveConflicts(tx, count); err != nil {
		return err
	}

	for _, p := range b.inserts {
		p.succeed()
	}

	// Before the hot row is locked.
	if err := b.store.recordPlaced(tx, b.inserts); err != nil {
		return err
	}
	if err := b.takeUnits(tx); err != nil {
		return err
	}
	if err := b.checkPasses(tx); err != nil {
		return err
	}
	if err := countPasses(tx, b.inserts); err != nil {
		return err
	}
	if slices.ContainsFunc(b.inserts, (*pendingInsert).fenceEnded) {
		return errRunAgain
	}

	return nil
}

// assign gives each row a slot or a result. A row that is stored already is a success, because a stream entry may be
// delivered twice.
func (b *batch) assign(tx *gorm.DB) error {
	known, err := b.readKnownOrders(tx)
	if err != nil {
		return err
	}

	var existing map[int64]orderRow
	var elsewhere map[keyID]bool
	if b.doubts.precheck() {
		if existing, err = ordersByID(tx, b.rows); err != nil {
			return err
		}
		if elsewhere, err = b.store.keysElsewhere(tx, b.rows); err != nil {
			return err
		}
	}

	var expired []int64
	for _, p := range b.rows {
		if p.fenceEnded() {
			p.fail(fmt.Errorf("%w: %w", domain.ErrUnavailable, context.Cause(p.order.Fence)))
			continue
		}

		if e, ok := existing[p.row.ID]; ok {
			if !sameOrder(&e, &p.row) {
				p.fail(domain.ErrIDTaken)
				continue
			}
			*p.result = domain.Placed{Order: e.Order, Before: !b.doubts.commit}
			continue
		}

		if p.order.Key != nil && elsewhere[p.keyID()] {
			p.fail(domain.ErrIdempotencyMismatch)
			continue
		}

		of := known[p.row.UserID]
		if of.has(p.row.ID) {
			// It is this order, or another one with its id.
			return errReadUsers
		}

		if blocking := p.answerFrom(of); blocking != nil {
			b.follow(p, blocking)
			continue
		}

		if earlier := of.withKeyOf(&p.row); earlier != nil {
			expired = append(expired, earlier.ID)
			earlier.IdemKey = nil
		}

		p.row.Slot = freeSlot(of.activeOf(p.row.VoucherID))
		known[p.row.UserID] = append(of, p.row)
		b.inserts = append(b.inserts, p)
	}

	return forgetKeys(tx, expired)
}

func (b *batch) follow(p *pendingInsert, blocking userOrders) {
	for _, leader := range b.inserts {
		if blocking.has(leader.row.ID) {
			b.followers = append(b.followers, follower{row: p, leader: leader})
		}
	}
}

func forgetKeys(tx *gorm.DB, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return tx.Model(&orderRow{}).Where("id IN ?", ids).UpdateColumns(map[string]any{"idem_key": nil, "idem_request": nil}).Error
}

// answerFrom answers p if orders of its user prevent the insert, and returns them. Otherwise it returns nil.
func (p *pendingInsert) answerFrom(others userOrders) userOrders {
	if earlier := others.withKeyOf(&p.row); earlier != nil && !earlier.keyExpired(p.row.CreatedAt) {
		if bytes.Equal(earlier.IdemRequest, p.row.IdemRequest) {
			*p.result = domain.Placed{Order: earlier.After(domain.EventCreated), Replayed: true}
		} else {
			p.fail(domain.ErrIdempotencyMismatch)
		}
		return userOrders{*earlier}
	}

	held := others.activeOf(p.row.VoucherID)
	if bought := held.withPassOf(&p.row); bought != nil {
		p.fail(&domain.DuplicateOrderError{OrderID: bought.ID})
		return userOrders{*bought}
	}

	if len(held) >= p.order.Limit {
		p.fail(&domain.DuplicateOrderError{OrderID: held.newest()})
		return held
	}

	if ended := others.withPassOf(&p.row); ended != nil {
		p.fail(domain.ErrPassExpired)
		return userOrders{*ended}
	}

	return nil
}

// sameOrder reports whether a stored row is the order o itself. Equal ids do not prove it, because a lost id counter
// repeats numbers.
func sameOrder(stored, o *orderRow) bool {
	return stored.UserID == o.UserID && stored.VoucherID == o.VoucherID && stored.CreatedAt.Equal(o.CreatedAt)
}

// identityColumns lists the id and the columns that sameOrder compares.
var identityColumns = []string{"id", "user_id", "voucher_id", "created_at"}

func ordersByID(tx *gorm.DB, of []*pendingInsert, columns ...string) (map[int64]orderRow, error) {
	q := tx.Where("id IN ?", idsOf(of))
	if len(columns) > 0 {
		q = q.Select(columns)
	}

	var rows []orderRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, err
	}

	return byKey(rows, func(r *orderRow) int64 { return r.ID }), nil
}

func idsOf(rows []*pendingInsert) []int64 {
	ids := make([]int64, len(rows))
	for i, p := range rows {
		ids[i] = p.row.ID
	}
	return ids
}

// readKnownOrders reads the orders of the users whose free slot cannot be assumed: of users with a limit above 1 and,
// with a precheck, of all users. Then it reads the ended orders of the users' passes as well.
func (b *batch) readKnownOrders(tx *gorm.DB) (knownOrders, error) {
	var of []*pendingInsert
	for _, p := range b.rows {
		if b.doubts.precheck() || p.order.Limit > 1 {
			of = append(of, p)
		}
	}

	known := knownOrders{}
	if err := b.store.addActiveOrders(tx, of, nil, known); err != nil {
		return nil, err
	}

	if b.doubts.precheck() {
		if err := b.store.addPassOrders(tx, withPass(of), nil, known); err != nil {
			return nil, err
		}
	}

	return known, b.store.addKeyedOrders(tx, of, known)
}

// insert stores the rows with one statement and returns the number that the unique indexes accepted. It does not use
// gorm, whose reflection over the columns costs more than everything else that this process does for an order.
func (b *batch) insert(tx *gorm.DB) (int64, error) {
	rows := make([]*orderRow, len(b.inserts))
	for i, p := range b.inserts {
		rows[i] = &p.row
	}

	slices.SortFunc(rows, func(a, b *orderRow) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.VoucherID, b.VoucherID), cmp.Compare(a.Slot, b.Slot))
	})

	args := make([]any, 0, len(rows)*insertColumns)
	for _, r := range rows {
		var offer []byte
		if r.OfferID != (domain.OfferID{}) {
			offer = r.OfferID[:]
		}

		args = append(args, r.ID, r.UserID, r.VoucherID, r.Slot, r.Status, r.Amount, r.Currency, r.CreatedAt, r.ExpiresAt, r.UpdatedAt,
			r.IdemKey, r.IdemRequest, r.EntryRound, offer)
	}

	res, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, insertOrders(len(rows))+b.store.db.Syntax().SkipExisting, args...)
	if err != nil {
		return 0, err
	}

	return res.RowsAffected()
}

const (
	insertColumns = 14
	insertHead    = "INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, currency, created_at, expires_at, updated_at, " +
		"idem_key, idem_request, entry_round, offer_id) VALUES "
	insertRow = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)

// insertOrders returns the statement for n rows. The columns that it omits are NULL: paid_at, redeemed_at and so on.
func insertOrders(n int) string {
	return insertHead + insertRow + strings.Repeat(","+insertRow, n-1)
}

func (b *batch) allStored(tx *gorm.DB) error {
	stored, err := ordersByID(tx, b.inserts, identityColumns...)
	if err != nil {
		return err
	}

	for _, p := range b.inserts {
		if r, ok := stored[p.row.ID]; !ok || !sameOrder(&r, &p.row) {
			return gorm.ErrRecordNotFound
		}
	}

	return nil
}

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

// having is the condition under which the group gets its units: enough are left, and the gate was not replaced.
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
		if p.order.Generation != nil {
			group.generation = *p.order.Generation
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
	if len(sales) > 1 && !b.doubts.stock {
		enough, err := takeFromEach(tx, sales, at)
		if err != nil || enough {
			return err
		}

		// The statement does not report which sale has too few, or another generation.
		return errTakeSaleBySale
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
		err = errRunAgain
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
