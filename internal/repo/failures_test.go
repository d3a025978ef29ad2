package repo

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// A COMMIT is lost, and another process stores only one of the orders, under the same id. The others must not count as
// stored because of it.
func TestLostCommitPartlyStoredElsewhere(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		dsn := kind.MigratedDSN(t)
		cfg := env.Must(mysql.ParseDSN(dsn))(t)
		proxy := env.StartProxy(t, cfg.Addr)
		cfg.Addr = proxy.Addr
		s, other := openStore(t, cfg.FormatDSN()), openStore(t, dsn)
		v := newSale(t, s, 10, 1)

		proxy.Inject(servers.Refuse, "\x03COMMIT", 1)
		faults := env.Inject(s.DB)
		faults.Before(func(string) error {
			if proxy.Broken() > 0 { // the first statement after it
				faults.Before(nil)
				env.Must(placeOrder(t.Context(), other, newOrder(1, 10, v.ID), 1))(t)
			}
			return nil
		})
		placed := s.PlaceOrders(t.Context(), withLimit(1, []domain.Order{newOrder(1, 10, v.ID), newOrder(2, 11, v.ID)}))

		require.Equal(t, 1, proxy.Broken())
		require.Equal(t, []string{"order 1", "order 2"}, outcomes(placed))
		for _, p := range placed {
			require.False(t, p.Before, "an order of before would get another id")
			_, err := s.Order(t.Context(), p.Order.UserID, p.Order.ID)
			require.NoError(t, err, "order %d is stored", p.Order.ID)
		}
		requireTotals(t, s, v.ID, 8, 2)
	})
}

// A lock that is lost before the commit excludes its own order and no other.
func TestOrderIsNotCommittedAfterFenceEnds(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		held, lose := context.WithCancelCause(t.Context())
		lost := env.Cancelled(t.Context())
		orders := withLimit(1, []domain.Order{newOrder(1, 10, v.ID), newOrder(2, 11, v.ID), newOrder(3, 12, v.ID)})
		orders[1].Fence, orders[2].Fence = lost, held
		placed := s.PlaceOrders(t.Context(), orders)
		require.NoError(t, placed[0].Err)
		require.ErrorIs(t, placed[1].Err, domain.ErrUnavailable)
		require.NoError(t, placed[2].Err)
		requireTotals(t, s, v.ID, 8, 2)

		// The lock is lost while the transaction runs, between the first statement and the commit.
		inTransaction := &losingContext{Context: held, lose: func() { lose(context.Canceled) }, after: 1}
		orders = withLimit(1, []domain.Order{newOrder(4, 13, v.ID), newOrder(5, 14, v.ID)})
		orders[0].Fence = inTransaction
		placed = s.PlaceOrders(t.Context(), orders)
		require.ErrorIs(t, placed[0].Err, domain.ErrUnavailable)
		require.NoError(t, placed[1].Err)
		requireTotals(t, s, v.ID, 7, 3)
	})
}

// losingContext is a context whose Err calls lose, from the call number after+1 on.
type losingContext struct {
	context.Context
	lose  func()
	after int
}

func (l *losingContext) Err() error {
	if l.after--; l.after < 0 {
		l.lose()
	}
	return l.Context.Err()
}

// A statement that the database did not execute changed nothing, so the order is placed by another transaction. The
// repetitions are bounded. Package sqldb has the errors that mean this.
func TestRefusedStatementIsRepeated(t *testing.T) {
	onEachFaulty(t, func(t *testing.T, s *Store, faults *env.Faults) {
		v := newSale(t, s, 10, 1)
		refuse := func(times int) {
			faults.Before(func(query string) error {
				if strings.HasPrefix(query, "UPDATE `seckill_vouchers`") && times > 0 {
					times--
					return domain.ErrUnavailable
				}
				return nil
			})
		}

		refuse(sqldb.MaxOutages - 1)
		env.Must(placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1))(t)
		refuse(sqldb.MaxOutages)
		env.Fails(placeOrder(t.Context(), s, newOrder(2, 11, v.ID), 1))(t, domain.ErrUnavailable)
		requireTotals(t, s, v.ID, 9, 1)
	})
}

// OpenMySQL overrides settings of the DSN: affected rows are those that changed, and in the character set no multi-byte
// character hides a quote (in GBK it would end a string early). sqldb.TestSessionVariables has those of the server.
func TestOpenMySQLOverridesSettings(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		s := openStore(t, kind.MigratedDSN(t)+"?charset=gbk&collation=gbk_chinese_ci&clientFoundRows=true&loc=Local&parseTime=false")
		v := newSale(t, s, 10, 1)
		env.Must(placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1))(t)
		env.Fails(placeOrder(t.Context(), s, newOrder(2, 10, v.ID), 1))(t, new(*domain.DuplicateOrderError))

		evil := newSale(t, s, 1, 1)
		evil.Title = "\xbf\x27,version(),@@datadir,1,1,1,1,now(),now())-- "
		require.Error(t, s.CreateVoucher(t.Context(), nil, &evil, admin), "rejected as invalid UTF-8 and not executed as SQL")
		evil.Title = "縗',version(),@@datadir,1,1,1,1,now(),now())-- "
		evil.ID = 0
		require.NoError(t, s.CreateVoucher(t.Context(), nil, &evil, admin))
		require.Equal(t, evil, env.Must(s.Voucher(t.Context(), evil.ID))(t))
	})
}

// TestServerFrozenAtCommit freezes the server around COMMIT. Every order that PlaceOrders returns must be stored.
func TestServerFrozenAtCommit(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		db := kind.Start(t)
		s := openStore(t, db.MigratedDSN(t))
		v := newSale(t, s, 100, 1)
		answered := 0
		for i := range int64(20) {
			frozen := make(chan struct{})
			freeze := time.AfterFunc(time.Duration(i)*200*time.Microsecond, func() { defer close(frozen); _ = db.Pause() })
			thaw := time.AfterFunc(50*time.Millisecond, func() { _ = db.Resume() })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			id := 1 + 10*i
			placed := s.PlaceOrders(ctx, withLimit(1, []domain.Order{newOrder(id, id, v.ID), newOrder(id+1, id+1, v.ID), newOrder(id+2, id, v.ID)}))
			cancel()
			if !freeze.Stop() {
				<-frozen // or the server might be frozen after it has been resumed below, and for ever
			}
			thaw.Stop()
			_ = db.Resume()
			for _, p := range placed[:2] {
				if p.Err != nil {
					require.ErrorIs(t, p.Err, domain.ErrUnavailable)
					continue
				}
				answered++
				err := domain.ErrUnavailable
				for errors.Is(err, domain.ErrUnavailable) && t.Context().Err() == nil { // by connections from before the freeze
					_, err = s.Order(t.Context(), p.Order.UserID, p.Order.ID)
				}
				require.NoError(t, err, "a returned order is stored")
			}
		}
		totals := env.Must(s.SaleTotals(t.Context()))(t)
		require.Empty(t, totals[0].Check())
		require.GreaterOrEqual(t, totals[0].Active, int64(answered))
	})
}

// execSQL runs statements on one connection as the administrator of a server, without the I/O timeouts of a store.
func execSQL(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	db := env.OpenDB(t, dsn)
	db.SetMaxOpenConns(1)
	for _, stmt := range statements {
		_, err := db.ExecContext(t.Context(), stmt)
		require.NoError(t, err, stmt)
	}
}

// The name of the database moves to another server, while the old primary becomes a read-only replica and keeps its
// connections.
func TestPrimaryBecomesReplica(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		old, promoted := kind.Start(t), kind.Start(t)
		dsn := promoted.DSN(t)
		name := dsn[strings.LastIndexByte(dsn, '/')+1:]
		oldDSN := env.Must(old.CreateDatabase(t.Context(), name))(t)
		for _, dsn := range []string{oldDSN, dsn} {
			execSQL(t, dsn, "CREATE USER "+name+" IDENTIFIED BY 'secret'", "GRANT ALL ON "+name+".* TO "+name)
			s := openStore(t, dsn)
			env.Must(s.MigrateUp(t.Context()))(t)
			newSale(t, s, 100, 1)
		}
		defer execSQL(t, dsn, "DROP USER "+name)
		alias := env.StartProxy(t, old.Addr)
		open := func(user, password string) *Store {
			cfg := env.Must(mysql.ParseDSN(dsn))(t)
			cfg.User, cfg.Passwd, cfg.Addr = user, password, alias.Addr
			s := openStore(t, cfg.FormatDSN()+"?rejectReadOnly=false")
			require.NoError(t, s.Ping(t.Context()))
			return s
		}
		buyers, committing, late := open(name, "secret"), open(name, "secret"), open(name, "secret")
		watched, privileged := open(name, "secret"), open("root", "")
		const conns = 5
		hold := func() (servers []string) { // the connections are idle in the pool afterwards
			for range conns {
				conn := env.Must(buyers.Pools()["write"].Conn(t.Context()))(t)
				defer func() { require.NoError(t, conn.Close()) }()
				var server string
				require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT CONCAT('127.0.0.1:', @@port)").Scan(&server))
				servers = append(servers, server)
			}
			return servers
		}
		require.Equal(t, slices.Repeat([]string{old.Addr}, conns), hold())

		env.Fails(committing.Order(t.Context(), 2, 2))(t, domain.ErrNotFound, "a connection for reads is open")
		err := committing.db.Write(t.Context(), func(tx *gorm.DB) error {
			defer execSQL(t, oldDSN, "SET GLOBAL read_only = 1")
			return tx.Exec("UPDATE vouchers SET title = 'changed'").Error
		})
		require.ErrorIs(t, err, driver.ErrBadConn, "COMMIT is refused")
		for _, s := range []*Store{watched, privileged} {
			err := s.Ping(t.Context())
			require.ErrorIs(t, err, domain.ErrUnavailable)
			require.ErrorContains(t, err, "read-only")
		}
		env.Fails(placeOrder(t.Context(), late, newOrder(2, 2, 1), 1))(t, domain.ErrUnavailable)
		err = late.db.Write(t.Context(), func(*gorm.DB) error { return nil })
		require.ErrorIs(t, err, domain.ErrUnavailable, "the old primary would commit a transaction without a change")
		env.Fails(late.Order(t.Context(), 2, 2))(t, domain.ErrNotFound, "a connection for reads is open, and idle from here on")

		alias.Lead(promoted.Addr)
		env.Must(placeOrder(t.Context(), late, newOrder(2, 2, 1), 1))(t)
		for _, s := range []*Store{late, committing} {
			_, err = s.Order(t.Context(), 2, 2)
			require.NoError(t, err, "the connection for reads was left, after the first success or the refused COMMIT")
		}
		require.NoError(t, watched.Ping(t.Context()), "a read-only server keeps no connection in the pool")

		reading := env.Must(buyers.Pools()["read"].Conn(t.Context()))(t)
		env.Must(buyers.SaleTotals(t.Context()))(t) // by a connection that has no I/O timeout
		_, err = placeOrder(t.Context(), buyers, newOrder(1, 1, 1), 1)
		require.NoError(t, err, "the purchase that the replica refuses is repeated on a new connection")
		require.NoError(t, reading.Close())
		_, err = buyers.Order(t.Context(), 1, 1)
		require.NoError(t, err, "reads follow, even on a connection that was in use")
		require.Equal(t, slices.Repeat([]string{promoted.Addr}, conns), hold())
		requireTotals(t, buyers, 1, 98, 2)
	})
}

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
	execSQL(t, dsn, // the table of orders is empty, so MariaDB fills it in bulk
		"SET SESSION unique_checks = 0, foreign_key_checks = 0",
		fmt.Sprintf(`INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, paid_at, updated_at)
			SELECT 1 + n, 1000001 + n, %d, 1, 2, 1000, NOW(3), NOW(3), NOW(3), NOW(3) FROM %s numbers ORDER BY n`, full.ID, env.Numbers(6)),
		fmt.Sprintf("UPDATE seckill_vouchers SET stock = 0 WHERE voucher_id = %d", full.ID),
	)
	sold := checksum(t, s, full.ID)

	var b buyers
	selling, stop := context.WithCancel(t.Context())
	bought := env.Go(func() []error { return b.run(selling, s, sale.ID) })
	env.Must(s.MigrateUp(t.Context()))(t)
	require.Equal(t, complete, orderIndexes(t, s))
	require.Equal(t, sold, checksum(t, s, full.ID))

	stop()
	require.NoError(t, errors.Join(<-bought...))
	t.Log(b.placed.Load(), "orders placed,", b.refused.Load(), "requests refused as unavailable")
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
	var migration <-chan error
	require.NoError(t, s.db.LongSnapshot(t.Context(), func(tx *gorm.DB) error {
		require.NoError(t, tx.Exec("SELECT COUNT(*) FROM voucher_orders").Error)
		migration = env.Go(func() error { return env.Err(s.MigrateUp(context.Background())) })
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
	onEachSale(t, 10, 4, func(t *testing.T, s *Store, v domain.Voucher) {
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
		undone = env.Must(s.MigrateDown(t.Context()))(t).Version
	}
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

type buyers struct{ placed, refused atomic.Int64 }

// run places and reads orders until ctx ends. ErrUnavailable is the only error that a buyer may get.
func (b *buyers) run(ctx context.Context, s *Store, sale int64) []error {
	return atOnce(6, func(i int) error {
		for n := int64(0); ctx.Err() == nil; n++ {
			var err error
			if i < 4 {
				err = placeOldOrder(s, 10_000_000+4*n+int64(i), sale)
			} else {
				var status int
				err = s.db.Reader(context.Background()).Raw("SELECT status FROM voucher_orders WHERE id = ?", 1+n*7919%manyOrders).Row().Scan(&status)
				err = s.db.Translate(err)
			}

			switch {
			case errors.Is(err, domain.ErrUnavailable):
				b.refused.Add(1)
			case err != nil:
				return err
			case i < 4:
				b.placed.Add(1)
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
