package repo

import (
	"database/sql"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/testenv"
)

// startAlias listens on an address that forwards each new connection to the server in leadsTo, as a DNS name or a
// virtual address does.
func startAlias(t *testing.T, server string) (addr string, leadsTo *atomic.Value) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	leadsTo = &atomic.Value{}
	leadsTo.Store(server)
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", leadsTo.Load().(string))
			if err != nil {
				_ = client.Close()
				continue
			}
			wg.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			wg.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
		}
	})
	return l.Addr().String(), leadsTo
}

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
	old, promoted := testenv.StartMariaDB(t), testenv.SharedMariaDB(t)
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
	alias, leadsTo := startAlias(t, old.Addr)
	open := func(user string) *Store {
		cfg, err := mysql.ParseDSN(dsn)
		require.NoError(t, err)
		cfg.User, cfg.Passwd, cfg.Addr = user, "secret", alias
		if user == "root" {
			cfg.Passwd = ""
		}
		s, err := OpenMySQL(cfg.FormatDSN() + "?rejectReadOnly=false")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		require.NoError(t, s.Ping(t.Context()))
		return s
	}
	buyers, watched, privileged := open(name), open(name), open("root")
	const conns = 5
	var held [conns]*sql.Conn
	for i := range held {
		held[i], err = buyers.Pools()["write"].Conn(t.Context())
		require.NoError(t, err)
	}
	for _, conn := range held { // they are idle in the pool from here on
		require.NoError(t, conn.Close())
	}

	execSQL(t, oldDSN, "SET GLOBAL read_only = 1")
	for _, s := range []*Store{watched, privileged} {
		err := s.Ping(t.Context())
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.ErrorContains(t, err, "read-only")
	}
	leadsTo.Store(promoted.Addr)
	require.NoError(t, watched.Ping(t.Context()), "a read-only server keeps no connection in the pool")

	for try := int64(1); ; try++ { // each purchase that the replica refuses closes one connection to it
		_, err := placeOrder(t.Context(), buyers, newOrder(try, try, 1), 1)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.LessOrEqual(t, try, int64(conns), fmt.Sprint(buyers.Pools()["write"].Stats()))
	}
}
