package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gofrs/flock"

	"seckill/internal/auth"
)

// Files in the data directory.
const (
	DatabaseFile  = "seckill.db"
	SecretFile    = "jwt-secret"
	RedisLockFile = "redis.lock"
	RedisInfoFile = "redis.json"
)

// embeddedTick is how often the embedded Redis is told that time passed: it does not notice by itself.
const embeddedTick = 100 * time.Millisecond

// embeddedRedis is a Redis inside this process. It forgets everything when the process ends.
type embeddedRedis struct {
	server *miniredis.Miniredis
	lock   *flock.Flock
	info   string // path of redisInfoFile
	stop   chan struct{}
	ticker sync.WaitGroup
}

// redisInfo tells the other commands where the embedded Redis of a running server listens.
type redisInfo struct {
	Addr     string `json:"addr"`
	Password string `json:"password"`
}

// startEmbeddedRedis starts it on a private port of the loopback interface, with a password that only those who
// can read the data directory know. A second server on the same data directory is refused: each would have a
// Redis of its own, and neither would see the other's locks.
func startEmbeddedRedis(dir string) (*embeddedRedis, redisInfo, error) {
	lock := flock.New(filepath.Join(dir, RedisLockFile))
	// A moment of patience: verify takes the lock to see whether a server runs.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ok, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if err != nil && ctx.Err() == nil {
		return nil, redisInfo{}, fmt.Errorf("lock the data directory: %w", err)
	}
	if !ok {
		return nil, redisInfo{}, fmt.Errorf("another server uses the data directory %s; set SECKILL_DATA_DIR, "+
			"or SECKILL_REDIS_ADDRS so that both share one Redis", dir)
	}
	info := redisInfo{Password: rand.Text()}
	e := &embeddedRedis{
		server: miniredis.NewMiniRedis(), lock: lock, info: filepath.Join(dir, RedisInfoFile), stop: make(chan struct{}),
	}
	e.server.RequireAuth(info.Password)
	if err := e.server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, redisInfo{}, errors.Join(fmt.Errorf("start the embedded Redis: %w", err), lock.Unlock())
	}
	info.Addr = e.server.Addr()
	e.ticker.Go(e.tick)
	text, err := json.Marshal(info)
	if err == nil {
		err = os.WriteFile(e.info, text, 0o600)
	}
	if err != nil {
		e.close()
		return nil, redisInfo{}, fmt.Errorf("start the embedded Redis: %w", err)
	}
	return e, info, nil
}

// tick lets keys expire as time passes.
func (e *embeddedRedis) tick() {
	t := time.NewTicker(embeddedTick)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-e.stop:
			return
		case now := <-t.C:
			e.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embeddedRedis) close() {
	close(e.stop)
	e.ticker.Wait()
	e.server.Close()
	_ = os.Remove(e.info) // a file that stays points at a closed port
	_ = e.lock.Unlock()   // ends with the process anyway
}

// runningRedis finds the embedded Redis of a server that runs on this data directory; nil if none runs.
func RunningRedis(dir string) (*redisInfo, error) {
	lock := flock.New(filepath.Join(dir, RedisLockFile))
	free, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("look for a running server: %w", err)
	}
	if free {
		return nil, lock.Unlock()
	}
	text, err := os.ReadFile(filepath.Join(dir, RedisInfoFile))
	if err != nil {
		return nil, fmt.Errorf("find the running server's Redis: %w", err)
	}
	var info redisInfo
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("find the running server's Redis: %w", err)
	}
	return &info, nil
}

// makeDataDir makes the directory for the owner's eyes only: it holds the signing secret.
func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory (SECKILL_DATA_DIR): %w", err)
	}
	return nil
}

// signingSecret returns the configured secret, or the one in the data directory, which the first caller makes.
func SigningSecret(cfg Config) ([]byte, error) {
	if cfg.JWTSecret != "" {
		return []byte(cfg.JWTSecret), nil
	}
	if !cfg.Embedded() {
		return nil, errors.New("SECKILL_JWT_SECRET is required with SECKILL_MYSQL_DSN: the same on every server, " +
			"such as the output of openssl rand -hex 32")
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.DataDir, SecretFile)
	if secret, err := ReadSecret(path); !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	// Link makes the file appear at once and whole, or not at all if somebody else was first.
	tmp, err := os.CreateTemp(cfg.DataDir, SecretFile+"-*")
	if err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(rand.Text() + rand.Text() + "\n")
	if err = errors.Join(err, tmp.Close()); err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	return ReadSecret(path)
}

func ReadSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	secret := []byte(strings.TrimSpace(string(text)))
	if len(secret) < auth.MinSecret {
		return nil, fmt.Errorf("signing secret: %s holds %d bytes, it needs at least %d", path, len(secret), auth.MinSecret)
	}
	return secret, nil
}
