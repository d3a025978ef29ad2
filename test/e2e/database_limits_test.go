package e2e

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
)

// TestDatabaseOutOfConnectionsInMidRush: another program takes all connections of the database, and later gives them back.
// Meanwhile buyers are answered 503 at worst, and no unit is lost.
func TestDatabaseOutOfConnectionsInMidRush(t *testing.T) {
	t.Parallel()
	rig.Full("lock/mariadb", "queue/mariadb", "lock/mysql").Each(t, func(t *testing.T, s *rig.Stack) {
		s = s.OwnDatabase(t, "--max-connections=60") // a server uses 48
		p := s.Serve(t)
		p.MayRefuse() // while it finds no connection
		c := rig.BuyersOf(p.Sale(t, 300), 300, s.Tokens(t, 400), p)

		release := takeConnections(t, s)
		done := make(chan *rush.Report, 1)
		go func() { done <- c.Run(t.Context()) }()
		rig.Eventually(t, "the server finds no connection", func() bool {
			p.Scrape(t)
			return strings.Contains(p.Metrics, `status="503"`) || strings.Contains(p.Log.String(), "Too many connections")
		})
		release()

		r := <-done
		for code := range r.Codes {
			require.Contains(t, []string{"ok", "sold_out", "duplicate_order", "unavailable", "overloaded", "order_in_progress", rush.Queued}, code)
		}
		rig.RequireSoldOut(t, s, c, r)
		rig.RequireReady(t, p)
		rig.RequireInvariants(t, s, c, r)
	})
}

// takeConnections opens connections until the database has none left, and returns what closes them.
func takeConnections(t *testing.T, s *rig.Stack) (release func()) {
	t.Helper()
	db, err := sql.Open("mysql", s.Setting("SECKILL_MYSQL_DSN"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })

	var held []*sql.Conn
	for {
		conn, err := db.Conn(context.WithoutCancel(t.Context()))
		var refused *mysql.MySQLError
		if errors.As(err, &refused) {
			require.EqualValues(t, 1040, refused.Number) // ER_CON_COUNT_ERROR
			return func() {
				for _, conn := range held {
					require.NoError(t, conn.Close())
				}
				require.NoError(t, db.Close())
			}
		}
		require.NoError(t, err)
		held = append(held, conn)
	}
}
