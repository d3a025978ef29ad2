package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

// Pools and patience on MySQL. One voucher's orders queue at one row, so more connections would only queue
// inside the database. Reads have connections of their own, so that readers do not hold up buyers. The time-outs let a
// dead server be noticed within the 5 s that a buyer waits.
//
// database/sql sends COMMIT without a context, so mysqlIOTimeout alone bounds it. If the network dies at that moment, a
// buyer waits for the batch to begin (service.batchPatience, 1.8 s), for COMMIT (2.5 s) and for settle (settleGrace,
// 0.5 s): 4.8 s, and what the statements before took. No statement of a buyer lasts longer than its wait for a lock (2 s).
const (
	mysqlConns        = 32
	mysqlReadConns    = 16
	mysqlConnLifetime = 10 * time.Minute
	mysqlDialTimeout  = 2 * time.Second
	mysqlIOTimeout    = 2500 * time.Millisecond
)

// OpenMySQL opens MySQL 8 or MariaDB 10.6+ by a go-sql-driver DSN (user:password@tcp(host:port)/database). What
// correctness needs is set whatever the DSN says: UTC, real times, strict SQL, "rows affected" counting changed rows,
// and no connection kept to a read-only server. It does not connect; Ping does.
func OpenMySQL(dsn string) (*Store, error) {
	cfg, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}
	if cfg.DBName == "" {
		return nil, errors.New("MySQL DSN: the name of the database is missing, as in user:password@tcp(host:3306)/seckill")
	}
	cfg.ParseTime, cfg.Loc, cfg.ClientFoundRows, cfg.MultiStatements = true, time.UTC, false, false
	cfg.InterpolateParams = true // one round trip a statement instead of prepare, execute, close
	// Another character set of the DSN could smuggle quotes past the interpolation (GBK does), and could not hold
	// every title.
	if err := cfg.Apply(mysqldriver.Charset("utf8mb4", "")); err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}
	// A connection to a primary that became a replica is closed; the next one is opened to the new primary.
	cfg.RejectReadOnly = true
	cfg.Timeout = mysqlDialTimeout
	cfg.Logger = &mysqldriver.NopLogger{} // a connection that breaks is an error, which is reported where it hits

	patient := cfg.Clone()
	patient.ReadTimeout, patient.WriteTimeout = 0, 0
	cfg.ReadTimeout, cfg.WriteTimeout = mysqlIOTimeout, mysqlIOTimeout
	w, err := openMySQL(cfg, mysqlConns)
	if err != nil {
		return nil, err
	}
	r, err := openMySQL(cfg, mysqlReadConns)
	if err != nil {
		return nil, errors.Join(err, closeGorm(w))
	}
	open := func() (*sql.DB, error) { return mysqlPool(patient, mysqlConns) }
	return &Store{w: w, r: r, dialect: dialect{
		name: "mysql", translate: mysqlFault, keys: mysqlKeys, ping: pingMySQL, patient: open,
		ordersByUser: " FORCE INDEX (uk_user_voucher_slot)", ordersByKey: " FORCE INDEX (idx_user_idem_key)", forUpdate: " FOR UPDATE",
		migrations: func(again *atomic.Bool) (*sql.DB, error) { return mysqlMigrations(patient, again) },
		lockSchema: func(ctx context.Context) (func() error, error) { return lockMySQLSchema(ctx, open) },
	}}, nil
}

func openMySQL(cfg *mysqldriver.Config, conns int) (*gorm.DB, error) {
	pool, err := mysqlPool(cfg, conns)
	if err != nil {
		return nil, err
	}
	db, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: pool, SkipInitializeWithVersion: true}), gormConfig())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open MySQL: %w", err), pool.Close())
	}
	return db, nil
}

func mysqlPool(cfg *mysqldriver.Config, conns int) (*sql.DB, error) {
	inner, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}
	pool := sql.OpenDB(sessionConnector{inner, nil})
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	pool.SetConnMaxLifetime(mysqlConnLifetime)
	return pool, nil
}

// pingMySQL returns an error if the server is read-only, as a replica is. read_only binds no user with the privilege
// READ ONLY ADMIN or SUPER, but whoever sets it wants no writes there, so such a user gets the same error. The idle
// connections lead to that server as well and are closed; the next ones are opened to where its name leads then.
func pingMySQL(ctx context.Context, pool *sql.DB) error {
	var flags [2]string // super_read_only implies read_only; newer MariaDBs have words instead of 0 and 1
	err := pool.QueryRowContext(ctx, "SELECT @@read_only, @@innodb_read_only").Scan(&flags[0], &flags[1])
	if err != nil {
		return err
	}
	for _, f := range flags {
		if f != "0" && f != "OFF" {
			pool.SetMaxIdleConns(0)
			pool.SetMaxIdleConns(pool.Stats().MaxOpenConnections)
			return &connectError{errors.New("the server is read-only")}
		}
	}
	return nil
}

// sessionSettings are run on each new connection. SET SESSION TRANSACTION is the one spelling of the isolation
// level that MySQL 8 and every MariaDB understand; READ COMMITTED spares the hot row the gap locks. A lock
// that is not had in 2 s would miss the buyer's 5 s. dupIndex reads the server's messages in English.
var sessionSettings = []string{
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	"SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', " +
		"time_zone = '+00:00', innodb_lock_wait_timeout = 2, lc_messages = 'en_US'",
}

// sessionConnector prepares each new connection. If again is set, they skip statements that were executed before while
// it is true.
type sessionConnector struct {
	driver.Connector
	again *atomic.Bool
}

// Connect implements driver.Connector.
func (c sessionConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, &connectError{err}
	}
	for _, stmt := range sessionSettings {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, stmt, nil); err != nil {
			return nil, &connectError{errors.Join(err, conn.Close())}
		}
	}
	if c.again != nil {
		return againConn{conn.(mysqlConn), c.again}, nil
	}
	return conn, nil
}

// mysqlMigrations opens a pool for schema changes.
func mysqlMigrations(cfg *mysqldriver.Config, again *atomic.Bool) (*sql.DB, error) {
	inner, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}
	return sql.OpenDB(sessionConnector{inner, again}), nil
}

// mysqlConn is what a connection of the driver is.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// againConn takes DDL that the server refuses because it is in effect already for executed, while again is true.
type againConn struct {
	mysqlConn
	again *atomic.Bool
}

// ExecContext implements driver.ExecerContext.
func (c againConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.mysqlConn.ExecContext(ctx, query, args)
	var e *mysqldriver.MySQLError
	if c.again.Load() && errors.As(err, &e) && inEffect[e.Number] {
		return driver.ResultNoRows, nil
	}
	return res, err
}

// inEffect are the refusals of DDL that was executed before: table, column or key is there, or is gone.
var inEffect = map[uint16]bool{1050: true, 1060: true, 1061: true, 1051: true, 1091: true}

// connectError says that there was no connection to be had, whatever the server's reason: it is down for us.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// The server's error numbers that mean something to us (MySQL 8.4 Server Error Message Reference).
const (
	erDupEntry        = 1062
	erLockWaitTimeout = 1205
	erLockDeadlock    = 1213
)

// mysqlDown are answers of a server that cannot serve now.
var mysqlDown = map[uint16]bool{
	1021: true, 1114: true, // disk or table full
	1037: true, 1038: true, 1041: true, 1135: true, // out of memory or threads
	1040: true, 1203: true, 1226: true, // too many connections
	1047: true, 3100: true, 3101: true, // not part of the cluster, or the cluster refused the transaction
	1053: true, 1317: true, 1927: true, // shutting down, statement or connection killed
	1152: true, 1158: true, 1159: true, 1160: true, 1161: true, // connection lost in mid-packet
	1180: true,             // error at commit
	1290: true, 1836: true, // read-only
	1969: true, 3024: true, // statement took too long
}

func mysqlFault(err error) fault {
	var noConn *connectError
	if errors.Is(err, mysqldriver.ErrInvalidConn) || errors.As(err, &noConn) {
		return fault{kind: faultDown}
	}
	var e *mysqldriver.MySQLError
	if !errors.As(err, &e) {
		return fault{}
	}
	switch {
	case e.Number == erDupEntry:
		return fault{kind: faultDuplicate, index: dupIndex(e.Message)}
	case e.Number == erLockDeadlock:
		return fault{kind: faultRetry}
	case e.Number == erLockWaitTimeout, mysqlDown[e.Number]: // who waited for a lock once has no time to wait again
		return fault{kind: faultDown}
	}
	return fault{}
}

// dupIndex takes the index out of "Duplicate entry '1-2-1' for key 'voucher_orders.uk_user_voucher_slot'"
// (MariaDB leaves the table out). The server reports it nowhere else; the entry itself may hold quotes, so the
// name is read from the end.
func dupIndex(message string) string {
	message = strings.TrimSuffix(message, "'")
	name := message[strings.LastIndexByte(message, '\'')+1:]
	return name[strings.LastIndexByte(name, '.')+1:]
}

// lockMySQLSchema takes a named lock of the server. It ends with its connection, whatever happens to us.
func lockMySQLSchema(ctx context.Context, open func() (*sql.DB, error)) (unlock func() error, err error) {
	db, err := open()
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // closing the pool is closing the connection that has the lock
	db.SetMaxIdleConns(1)
	db.SetConnMaxLifetime(0)
	for {
		var got sql.NullInt64
		err := db.QueryRowContext(ctx, "SELECT GET_LOCK(IF(CHAR_LENGTH(name) <= 64, name, SHA2(name, 256)), 1) "+
			"FROM (SELECT CONCAT(DATABASE(), '.migrate') AS name) AS l").Scan(&got) // MySQL allows 64 characters
		switch {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock the schema: %w", err), db.Close())
		case !got.Valid:
			return nil, errors.Join(errors.New("lock the schema: the server refused GET_LOCK"), db.Close())
		case got.Int64 == 1:
			return db.Close, nil
		}
	}
}
