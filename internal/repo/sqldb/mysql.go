package sqldb

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

	"seckill/internal/kit/loop"
	"seckill/migrations"
)

// Pool sizes and timeouts on MySQL. The orders of one voucher queue at one row, so more connections would only queue
// inside the database. Reads have their own connections, so they do not delay orders. The timeouts detect a dead server
// within the 5 s that a buyer waits.
//
// database/sql sends COMMIT without a context, so mysqlIOTimeout alone bounds it. If the network fails at that moment,
// a request waits for its batch to begin (1.8 s, batch.StartTimeout), for COMMIT (2.5 s) and for
// ResolveUnknownCommit (resolveGrace, 0.5 s). That is 4.8 s, plus the time of the statements before COMMIT. No
// statement of an order takes longer than its wait for a lock (2 s).
const (
	mysqlConns        = 32
	mysqlReadConns    = 16
	mysqlConnLifetime = 10 * time.Minute
	mysqlDialTimeout  = 2 * time.Second
	mysqlIOTimeout    = 2500 * time.Millisecond

	// mysqlSilence is the time without a statement after which the server ends a session. The locks of a transaction whose
	// process or machine froze, such as that of the hot row, would otherwise stop its sale for up to eight hours. The pools
	// close an idle connection before.
	mysqlSilence  = 20 * time.Second
	mysqlConnIdle = mysqlSilence / 2

	// mysqlStatement is the time after which the server ends a statement. Otherwise it continues after its caller has given
	// up. While an old foreign transaction slows the search for due rows, a task would add such a statement every second,
	// until the server executes nothing else. No caller waits this long, not even to learn whether a COMMIT happened.
	mysqlStatement = 5 * time.Second
)

// mysqlLimits is a value of wait_timeout, with the limit of statements: MariaDB executes the first comment, MySQL, where it
// is for SELECT, the second.
var mysqlLimits = fmt.Sprintf("%d /*M! , max_statement_time = %d */ /*!80000 , max_execution_time = %d */",
	int(mysqlSilence.Seconds()), int(mysqlStatement.Seconds()), mysqlStatement.Milliseconds())

// CheckDSN returns an error if OpenMySQL does not accept the DSN. The error does not contain the password.
func CheckDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

func parseDSN(dsn string) (*mysqldriver.Config, error) {
	const form = "as in user:password@tcp(host:3306)/seckill"
	cfg, err := mysqldriver.ParseDSN(dsn)
	before := dsn[:max(0, strings.LastIndexByte(dsn, '/'))]
	switch {
	case err != nil && before != "" && !strings.Contains(before, "@"):
		// The driver takes user and password for the network, which is in its error.
		return nil, fmt.Errorf("there is no @ after user and password; write it %s", form)
	case err != nil:
		return nil, fmt.Errorf("%w; write it %s", err, form)
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("the name of the database is missing, %s", form)
	}
	return cfg, nil
}

// OpenMySQL opens MySQL 8 or MariaDB 10.6+ by a go-sql-driver DSN (user:password@tcp(host:port)/database). It overrides
// every setting of the DSN and of the server that correctness depends on: sessionVariables, times parsed to time.Time,
// "rows affected" counting changed rows, and dropping connections to a read-only server. It does not connect; Ping does.
func OpenMySQL(dsn string) (*DB, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}

	cfg.ParseTime = true
	cfg.Loc = time.UTC
	cfg.ClientFoundRows = false
	cfg.MultiStatements = false

	// One round trip per statement instead of prepare, execute, close.
	cfg.InterpolateParams = true

	// Another character set in the DSN could let quotes escape the interpolation (GBK does), and could not represent
	// every title.
	if err := cfg.Apply(mysqldriver.Charset("utf8mb4", "")); err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}

	// A connection to a primary that became a replica is closed; the next one goes to the new primary. The error, 1290,
	// 1792 or 1836, becomes driver.ErrBadConn.
	cfg.RejectReadOnly = true
	cfg.Timeout = mysqlDialTimeout

	// A broken connection is returned as an error to its user.
	cfg.Logger = &mysqldriver.NopLogger{}

	// Schema changes and reads of whole sales take long.
	longLived := cfg.Clone()
	longLived.ReadTimeout = 0
	longLived.WriteTimeout = 0

	cfg.ReadTimeout = mysqlIOTimeout
	cfg.WriteTimeout = mysqlIOTimeout
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["wait_timeout"] = mysqlLimits

	switched := new(failover)
	writePool, err := openMySQL(cfg, mysqlConns, switched)
	if err != nil {
		return nil, err
	}

	readPool, err := openMySQL(cfg, mysqlReadConns, switched)
	if err != nil {
		return nil, err
	}

	longPool, err := openMySQL(longLived, LongLivedConns, switched)
	if err != nil {
		return nil, err
	}

	open := func(c sessionConnector) (*sql.DB, error) { return mysqlPool(longLived, mysqlConns, c) }

	return &DB{
		writePool: writePool,
		readPool:  readPool,
		longPool:  longPool,
		failover:  switched,
		dialect: dialect{
			name:      "mysql",
			files:     migrations.FS,
			sql:       mysqlSyntax,
			translate: mysqlFault,
			ping:      pingMySQL,
			writable:  writableMySQL,
			migrations: func(skipApplied *atomic.Bool) (*sql.DB, error) {
				return open(sessionConnector{skipApplied: skipApplied})
			},
			lockSchema: func(ctx context.Context) (func() error, error) {
				return lockMySQLSchema(ctx, func() (*sql.DB, error) { return open(sessionConnector{}) })
			},
		},
	}, nil
}

var mysqlSyntax = Syntax{
	Now:          "NOW(3)",
	InMillis:     "NOW(3) + INTERVAL %d * 1000 MICROSECOND",
	forceIndex:   " FORCE INDEX (%s)",
	SkipExisting: " ON DUPLICATE KEY UPDATE user_id = user_id",
	ForUpdate:    " FOR UPDATE",
}

func openMySQL(cfg *mysqldriver.Config, conns int, f *failover) (*gorm.DB, error) {
	pool, err := mysqlPool(cfg, conns, sessionConnector{failover: f})
	if err != nil {
		return nil, err
	}
	pool.SetConnMaxIdleTime(mysqlConnIdle)

	db, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: pool, SkipInitializeWithVersion: true}), gormConfig())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open MySQL: %w", err), pool.Close())
	}
	return db, nil
}

func mysqlPool(cfg *mysqldriver.Config, conns int, c sessionConnector) (*sql.DB, error) {
	inner, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}

	c.Connector = inner
	pool := sql.OpenDB(c)
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	pool.SetConnMaxLifetime(mysqlConnLifetime)
	return pool, nil
}

// pingMySQL returns an error if the server is read-only, as a replica is, or if it begins no transaction, as a Galera
// node without a majority.
func pingMySQL(ctx context.Context, pool *sql.DB) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	// Nothing was written.
	defer func() { _ = tx.Rollback() }()
	return writableMySQL(ctx, tx)
}

// writableMySQL returns an error if the server is read-only, or begins transactions that are. Users with the privilege
// READ ONLY ADMIN or SUPER could still write to a read-only server, but get the same error, because the setting means
// that writes belong elsewhere.
func writableMySQL(ctx context.Context, conn gorm.ConnPool) error {
	// Newer MariaDB versions return words instead of 0 and 1.
	var flags [3]string
	err := conn.QueryRowContext(ctx, readOnlyFlags).Scan(&flags[0], &flags[1], &flags[2])
	if err != nil {
		return err
	}

	for _, f := range flags {
		if f != "0" && f != "OFF" {
			return errReadOnly
		}
	}

	return nil
}

// readOnlyFlags reads the variables of a read-only server; super_read_only implies read_only. The last one has another
// name on MariaDB before 11.1: MySQL executes the first comment, and MariaDB the second.
const readOnlyFlags = "SELECT @@read_only, @@innodb_read_only, /*!80000 @@global.transaction_read_only */ /*M! @@global.tx_read_only */"

var errReadOnly = errors.New("the server is read-only")

// sessionVariables are the variables on which correctness depends, with the values that each session gets, whatever the
// DSN and the globals of the server say.
var sessionVariables = []struct{ name, value string }{
	// A statement outside a transaction is committed at once, and COMMIT begins no other transaction. The claim of an
	// Idempotency-Key would hold its lock otherwise.
	{"autocommit", "1"},
	{"completion_type", "'NO_CHAIN'"},
	// A value that does not fit is an error. MySQL wants the modes for dates together with the strict one.
	{"sql_mode", "'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"},
	// InnoDB refuses equal keys in every unique index. With 0, it need not read a page of the index to find them, and a user
	// could have two orders.
	{"unique_checks", "1"},
	// A read returns all of its rows, of however many it looks at.
	{"sql_select_limit", "18446744073709551615"},
	{"sql_big_selects", "1"},
	// Migrations change whole tables, and goose deletes rows of its table without a key.
	{"sql_safe_updates", "0"},
	{"time_zone", "'+00:00'"},
	// A longer wait would exceed the 5 s of a buyer.
	{"innodb_lock_wait_timeout", "2"},
}

// sessionSettings returns the statements that run on each new connection. SET SESSION TRANSACTION is the only spelling
// of the isolation level that MySQL 8 and every MariaDB accept; READ COMMITTED avoids gap locks around the hot row.
func sessionSettings() []string {
	assignments := make([]string, len(sessionVariables))
	for i, v := range sessionVariables {
		assignments[i] = v.name + " = " + v.value
	}
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET SESSION " + strings.Join(assignments, ", "),
	}
}

// DDL needs its table for itself when it begins and when it ends. While it waits for the transactions that use the
// table, every other statement on the table waits behind it. It therefore gives up after lock_wait_timeout, lets the
// others pass for migrationPause, and begins again, at most maxMigrationTries times.
const (
	migrationLockWait = "SET SESSION lock_wait_timeout = 1" // in seconds; MySQL has no shorter one
	migrationPause    = 3 * time.Second
	maxMigrationTries = 100
)

// migrationSyncWait makes a node of Galera execute the changes of the other nodes first. A proxy may lead the connection
// to another node than that of the schema lock. MySQL has no such variable.
const migrationSyncWait = "SET SESSION wsrep_sync_wait = 7"

// mysqlConn lists the interfaces of a driver connection, so that its wrappers keep all of them.
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

// sessionConnector applies sessionSettings to each new connection. If skipApplied is not nil, the connections are for
// schema changes, see migrationConn. If failover is not nil, they have a generation.
type sessionConnector struct {
	driver.Connector
	skipApplied *atomic.Bool
	failover    *failover
}

// Connect implements driver.Connector.
func (c sessionConnector) Connect(ctx context.Context) (driver.Conn, error) {
	var opened int64
	if c.failover != nil {
		// Before it is known to which server the connection leads.
		opened = c.failover.beganNow()
	}

	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, &connectError{err}
	}

	session := conn.(mysqlConn)
	for _, stmt := range sessionSettings() {
		if _, err := session.ExecContext(ctx, stmt, nil); err != nil {
			return nil, &connectError{errors.Join(err, conn.Close())}
		}
	}

	if c.skipApplied != nil {
		_, err := session.ExecContext(ctx, migrationLockWait, nil)
		if err == nil {
			_, err = session.ExecContext(ctx, migrationSyncWait, nil)
		}

		if err != nil && errorNumber(err) != erUnknownVariable {
			return nil, &connectError{errors.Join(err, conn.Close())}
		}

		return migrationConn{session, c.skipApplied}, nil
	}

	if c.failover != nil {
		return generationConn{session, opened, c.failover}, nil
	}

	return session, nil
}

// migrationConn repeats DDL that could not lock its table. While skipApplied is true, it ignores the refusal of DDL
// that is in effect already.
type migrationConn struct {
	mysqlConn
	skipApplied *atomic.Bool
}

// ExecContext implements driver.ExecerContext.
func (c migrationConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	for try := 1; ; try++ {
		res, err := c.mysqlConn.ExecContext(ctx, query, args)
		number := errorNumber(err)
		if c.skipApplied.Load() && alreadyApplied[number] {
			return driver.ResultNoRows, nil
		}
		if number != erLockWaitTimeout || try == maxMigrationTries || loop.Sleep(ctx, migrationPause) != nil {
			return res, err
		}
	}
}

// alreadyApplied holds the error numbers of DDL that is in effect already: its table, column or key already exists or
// is already dropped.
var alreadyApplied = map[uint16]bool{1050: true, 1060: true, 1061: true, 1051: true, 1091: true}

// connectError is a failed attempt to connect. Whatever the server's reason, the database is unavailable.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// Error numbers with a meaning of their own here (MySQL 8.4 Server Error Message Reference).
const (
	erUnknownCommand  = 1047 // of Galera: the node has no majority, or is not in sync yet
	erNoRight         = 1142 // the user may not do this to the table
	erUnknownVariable = 1193
	erLockWaitTimeout = 1205
	erLockDeadlock    = 1213 // of Galera also: another node changed the row first, reported by any statement or COMMIT
	erTableChanged    = 1412 // by an ALTER TABLE since the snapshot of the transaction
	erBinlogFormat    = 1665 // the binary log of the session is STATEMENT
	erGroupRollback   = 3101 // of group replication: another member changed the row first
)

// mysqlUnavailable holds the error numbers of a server that cannot serve now.
var mysqlUnavailable = map[uint16]bool{
	// Disk or table full; the first four are of temporary files, as a large transaction writes for the binary log.
	1: true, 3: true, 20: true, 1026: true, 1021: true, 1114: true,
	// Out of memory or threads.
	1037: true, 1038: true, 1041: true, 1135: true,
	// Too many connections.
	1040: true, 1203: true, 1226: true,
	// The group did not answer.
	3100: true,
	// Shutting down, statement or connection killed.
	1053: true, 1317: true, 1927: true,
	// Connection lost in mid-packet.
	1152: true, 1158: true, 1159: true, 1160: true, 1161: true,
	// Error at commit.
	1180: true,
	// Read-only.
	1290: true, 1836: true,
	// A statement took too long. A foreign INSERT ... SELECT has locked the counter of ids.
	1969: true, 3024: true, 1467: true,
}

func mysqlFault(err error) fault {
	var noConn *connectError
	switch {
	case errors.As(err, &noConn):
		return faultUnavailable
	case errors.Is(err, mysqldriver.ErrInvalidConn):
		return faultLost
	case errors.Is(err, errReadOnly), errors.Is(err, driver.ErrBadConn):
		// For the latter see RejectReadOnly.
		return faultRefused
	}

	number := errorNumber(err)
	switch {
	case number == erLockDeadlock, number == erGroupRollback, number == erTableChanged:
		return faultRetry
	case number == erUnknownCommand, number == erNoRight, number == erBinlogFormat:
		// A session keeps the rights and the binary log of its beginning, after an operator has changed them back, too.
		return faultRefused
	case number == erLockWaitTimeout, mysqlUnavailable[number]:
		// No time is left for a second wait.
		return faultUnavailable
	}

	return faultOther
}

func errorNumber(err error) uint16 {
	var e *mysqldriver.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
