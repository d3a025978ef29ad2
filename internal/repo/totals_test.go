package repo

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/repo/sqldb"
	"seckill/test/dbtest"
)

// The server itself ends a query when the client's deadline is over.
func TestServerEnforcesQueryDeadline(t *testing.T) {
	dbtest.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s := newStore(db)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.SaleTotals(soon)
		require.NoError(t, err, "every database accepts a query with a server timeout")
		if db.Dialect() != "mysql" {
			return
		}
		past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Minute))
		defer cancel()
		var slept int
		err = s.db.LongSnapshot(t.Context(), func(tx *gorm.DB) error {
			return tx.Statement.ConnPool.QueryRowContext(t.Context(), withServerTimeout(past, "SELECT SLEEP(60)")).Scan(&slept)
		})
		// The context has no deadline, so only the server can end the query. MariaDB returns an error, MySQL returns 1.
		if err == nil {
			require.Equal(t, 1, slept)
		}
	})
}
