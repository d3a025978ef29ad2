package sqldb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
	"seckill/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// onEach runs a test on an empty database of each kind.
func onEach(t *testing.T, fn func(t *testing.T, a Access)) {
	t.Run("sqlite", func(t *testing.T) {
		testenv.UsesSQLite(t)
		db, err := OpenSQLite(filepath.Join(t.TempDir(), "test.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		fn(t, Access{db})
	})
	testenv.EachKind(t, func(t *testing.T, kind testenv.Kind) {
		db, err := OpenMySQL(kind.DSN(t))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		fn(t, Access{db})
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
	a := Access{&DB{dialect: dialect{translate: mysqlFault}}}
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
		require.ErrorIs(t, a.Translate(tc.err), tc.want, name)
	}
	syntax := &mysqldriver.MySQLError{Number: 1064}
	require.Same(t, error(syntax), a.Translate(syntax), "an unknown error is returned unchanged")
	require.NoError(t, a.Translate(nil))
}

// After an unanswered COMMIT, success must be reported if and only if the row is stored.
func TestResolveUnknownCommit(t *testing.T) {
	onEach(t, func(t *testing.T, a Access) {
		type row struct{ ID int64 }
		require.NoError(t, a.writePool.Exec("CREATE TABLE stored_rows (id INTEGER PRIMARY KEY)").Error)
		require.NoError(t, a.writePool.Exec("INSERT INTO stored_rows VALUES (1)").Error)
		lost := &commitError{mysqldriver.ErrInvalidConn}
		read := func(id int64) func(tx *gorm.DB) error {
			return func(tx *gorm.DB) error { return tx.Table("stored_rows").Where("id = ?", id).Take(&row{}).Error }
		}
		require.NoError(t, a.ResolveUnknownCommit(t.Context(), lost, read(1)))
		require.ErrorIs(t, a.ResolveUnknownCommit(t.Context(), lost, read(2)), mysqldriver.ErrInvalidConn, "rolled back")
		other := errors.New("something else")
		require.Same(t, other, a.ResolveUnknownCommit(t.Context(), other, read(1)), "only commits are looked up")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, a.ResolveUnknownCommit(ctx, lost, read(1)), "the context ended during COMMIT, but the read has its own time")
		unreachable := func(*gorm.DB) error { return mysqldriver.ErrInvalidConn }
		require.ErrorIs(t, a.ResolveUnknownCommit(ctx, lost, unreachable), mysqldriver.ErrInvalidConn, "the row could not be read")
	})
}

// A buyer's longest wait is the sum of the waits for the batch to begin, for a COMMIT without an answer, and for its
// outcome.
func TestUnansweredCommitStaysBelowFiveSeconds(t *testing.T) {
	require.Less(t, batch.StartTimeout+mysqlIOTimeout+resolveGrace, 5*time.Second)
	require.Greater(t, mysqlIOTimeout, 2*time.Second, "a statement may wait for a lock, see innodb_lock_wait_timeout")
}

// settle leaves the connections of before once, and only if no server was left meanwhile.
func TestConnectionsOfSwitchAreLeft(t *testing.T) {
	db := &DB{generation: new(atomic.Int64)}
	require.False(t, db.unsettled(db.beganNow()))
	db.leaveServer()
	require.True(t, db.unsettled(db.beganNow()))
	db.settle(0) // it began before the refusal
	require.EqualValues(t, 1, db.generation.Load())
	db.settle(1)
	db.settle(2)
	require.EqualValues(t, 2, db.generation.Load())
	require.False(t, db.unsettled(db.beganNow()))
}

// A frozen server answers nothing, and serves reads when it goes on although another has taken over. Its connections are
// left once, whatever number of transactions lost one.
func TestConnectionsOfSilentServerAreLeft(t *testing.T) {
	db := &DB{dialect: dialect{translate: mysqlFault}, generation: new(atomic.Int64)}
	lose := func(err error) int64 {
		_ = Access{db}.retry(t.Context(), func() error { return err })
		return db.generation.Load()
	}
	require.EqualValues(t, 1, lose(&commitError{mysqldriver.ErrInvalidConn}))
	require.True(t, db.unsettled(db.beganNow()))
	db.leaveSilent(0) // of another transaction that began before
	require.EqualValues(t, 1, lose(&connectError{mysqldriver.ErrInvalidConn}), "there was no connection")
	require.EqualValues(t, 1, lose(&mysqldriver.MySQLError{Number: erLockWaitTimeout}))
}

// No database compares with a zero time or stores one, whatever builds the statement.
func TestZeroTimeIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, a Access) {
		type moment struct {
			ID int64
			At time.Time
		}
		w := a.Writer(t.Context())
		require.NoError(t, w.Exec("CREATE TABLE moments (id INTEGER PRIMARY KEY, at DATETIME)").Error)
		require.NoError(t, w.Create(&moment{ID: 1, At: time.Now()}).Error)

		zero := time.Time{}
		var rows []moment
		for name, statement := range map[string]func(tx *gorm.DB) *gorm.DB{
			"condition": func(tx *gorm.DB) *gorm.DB { return tx.Where("at > ?", zero).Find(&rows) },
			"count":     func(tx *gorm.DB) *gorm.DB { return tx.Table("moments").Where("at > ?", zero).Count(new(int64)) },
			"pointer":   func(tx *gorm.DB) *gorm.DB { return tx.Where("at > ?", &zero).Find(&rows) },
			"list":      func(tx *gorm.DB) *gorm.DB { return tx.Where("at IN ?", []time.Time{zero}).Find(&rows) },
			"text":      func(tx *gorm.DB) *gorm.DB { return tx.Raw("SELECT * FROM moments WHERE at > ?", zero).Scan(&rows) },
			"statement": func(tx *gorm.DB) *gorm.DB { return tx.Exec("UPDATE moments SET at = ?", zero) },
			"row":       func(tx *gorm.DB) *gorm.DB { return tx.Create(&moment{ID: 2}) },
			"update":    func(tx *gorm.DB) *gorm.DB { return tx.Table("moments").Where("id = 1").Update("at", zero) },
			"deletion":  func(tx *gorm.DB) *gorm.DB { return tx.Where("at > ?", zero).Delete(&moment{}) },
			"subquery": func(tx *gorm.DB) *gorm.DB {
				return tx.Where("id IN (?)", tx.Table("moments").Select("id").Where("at > ?", zero)).Find(&rows)
			},
			"expression": func(tx *gorm.DB) *gorm.DB {
				return tx.Table("moments").Where("id = 1").Update("at", gorm.Expr("?", zero))
			},
		} {
			require.ErrorIs(t, statement(a.Writer(t.Context())).Error, errZeroTime, name)
		}

		require.NoError(t, a.Reader(t.Context()).Where("at IS NOT NULL").Find(&rows).Error)
		require.Len(t, rows, 1)
		require.NoError(t, w.Exec("UPDATE moments SET at = ?", (*time.Time)(nil)).Error, "NULL is not a zero time")
	})
}
