package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
)

func TestTranslate(t *testing.T) {
	a := Access{&DB{dialect: dialect{translate: mysqlFault}}}
	wrapped := func(err error) error { return fmt.Errorf("somewhere: %w", err) }
	for name, tc := range map[string]struct{ err, want error }{
		"too many":          {&mysqldriver.MySQLError{Number: 1040}, domain.ErrUnavailable},
		"no temporary file": {&mysqldriver.MySQLError{Number: 3}, domain.ErrUnavailable},
		"counter locked":    {&mysqldriver.MySQLError{Number: 1467}, domain.ErrUnavailable},
		"read-only":         {&mysqldriver.MySQLError{Number: 1290}, domain.ErrUnavailable},
		"broken connection": {wrapped(mysqldriver.ErrInvalidConn), domain.ErrUnavailable},
		"deadline":          {context.DeadlineExceeded, domain.ErrUnavailable},
		"refused":           {wrapped(&connectError{&mysqldriver.MySQLError{Number: 1045}}), domain.ErrUnavailable},
		"no row":            {gorm.ErrRecordNotFound, domain.ErrNotFound},
		"ours":              {domain.ErrSoldOut, domain.ErrSoldOut},
	} {
		err := a.Translate(tc.err)
		require.ErrorIs(t, err, tc.want, name)
		require.Equal(t, err, a.Translate(err), name)
	}
	syntax := &mysqldriver.MySQLError{Number: 1064}
	require.Same(t, error(syntax), a.Translate(syntax), "an unknown error is returned unchanged")
	require.NoError(t, a.Translate(nil))
}

// After an error that changed nothing, a transaction runs again: after deadlocks until its context ends, and once if the server is not
// the primary any more. A second wait for a lock would exceed the time of an answer.
func TestRefusedTransactionsAreRepeated(t *testing.T) {
	const many = 100
	for name, tc := range map[string]struct {
		err  error
		runs int
	}{
		"deadlock":                  {&mysqldriver.MySQLError{Number: erLockDeadlock}, many},
		"table altered meanwhile":   {&mysqldriver.MySQLError{Number: erTableChanged}, many},
		"Galera without a majority": {&mysqldriver.MySQLError{Number: erUnknownCommand}, 2},
		"read-only server":          {driver.ErrBadConn, 2}, // see RejectReadOnly
		"a right that was revoked":  {&mysqldriver.MySQLError{Number: erNoRight}, 2},
		"binary log of statements":  {&mysqldriver.MySQLError{Number: erBinlogFormat}, 2},
		"lock wait":                 {&mysqldriver.MySQLError{Number: erLockWaitTimeout}, 1},
		"lost connection":           {mysqldriver.ErrInvalidConn, 1},
		"COMMIT without an answer":  {&commitError{driver.ErrBadConn}, 1},
		"COMMIT with a conflict":    {&commitError{&mysqldriver.MySQLError{Number: erGroupRollback}}, many},
		"COMMIT without a majority": {&commitError{&mysqldriver.MySQLError{Number: erUnknownCommand}}, 1},
		"COMMIT with an error":      {&commitError{&mysqldriver.MySQLError{Number: 1180}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := Access{&DB{dialect: dialect{translate: mysqlFault}, failover: new(failover)}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				runs := 0
				require.ErrorIs(t, a.retry(ctx, func() error { runs++; return tc.err }), domain.ErrUnavailable)
				require.Equal(t, tc.runs, min(runs, many))
			})
		})
	}
}

// A buyer's longest wait is the sum of the waits for the batch to begin, for a COMMIT without an answer, and for its
// outcome.
func TestUnansweredCommitStaysBelowFiveSeconds(t *testing.T) {
	require.Less(t, batch.StartTimeout+mysqlIOTimeout+resolveGrace, 5*time.Second)
	require.Greater(t, mysqlIOTimeout, 2*time.Second, "a statement may wait for a lock, see innodb_lock_wait_timeout")
}

// settle leaves the connections of before once, and only if no server was left meanwhile.
func TestConnectionsOfSwitchAreLeft(t *testing.T) {
	db := &DB{failover: new(failover)}
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
	db := &DB{dialect: dialect{translate: mysqlFault}, failover: new(failover)}
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

// A database that answers and stores nothing, as on a full disk, is not ready from the first transaction that fails until
// it stores something again.
func TestDatabaseWithoutRoomIsNotReady(t *testing.T) {
	db, err := OpenSQLite(filepath.Join(t.TempDir(), "test.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.MigrateUp(t.Context())
	require.NoError(t, err)
	refuseWrites := func(refuse bool) {
		require.NoError(t, db.writePool.Exec(fmt.Sprintf("PRAGMA query_only = %t", refuse)).Error)
	}
	write := func() error {
		return Access{db}.Write(t.Context(), func(tx *gorm.DB) error { return tx.Exec("DELETE FROM audit_log").Error })
	}

	refuseWrites(true)
	require.ErrorIs(t, write(), domain.ErrUnavailable)
	require.ErrorIs(t, db.Ping(t.Context()), domain.ErrUnavailable)
	refuseWrites(false)
	require.NoError(t, db.Ping(t.Context()))
	require.NoError(t, write())

	refuseWrites(true)
	require.NoError(t, db.Ping(t.Context()), "it writes only after a failure")

	db.dialect.translate = mysqlFault
	err = db.migrate(t.Context(), func(context.Context, *goose.Provider, *atomic.Bool) error {
		return &mysqldriver.MySQLError{Number: erNoRight}
	})
	require.NotErrorIs(t, err, domain.ErrUnavailable, "a start does not wait for a right")
}
