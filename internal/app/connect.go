package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/loop"
	"seckill/internal/repo"
)

// startTimeout is how long the program waits at its start for a database or a Redis that is not reachable yet.
const startTimeout = 30 * time.Second

// OpenStore opens the configured database without connecting to MySQL. The caller closes it.
func OpenStore(cfg Config) (*repo.Store, error) {
	if !cfg.Embedded() {
		return repo.OpenMySQL(cfg.MySQLDSN)
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	file := filepath.Join(cfg.DataDir, DatabaseFile)
	// The file holds phone numbers and sessions. SQLite creates its other files with the mode of this one.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return repo.OpenSQLite(file)
}

// clusterReload is the interval at which a cluster's slot map is read again. It bounds how long commands are sent to a
// dead master, which answers no MOVED, after its replica has taken over.
const clusterReload = time.Second

// OpenRedis returns a client for one server or, with several addresses, for a cluster. It does not connect. The client
// never repeats a command: one whose reply was lost may have been executed, so the error is returned.
func OpenRedis(password string, addrs ...string) redis.UniversalClient {
	opts := &redis.UniversalOptions{
		Addrs: addrs, Password: password,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: time.Second, ReadTimeout: 1500 * time.Millisecond, WriteTimeout: time.Second, PoolTimeout: 2 * time.Second,
		PoolSize: 128, MinIdleConns: 4,
		DisableIdentity:          true, // no CLIENT SETINFO: Redis 6.2 and the embedded Redis lack it
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if len(addrs) == 1 {
		return redis.NewClient(opts.Simple())
	}
	cluster := opts.Cluster()
	cluster.ClusterStateReloadInterval = clusterReload
	cluster.DisableRoutingPolicies = true // they do not support wrapped commands; PingRedis reaches every master without them
	rdb := redis.NewClusterClient(cluster)
	rdb.AddHook(noRetries{})
	return rdb
}

// noRetries marks every command of a cluster client, pipelined or not, as not repeatable. MaxRetries applies to the
// clients of the nodes only. The cluster client's own loop is needed for MOVED and ASK, and repeats unmarked commands
// after EOF and timeouts.
type noRetries struct{}

// noRetry is a command that must not be repeated.
type noRetry struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (noRetry) NoRetry() bool { return true }

// DialHook implements redis.Hook.
func (noRetries) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (noRetries) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, noRetry{cmd}) }
}

// ProcessPipelineHook implements redis.Hook.
func (noRetries) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		marked := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			marked[i] = noRetry{cmd}
		}
		return next(ctx, marked)
	}
}

// PingRedis returns nil if the server, or every master of a cluster, answers.
func PingRedis(ctx context.Context, rdb redis.UniversalClient) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
	}
	return rdb.Ping(ctx).Err()
}

// SharedRedis returns a client for the Redis of the servers with this configuration, without connecting. It returns nil
// if that Redis is embedded and no server runs. The caller closes the client.
func SharedRedis(cfg Config) (redis.UniversalClient, error) {
	if !cfg.EmbeddedRedis() {
		return OpenRedis(cfg.RedisPassword, cfg.RedisAddrs...), nil
	}
	info, err := RunningRedis(cfg.DataDir)
	if err != nil || info == nil {
		return nil, err
	}
	return OpenRedis(info.Password, info.Addr), nil
}

// LockNodes returns a client per lock node, or rdb if none are configured. The configured locks must not be in ZooKeeper.
func LockNodes(cfg Config, rdb redis.UniversalClient) []redis.UniversalClient {
	if len(cfg.LockNodes) == 0 {
		return []redis.UniversalClient{rdb}
	}
	nodes := make([]redis.UniversalClient, len(cfg.LockNodes))
	for i, addr := range cfg.LockNodes {
		nodes[i] = OpenRedis(cfg.RedisPassword, addr)
	}
	return nodes
}

// WaitFor calls ping every 500 ms until it succeeds. It returns an error after startTimeout, or after
// Tuning.StartTimeout if set.
func WaitFor(e *Env, what string, ping func(context.Context) error) error {
	timeout := cmp.Or(e.Tuning.StartTimeout, startTimeout)
	ctx, cancel := context.WithTimeoutCause(e.Ctx, timeout, fmt.Errorf("waited for %s", timeout))
	defer cancel()
	for first := true; ; first = false {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		if first {
			e.Log.Warn("waiting for "+what, "timeout", timeout, "err", err)
		}
		if ended := loop.Sleep(ctx, 500*time.Millisecond); ended != nil {
			return fmt.Errorf("%s does not answer (%w): %w", what, ended, err)
		}
	}
}

// Printf implements the logger of go-redis.
func (q quietRedis) Printf(ctx context.Context, format string, v ...any) {
	q.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, v...))
}

// LogRedis sends the messages of go-redis, one per broken connection, to log at level debug. Relevant errors are
// returned by the commands and reported by their callers.
func LogRedis(log *slog.Logger) { redis.SetLogger(quietRedis{log}) }

type quietRedis struct{ log *slog.Logger }
