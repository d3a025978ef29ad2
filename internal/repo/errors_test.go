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

	"seckill/internal/service"
	"seckill/internal/testenv"
)

// TestDuplicateNamesItsIndex provokes each unique index and requires its name, which tells a taken order id from
// a second purchase.
func TestDuplicateNamesItsIndex(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		one := 1
		row := func(id, user int64) *orderRow {
			o := newOrder(id, user, 5)
			r := newOrderRow(&o)
			r.Slot = &one
			return &r
		}
		require.NoError(t, s.w.Create(row(1, 1)).Error)
		require.True(t, s.duplicate(s.w.Create(row(1, 2)).Error, primaryKey))
		require.True(t, s.duplicate(s.w.Create(row(2, 1)).Error, ukUserVoucherSlot))
		require.False(t, s.duplicate(nil, primaryKey))

		user := func() *userRow {
			return &userRow{Phone: "it's '13800000001'", NickName: "n", CreatedAt: now, UpdatedAt: now}
		}
		require.NoError(t, s.w.Create(user()).Error)
		require.True(t, s.duplicate(s.w.Create(user()).Error, ukPhone), "although the value holds quotes")
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

// TestTranslate holds what each kind of driver error means to the service.
func TestTranslate(t *testing.T) {
	s := &Store{dialect: dialect{translate: mysqlFault}}
	wrapped := func(err error) error { return fmt.Errorf("somewhere: %w", err) }
	for name, tc := range map[string]struct{ err, want error }{
		"deadlock":          {wrapped(&mysqldriver.MySQLError{Number: erLockDeadlock}), service.ErrUnavailable},
		"too many":          {&mysqldriver.MySQLError{Number: 1040}, service.ErrUnavailable},
		"shutting down":     {&mysqldriver.MySQLError{Number: 1053}, service.ErrUnavailable},
		"broken connection": {wrapped(mysqldriver.ErrInvalidConn), service.ErrUnavailable},
		"deadline":          {context.DeadlineExceeded, service.ErrUnavailable},
		"lock wait":         {&mysqldriver.MySQLError{Number: erLockWaitTimeout}, service.ErrUnavailable},
		"refused":           {wrapped(&connectError{&mysqldriver.MySQLError{Number: 1045}}), service.ErrUnavailable},
		"no row":            {gorm.ErrRecordNotFound, service.ErrNotFound},
		"ours":              {service.ErrSoldOut, service.ErrSoldOut},
	} {
		require.ErrorIs(t, s.translate(tc.err), tc.want, name)
	}
	syntax := &mysqldriver.MySQLError{Number: 1064}
	require.Same(t, error(syntax), s.translate(syntax), "what nobody knows is left for the log")
	require.NoError(t, s.translate(nil))
}

func takeOne(tx *gorm.DB, voucherID int64) error {
	_, err := takeUnits(tx, voucherID, 1, now)
	return err
}

// TestDeadlockIsRetried lets two transactions take two rows in opposite order: the loser is run again.
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
			if *runs == 1 { // the first time both hold a row before either wants the other's
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
	for _, v := range []service.Voucher{a, b} {
		v, err := s.Voucher(t.Context(), v.ID)
		require.NoError(t, err)
		require.Equal(t, int64(8), v.Sale.Stock, "each unit was taken once")
	}
}

// TestUnansweredCommit loses the answer to COMMIT, in both ways that it can end: the order must be reported exactly
// when it is there.
func TestUnansweredCommit(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		placed, err := placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1)
		require.NoError(t, err)
		lost := &commitError{mysqldriver.ErrInvalidConn}
		look := func(id int64) func(tx *gorm.DB) error {
			return func(tx *gorm.DB) error { return tx.Take(&orderRow{}, id).Error }
		}
		require.NoError(t, s.settle(t.Context(), lost, look(placed.ID)))
		require.ErrorIs(t, s.settle(t.Context(), lost, look(2)), mysqldriver.ErrInvalidConn, "rolled back")
		other := errors.New("something else")
		require.Same(t, other, s.settle(t.Context(), other, look(placed.ID)), "only commits are looked up")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.settle(ctx, lost, look(placed.ID)), "the time ran out at COMMIT: the look has its own")
		mute := func(*gorm.DB) error { return mysqldriver.ErrInvalidConn }
		require.ErrorIs(t, s.settle(ctx, lost, mute), mysqldriver.ErrInvalidConn, "nobody could be asked")
	})
}

// TestForeignServer holds what is set whatever the DSN and the server's language say: messages that dupIndex can
// read, and a character set in which a quote is a quote (GBK's would end a string early).
func TestForeignServer(t *testing.T) {
	db := testenv.StartMariaDB(t, "--lc-messages=ja_JP")
	s, err := OpenMySQL(db.DSN(t) + "?charset=gbk&collation=gbk_chinese_ci&clientFoundRows=true&loc=Local&parseTime=false")
	require.NoError(t, err)
	migrated(t, s)
	v := newSale(t, s, 10, 1)
	_, err = placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1)
	require.NoError(t, err)
	_, err = placeOrder(t.Context(), s, newOrder(2, 10, v.ID), 1)
	var dup *service.DuplicateOrderError
	require.ErrorAs(t, err, &dup)

	evil := newSale(t, s, 1, 1)
	evil.Title = "\xbf\x27,version(),@@datadir,1,1,1,1,now(),now())-- "
	require.Error(t, s.CreateVoucher(t.Context(), &evil, admin), "not UTF-8, and not SQL either")
	evil.Title = "縗',version(),@@datadir,1,1,1,1,now(),now())-- "
	evil.ID = 0
	require.NoError(t, s.CreateVoucher(t.Context(), &evil, admin))
	stored, err := s.Voucher(t.Context(), evil.ID)
	require.NoError(t, err)
	require.Equal(t, evil, stored)
}

// TestServerKilledInTransaction loses the connection in mid-transaction: unavailable, nothing changed, and the
// pool heals by itself.
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
	require.ErrorIs(t, err, service.ErrUnavailable)
	_, err = s.Voucher(t.Context(), v.ID)
	require.ErrorIs(t, err, service.ErrUnavailable)
	require.NoError(t, db.Restart())
	requireBooks(t, s, v.ID, 10, 0)
	_, err = placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1)
	require.NoError(t, err)
}

// TestServerFrozenAtCommit freezes the server when COMMIT is on its way. Whatever PlaceOrders then says, an
// order that it returns is there.
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
		placed := s.PlaceOrders(ctx, within(1, []service.Order{newOrder(id, id, v.ID), newOrder(id+1, id+1, v.ID), newOrder(id+2, id, v.ID)}))
		cancel()
		freeze.Stop()
		thaw.Stop()
		_ = db.Resume()
		for _, p := range placed[:2] {
			if p.Err != nil {
				require.ErrorIs(t, p.Err, service.ErrUnavailable)
				continue
			}
			answered++
			_, err := s.Order(t.Context(), p.Order.UserID, p.Order.ID)
			require.NoError(t, err, "an order that was answered is there")
		}
	}
	books, err := s.Books(t.Context())
	require.NoError(t, err)
	require.Empty(t, books[0].Check())
	require.GreaterOrEqual(t, books[0].Active, int64(answered))
}
