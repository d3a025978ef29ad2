package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQL describes the server of SECKILL_MYSQL_DSN and the use that the program makes of it.
type MySQL struct {
	// Pool is opened as the server opens it, so that its sessions have the same settings.
	Pool *sql.DB
	// Conns is the number of connections that one server opens in all its pools.
	Conns int
	// Migrations are the versions that the program contains.
	Migrations []int64
	// Instances is the number of seckill servers that will run.
	Instances int

	// What reach has read.
	text    string // VERSION()
	maria   bool
	version []int
	// Variables by name; those that the server does not have are missing.
	global  map[string]string
	session map[string]string
}

// Group returns the checks. It does no I/O itself.
func (s MySQL) Group() Group {
	return Group{
		Reach: Check{Name: "database.reachable", Run: s.reach},
		Checks: []Check{
			{Name: "database.version", Run: s.checkVersion},
			{Name: "database.schema", Run: s.checkSchema},
			{Name: "database.checks", Run: s.checkChecks},
			{Name: "database.commit", Run: s.checkCommit},
			{Name: "database.binlog", Run: s.checkBinlog},
			{Name: "database.doublewrite", Run: s.checkDoublewrite},
			{Name: "database.isolation", Run: s.checkIsolation},
			{Name: "database.connections", Run: s.checkConnections},
			{Name: "database.writable", Run: s.checkWritable},
			{Name: "database.replication", Run: s.checkReplication},
			{Name: "database.clock", Run: s.checkClock},
		},
	}
}

func (s *MySQL) reach(ctx context.Context) Result {
	err := s.Pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.text)
	if err == nil {
		s.global, err = variables(ctx, s.Pool, "SHOW GLOBAL VARIABLES")
	}
	if err == nil {
		s.session, err = variables(ctx, s.Pool, "SHOW SESSION VARIABLES")
	}

	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}

	s.maria, s.version = parseVersion(s.text)
	return Good("reachable")
}

func mysqlFix(err error) string {
	switch {
	case badCertificate(err):
		return "name the server in SECKILL_MYSQL_DSN as its certificate does, and trust its authority on this machine " +
			"(update-ca-certificates), or append ?tls=skip-verify"
	case errors.Is(err, mysql.ErrNoTLS):
		return "give the server a certificate (ssl_cert, ssl_key), or remove tls from SECKILL_MYSQL_DSN"
	}

	switch errorNumber(err) {
	case 1045, 1698:
		return "check user and password in SECKILL_MYSQL_DSN"
	case 1044:
		return "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON seckill.* TO the user of SECKILL_MYSQL_DSN"
	case 1049:
		return "CREATE DATABASE seckill CHARACTER SET utf8mb4 (with the name in SECKILL_MYSQL_DSN)"
	case 1040:
		return "raise max_connections with SET GLOBAL, or end idle connections: SHOW PROCESSLIST"
	case 1203:
		return "raise max_user_connections with SET GLOBAL, or end idle connections: SHOW PROCESSLIST"
	case 1226:
		return "ALTER USER <the user of SECKILL_MYSQL_DSN> WITH a higher value of the limit in the message"
	case 1820, 1862:
		return "ALTER USER <the user of SECKILL_MYSQL_DSN> IDENTIFIED BY a new password, and write it into SECKILL_MYSQL_DSN"
	case 1193, 1231, 1232:
		return "correct the parameters in SECKILL_MYSQL_DSN: one that the driver does not know is a variable of the server"
	case 3032:
		return "SET GLOBAL offline_mode = OFF"
	case 3118, 4151:
		return "ALTER USER <the user of SECKILL_MYSQL_DSN> ACCOUNT UNLOCK"
	case 3159:
		return "append ?tls=true to SECKILL_MYSQL_DSN (?tls=skip-verify if the server signs its certificate itself)"
	}

	return "check host and port in SECKILL_MYSQL_DSN, whether the server runs and how busy it is, and the firewalls in between"
}

func badCertificate(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

func errorNumber(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func variables(ctx context.Context, pool *sql.DB, query string) (map[string]string, error) {
	all := map[string]string{}
	err := eachRow(ctx, pool, query, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		all[strings.ToLower(name)] = value
		return err
	})

	return all, err
}

var versionNumbers = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)`)

// parseVersion reads "8.4.10", "10.11.6-MariaDB-log", and "5.5.5-10.6.12-MariaDB", which is 10.6.12. A text without a
// version is older than all.
func parseVersion(text string) (bool, []int) {
	maria := strings.Contains(strings.ToLower(text), "mariadb")
	if maria {
		text = strings.TrimPrefix(text, "5.5.5-")
	}
	var version []int
	if m := versionNumbers.FindStringSubmatch(text); m != nil {
		version = []int{atoi(m[1]), atoi(m[2]), atoi(m[3])}
	}
	return maria, version
}

func (s *MySQL) flavour() string {
	if s.maria {
		return "MariaDB " + s.text
	}
	return "MySQL " + s.text
}

func (s *MySQL) checkVersion(context.Context) Result {
	if strings.Contains(strings.ToLower(s.text), "tidb") {
		return Bad(Fail, "use MySQL 8.0.16 or newer, or MariaDB 10.6 or newer",
			"TiDB (%s) is not supported: its SKIP LOCKED is a plain read, so two servers would return the same payment", s.text)
	}

	least := []int{8, 0, 16}
	change := "upgrade to MySQL 8.0.16 or newer: older versions ignore CHECK constraints"
	if s.maria {
		least = []int{10, 6, 0}
		change = "upgrade to MariaDB 10.6 or newer: older versions have no SKIP LOCKED"
	}

	if slices.Compare(s.version, least) < 0 {
		return Bad(Fail, change, "%s is too old", s.flavour())
	}

	return Good("%s", s.flavour())
}

func (s *MySQL) checkSchema(ctx context.Context) Result {
	return checkSchema(ctx, s.Pool, "mysql", s.Migrations, mysqlFix)
}

// checkChecks checks the CHECK constraint on the stock, the last guard against overselling.
func (s *MySQL) checkChecks(ctx context.Context) Result {
	column := "enforced"
	if s.maria {
		// MariaDB has no unenforced constraints.
		column = "'YES'"
	}

	query := "SELECT COALESCE(MAX(" + column + "), '') FROM information_schema.table_constraints WHERE table_schema = DATABASE() AND " +
		"table_name = 'seckill_vouchers' AND constraint_type = 'CHECK' AND constraint_name = 'ck_stock'"

	tables := 0
	enforced := ""
	err := s.Pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() "+
		"AND table_name = 'seckill_vouchers'").Scan(&tables)
	if err == nil && tables > 0 {
		err = s.Pool.QueryRowContext(ctx, query).Scan(&enforced)
	}

	switch {
	case err != nil:
		return Unanswered(err, mysqlFix(err))
	case tables == 0:
		return Result{Status: Skipped, Found: "the table does not exist yet: see database.schema"}
	case enforced == "":
		return Bad(Fail, "ALTER TABLE seckill_vouchers ADD CONSTRAINT ck_stock CHECK (stock >= 0)",
			"CHECK (stock >= 0) of seckill_vouchers is missing")
	case enforced != "YES":
		return Bad(Fail, "ALTER TABLE seckill_vouchers ALTER CHECK ck_stock ENFORCED",
			"CHECK (stock >= 0) of seckill_vouchers is not enforced")
	case s.maria && isOff(s.session["check_constraint_checks"]):
		return Bad(Fail, "SET GLOBAL check_constraint_checks = ON", "check_constraint_checks is OFF: CHECK (stock >= 0) has no effect")
	}

	return Good("CHECK (stock >= 0) is enforced")
}

func isOff(value string) bool { return value == "OFF" || value == "0" }
func isOn(value string) bool  { return value == "ON" || value == "1" }

func (s *MySQL) checkCommit(ctx context.Context) Result {
	const name = "innodb_flush_log_at_trx_commit"
	if v := s.global[name]; v != "1" {
		return Bad(Fail, "SET GLOBAL "+name+" = 1, and in my.cnf",
			"%s = %s: a power failure loses orders that were answered 201", name, v)
	}

	// Only MySQL can switch it off.
	redo, err := variables(ctx, s.Pool, "SHOW GLOBAL STATUS LIKE 'innodb_redo_log_enabled'")
	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	if isOff(redo["innodb_redo_log_enabled"]) {
		return Bad(Fail, "ALTER INSTANCE ENABLE INNODB REDO_LOG", "the redo log is off: a crash can lose the whole server")
	}

	return Good("%s = 1: commits are on disk", name)
}

func (s *MySQL) checkBinlog(context.Context) Result {
	if !isOn(s.global["log_bin"]) {
		return Good("no binary log, and therefore no point-in-time recovery")
	}

	if format := s.global["binlog_format"]; format == "STATEMENT" {
		return Bad(Fail, "SET GLOBAL binlog_format = 'ROW', and in my.cnf",
			"binlog_format = STATEMENT: the server refuses every write of a READ COMMITTED transaction (error 1665)")
	}

	if v := s.global["sync_binlog"]; v != "1" {
		return Bad(Fail, "SET GLOBAL sync_binlog = 1, and in my.cnf",
			"sync_binlog = %s: after a power failure, recovery undoes commits that the binary log lost", v)
	}

	return Good("sync_binlog = 1")
}

func (s *MySQL) checkDoublewrite(context.Context) Result {
	switch v := s.global["innodb_doublewrite"]; v {
	case "":
		return Result{Status: Skipped, Found: "the server has no innodb_doublewrite"}
	case "ON", "1", "fast", "DETECT_AND_RECOVER":
		return Good("innodb_doublewrite = %s", v)
	default:
		return Bad(Warn, "innodb_doublewrite = ON in my.cnf and a restart, unless the file system writes pages atomically (ZFS)",
			"innodb_doublewrite = %s: a page half written in a power failure cannot be repaired", v)
	}
}

// checkIsolation finds a proxy that loses what the program sets. A purchase would read its pass as of the begin of its
// transaction, not as another purchase with the pass has left it.
func (s *MySQL) checkIsolation(context.Context) Result {
	// MariaDB before 11.1 has the second one.
	level := cmp.Or(s.session["transaction_isolation"], s.session["tx_isolation"])
	if level != "READ-COMMITTED" {
		return Bad(Fail, "let the program set it for its sessions: do not use a proxy that shares connections between sessions",
			"the program's sessions are %s, not READ-COMMITTED: a pass may buy twice, and gap locks slow the row that every buyer updates", level)
	}
	return Good("the program's sessions are READ-COMMITTED")
}

// spareConnections are reserved for operators, monitoring and the commands of the program.
const spareConnections = 10

func (s *MySQL) checkConnections(context.Context) Result {
	limit := atoi(s.global["max_connections"])
	name := "max_connections"
	if n := atoi(s.session["max_user_connections"]); n > 0 && n < limit {
		limit = n
		name = "max_user_connections"
	}

	set := "SET GLOBAL " + name + " = %d, and in my.cnf"
	if name == "max_user_connections" && s.session[name] != s.global[name] {
		// The limit is the account's.
		set = "ALTER USER <the user of SECKILL_MYSQL_DSN> WITH MAX_USER_CONNECTIONS %d"
	}

	most := s.Instances * s.Conns
	need := most + spareConnections
	found := fmt.Sprintf("%s = %d; %d servers with up to %d connections each and %d spare ones need %d",
		name, limit, s.Instances, s.Conns, spareConnections, need)

	switch {
	case limit < most:
		return Bad(Fail, fmt.Sprintf(set, need), "%s", found)
	case limit < need:
		return Bad(Warn, fmt.Sprintf(set, need), "%s", found)
	}

	return Good("%s = %d: room for %d servers of up to %d connections", name, limit, (limit-spareConnections)/s.Conns, s.Conns)
}

func atoi(text string) int {
	// 0 for a value that the server does not have.
	n, _ := strconv.Atoi(text)
	return n
}

func (s *MySQL) checkWritable(context.Context) Result {
	// MariaDB before 11.1 has the last one.
	names := []string{"read_only", "super_read_only", "innodb_read_only", "innodb_force_recovery", "transaction_read_only", "tx_read_only"}
	for _, name := range names {
		v := s.global[name]
		if v == "" || v == "0" || v == "OFF" {
			continue
		}

		change := "SET GLOBAL " + name + " = 0"

		// These are read only at startup.
		if strings.HasPrefix(name, "innodb_") {
			change = "remove " + name + " from my.cnf and restart the server,"
		}

		return Bad(Fail, "name the primary in SECKILL_MYSQL_DSN, or "+change+" if this is the primary", "%s = %s: no order can be stored", name, v)
	}

	return Good("writable")
}

// Limits of the clock difference. A sale begins by the clock of the server that receives the order. The payment
// deadline is written by that clock and compared with the database's, and due orders must be closed within 5 s.
const (
	databaseSkewWarn = 500 * time.Millisecond
	databaseSkewFail = 2 * time.Second
)

func (s *MySQL) checkClock(ctx context.Context) Result {
	found, err := measureSkew(ctx, func(ctx context.Context) (at time.Time, err error) {
		var seconds float64
		err = s.Pool.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP(NOW(6))").Scan(&seconds)
		return time.UnixMicro(int64(seconds * 1e6)), err
	})
	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}

	return found.result(databaseSkewWarn, databaseSkewFail,
		"unpaid orders are closed by its clock and sales begin by the local one, so servers disagree")
}
