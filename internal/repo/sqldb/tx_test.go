package sqldb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

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
