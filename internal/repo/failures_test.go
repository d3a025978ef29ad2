package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
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
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 10, 1)
		held, lose := context.WithCancelCause(t.Context())
		lost, cancel := context.WithCancel(t.Context())
		cancel()
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
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s, faults := newStore(db), env.Inject(db)
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

// The name of the violated index is found although the value contains quotes.
func TestDuplicateNamesItsIndex(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		insertUser := func() error {
			return s.db.Writer(t.Context()).Exec("INSERT INTO users (phone, nick_name, icon, role, created_at, updated_at) VALUES (?, 'n', '', '', ?, ?)",
				"it's '13800000001'", now, now).Error
		}
		require.NoError(t, insertUser())
		require.True(t, s.db.Duplicate(insertUser(), sqldb.UKPhone))
		require.False(t, s.db.Duplicate(insertUser(), sqldb.UKProviderRef))
		require.False(t, s.db.Duplicate(nil, sqldb.UKPhone))
	})
}

// OpenMySQL overrides settings of the DSN: affected rows are those that changed, and in the character set no multi-byte
// character hides a quote (in GBK it would end a string early). sqldb.TestSessionVariables has those of the server.
func TestOpenMySQLOverridesSettings(t *testing.T) {
	env.EachKind(t, func(t *testing.T, kind env.Kind) {
		s := openStore(t, kind.MigratedDSN(t)+"?charset=gbk&collation=gbk_chinese_ci&clientFoundRows=true&loc=Local&parseTime=false")
		v := newSale(t, s, 10, 1)
		env.Must(placeOrder(t.Context(), s, newOrder(1, 10, v.ID), 1))(t)
		_, err := placeOrder(t.Context(), s, newOrder(2, 10, v.ID), 1)
		require.ErrorAs(t, err, new(*domain.DuplicateOrderError))

		evil := newSale(t, s, 1, 1)
		evil.Title = "\xbf\x27,version(),@@datadir,1,1,1,1,now(),now())-- "
		require.Error(t, s.CreateVoucher(t.Context(), nil, &evil, admin), "rejected as invalid UTF-8 and not executed as SQL")
		evil.Title = "縗',version(),@@datadir,1,1,1,1,now(),now())-- "
		evil.ID = 0
		require.NoError(t, s.CreateVoucher(t.Context(), nil, &evil, admin))
		stored := env.Must(s.Voucher(t.Context(), evil.ID))(t)
		require.Equal(t, evil, stored)
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
	db := env.Must(sql.Open("mysql", dsn))(t)
	defer func() { require.NoError(t, db.Close()) }()
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
		open := func(user string) *Store {
			cfg := env.Must(mysql.ParseDSN(dsn))(t)
			cfg.User, cfg.Passwd, cfg.Addr = user, "secret", alias.Addr
			if user == "root" {
				cfg.Passwd = ""
			}
			s := openStore(t, cfg.FormatDSN()+"?rejectReadOnly=false")
			require.NoError(t, s.Ping(t.Context()))
			return s
		}
		buyers, committing, late, watched, privileged := open(name), open(name), open(name), open(name), open("root")
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

// The server itself ends a query when the client's deadline is over.
func TestServerEnforcesQueryDeadline(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
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
