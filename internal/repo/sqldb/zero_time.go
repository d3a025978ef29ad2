package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

// errZeroTime fails a statement with a zero time on every database, because MySQL refuses it (error 1525) and the others
// do not. A condition on a time that is not given must be left out, and a column without a time is NULL.
var errZeroTime = errors.New("a statement has a zero time")

func refuseZeroTime(v *driver.NamedValue) error {
	t, isTime := v.Value.(time.Time)
	if p, isPointer := v.Value.(*time.Time); isPointer && p != nil {
		t = *p
		isTime = true
	}
	if isTime && t.IsZero() {
		return errZeroTime
	}
	return nil
}

// mysqlConn lists the interfaces of a driver connection, so that its wrappers keep all of them.
type mysqlConn interface {
	sqliteConn
	driver.NamedValueChecker
}

// timedMySQLConn is a connection that refuses zero times.
type timedMySQLConn struct{ mysqlConn }

// CheckNamedValue implements driver.NamedValueChecker.
func (c timedMySQLConn) CheckNamedValue(v *driver.NamedValue) error {
	if err := refuseZeroTime(v); err != nil {
		return err
	}
	return c.mysqlConn.CheckNamedValue(v)
}

// sqliteConn is mysqlConn for SQLite, whose connections leave the values to database/sql.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// timedSQLiteConn is a connection that refuses zero times.
type timedSQLiteConn struct{ sqliteConn }

// CheckNamedValue implements driver.NamedValueChecker.
func (timedSQLiteConn) CheckNamedValue(v *driver.NamedValue) error {
	if err := refuseZeroTime(v); err != nil {
		return err
	}
	return driver.ErrSkip
}

// timedSQLiteConnector opens connections that refuse zero times.
type timedSQLiteConnector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c timedSQLiteConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return timedSQLiteConn{conn.(sqliteConn)}, nil
}
