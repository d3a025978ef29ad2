package env

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/repo/sqldb"
	"seckill/test/env/servers"
)

func TestMain(m *testing.M) { Main(m) }

func TestMissingProgramSkipsOrFails(t *testing.T) {
	_, err := servers.FindBinary("no-such-server")
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "make deps")

	for _, c := range []struct {
		require, want string
		err           error
	}{
		{"", "skip", err},
		{"1", "fatal", err},
		{"", "fatal", context.DeadlineExceeded},
		{"", "", nil},
	} {
		t.Setenv(EnvRequire, c.require)
		assert.Equal(t, c.want, ended(t, func(tb testing.TB) { need(tb, c.err) }))
	}
}

func TestFinds(t *testing.T) {
	assert.True(t, Finds(t, func(t testing.TB) { require.Fail(t, "planted") }))
	assert.False(t, Finds(t, func(testing.TB) {}))
}

func TestRunningServerIsUsed(t *testing.T) {
	m := MariaDB.shared(t)
	t.Setenv(EnvMySQLDSN, fmt.Sprintf("root@tcp(%s)/mysql?timeout=5s", m.Addr))
	var dsn string
	t.Run("use", func(t *testing.T) {
		dsn = MySQL.DSN(t)
		assert.Regexp(t, `^root@tcp\(`+m.Addr+`\)/seckill_test_\w+\?timeout=5s$`, dsn)
		require.NoError(t, OpenDB(t, dsn).Ping())
	})
	assert.ErrorContains(t, OpenDB(t, dsn).Ping(), "Unknown database", "it is dropped")
}

// A test with a kind of server of its own is skipped, even if a missing program would fail it.
func TestOneKindOfServer(t *testing.T) {
	t.Setenv(EnvRequire, "1")
	t.Setenv(EnvDatabase, "mysql")
	assert.Equal(t, []Kind{MySQL}, Kinds(t))
	assert.Equal(t, MySQL, OneKind(t))
	assert.Equal(t, "skip", ended(t, func(tb testing.TB) { MariaDB.Start(tb) }))
	assert.Equal(t, "skip", ended(t, UsesSQLite))
	assert.Equal(t, "fatal", ended(t, func(tb testing.TB) { MySQL.need(tb, exec.ErrNotFound) }), "no server at all")

	t.Setenv(EnvMySQLDSN, "root@tcp(127.0.0.1:1)/")
	assert.Equal(t, "skip", ended(t, func(tb testing.TB) { MySQL.need(tb, exec.ErrNotFound) }), "it may not be killed")

	t.Setenv(EnvDatabase, "oracle")
	assert.Equal(t, "fatal", ended(t, func(tb testing.TB) { Kinds(tb) }))
}

func TestLeaksAreFound(t *testing.T) {
	const known = "a-secret-for-tests-only-0123456789"
	for planted, want := range map[string]string{
		`level=INFO msg=x token=eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJzZWNraWxsIn0.c2lnbmF0dXJl`:             "access token",
		`level=INFO msg=x err="00112233445566778899aabbccddeeff.3.AbCdEfGhIjKlMnOpQrStUvWx"`:           "refresh token",
		`level=INFO msg=x token=00112233445566778899aabbccddeeff.AbCdEfGhIjKlMnOpQrStUvWx`:             "refresh token",
		`{"msg":"x","redeem_code":"0BHT-K000-0001-AAAA-BBBB-CCCC"}`:                                    "redeem code",
		`level=INFO msg=x pass=QwAAAAEAAAGah3Yxk7p0s8NfXq2vLwR4tYuIoP`:                                 "entry pass",
		`level=WARN msg=x secret=` + known:                                                             "known secret",
		`level=INFO msg="login code" phone=13800000001`:                                                "phone",
		`seckill_logins_total{phone="13800000001"} 1`:                                                  "phone",
		`level=INFO msg=x err="no route to +447911123456"`:                                             "phone",
		`level=INFO msg=x code=123456`:                                                                 "login code",
		`{"msg":"x","code":"123456"}`:                                                                  "login code",
		`level=INFO msg=security event=login_failed network=127.0.0.0/24 phone=138****0001 status=401`: "",
		`level=WARN msg=x order_id=3368803458027454464 request_id=1F8QG5 took=13.800000001ms`:          "",
		`seckill_order_seconds_sum{lane="lock"} 13800000001.5`:                                         "",
	} {
		found := Leaks("level=INFO msg=before\n"+planted+"\nlevel=INFO msg=after\n", known)
		if want == "" {
			assert.Empty(t, found, planted)
			continue
		}
		if assert.Len(t, found, 1, planted) {
			assert.True(t, strings.HasPrefix(found[0], want), found)
		}
	}
}

// A copy has the schema of the migrations to the letter.
func TestCopiesEqualMigratedDatabase(t *testing.T) {
	EachKind(t, func(t *testing.T, kind Kind) {
		var schemas [2]string
		for i := range schemas {
			db := Must(sqldb.OpenMySQL(kind.MigratedDSN(t)))(t) // only the first one runs the migrations
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			var tables []string
			access := sqldb.Access{DB: db}
			require.NoError(t, access.Reader(t.Context()).Raw("SELECT table_name FROM information_schema.tables "+
				"WHERE table_schema = DATABASE() ORDER BY 1").Scan(&tables).Error)
			for _, table := range tables {
				var name, create string
				require.NoError(t, access.Reader(t.Context()).Raw("SHOW CREATE TABLE "+table).Row().Scan(&name, &create))
				schemas[i] += create + "\n"
			}
		}
		require.Equal(t, schemas[0], schemas[1])
	})
}

// A fault reaches single statements, raw ones too, and transactions. It does not reach the pools.
func TestFaultsReachEveryStatement(t *testing.T) {
	broken := errors.New("broken")

	OnEach(t, func(t *testing.T, db *sqldb.DB) {
		faults, access := Inject(db), sqldb.Access{DB: db}
		const query = "SELECT COUNT(*) FROM users"
		var n int
		all := map[string]func() error{
			"gorm":  func() error { return access.Reader(t.Context()).Raw(query).Scan(&n).Error },
			"a row": func() error { return access.Writer(t.Context()).Raw(query).Row().Scan(&n) },
			"a statement": func() error {
				_, err := sqldb.QueryRows[int](access.Reader(t.Context()), new(sqldb.Statement).Add(query))
				return err
			},
			"a change": func() error {
				_, err := access.Writer(t.Context()).Statement.ConnPool.ExecContext(t.Context(), "DELETE FROM users")
				return err
			},
			"a transaction": func() error { return access.Write(t.Context(), func(*gorm.DB) error { return nil }) },
			"in a transaction": func() error {
				return access.Write(t.Context(), func(tx *gorm.DB) error { return tx.Exec("DELETE FROM users").Error })
			},
			"a snapshot": func() error { return access.Snapshot(t.Context(), func(*gorm.DB) error { return nil }) },
		}

		for _, fault := range []error{nil, broken, nil} {
			faults.Before(func(string) error { return fault })
			for name, do := range all {
				require.ErrorIs(t, do(), fault, name)
			}
		}

		faults.Before(func(query string) error {
			if strings.HasPrefix(query, "DELETE") {
				return broken
			}
			return nil
		})
		require.ErrorIs(t, all["in a transaction"](), broken)
		require.NoError(t, all["a transaction"]())

		for name, pool := range db.Pools() {
			require.NoError(t, pool.QueryRowContext(t.Context(), query).Scan(&n), name)
		}
	})
}

// No test compares with a zero time or stores one. TestFaultsReachEveryStatement has what builds statements.
func TestZeroTimeIsRefused(t *testing.T) {
	OnEach(t, func(t *testing.T, db *sqldb.DB) {
		w := sqldb.Access{DB: db}.Writer(t.Context())
		require.NoError(t, w.Exec("CREATE TABLE moments (at DATETIME)").Error)

		zero := time.Time{}
		var rows []time.Time
		for name, statement := range map[string]func(tx *gorm.DB) *gorm.DB{
			"query":     func(tx *gorm.DB) *gorm.DB { return tx.Raw("SELECT at FROM moments WHERE at > ?", zero).Scan(&rows) },
			"pointer":   func(tx *gorm.DB) *gorm.DB { return tx.Raw("SELECT at FROM moments WHERE at > ?", &zero).Scan(&rows) },
			"statement": func(tx *gorm.DB) *gorm.DB { return tx.Exec("UPDATE moments SET at = ?", zero) },
		} {
			require.ErrorIs(t, statement(w).Error, ErrZeroTime, name)
		}

		require.NoError(t, w.Exec("UPDATE moments SET at = ?", (*time.Time)(nil)).Error, "NULL is not a zero time")
	})
}
