package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/repo"
)

// startPatience is how long the program waits at its start for a database or a Redis that is not there yet.
const startPatience = 30 * time.Second

// openStore opens the configured database; it does not wait for it.
func OpenStore(cfg Config) (*repo.Store, error) {
	if !cfg.Embedded() {
		return repo.OpenMySQL(cfg.MySQLDSN)
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	file := filepath.Join(cfg.DataDir, DatabaseFile)
	// It holds phone numbers and sessions. SQLite gives its other files the mode of this one.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return repo.OpenSQLite(file)
}

// clusterReload is how often the map of a cluster's slots is read again. A master that died answers no MOVED, so this
// bounds how long commands still go to it after a replica took over.
const clusterReload = time.Second

// openRedis makes a client for one server or, with several addresses, for a cluster. The client executes no command
// twice: one whose reply was lost may have been executed, so its error is returned.
func OpenRedis(password string, addrs ...string) redis.UniversalClient {
	opts := &redis.UniversalOptions{
		Addrs: addrs, Password: password,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: time.Second, ReadTimeout: 1500 * time.Millisecond, WriteTimeout: time.Second, PoolTimeout: 2 * time.Second,
		PoolSize: 128, MinIdleConns: 4,
		DisableIdentity:          true, // no CLIENT SETINFO: Redis 6.2 and the embedded one do not know it
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if len(addrs) == 1 {
		return redis.NewClient(opts.Simple())
	}
	cluster := opts.Cluster()
	cluster.ClusterStateReloadInterval = clusterReload
	cluster.DisableRoutingPolicies = true // they do not know wrapped commands; pingRedis reaches every master without them
	rdb := redis.NewClusterClient(cluster)
	rdb.AddHook(noRetries{})
	return rdb
}

// noRetries marks every command of a cluster client, pipelined or not. MaxRetries is for the nodes' clients; the
// cluster's own loop, which must stay for MOVED and ASK, repeats commands after EOF and timeouts unless they are marked.
type noRetries struct{}

// noRetry is a command that may not be repeated.
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

// pingRedis returns nil if the server answers, or every master of a cluster.
func PingRedis(ctx context.Context, rdb redis.UniversalClient) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
	}
	return rdb.Ping(ctx).Err()
}

// sharedRedis connects beside the servers that are configured here to the Redis that they share; nil if it is
// embedded in one that does not run. It does not wait for it.
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

// lockNodes are the servers that hold the user lock.
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

// await asks until ping succeeds, and says what it waits for. It gives up after startPatience.
func Await(e *Env, what string, ping func(context.Context) error) error {
	patience := startPatience
	if e.Tuning.StartTimeout > 0 {
		patience = e.Tuning.StartTimeout
	}
	ctx, cancel := context.WithTimeoutCause(e.Ctx, patience, errors.New("gave up waiting"))
	defer cancel()
	for first := true; ; first = false {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		if first {
			e.Log.Warn("waiting for "+what, "at_most", patience, "err", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not there (%w): %w", what, context.Cause(ctx), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Printf implements the logger of go-redis.
func (q quietRedis) Printf(ctx context.Context, format string, v ...any) {
	q.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, v...))
}

// LogRedis sends the log of go-redis, one line per broken connection, to log at the debug level. Errors that matter are
// returned to callers and reported there.
func LogRedis(log *slog.Logger) { redis.SetLogger(quietRedis{log}) }

type quietRedis struct{ log *slog.Logger }
