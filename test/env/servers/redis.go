package servers

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server process. Its methods are safe for concurrent use.
type Redis struct {
	*Process
	// Addr is host:port. Restart does not change it.
	Addr string
	// Announced is the address for other servers and their clients: Addr, unless TLS or a proxy has another.
	Announced string
}

// RunRedis starts a redis-server and returns when it answers. ctx and StartTimeout bound only the start; the
// server runs until Stop. args are appended to the default arguments, which disable persistence, and override them. If
// the program is missing, the error wraps [exec.ErrNotFound].
func RunRedis(ctx context.Context, args ...string) (*Redis, error) {
	ready := redisReady(password(args))
	return runRedis(ctx, ready, nil, func(string) []string { return append([]string{"--save", "", "--appendonly", "no"}, args...) })
}

// runRedis starts a redis-server, also as a Sentinel. prepare, if it is not nil, fills its directory.
func runRedis(
	ctx context.Context,
	ready func(context.Context, *Process, *child) error,
	prepare func(dir string) error,
	args func(dir string) []string,
) (*Redis, error) {
	bin, err := FindBinary("redis-server")
	if err != nil {
		return nil, err
	}

	s := &Process{bin: bin, ready: ready, args: func(s *Process) []string {
		return append(args(s.dir.path), "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.number), "--dir", s.dir.path)
	}}
	if err := s.run(ctx, prepare); err != nil {
		return nil, err
	}

	return &Redis{Process: s, Addr: s.addr(), Announced: s.addr()}, nil
}

func password(args []string) string {
	i := slices.Index(args, "--requirepass")
	if i < 0 || i+1 == len(args) {
		return ""
	}

	return args[i+1]
}

// redisReady returns a check that succeeds when the process c answers and has loaded its data. Of the commands, INFO
// works even while Redis loads.
func redisReady(password string) func(context.Context, *Process, *child) error {
	return func(ctx context.Context, s *Process, c *child) error {
		lines, err := serverInfo(ctx, s.addr(), password)
		if err != nil {
			return err
		}
		if err := ofProcess(lines, c); err != nil {
			return err
		}
		if !slices.Contains(lines, "loading:0") {
			return errors.New("still loading its data")
		}
		return nil
	}
}

func serverInfo(ctx context.Context, addr, password string) ([]string, error) {
	// go-redis logs every refused connection, and a starting server refuses the first ones.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}

	_ = conn.Close()
	opts := RedisOptions(addr)
	opts.Password = password
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()
	info, err := rdb.Info(ctx).Result()
	return strings.Split(info, "\r\n"), err
}

func ofProcess(info []string, c *child) error {
	if !slices.Contains(info, "process_id:"+strconv.Itoa(c.proc.Pid)) {
		return errors.New("another Redis answers on this port")
	}

	return nil
}

// RedisOptions returns options without retries: fault tests need every command sent once and every failure reported.
func RedisOptions(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true}
}
