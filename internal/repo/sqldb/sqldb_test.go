package sqldb

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// onEach runs a test on an empty database of each kind.
func onEach(t *testing.T, fn func(t *testing.T, a Access)) {
	t.Run("sqlite", func(t *testing.T) {
		testenv.UsesSQLite(t)
		db, err := OpenSQLite(filepath.Join(t.TempDir(), "test.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		fn(t, Access{db})
	})
	testenv.EachKind(t, func(t *testing.T, kind testenv.Kind) {
		db, err := OpenMySQL(kind.DSN(t))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		fn(t, Access{db})
	})
}
