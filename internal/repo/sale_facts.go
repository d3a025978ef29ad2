package repo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
)

// SaleFacts implements reconcile.Store.
func (s *Store) SaleFacts(
	ctx context.Context, voucherID int64, inFlight []int64, most int, since domain.OverdueSince,
) (domain.SaleFacts, error) {
	return run(ctx, s.db.LongSnapshot, func(tx *gorm.DB) (domain.SaleFacts, error) {
		f := domain.SaleFacts{VoucherID: voucherID}
		var err error
		f.Voucher, err = findVoucher(tx, voucherID)
		// Orders without a sale are reported, not hidden.
		if err != nil && !errors.Is(err, gorm.ErrRecordNotFound) {
			return f, err
		}

		if f.Active, _, err = sumActive(tx, voucherID); err != nil {
			return f, err
		}
		if err := readActiveOrders(tx, &f, most); err != nil {
			return f, err
		}
		if f.Settled, err = storedIDs(tx, voucherID, inFlight); err != nil {
			return f, err
		}

		err = readNamed(tx, &f, since)
		return f, err
	})
}

func sumActive(tx *gorm.DB, voucherID int64) (active, sum int64, err error) {
	err = ofVoucher(tx, voucherID).Where("status IN ?", domain.ActiveStatuses()).
		Select("COUNT(*), CAST(COALESCE(SUM(id % ?), 0) AS SIGNED)", domain.LevelDigits).Row().Scan(&active, &sum)
	return active, sum, err
}

func ofVoucher(tx *gorm.DB, voucherID int64) *gorm.DB {
	return tx.Session(&gorm.Session{}).Table("voucher_orders").Where("voucher_id = ?", voucherID)
}

func readActiveOrders(tx *gorm.DB, f *domain.SaleFacts, most int) error {
	if f.Active > int64(most) {
		f.TooMany = true
		return nil
	}

	f.Holders = make([]domain.Holder, 0, f.Active)
	var slotless []domain.Holder
	err := eachActive(tx, f.VoucherID, func(h domain.Holder, noSlot bool) {
		f.Holders = append(f.Holders, h)
		if noSlot {
			slotless = append(slotless, h)
		}
	})

	oldestFirst := func(a, b domain.Holder) int { return cmp.Compare(a.OrderID, b.OrderID) }

	// Sorted here, at no cost for the database.
	slices.SortFunc(f.Holders, oldestFirst)
	slices.SortFunc(slotless, oldestFirst)
	addNamed(&f.BadSlots, slotless...)
	return err
}

func addNamed(n *domain.Named, hs ...domain.Holder) {
	n.Count += int64(len(hs))
	n.Orders = append(n.Orders, hs[:min(len(hs), domain.MaxNamed-len(n.Orders))]...)
}

func storedIDs(tx *gorm.DB, voucherID int64, ids []int64) ([]int64, error) {
	var found []int64
	for some := range slices.Chunk(ids, idsPerQuery) {
		var stored []int64
		if err := ofVoucher(tx, voucherID).Where("id IN ?", some).Pluck("id", &stored).Error; err != nil {
			return found, err
		}
		found = append(found, stored...)
	}

	return found, nil
}

func readNamed(tx *gorm.DB, f *domain.SaleFacts, since domain.OverdueSince) error {
	inactive := ofVoucher(tx, f.VoucherID).Where("status NOT IN ?", domain.ActiveStatuses())
	queries := []struct {
		into  *domain.Named
		where *gorm.DB
		order string
	}{
		{&f.BadSlots, inactive.Session(&gorm.Session{}).Where("slot IS NOT NULL"), "id"},
		{&f.Returned, inactive, "id DESC"},
		{&f.Expired, overdue(tx, f.VoucherID, domain.OrderPendingPayment, "expires_at", since.Expired), "id"},
		{&f.Refunding, overdue(tx, f.VoucherID, domain.OrderRefunding, "updated_at", since.Refunding), "id"},
	}

	for _, q := range queries {
		if q.where == nil {
			continue
		}

		where := q.where.Session(&gorm.Session{})
		var n int64
		if err := where.Count(&n).Error; err != nil {
			return err
		}
		if n == 0 {
			continue
		}

		var first []domain.Holder
		if err := where.Select("id AS order_id", "user_id").Order(q.order).Limit(domain.MaxNamed).Scan(&first).Error; err != nil {
			return err
		}

		addNamed(q.into, first...)
		q.into.Count += n - int64(len(first))
	}

	return nil
}

func overdue(tx *gorm.DB, voucherID int64, status domain.OrderStatus, column string, since time.Time) *gorm.DB {
	if since.IsZero() {
		return nil
	}
	return ofVoucher(tx, voucherID).Where("status = ? AND "+column+" < ?", status, since)
}

// OrderFacts implements reconcile.Store.
func (s *Store) OrderFacts(ctx context.Context, voucherID int64, ids []int64) ([]domain.OrderFact, error) {
	var facts []domain.OrderFact
	for some := range slices.Chunk(ids, idsPerQuery) {
		found, err := list[domain.OrderFact](s, ofVoucher(s.db.Reader(ctx), voucherID).
			Select("id AS order_id, user_id, status IN ? AS active", domain.ActiveStatuses()).Where("id IN ?", some))
		if err != nil {
			return nil, err
		}
		facts = append(facts, found...)
	}

	return facts, nil
}

// Sales implements reconcile.Store.
func (s *Store) Sales(ctx context.Context, endAfter time.Time, most int) ([]int64, int64, error) {
	q := s.db.Reader(ctx).Table("seckill_vouchers")
	if !endAfter.IsZero() {
		q = q.Where("end_at > ?", endAfter)
	}

	q = q.Session(&gorm.Session{})
	var all int64
	if err := q.Count(&all).Error; err != nil {
		return nil, 0, s.db.Translate(err)
	}

	var ids []int64
	err := q.Order("voucher_id DESC").Limit(most).Pluck("voucher_id", &ids).Error
	return ids, all, s.db.Translate(err)
}

// SalesEnded implements reconcile.Store.
func (s *Store) SalesEnded(ctx context.Context, after, until time.Time) ([]int64, error) {
	var ids []int64
	err := s.db.Reader(ctx).Table("seckill_vouchers").Where("end_at > ? AND end_at <= ?", after, until).Pluck("voucher_id", &ids).Error
	return ids, s.db.Translate(err)
}

// OrphanVouchers returns the ids of vouchers that have active orders but no sale.
func (s *Store) OrphanVouchers(ctx context.Context) ([]int64, error) {
	return run(ctx, s.db.LongSnapshot, func(tx *gorm.DB) ([]int64, error) {
		orphans, err := totals(tx, orphansQuery)
		return column(orphans, func(t *domain.SaleTotals) int64 { return t.VoucherID }), err
	})
}
