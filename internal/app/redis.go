package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/kit/redisconn"
)

// errRedisAddr does not contain the address, which may contain a password.
var errRedisAddr = errors.New("neither host:port nor a URL such as rediss://user:password@host:6379/0; " +
	"in a URL, special characters of the password are percent-encoded")

// errNoPassword refuses a user without a password. The client sends a user name only together with a password, so the
// server would treat it as the default user.
var errNoPassword = errors.New("a user of Redis needs a password, in the URL or in --redis-password: without one, the default user is used")

func lacksPassword(user, password string) bool {
	return user != "" && user != "default" && password == ""
}

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
// default to RedisUsername and RedisPassword. Errors contain no address, because it may contain a password.
func (c Config) RedisOptions(addrs ...string) (*redis.UniversalOptions, error) {
	opts := redisconn.Options()
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
		roots, err := redisconn.Roots(c.RedisCA)
		if err != nil {
			return nil, fmt.Errorf("read the CA file: %w", err)
		}
		// The server's name is that of each address.
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}

	// Used only for Sentinels.
	opts.SentinelUsername = first.Username
	opts.SentinelPassword = first.Password

	opts.Username = cmp.Or(first.Username, c.RedisUsername)
	opts.Password = cmp.Or(first.Password, c.RedisPassword)
	if lacksPassword(opts.Username, opts.Password) {
		return nil, errNoPassword
	}

	return opts, nil
}

// SharedRedisOptions returns the options of a client for RedisAddrs: one server, a cluster, or Sentinels. User and password
// in the URLs of Sentinels are for the Sentinels only.
func (c Config) SharedRedisOptions() (*redis.UniversalOptions, error) {
	opts, err := c.RedisOptions(c.RedisAddrs...)
	switch {
	case err != nil:
		return nil, err
	case c.RedisSentinel != "" && lacksPassword(c.RedisUsername, c.RedisPassword):
		return nil, errNoPassword
	case c.RedisSentinel != "":
		opts.MasterName = c.RedisSentinel
		opts.Username = c.RedisUsername
		opts.Password = c.RedisPassword
	case len(opts.Addrs) > 1 && opts.DB != 0:
		return nil, errors.New("a cluster has no database but 0")
	}

	return opts, nil
}

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

func openEmbedded(info RedisInfo) redis.UniversalClient {
	opts := redisconn.Options()
	opts.Addrs = []string{info.Addr}
	opts.Password = info.Password
	return redisconn.Open(opts)
}

// SharedRedis returns a client for the Redis of the servers with this configuration, without connecting. It returns nil
// if that Redis is embedded and no server runs. The caller closes the client.
func SharedRedis(cfg Config) (redis.UniversalClient, error) {
	if !cfg.EmbeddedRedis() {
		opts, err := cfg.SharedRedisOptions()
		if err != nil {
			return nil, fmt.Errorf("--redis-addrs: %w", err)
		}
		return redisconn.Open(opts), nil
	}

	info, err := RunningRedis(cfg.DataDir)
	if err != nil || info == nil {
		return nil, err
	}

	return openEmbedded(*info), nil
}

// lockNodes returns a client per lock node, or rdb if none are configured. The configured locks must not be in ZooKeeper.
func lockNodes(cfg Config, rdb redis.UniversalClient) ([]redis.UniversalClient, error) {
	if len(cfg.LockNodes) == 0 {
		return []redis.UniversalClient{rdb}, nil
	}

	nodes := make([]redis.UniversalClient, len(cfg.LockNodes))
	for i, addr := range cfg.LockNodes {
		opts, err := cfg.RedisOptions(addr)
		if err != nil {
			return nil, fmt.Errorf("--lock-nodes: %w", err)
		}
		nodes[i] = redisconn.Open(opts)
	}

	return nodes, nil
}
