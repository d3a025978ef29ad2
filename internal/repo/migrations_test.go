package repo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/test/env"
)

const manyOrders = 1_000_000

// The indexes of 1,000,000 orders are dropped and built by migrations while buyers place and read orders. The orders
// stay as they are. sqldb.TestInterruptedMigrationIsContinued shows what follows an interruption, and
// sqldb.TestIndexesOfOrdersAreBuiltOnline that no build waits for the end of sales.
func TestMigrationsOfMillionOrders(t *testing.T) {
	env.FullNoRace(t, "a million rows")
	t.Parallel()
	server := env.OneKind(t).Start(t, "--innodb-buffer-pool-size=512M",
		"--loose-innodb-log-file-size=256M", "--loose-innodb-redo-log-capacity=256M")
	dsn := server.MigratedDSN(t)
	s := openStore(t, dsn)
	full, sale := newSale(t, s, manyOrders, 1), newSale(t, s, manyOrders, 1)
	complete := orderIndexes(t, s)
	migrateDownTo(t, s, 16)
	sellAll(t, dsn, full.ID)
	sold := checksum(t, s, full.ID)

	var b buyers
	selling, stop := context.WithCancel(t.Context())
	bought := make(chan []error, 1)
	go func() { bought <- b.run(selling, s, sale.ID) }()
	env.Must(s.MigrateUp(t.Context()))(t)
	require.Equal(t, complete, orderIndexes(t, s))
	require.Equal(t, sold, checksum(t, s, full.ID))

	stop()
	require.NoError(t, errors.Join(<-bought...))
	t.Log(b.placed.Load(), "orders placed,", b.read.Load(), "read,", b.refused.Load(), "requests refused as unavailable")
	placed, stored := b.placed.Load(), checksum(t, s, sale.ID)[0]
	require.GreaterOrEqual(t, stored, placed)
	require.LessOrEqual(t, stored, placed+b.refused.Load(), "an order may be stored although its COMMIT was not answered")
}

// A migration cannot begin or end while another transaction uses its table, such as the check of a large sale. Buyers
// place orders meanwhile.
func TestWaitingMigrationDoesNotBlockOrders(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := openStore(t, env.OneKind(t).MigratedDSN(t))
	sale := newSale(t, s, 100, 1)
	migrateDownTo(t, s, 16)
	migration := make(chan error, 1)
	require.NoError(t, s.db.LongSnapshot(t.Context(), func(tx *gorm.DB) error {
		require.NoError(t, tx.Exec("SELECT COUNT(*) FROM voucher_orders").Error)
		go func() {
			_, err := s.MigrateUp(context.Background())
			migration <- err
		}()
		env.RequireBlocked(t, s.db, "ALTER TABLE voucher_orders")
		for id := range int64(3) {
			require.Eventually(t, func() bool { return placeOldOrder(s, 1+id, sale.ID) == nil }, time.Minute, time.Millisecond)
		}
		require.Empty(t, migration)
		return nil
	}))
	require.NoError(t, <-migration)
	require.EqualValues(t, 3, checksum(t, s, sale.ID)[0])
}

// Before migration 54 several orders could have one key, if it was used again after its life.
func TestMigrationLeavesKeyToNewestOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 4)
		var orders []domain.NewOrder
		for i, key := range []string{"again", "again", "again", "once"} {
			orders = append(orders, keyedOrder(int64(i+1), 10, v.ID, 4, fmt.Sprint(key, i), "a"))
		}
		require.Equal(t, []string{"order 1", "order 2", "order 3", "order 4"}, keyedOutcomes(s.PlaceOrders(t.Context(), orders)))

		migrateDownTo(t, s, 53)
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE voucher_orders SET idem_key = ? WHERE id < 4", []byte("again")).Error)
		env.Must(s.MigrateUp(t.Context()))(t)

		var keyed []int64
		require.NoError(t, s.db.Reader(t.Context()).Raw("SELECT id FROM voucher_orders WHERE idem_key IS NOT NULL ORDER BY id").Scan(&keyed).Error)
		require.Equal(t, []int64{3, 4}, keyed)
	})
}

func migrateDownTo(t *testing.T, s *Store, version int64) {
	t.Helper()
	for undone := int64(0); undone != version+1; {
		m := env.Must(s.MigrateDown(t.Context()))(t)
		undone = m.Version
	}
}

// sellAll inserts one paid order per unit of a sale of manyOrders. The table of orders must be empty, so that MariaDB
// fills it in bulk.
func sellAll(t *testing.T, dsn string, sale int64) {
	t.Helper()
	execSQL(t, dsn,
		"SET SESSION unique_checks = 0, foreign_key_checks = 0",
		fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, paid_at, updated_at)
			SELECT 1 + n, 1000001 + n, %d, 1, 2, 1000, NOW(3), NOW(3), NOW(3), NOW(3) FROM %s numbers ORDER BY n`, sale, env.Numbers(6)),
		fmt.Sprintf("UPDATE seckill_vouchers SET stock = 0 WHERE voucher_id = %d", sale),
	)
}

func orderIndexes(t *testing.T, s *Store) (indexes []string) {
	t.Helper()
	require.NoError(t, s.db.Reader(t.Context()).Raw(`SELECT CONCAT_WS(' ', index_name, seq_in_index, column_name) FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name = 'voucher_orders' ORDER BY index_name, seq_in_index`).Scan(&indexes).Error)
	return indexes
}

func checksum(t *testing.T, s *Store, sale int64) (sums [2]int64) {
	t.Helper()
	require.NoError(t, s.db.LongSnapshot(t.Context(), func(tx *gorm.DB) error {
		return tx.Raw(`SELECT COUNT(*), SUM(CRC32(CONCAT_WS(',', id, user_id, slot, status, amount, currency, created_at, expires_at, paid_at)))
			FROM voucher_orders WHERE voucher_id = ?`, sale).Row().Scan(&sums[0], &sums[1])
	}))
	return sums
}

type buyers struct{ placed, read, refused atomic.Int64 }

// run places and reads orders until ctx ends. ErrUnavailable is the only error that a buyer may get.
func (b *buyers) run(ctx context.Context, s *Store, sale int64) []error {
	return atOnce(6, func(i int) error {
		for n := int64(0); ctx.Err() == nil; n++ {
			done := &b.placed
			var err error
			if i < 4 {
				err = placeOldOrder(s, 10_000_000+4*n+int64(i), sale)
			} else {
				done = &b.read
				var status int
				err = s.db.Reader(context.Background()).Raw("SELECT status FROM voucher_orders WHERE id = ?", 1+n*7919%manyOrders).Row().Scan(&status)
				err = s.db.Translate(err)
			}

			switch {
			case err == nil:
				done.Add(1)
			case errors.Is(err, domain.ErrUnavailable):
				b.refused.Add(1)
			default:
				return err
			}
			time.Sleep(5 * time.Millisecond) // the server builds an index beside a few buyers, not beside all that it can serve
		}
		return nil
	})
}

// placeOldOrder stores an order with the columns of migration 16, as a server of that time does.
func placeOldOrder(s *Store, id, sale int64) error {
	return s.db.Write(context.Background(), func(tx *gorm.DB) error {
		err := tx.Exec(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at)
			VALUES (?, ?, ?, 1, 1, 1000, NOW(3), NOW(3), NOW(3)) ON DUPLICATE KEY UPDATE id = id`, id, id, sale).Error
		if err != nil {
			return err
		}
		return tx.Exec("UPDATE seckill_vouchers SET stock = stock - 1 WHERE voucher_id = ? AND stock >= 1", sale).Error
	})
}
