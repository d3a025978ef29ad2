package sqldb

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, func() error { return goleak.Find() }) }

// onEach runs a test on an empty database of each kind.
func onEach(t *testing.T, fn func(t *testing.T, a Access)) {
	for name, open := range map[string]func(t *testing.T) (*DB, error){
		"sqlite": func(t *testing.T) (*DB, error) { return OpenSQLite(filepath.Join(t.TempDir(), "test.db")) },
		"mysql":  func(t *testing.T) (*DB, error) { return OpenMySQL(testenv.MySQLDSN(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := open(t)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			fn(t, Access{db})
		})
	}
}
