package sqldb

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

// No database compares with a zero time or stores one, whatever builds the statement.
func TestZeroTimeIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, a Access) {
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
			require.ErrorIs(t, statement(a.Writer(t.Context())).Error, errZeroTime, name)
		}

		require.NoError(t, a.Reader(t.Context()).Where("at IS NOT NULL").Find(&rows).Error)
		require.Len(t, rows, 1)
		require.NoError(t, w.Exec("UPDATE moments SET at = ?", (*time.Time)(nil)).Error, "NULL is not a zero time")
	})
}
