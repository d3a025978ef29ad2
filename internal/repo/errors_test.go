package repo

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/testenv"
)

// The name of the violated index distinguishes a taken order id from a second purchase.
func TestDuplicateNamesItsIndex(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		one := 1
		row := func(id, user int64) *orderRow {
			o := newOrder(id, user, 5)
			r := newOrderRow(&o)
			r.Slot = &one
			return &r
		}
		require.NoError(t, s.writePool.Create(row(1, 1)).Error)
		require.True(t, s.duplicate(s.writePool.Create(row(1, 2)).Error, primaryKey))
		require.True(t, s.duplicate(s.writePool.Create(row(2, 1)).Error, ukUserVoucherSlot))
		require.False(t, s.duplicate(nil, primaryKey))

		user := func() *userRow {
			return &userRow{Phone: "it's '13800000001'", NickName: "n", CreatedAt: now, UpdatedAt: now}
		}
		require.NoError(t, s.writePool.Create(user()).Error)
		require.True(t, s.duplicate(s.writePool.Create(user()).Error, ukPhone), "although the value contains quotes")
	})
}

func TestDupIndex(t *testing.T) {
	for message, want := range map[string]string{
		"Duplicate entry '1-2-1' for key 'voucher_orders.uk_user_voucher_slot'": "uk_user_voucher_slot", // MySQL 8
		"Duplicate entry '1-2-1' for key 'uk_user_voucher_slot'":                "uk_user_voucher_slot", // MariaDB
		"Duplicate entry 'a' for key 'b' for key 'PRIMARY'":                     "PRIMARY",
		"": "",
	} {
		require.Equal(t, want, dupIndex(message))
	}
}

func TestTranslate(t *testing.T) {
	s := &Store{dialect: dialect{translate: mysqlFault}}
	wrapped := func(err error) error { return fmt.Errorf("somewhere: %w", err) }
	for name, tc := range map[string]struct{ err, want error }{
		"deadlock":          {wrapped(&mysqldriver.MySQLError{Number: erLockDeadlock}), domain.ErrUnavailable},
		"too many":          {&mysqldriver.MySQLError{Number: 1040}, domain.ErrUnavailable},
		"shutting down":     {&mysqldriver.MySQLError{Number: 1053}, domain.ErrUnavailable},
		"broken connection": {wrapped(mysqldriver.ErrInvalidConn), domain.ErrUnavailable},
		"deadline":          {context.DeadlineExceeded, domain.ErrUnavailable},
		"lock wait":         {&mysqldriver.MySQLError{Number: erLockWaitTimeout}, domain.ErrUnavailable},
		"refused":           {wrapped(&connectError{&mysqldriver.MySQLError{Number: 1045}}), domain.ErrUnavailable},
		"no row":            {gorm.ErrRecordNotFound, domain.ErrNotFound},
		"ours":              {domain.ErrSoldOut, domain.ErrSoldOut},
	} {
		require.ErrorIs(t, s.translate(tc.err), tc.want, name)
	}
	syntax := &mysqldriver.MySQLError{Number: 1064}
	require.Same(t, error(syntax), s.translate(syntax), "an unknown error is returned unchanged")
	require.NoError(t, s.translate(nil))
}

func takeOne(tx *gorm.DB, voucherID int64) error {
	_, err := takeUnits(tx, voucherID, 1, now)
	return err
}

// Two transactions lock two rows in opposite order. The loser of the deadlock runs again.
func TestDeadlockIsRetried(t *testing.T) {
	s, err := OpenMySQL(testenv.MySQLDSN(t))
	require.NoError(t, err)
	migrated(t, s)
	a, b := newSale(t, s, 10, 1), newSale(t, s, 10, 1)
	take := func(first, second int64, meet chan struct{}, runs *int) error {
		return s.write(t.Context(), func(tx *gorm.DB) error {
			*runs++
			if err := takeOne(tx, first); err != nil {
				return err
			}
			if *runs == 1 { // in the first run, both lock one row before either needs the other row
				select {
				case meet <- struct{}{}:
				case <-meet:
				}
			}
			return takeOne(tx, second)
		})
	}
	meet, done := make(chan struct{}), make(chan error, 2)
	var runs [2]int
	go func() { done <- take(a.ID, b.ID, meet, &runs[0]) }()
	go func() { done <- take(b.ID, a.ID, meet, &runs[1]) }()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Equal(t, 3, runs[0]+runs[1], "one of them ran twice")
	for _, v := range []domain.Voucher{a, b} {
		v, err := s.Voucher(t.Context(), v.ID)
		require.NoError(t, err)
		require.Equal(t, int64(8), v.Sale.Stock, "each unit was taken once")
	}
}

// After an unanswered COMMIT, success must be reported if and only if the order is stored.
func TestResolveUnknownCommit(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		placed, err := placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1)
		require.NoError(t, err)
		lost := &commitError{mysqldriver.ErrInvalidConn}
		read := func(id int64) func(tx *gorm.DB) error {
			return func(tx *gorm.DB) error { return tx.Take(&orderRow{}, id).Error }
		}
		require.NoError(t, s.resolveUnknownCommit(t.Context(), lost, read(placed.ID)))
		require.ErrorIs(t, s.resolveUnknownCommit(t.Context(), lost, read(2)), mysqldriver.ErrInvalidConn, "rolled back")
		other := errors.New("something else")
		require.Same(t, other, s.resolveUnknownCommit(t.Context(), other, read(placed.ID)), "only commits are looked up")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.resolveUnknownCommit(ctx, lost, read(placed.ID)), "the context ended during COMMIT, but the read has its own time")
		unreachable := func(*gorm.DB) error { return mysqldriver.ErrInvalidConn }
		require.ErrorIs(t, s.resolveUnknownCommit(ctx, lost, unreachable), mysqldriver.ErrInvalidConn, "the row could not be read")
	})
}

// OpenMySQL overrides settings of the DSN and of the server: messages in English, which dupIndex parses, and a character
// set in which no multi-byte character hides a quote (in GBK it would end a string early).
func TestOpenMySQLOverridesSettings(t *testing.T) {
	db := testenv.StartMariaDB(t, "--lc-messages=ja_JP")
	s, err := OpenMySQL(db.DSN(t) + "?charset=gbk&collation=gbk_chinese_ci&clientFoundRows=true&loc=Local&parseTime=false")
	require.NoError(t, err)
	migrated(t, s)
	v := newSale(t, s, 10, 1)
	_, err = placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1)
	require.NoError(t, err)
	_, err = placeOrder(t.Context(), s, newOrder(2, 10, v.ID), 1)
	var dup *domain.DuplicateOrderError
	require.ErrorAs(t, err, &dup)

	evil := newSale(t, s, 1, 1)
	evil.Title = "\xbf\x27,version(),@@datadir,1,1,1,1,now(),now())-- "
	require.Error(t, s.CreateVoucher(t.Context(), &evil, admin), "rejected as invalid UTF-8 and not executed as SQL")
	evil.Title = "縗',version(),@@datadir,1,1,1,1,now(),now())-- "
	evil.ID = 0
	require.NoError(t, s.CreateVoucher(t.Context(), &evil, admin))
	stored, err := s.Voucher(t.Context(), evil.ID)
	require.NoError(t, err)
	require.Equal(t, evil, stored)
}

// A server that dies during a transaction makes the store unavailable and changes nothing. After its restart the pool
// reconnects.
func TestServerKilledInTransaction(t *testing.T) {
	db := testenv.StartMariaDB(t)
	s, err := OpenMySQL(db.DSN(t))
	require.NoError(t, err)
	migrated(t, s)
	v := newSale(t, s, 10, 1)
	err = s.write(t.Context(), func(tx *gorm.DB) error {
		if err := takeOne(tx, v.ID); err != nil {
			return err
		}
		db.Kill()
		return takeOne(tx, v.ID)
	})
	require.ErrorIs(t, err, domain.ErrUnavailable)
	_, err = s.Voucher(t.Context(), v.ID)
	require.ErrorIs(t, err, domain.ErrUnavailable)
	require.NoError(t, db.Restart())
	requireTotals(t, s, v.ID, 10, 0)
	_, err = placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1)
	require.NoError(t, err)
}

// TestServerFrozenAtCommit freezes the server around COMMIT. Every order that PlaceOrders returns must be stored.
func TestServerFrozenAtCommit(t *testing.T) {
	db := testenv.StartMariaDB(t)
	s, err := OpenMySQL(db.DSN(t))
	require.NoError(t, err)
	migrated(t, s)
	v := newSale(t, s, 100, 1)
	answered := 0
	for i := range int64(20) {
		freeze := time.AfterFunc(time.Duration(i)*200*time.Microsecond, func() { _ = db.Pause() })
		thaw := time.AfterFunc(50*time.Millisecond, func() { _ = db.Resume() })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		id := 1 + 10*i
		placed := s.PlaceOrders(ctx, withLimit(1, []domain.Order{newOrder(id, id, v.ID), newOrder(id+1, id+1, v.ID), newOrder(id+2, id, v.ID)}))
		cancel()
		freeze.Stop()
		thaw.Stop()
		_ = db.Resume()
		for _, p := range placed[:2] {
			if p.Err != nil {
				require.ErrorIs(t, p.Err, domain.ErrUnavailable)
				continue
			}
			answered++
			_, err := s.Order(t.Context(), p.Order.UserID, p.Order.ID)
			require.NoError(t, err, "a returned order is stored")
		}
	}
	totals, err := s.Books(t.Context())
	require.NoError(t, err)
	require.Empty(t, totals[0].Check())
	require.GreaterOrEqual(t, totals[0].Active, int64(answered))
}
