package app

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/handler"
	"seckill/internal/repo"
	"seckill/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestReplicaIsNotReady: a Redis that became the replica of another one answers PING and refuses every purchase. An ACL
// that forbids the check does not make it red.
func TestReplicaIsNotReady(t *testing.T) {
	t.Parallel()
	master, node := testenv.StartRedis(t), testenv.StartRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	admin := node.Client(t)
	cfg := Config{RedisAddrs: []string{node.Addr}, LockNodes: []string{node.Addr}}
	checks := redisChecks(t, cfg)

	for _, name := range []string{"redis", "lock nodes"} {
		require.NoError(t, checks[name](t.Context()), name)
	}
	require.NoError(t, admin.ReplicaOf(t.Context(), host, port).Err())
	for _, name := range []string{"redis", "lock nodes"} {
		require.ErrorContains(t, checks[name](t.Context()), "READONLY", name)
	}
	require.NoError(t, admin.ReplicaOf(t.Context(), "NO", "ONE").Err())
	for _, name := range []string{"redis", "lock nodes"} {
		require.NoError(t, checks[name](t.Context()), name)
	}
	keys, err := admin.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, keys, "the check stores nothing")

	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "narrow", "on", ">secret", "~other:*", "+@all").Err())
	cfg.RedisUsername, cfg.RedisPassword = "narrow", "secret"
	checks = redisChecks(t, cfg)
	for _, name := range []string{"redis", "lock nodes"} {
		require.NoError(t, checks[name](t.Context()), name)
	}
}

// redisChecks returns the checks of /readyz of a server with this configuration.
func redisChecks(t *testing.T, cfg Config) map[string]handler.Check {
	t.Helper()
	rdb, err := SharedRedis(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	locks, err := openUserLocks(cfg, rdb)
	require.NoError(t, err)
	t.Cleanup(locks.close)
	return readyChecks(cfg, backends{store: &repo.Store{}, rdb: rdb, locks: locks}, &drain{})
}

// A database that goes away after it answered the first time is waited for. Other errors end the start at once.
func TestPrepareDatabaseWaits(t *testing.T) {
	db := testenv.StartDatabase(t)
	no := false
	cfg := Config{MySQLDSN: db.DSN(t), Demo: &no}
	store, err := OpenStore(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	e := &Env{Ctx: t.Context(), Config: cfg, Log: slog.New(slog.DiscardHandler), Tuning: Tuning{StartTimeout: time.Minute}}
	require.NoError(t, store.Ping(t.Context()))
	db.Kill()
	done := make(chan error, 1)
	go func() { done <- PrepareDatabase(e, store) }()
	time.Sleep(100 * time.Millisecond) // it fails for the first time
	require.Empty(t, done)
	require.NoError(t, db.Restart())
	require.NoError(t, <-done)
	all, err := store.Migrations(t.Context())
	require.NoError(t, err)
	require.NotZero(t, all[len(all)-1].Applied)

	foreign, err := OpenStore(Config{MySQLDSN: db.DSN(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, foreign.Close()) })
	_, err = foreign.Pools()["write"].ExecContext(t.Context(), "CREATE TABLE users (id INT)")
	require.NoError(t, err)
	require.ErrorContains(t, PrepareDatabase(e, foreign), "users")
}
