package env

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"seckill/internal/repo/sqldb"
	"seckill/test/env/servers"
)

// Faults stands between an open database and its connections, so that it reaches every statement of every method of a
// store, also of later ones, and refuses those with a zero time. It does not reach [sqldb.DB.Pools], through which a test
// looks at the database, nor the connections of reads of whole sales on MySQL.
type Faults struct {
	before atomic.Pointer[func(query string) error]
}

// ErrZeroTime fails a statement with a zero time on every database, because MySQL refuses it (error 1525) and the others
// do not. A condition on a time that is not given must be left out, and a column without a time is NULL.
var ErrZeroTime = errors.New("a statement has a zero time")

// Inject puts faults between a database and its connections, or returns those that are there. Nothing in the program needs
// that, so the database has no setting for it, and Inject reaches into it.
func Inject(db *sqldb.DB) *Faults {
	f := &Faults{}
	for _, name := range []string{"readPool", "writePool"} {
		field := reflect.ValueOf(db).Elem().FieldByName(name)
		pool := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(*gorm.DB)
		if injected, ok := pool.ConnPool.(*faultyPool); ok {
			return injected.faults
		}

		pool.ConnPool = &faultyPool{faultyConn{pool.ConnPool, f}}
		pool.Statement.ConnPool = pool.ConnPool
	}

	return f
}

// Before makes every later statement, and BEGIN, call fn and fail with its error, if that is one. A nil fn ends the faults.
func (f *Faults) Before(fn func(query string) error) {
	if fn == nil {
		f.before.Store(nil)
		return
	}

	f.before.Store(&fn)
}

func (f *Faults) check(query string, args ...any) error {
	for _, arg := range args {
		at, isTime := arg.(time.Time)
		if p, isPointer := arg.(*time.Time); isPointer && p != nil {
			at, isTime = *p, true
		}
		if isTime && at.IsZero() {
			return ErrZeroTime
		}
	}

	if fn := f.before.Load(); fn != nil {
		return (*fn)(query)
	}

	return nil
}

// faultyConn is a pool or a transaction.
type faultyConn struct {
	gorm.ConnPool

	faults *Faults
}

// PrepareContext implements gorm.ConnPool.
func (c faultyConn) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := c.faults.check(query); err != nil {
		return nil, err
	}

	return c.ConnPool.PrepareContext(ctx, query)
}

// ExecContext implements gorm.ConnPool.
func (c faultyConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := c.faults.check(query, args...); err != nil {
		return nil, err
	}

	return c.ConnPool.ExecContext(ctx, query, args...)
}

// QueryContext implements gorm.ConnPool.
func (c faultyConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := c.faults.check(query, args...); err != nil {
		return nil, err
	}

	return c.ConnPool.QueryContext(ctx, query, args...)
}

// QueryRowContext implements gorm.ConnPool.
func (c faultyConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := c.faults.check(query, args...); err != nil {
		none := sql.OpenDB(refusing{err}) // only package sql can make a row with an error
		defer func() { _ = none.Close() }()
		return none.QueryRowContext(ctx, query)
	}

	return c.ConnPool.QueryRowContext(ctx, query, args...)
}

// refusing opens no connection.
type refusing struct{ err error }

// Connect implements driver.Connector.
func (r refusing) Connect(context.Context) (driver.Conn, error) { return nil, r.err }

// Driver implements driver.Connector.
func (r refusing) Driver() driver.Driver { return nil }

type faultyPool struct{ faultyConn }

// BeginTx implements gorm.ConnPoolBeginner.
func (p *faultyPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	if err := p.faults.check("BEGIN"); err != nil {
		return nil, err
	}

	tx, err := p.ConnPool.(gorm.TxBeginner).BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}

	return &faultyTx{faultyConn{tx, p.faults}, tx}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *faultyPool) GetDBConn() (*sql.DB, error) {
	pool, ok := p.ConnPool.(*sql.DB)
	if !ok {
		return nil, errors.New("not a pool")
	}

	return pool, nil
}

// faultyTx is a transaction, whose end has no faults.
type faultyTx struct {
	faultyConn
	gorm.TxCommitter
}

// StartProxy starts a proxy and stops it at cleanup. Each new connection leads to the first of the addresses that accepts
// it.
func StartProxy(tb testing.TB, addrs ...string) *servers.Proxy {
	tb.Helper()
	p, err := servers.StartProxy(tb.Context(), addrs...)
	need(tb, err)
	tb.Cleanup(p.Close)
	return p
}
