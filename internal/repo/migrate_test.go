package repo

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// TestMigrateTogether starts many processes' migrations at once on an empty database, again and again: goose makes
// its table of versions in two steps, and nobody may see the first without the second.
func TestMigrateTogether(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) func() (*Store, error){
		"sqlite": func(t *testing.T) func() (*Store, error) {
			file := filepath.Join(t.TempDir(), "test.db")
			return func() (*Store, error) { return OpenSQLite(file) }
		},
		"mysql": func(t *testing.T) func() (*Store, error) {
			dsn := testenv.MySQLDSN(t)
			return func() (*Store, error) { return OpenMySQL(dsn) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				openOne := open(t)
				var (
					wg      sync.WaitGroup
					mu      sync.Mutex
					applied int
				)
				for range 4 {
					wg.Go(func() {
						s, err := openOne()
						if err != nil {
							t.Error(err)
							return
						}
						defer s.Close()
						done, err := s.MigrateUp(t.Context())
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						applied += len(done)
					})
				}
				wg.Wait()
				s, err := openOne()
				require.NoError(t, err)
				all, err := s.Migrations(t.Context())
				require.NoError(t, err)
				require.NoError(t, s.Close())
				require.Len(t, all, applied, "each migration was applied once")
			}
		})
	}
}

// TestOpenTogether opens a new file many times at once: the switch to the write-ahead log, which happens once, must
// not tell the others that the file is busy.
func TestOpenTogether(t *testing.T) {
	for range 30 {
		file := filepath.Join(t.TempDir(), "test.db")
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			wg.Go(func() {
				<-start
				s, err := OpenSQLite(file)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
	}
}
