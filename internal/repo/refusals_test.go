package repo

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// plant makes the next inserts or updates of orders fail with an error code. It returns a function that plants, and one
// that returns how many errors are left.
func plant(t *testing.T, s *Store, event string) (next func(code, times int), left func() int) {
	t.Helper()
	exec := func(stmt string, args ...any) {
		t.Helper()
		require.NoError(t, s.db.Writer(t.Context()).Exec(stmt, args...).Error)
	}
	exec("CREATE TABLE planted (code INT, times INT)")
	exec("INSERT INTO planted VALUES (0, 0)")
	exec("CREATE TABLE occasions (n INT AUTO_INCREMENT PRIMARY KEY)") // a rollback does not undo its counter
	exec(fmt.Sprintf(`CREATE TRIGGER plant BEFORE %s ON voucher_orders FOR EACH ROW BEGIN
		DECLARE number, most INT;
		SELECT code, times INTO number, most FROM planted;
		INSERT INTO occasions () VALUES ();
		IF LAST_INSERT_ID() <= most THEN
			SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = number;
		END IF;
	END`, event))

	planted := 0
	next = func(code, times int) {
		planted = times
		exec("TRUNCATE TABLE occasions")
		exec("UPDATE planted SET code = ?, times = ?", code, times)
	}
	left = func() int {
		var occasion int
		require.NoError(t, s.db.Writer(t.Context()).Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Exec("INSERT INTO occasions () VALUES ()").Error)
			return tx.Raw("SELECT LAST_INSERT_ID()").Scan(&occasion).Error
		}))
		return max(0, planted-(occasion-1))
	}
	return next, left
}

// Errors before COMMIT changed nothing, so that the order is placed by another transaction.
func TestRefusedStatementIsRepeated(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 100, 1)
		next, left := plant(t, s, "INSERT")
		codes := map[int]string{
			1213: "deadlock, or a conflict with another node of Galera", 3101: "conflict in group replication",
			1205: "lock wait timeout", 1047: "Galera without a majority",
			1290: "read-only server", 1792: "read-only transaction", 1836: "read-only mode",
		}
		id := int64(0)
		for code, what := range codes {
			id++
			next(code, 2)
			placed, err := placeOrder(t.Context(), s, newOrder(id, id, v.ID), 1)
			require.NoError(t, err, what)
			require.Equal(t, id, placed.ID)
			require.Zero(t, left(), what)
		}
		requireTotals(t, s, v.ID, 100-id, id)
		next(1047, 100)
		_, err := placeOrder(t.Context(), s, newOrder(id+1, id+1, v.ID), 1)
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.Positive(t, left(), "the repetitions are bounded")
		requireTotals(t, s, v.ID, 100-id, id)
	})
}

// A move is repeated if the server is not the primary any more. A second wait for a lock would exceed the time of an
// answer.
func TestRefusedMoveIsRepeated(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 100, 1)
		next, left := plant(t, s, "UPDATE")
		id := int64(0)
		cancel := func(code, times int) error {
			id++
			_, err := placeOrder(t.Context(), s, newOrder(id, id, v.ID), 1)
			require.NoError(t, err)
			next(code, times)
			_, err = s.MoveOrder(t.Context(), domain.OrderMove{
				OrderID: id, UserID: id, Move: domain.MoveCancel, At: now, By: domain.Actor{Kind: domain.ActorBuyer, ID: id},
			})
			return err
		}
		for code, times := range map[int]int{1213: 3, 3101: 3, 1047: 1, 1290: 1} {
			require.NoError(t, cancel(code, times), code)
			require.Zero(t, left(), code)
		}
		requireTotals(t, s, v.ID, 100, 0)
		for code, times := range map[int]int{1205: 1, 1047: 2, 1290: 2} {
			require.ErrorIs(t, cancel(code, times), domain.ErrUnavailable, code)
		}
		requireTotals(t, s, v.ID, 97, 3)
	})
}

// An error of COMMIT does not always mean that nothing was stored. The order is stored once all the same.
func TestRefusedCommitIsRepeated(t *testing.T) {
	testenv.EachKind(t, func(t *testing.T, kind testenv.Kind) {
		s, _, proxy := startCommitCutter(t, kind)
		proxy.meanwhile = func() {}
		v := newSale(t, s, 100, 1)
		for i, code := range []uint16{1213, 3101, 1180, 1047, 1205, 1290} {
			id := int64(i + 1)
			proxy.code.Store(uint32(code))
			proxy.armed.Store(true)
			placed, err := placeOrder(t.Context(), s, newOrder(id, id, v.ID), 1)
			require.NoError(t, err, code)
			require.Equal(t, id, placed.ID)
			require.False(t, proxy.armed.Load())
		}
		requireTotals(t, s, v.ID, 94, 6)
	})
}
