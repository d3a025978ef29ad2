package dbtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/repo/sqldb"
	"seckill/test/dbtest"
	"seckill/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, func() error { return goleak.Find() }) }

// A copy has the schema of the migrations to the letter, and no migration is left for it.
func TestCopiesEqualMigratedDatabase(t *testing.T) {
	testenv.EachKind(t, func(t *testing.T, kind testenv.Kind) {
		var schemas [2]string
		for i := range schemas {
			db, err := sqldb.OpenMySQL(dbtest.DSN(t, kind)) // only the first one runs the migrations
			require.NoError(t, err)
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

	dbtest.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		all, err := db.Migrations(t.Context())
		require.NoError(t, err)
		for _, m := range all {
			require.NotZero(t, m.Applied, m.Name)
		}
		applied, err := db.MigrateUp(t.Context())
		require.NoError(t, err)
		require.Empty(t, applied)
	})
}
