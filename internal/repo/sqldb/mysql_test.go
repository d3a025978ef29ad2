package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

func open(t *testing.T, dsn string) sqldb.Access {
	t.Helper()
	db := env.Must(sqldb.OpenMySQL(dsn))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return sqldb.Access{DB: db}
}

// dial opens a pool without the settings of the program.
func dial(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	pool := env.Must(sql.Open("mysql", dsn))(t)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return pool
}

// wrongGlobals are values of the variables that would break the program, for those that are not checked elsewhere.
var wrongGlobals = map[string]string{
	"autocommit":               "0",
	"completion_type":          "'CHAIN'",
	"sql_mode":                 "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
	"sql_select_limit":         "1",
	"time_zone":                "'+08:00'",
	"innodb_lock_wait_timeout": "50",
	"lc_messages":              "'de_DE'",
}

// Each session has the values of the table, whether a wrong one comes from the server or from the DSN, and the server
// has no warning about them.
func TestSessionVariables(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		server := kind.Start(t)
		dsn := server.DSN(t)
		cfg := env.Must(mysqldriver.ParseDSN(dsn))(t)
		cfg.Params = map[string]string{"transaction_isolation": "'SERIALIZABLE'"}
		if kind == env.MariaDB {
			cfg.Params = map[string]string{"tx_isolation": "'SERIALIZABLE'"}
		}
		admin := dial(t, dsn)
		for name, value := range wrongGlobals {
			cfg.Params[name] = value
		}

		values := func(dsn string) map[string]string {
			found := map[string]string{}
			for name, pool := range open(t, dsn).Pools() {
				for _, variable := range sqldb.SessionVariables() {
					var value string
					require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT @@session."+variable).Scan(&value))
					found[name+"."+variable] = value
				}
				var isolation string
				require.NoError(t, pool.QueryRowContext(t.Context(),
					"SELECT /*!80000 @@transaction_isolation */ /*M! @@tx_isolation */").Scan(&isolation))
				require.Equal(t, "READ-COMMITTED", isolation)
			}
			return found
		}
		right := values(dsn)
		require.Equal(t, right, values(cfg.FormatDSN()), "wrong in the DSN")
		for name, value := range wrongGlobals {
			env.Must(admin.ExecContext(t.Context(), "SET GLOBAL "+name+" = "+value))(t)
		}
		require.Equal(t, right, values(dsn), "wrong on the server")
		for _, pool := range []string{"write", "read"} {
			require.Equal(t, "1", right[pool+".autocommit"])
			require.Equal(t, "NO_CHAIN", right[pool+".completion_type"])
			require.Equal(t, "+00:00", right[pool+".time_zone"])
			require.Equal(t, "en_US", right[pool+".lc_messages"], "dupIndex parses the messages")
		}

		conn := env.Must(admin.Conn(t.Context()))(t)
		defer func() { require.NoError(t, conn.Close()) }()
		for _, stmt := range sqldb.SessionSettings() {
			env.Must(conn.ExecContext(t.Context(), stmt))(t)
			var level, code, message string
			err := conn.QueryRowContext(t.Context(), "SHOW WARNINGS").Scan(&level, &code, &message)
			require.ErrorIs(t, err, sql.ErrNoRows, "%s: %s %s", stmt, code, message)
		}
		require.Len(t, wrongGlobals, len(sqldb.SessionVariables()))
	})
}

// A server that refuses writes is not ready, whichever variable says so.
func TestPingFindsReadOnlyServers(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		server := kind.Start(t)
		db := open(t, server.DSN(t))
		admin := dial(t, "root@tcp("+server.Addr+")/")
		set := func(variable, value string) {
			env.Must(admin.ExecContext(t.Context(), "SET GLOBAL "+variable+" = "+value))(t)
		}

		transactions := map[env.Kind]string{env.MySQL: "transaction_read_only", env.MariaDB: "tx_read_only"}[kind]
		for _, variable := range []string{"read_only", transactions} {
			require.NoError(t, db.Ping(t.Context()))
			set(variable, "ON")
			err := db.Ping(t.Context())
			require.ErrorIs(t, err, domain.ErrUnavailable, variable)
			require.ErrorContains(t, err, "read-only")
			set(variable, "OFF")
		}
		require.NoError(t, db.Ping(t.Context()))
	})
}

// All connections use TLS if the DSN says so. The server has signed its certificate itself.
func TestTLS(t *testing.T) {
	env.Full(t)
	server := env.MySQL.Start(t)
	plain := "root@tcp(" + server.Addr + ")/mysql"
	env.Must(dial(t, plain).ExecContext(t.Context(), "SET GLOBAL require_secure_transport = ON"))(t)

	ping := func(dsn string) error { return open(t, dsn).Ping(t.Context()) }
	require.ErrorContains(t, ping(plain), "insecure transport")
	require.ErrorContains(t, ping(plain+"?tls=true"), "certificate")
	require.NoError(t, ping(plain+"?tls=skip-verify"))
	require.NoError(t, ping(plain+"?tls=preferred"))

	var name, cipher string
	require.NoError(t, open(t, plain+"?tls=skip-verify").LongSnapshot(t.Context(), func(tx *gorm.DB) error {
		return tx.Raw("SHOW SESSION STATUS LIKE 'Ssl_cipher'").Row().Scan(&name, &cipher)
	}))
	require.NotEmpty(t, cipher)
}

// A read of a whole sale may take longer than the I/O timeout, and ends with its context.
func TestLongSnapshotEndsOnlyWithContext(t *testing.T) {
	env.Full(t)
	t.Parallel()
	a := open(t, env.OneKind(t).DSN(t))
	slow := func(tx *gorm.DB) error {
		return tx.Exec("DO SLEEP(?)", (sqldb.MySQLIOTimeout + time.Second/2).Seconds()).Error
	}
	require.NoError(t, a.LongSnapshot(t.Context(), slow))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Error(t, a.LongSnapshot(ctx, slow))
}

// A transaction that another node has rolled back runs again. A node without a majority is unavailable, although it
// answers.
func TestGalera(t *testing.T) {
	t.Parallel()
	g := env.StartGalera(t)
	dsn := g.DSN(t)
	db := open(t, dsn)
	requireAbortedTransactionRepeated(t, db, open(t, strings.Replace(dsn, g.Nodes[0].Addr, g.Nodes[1].Addr, 1)))

	for _, n := range g.Nodes[1:] {
		n.Kill()
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // first it hangs
		err := db.Ping(t.Context())
		assert.ErrorIs(c, err, domain.ErrUnavailable)
		assert.ErrorContains(c, err, "1047")
	}, time.Minute, 20*time.Millisecond)
}

// requireAbortedTransactionRepeated: another node has changed the same row, so Galera has rolled the transaction back. It
// says so in the next statement, which after a switch of servers is one of RunTx. COMMIT would succeed with nothing.
func requireAbortedTransactionRepeated(t *testing.T, db, other sqldb.Access) {
	t.Helper()
	exec := func(tx *gorm.DB, query string) { require.NoError(t, tx.Exec(query).Error) }
	reads := func(at sqldb.Access, n int) {
		require.Eventually(t, func() bool {
			var found int
			err := at.Reader(t.Context()).Raw("SELECT n FROM aborted").Row().Scan(&found)
			return err == nil && found == n
		}, time.Minute, time.Millisecond)
	}

	exec(db.Writer(t.Context()), "CREATE TABLE aborted (id INT PRIMARY KEY, n INT NOT NULL)")
	exec(db.Writer(t.Context()), "INSERT INTO aborted VALUES (1, 0)")
	reads(other, 0)

	db.LeaveServer()
	runs := 0
	require.NoError(t, db.Write(t.Context(), func(tx *gorm.DB) error {
		exec(tx, "UPDATE aborted SET n = n + 1")
		if runs++; runs == 1 {
			exec(other.Writer(t.Context()), "UPDATE aborted SET n = 10")
			reads(db, 10)
		}
		return nil
	}))

	require.Equal(t, 2, runs)
	reads(db, 11)
}

func TestMain(m *testing.M) { env.Main(m) }

// After an unanswered COMMIT, success must be reported if and only if the row is stored.
func TestResolveUnknownCommit(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		a := sqldb.Access{DB: db}

		type row struct{ ID int64 }
		require.NoError(t, a.Writer(t.Context()).Exec("CREATE TABLE stored_rows (id INTEGER PRIMARY KEY)").Error)
		require.NoError(t, a.Writer(t.Context()).Exec("INSERT INTO stored_rows VALUES (1)").Error)

		lost := sqldb.UnknownCommit(mysqldriver.ErrInvalidConn)
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

// No database compares with a zero time or stores one, whatever builds the statement.
func TestZeroTimeIsRefused(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		a := sqldb.Access{DB: db}
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
			require.ErrorIs(t, statement(a.Writer(t.Context())).Error, sqldb.ErrZeroTime, name)
		}

		require.NoError(t, a.Reader(t.Context()).Where("at IS NOT NULL").Find(&rows).Error)
		require.Len(t, rows, 1)
		require.NoError(t, w.Exec("UPDATE moments SET at = ?", (*time.Time)(nil)).Error, "NULL is not a zero time")
	})
}
