package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gofrs/flock"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// Files in the data directory.
const (
	DatabaseFile  = "seckill.db"
	SecretFile    = "jwt-secret"
	RedisInfoFile = "redis.json"
	redisLockFile = "redis.lock"
)

// embeddedTick is the interval at which the clock of the embedded Redis is advanced. It has no clock of its own.
const embeddedTick = 100 * time.Millisecond

type embeddedRedis struct {
	server   *miniredis.Miniredis
	listener net.Listener
	lock     *flock.Flock
	// Path of RedisInfoFile.
	info string
	stop context.CancelFunc
	// The clock and the listener.
	running sync.WaitGroup
}

// RedisInfo is the content of RedisInfoFile, from which other commands find the embedded Redis of a running server.
type RedisInfo struct {
	Addr     string `json:"addr"`
	Password string `json:"password"`
}

// startEmbeddedRedis starts an embedded Redis on a random port of the loopback interface. Its password is readable only
// by users with access to the data directory. A second server on the same data directory gets an error: each would have
// a Redis of its own, without the other's locks.
func startEmbeddedRedis(dir string) (*embeddedRedis, RedisInfo, error) {
	lock := flock.New(filepath.Join(dir, redisLockFile))

	// Retry for a second: other commands take the lock briefly to find out whether a server runs.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	ok, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if err != nil && ctx.Err() == nil {
		return nil, RedisInfo{}, fmt.Errorf("lock the data directory: %w", err)
	}

	if !ok {
		return nil, RedisInfo{}, fmt.Errorf("another server uses the data directory %s; set --data-dir, "+
			"or --redis-addrs so that both share one Redis", dir)
	}

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, RedisInfo{}, errors.Join(fmt.Errorf("start the embedded Redis: %w", err), lock.Unlock())
	}

	info := RedisInfo{Addr: listener.Addr().String(), Password: rand.Text()}
	ticking, stop := context.WithCancel(context.Background())
	e := &embeddedRedis{
		server:   miniredis.NewMiniRedis(),
		listener: listener,
		lock:     lock,
		info:     filepath.Join(dir, RedisInfoFile),
		stop:     stop,
	}

	e.server.RequireAuth(info.Password)
	e.running.Go(func() { e.tick(ticking) })

	text, err := json.Marshal(info)
	if err == nil {
		err = os.WriteFile(e.info, text, 0o600)
	}
	if err == nil {
		err = e.serve()
	}

	if err != nil {
		e.close()
		return nil, RedisInfo{}, fmt.Errorf("start the embedded Redis: %w", err)
	}

	return e, info, nil
}

func (e *embeddedRedis) serve() error {
	// Dial starts the server without a listener. That of miniredis ends for good when the process has no file left for a
	// connection.
	conn, err := e.server.Dial()
	if err != nil {
		return err
	}

	e.running.Go(func() { serveAll(e.listener, e.server.Server().ServeConn) })
	return conn.Close()
}

// serveAll passes each connection to serve until the listener is closed. It goes on after any other error.
func serveAll(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			serve(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(embeddedTick)
		}
	}
}

func (e *embeddedRedis) tick(ctx context.Context) {
	last := time.Now()
	for loop.Sleep(ctx, embeddedTick) == nil {
		now := time.Now()
		e.server.FastForward(now.Sub(last))
		last = now
	}
}

func (e *embeddedRedis) close() {
	e.stop()
	// The listener ends with the process anyway.
	_ = e.listener.Close()
	e.running.Wait()
	e.server.Close()
	// A leftover file names a closed port.
	_ = os.Remove(e.info)
	// The lock ends with the process anyway.
	_ = e.lock.Unlock()
}

// RunningRedis returns the embedded Redis of the server that runs on this data directory, or nil if none runs.
func RunningRedis(dir string) (*RedisInfo, error) {
	path := filepath.Join(dir, redisLockFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		// TryLock would create the file.
		return nil, nil
	}

	lock := flock.New(path)
	free, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("check for a running server: %w", err)
	}
	if free {
		return nil, lock.Unlock()
	}

	text, err := os.ReadFile(filepath.Join(dir, RedisInfoFile))
	if err != nil {
		return nil, fmt.Errorf("read the address of the running server's Redis: %w", err)
	}

	var info RedisInfo
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("read the address of the running server's Redis: %w", err)
	}

	return &info, nil
}

// makeDataDir creates the data directory, readable only by its owner because it holds the signing secret.
func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: cannot create the folder %s; name one that this user may write to (%w)", dir, err)
	}
	return nil
}

// ExistingSecrets returns the configured secrets, or those in the data directory. Its error wraps fs.ErrNotExist if there are
// none and SigningSecrets would create one. With MySQL a configured secret is required.
func ExistingSecrets(cfg Config) (domain.Keyring, error) {
	switch {
	case cfg.JWTSecret != "":
		return domain.ParseKeyring(cfg.JWTSecret), nil
	case !cfg.Embedded():
		return nil, errors.New("--jwt-secret is required with --mysql-dsn: the same on every server, " +
			"such as the output of openssl rand -hex 32")
	}

	path := filepath.Join(cfg.DataDir, SecretFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}

	secrets := domain.ParseKeyring(string(text))
	if err := auth.CheckSecrets(secrets); err != nil {
		return nil, fmt.Errorf("signing secret: %s: %w", path, err)
	}
	return secrets, nil
}

// SigningSecrets returns the existing secrets, or creates one in the data directory.
func SigningSecrets(cfg Config) (domain.Keyring, error) {
	secrets, missing := ExistingSecrets(cfg)
	if missing == nil || !cfg.Embedded() {
		return secrets, missing
	}

	// Its error says more than that of reading a file in a folder that cannot exist.
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	if !errors.Is(missing, fs.ErrNotExist) {
		return nil, missing
	}

	// Link publishes the complete file at once, or fails if another process has created one.
	tmp, err := os.CreateTemp(cfg.DataDir, SecretFile+"-*")
	if err != nil {
		return nil, fmt.Errorf("--data-dir: cannot write to the folder %s; name another, or change its permissions (%w)", cfg.DataDir, err)
	}
	defer os.Remove(tmp.Name())

	_, err = tmp.WriteString(rand.Text() + rand.Text() + "\n")
	if err = errors.Join(err, tmp.Close()); err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}

	err = os.Link(tmp.Name(), filepath.Join(cfg.DataDir, SecretFile))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("signing secret: %w", err)
	}

	return ExistingSecrets(cfg)
}
