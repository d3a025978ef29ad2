package env_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

// A copy has the schema of the migrations to the letter, and no migration is left for it.
func TestCopiesEqualMigratedDatabase(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		var schemas [2]string
		for i := range schemas {
			db := env.Must(sqldb.OpenMySQL(kind.MigratedDSN(t)))(t) // only the first one runs the migrations
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

	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		all := env.Must(db.Migrations(t.Context()))(t)
		for _, m := range all {
			require.NotZero(t, m.Applied, m.Name)
		}
		applied := env.Must(db.MigrateUp(t.Context()))(t)
		require.Empty(t, applied)
	})
}

// A fault reaches single statements, raw ones too, and transactions. It does not reach the pools.
func TestFaultsReachEveryStatement(t *testing.T) {
	broken := errors.New("broken")

	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		faults, access := env.Inject(db), sqldb.Access{DB: db}
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

// No test compares with a zero time or stores one, whatever builds the statement.
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
			require.ErrorIs(t, statement(a.Writer(t.Context())).Error, env.ErrZeroTime, name)
		}

		require.NoError(t, a.Reader(t.Context()).Where("at IS NOT NULL").Find(&rows).Error)
		require.Len(t, rows, 1)
		require.NoError(t, w.Exec("UPDATE moments SET at = ?", (*time.Time)(nil)).Error, "NULL is not a zero time")
	})
}
