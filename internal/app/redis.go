package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// errRedisAddr does not contain the address, which may contain a password.
var errRedisAddr = errors.New("neither host:port nor a URL such as rediss://user:password@host:6379/0; " +
	"in a URL, special characters of the password are percent-encoded")

// parseRedisAddr parses host:port or a redis:// or rediss:// URL. URLs with parameters are refused: the client depends
// on its options.
func parseRedisAddr(addr string) (*redis.Options, error) {
	if !strings.Contains(addr, "://") {
		if !isAddr(addr) {
			return nil, errRedisAddr
		}
		return &redis.Options{Addr: addr}, nil
	}
	u, err := url.Parse(addr)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return nil, errRedisAddr
	}
	o, err := redis.ParseURL(addr)
	if err != nil || !isAddr(o.Addr) || o.DB < 0 {
		return nil, errRedisAddr
	}
	return o, nil
}

// RedisOptions returns the options of a client for the servers at addrs: RedisAddrs, or one lock node. The first address
// decides on TLS, user, password and database; the others are host:port or URLs that agree with it. User and password
// default to RedisUsername and RedisPassword. Those in the URLs of Sentinels are for the Sentinels only. Errors contain no
// address, because it may contain a password.
func (c Config) RedisOptions(addrs ...string) (*redis.UniversalOptions, error) {
	opts := redisOptions()
	var first *redis.Options
	for i, addr := range addrs {
		o, err := parseRedisAddr(addr)
		if err != nil {
			return nil, fmt.Errorf("address %d is %w", i+1, err)
		}
		if i == 0 {
			first = o
		} else if strings.Contains(addr, "://") && (o.Username != first.Username || o.Password != first.Password ||
			o.DB != first.DB || (o.TLSConfig == nil) != (first.TLSConfig == nil)) {
			return nil, fmt.Errorf("address %d differs from the first in its scheme, user, password or database", i+1)
		}
		opts.Addrs = append(opts.Addrs, o.Addr)
	}
	if first == nil {
		return nil, errors.New("no address")
	}
	opts.DB = first.DB
	if first.TLSConfig != nil {
		roots, err := c.redisRoots()
		if err != nil {
			return nil, fmt.Errorf("read the CA file: %w", err)
		}
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots} // the server's name is that of each address
	}
	opts.Username, opts.Password = cmp.Or(first.Username, c.RedisUsername), cmp.Or(first.Password, c.RedisPassword)
	return opts, nil
}

// SharedRedisOptions returns the options of a client for RedisAddrs: one server, a cluster, or Sentinels.
func (c Config) SharedRedisOptions() (*redis.UniversalOptions, error) {
	opts, err := c.RedisOptions(c.RedisAddrs...)
	if err != nil {
		return nil, err
	}
	if c.RedisSentinel == "" {
		if len(opts.Addrs) > 1 && opts.DB != 0 {
			return nil, errors.New("a cluster has no database but 0")
		}
		return opts, nil
	}
	first, err := parseRedisAddr(c.RedisAddrs[0])
	if err != nil {
		return nil, err
	}
	opts.MasterName = c.RedisSentinel
	opts.SentinelUsername, opts.SentinelPassword = first.Username, first.Password
	opts.Username, opts.Password = c.RedisUsername, c.RedisPassword
	return opts, nil
}

// redisRoots returns the certificates in the file RedisCA, or nil for those of the system.
func (c Config) redisRoots() (*x509.CertPool, error) {
	if c.RedisCA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.RedisCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", c.RedisCA)
	}
	return roots, nil
}

// redisServers returns the addresses of a valid configuration as host:port.
func (c Config) redisServers() []string {
	servers := make([]string, len(c.RedisAddrs))
	for i, addr := range c.RedisAddrs {
		if o, err := parseRedisAddr(addr); err == nil {
			servers[i] = o.Addr
		}
	}
	return servers
}

// isTLSAddr reports whether an address of a valid configuration has TLS.
func isTLSAddr(addr string) bool { return strings.HasPrefix(addr, "rediss://") }

// RedisSecrets returns the passwords for Redis, Sentinels and lock nodes.
func (c Config) RedisSecrets() []string {
	secrets := []string{c.RedisPassword}
	for _, list := range [][]string{c.RedisAddrs, c.LockNodes} {
		for _, addr := range list {
			if o, err := parseRedisAddr(addr); err == nil {
				secrets = append(secrets, o.Password)
			}
		}
	}
	return secrets
}

// clusterReload is the interval at which a cluster's slot map is read again. It bounds how long commands are sent to a
// dead master, which answers no MOVED, after its replica has taken over.
const clusterReload = time.Second

// redisOptions returns the options of every client, without the servers. No command is repeated.
func redisOptions() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: time.Second, ReadTimeout: 1500 * time.Millisecond, WriteTimeout: time.Second, PoolTimeout: 2 * time.Second,
		PoolSize: 128, MinIdleConns: 4,
		DisableIdentity:          true, // no CLIENT SETINFO: Redis 6.2 and the embedded Redis lack it
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// OpenRedis returns a client for one server, for the master that Sentinels name, or for a cluster. It does not connect.
// The client never repeats a command: one whose reply was lost may have been executed, so the error is returned.
func OpenRedis(opts *redis.UniversalOptions) redis.UniversalClient {
	switch {
	case opts.MasterName != "":
		return redis.NewFailoverClient(opts.Failover())
	case len(opts.Addrs) == 1:
		return redis.NewClient(opts.Simple())
	}
	cluster := opts.Cluster()
	cluster.ClusterStateReloadInterval = clusterReload
	cluster.DisableRoutingPolicies = true // they do not support wrapped commands; PingRedis reaches every master without them
	rdb := redis.NewClusterClient(cluster)
	rdb.AddHook(clusterHook{reload: rdb.ReloadState})
	return rdb
}

// openEmbedded returns a client for the embedded Redis.
func openEmbedded(info RedisInfo) redis.UniversalClient {
	opts := redisOptions()
	opts.Addrs, opts.Password = []string{info.Addr}, info.Password
	return OpenRedis(opts)
}

// clusterHook marks every command of a cluster client, pipelined or not, as not repeatable. MaxRetries applies to the
// clients of the nodes only. The cluster client's own loop is needed for MOVED and ASK, and repeats unmarked commands
// after EOF and timeouts. The hook also reloads the slot map after a failed connection: a dead master answers no MOVED.
type clusterHook struct {
	reload func(context.Context) // in the background, at most five times a second
}

// noRetry is a command that must not be repeated.
type noRetry struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (noRetry) NoRetry() bool { return true }

// DialHook implements redis.Hook.
func (clusterHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h clusterHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h.checked(ctx, next(ctx, noRetry{cmd})) }
}

// ProcessPipelineHook implements redis.Hook.
func (h clusterHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		marked := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			marked[i] = noRetry{cmd}
		}
		return h.checked(ctx, next(ctx, marked))
	}
}

// checked returns err after starting a reload if a connection could not be opened.
func (h clusterHook) checked(ctx context.Context, err error) error {
	var failed *net.OpError
	if errors.As(err, &failed) && failed.Op == "dial" {
		h.reload(ctx)
	}
	return err
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
		opts, err := cfg.SharedRedisOptions()
		if err != nil {
			return nil, fmt.Errorf("--redis-addrs: %w", err)
		}
		return OpenRedis(opts), nil
	}
	info, err := RunningRedis(cfg.DataDir)
	if err != nil || info == nil {
		return nil, err
	}
	return openEmbedded(*info), nil
}

// LockNodes returns a client per lock node, or rdb if none are configured. The configured locks must not be in ZooKeeper.
func LockNodes(cfg Config, rdb redis.UniversalClient) ([]redis.UniversalClient, error) {
	if len(cfg.LockNodes) == 0 {
		return []redis.UniversalClient{rdb}, nil
	}
	all := make([]*redis.UniversalOptions, len(cfg.LockNodes))
	for i, addr := range cfg.LockNodes {
		var err error
		if all[i], err = cfg.RedisOptions(addr); err != nil {
			return nil, fmt.Errorf("--lock-nodes: %w", err)
		}
	}
	nodes := make([]redis.UniversalClient, len(all))
	for i, opts := range all {
		nodes[i] = OpenRedis(opts)
	}
	return nodes, nil
}

// Printf implements the logger of go-redis.
func (q quietRedis) Printf(ctx context.Context, format string, v ...any) {
	q.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, v...))
}

// LogRedis sends the messages of go-redis, one per broken connection, to log at level debug. Relevant errors are
// returned by the commands and reported by their callers.
func LogRedis(log *slog.Logger) { redis.SetLogger(quietRedis{log}) }

type quietRedis struct{ log *slog.Logger }
