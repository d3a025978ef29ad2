package repo

import (
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// execSQL runs statements as the administrator of a server.
func execSQL(t *testing.T, dsn string, statements ...string) {
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	for _, stmt := range statements {
		_, err := db.ExecContext(t.Context(), stmt)
		require.NoError(t, err, stmt)
	}
}

// The name of the database moves to another server, while the old primary becomes a read-only replica and keeps its
// connections.
func TestPrimaryBecomesReplica(t *testing.T) {
	testenv.EachKind(t, func(t *testing.T, kind testenv.Kind) {
		old, promoted := kind.Start(t), kind.Start(t)
		dsn := promoted.DSN(t)
		name := dsn[strings.LastIndexByte(dsn, '/')+1:]
		oldDSN, err := old.CreateDatabase(t.Context(), name)
		require.NoError(t, err)
		for _, dsn := range []string{oldDSN, dsn} {
			execSQL(t, dsn, "CREATE USER "+name+" IDENTIFIED BY 'secret'", "GRANT ALL ON "+name+".* TO "+name)
			s, err := OpenMySQL(dsn)
			require.NoError(t, err)
			newSale(t, migrated(t, s), 100, 1)
		}
		defer execSQL(t, dsn, "DROP USER "+name)
		alias := testenv.StartProxy(t, old.Addr)
		open := func(user string) *Store {
			cfg, err := mysql.ParseDSN(dsn)
			require.NoError(t, err)
			cfg.User, cfg.Passwd, cfg.Addr = user, "secret", alias.Addr
			if user == "root" {
				cfg.Passwd = ""
			}
			s, err := OpenMySQL(cfg.FormatDSN() + "?rejectReadOnly=false")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			require.NoError(t, s.Ping(t.Context()))
			return s
		}
		buyers, committing, late, watched, privileged := open(name), open(name), open(name), open(name), open("root")
		const conns = 5
		var held [conns]*sql.Conn
		for i := range held {
			held[i], err = buyers.Pools()["write"].Conn(t.Context())
			require.NoError(t, err)
		}
		for _, conn := range held { // they are idle in the pool from here on
			require.NoError(t, conn.Close())
		}

		_, err = committing.Order(t.Context(), 2, 2)
		require.ErrorIs(t, err, domain.ErrNotFound, "a connection for reads is open")
		err = committing.db.Write(t.Context(), func(tx *gorm.DB) error {
			defer execSQL(t, oldDSN, "SET GLOBAL read_only = 1")
			return tx.Exec("UPDATE vouchers SET title = 'changed'").Error
		})
		require.ErrorIs(t, err, driver.ErrBadConn, "COMMIT is refused")
		for _, s := range []*Store{watched, privileged} {
			err := s.Ping(t.Context())
			require.ErrorIs(t, err, domain.ErrUnavailable)
			require.ErrorContains(t, err, "read-only")
		}
		_, err = placeOrder(t.Context(), late, newOrder(2, 2, 1), 1)
		require.ErrorIs(t, err, domain.ErrUnavailable)
		err = late.db.Write(t.Context(), func(*gorm.DB) error { return nil })
		require.ErrorIs(t, err, domain.ErrUnavailable, "the old primary would commit a transaction without a change")
		_, err = late.Order(t.Context(), 2, 2)
		require.ErrorIs(t, err, domain.ErrNotFound, "a connection for reads is open, and idle from here on")

		alias.Lead(promoted.Addr)
		_, err = placeOrder(t.Context(), late, newOrder(2, 2, 1), 1)
		require.NoError(t, err)
		for _, s := range []*Store{late, committing} {
			_, err = s.Order(t.Context(), 2, 2)
			require.NoError(t, err, "the connection for reads was left, after the first success or the refused COMMIT")
		}
		require.NoError(t, watched.Ping(t.Context()), "a read-only server keeps no connection in the pool")

		reading, err := buyers.Pools()["read"].Conn(t.Context())
		require.NoError(t, err)
		_, err = buyers.SaleTotals(t.Context()) // by a connection that has no I/O timeout
		require.NoError(t, err)
		_, err = placeOrder(t.Context(), buyers, newOrder(1, 1, 1), 1)
		require.NoError(t, err, "the purchase that the replica refuses is repeated on a new connection")
		require.NoError(t, reading.Close())
		_, err = buyers.Order(t.Context(), 1, 1)
		require.NoError(t, err, "reads follow, even on a connection that was in use")
		for i := range held {
			held[i], err = buyers.Pools()["write"].Conn(t.Context())
			require.NoError(t, err)
			var addr string
			require.NoError(t, held[i].QueryRowContext(t.Context(), "SELECT CONCAT('127.0.0.1:', @@port)").Scan(&addr))
			require.Equal(t, promoted.Addr, addr)
		}
		for _, conn := range held {
			require.NoError(t, conn.Close())
		}
		requireTotals(t, buyers, 1, 98, 2)
	})
}
