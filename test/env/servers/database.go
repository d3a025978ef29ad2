package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Database is a process of MariaDB or MySQL. Its methods are safe for concurrent use.
type Database struct {
	*Process
	// Addr is host:port. Restart does not change it. The user root has no password.
	Addr string
}

func runDatabase(ctx context.Context, bin, template string, args func(s *Process) []string) (*Database, error) {
	s := &Process{bin: bin, ready: databaseReady, args: args}
	if err := s.run(ctx, func(string) error { return copyTemplate(s, template) }); err != nil {
		return nil, err
	}

	return &Database{Process: s, Addr: s.addr()}, nil
}

func copyTemplate(s *Process, template string) error {
	return errors.Join(
		os.CopyFS(s.dataDir(), os.DirFS(template)),
		os.Mkdir(filepath.Join(s.dir.path, "tmp"), 0o700))
}

// SetDiskFull keeps every file of the server from growing beyond the size of the largest one, until it is called with
// false or the server is restarted. Linux alone supports it.
func (m *Database) SetDiskFull(full bool) error {
	var size uint64
	if full {
		files, err := os.ReadDir(m.dataDir())
		if err != nil {
			return err
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
				size = max(size, uint64(info.Size())) //nolint:gosec // not negative
			}
		}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.child.alive() {
		return fmt.Errorf("the database on port %d is not running", m.port.number)
	}

	return limitFiles(m.child.proc, size)
}

func databaseArgs(s *Process) []string {
	args := []string{
		"--no-defaults", // must come first
		"--datadir=" + s.dataDir(),
		"--tmpdir=" + filepath.Join(s.dir.path, "tmp"),
		"--socket=" + filepath.Join(s.dir.path, "s"),
		"--pid-file=" + filepath.Join(s.dir.path, "pid"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port.number), "--skip-name-resolve",
		"--skip-log-bin", "--performance-schema=OFF", "--max-connections=500",
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=1",
		"--character-set-server=utf8mb4",
	}

	return append(args, asRoot()...)
}

// asRoot returns the option without which the servers refuse to run as root.
func asRoot() []string {
	if os.Geteuid() != 0 {
		return nil
	}

	return []string{"--user=root"}
}

func (s *Process) dataDir() string { return filepath.Join(s.dir.path, "data") }

func databaseReady(ctx context.Context, s *Process, _ *child) error {
	db, err := openAdmin(AdminConfig(s.addr()))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var dir string
	if err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&dir); err != nil {
		return err
	}

	if filepath.Clean(dir) != s.dataDir() {
		return errors.New("another server answers on this port")
	}

	return nil
}

// CreateDatabase creates an empty utf8mb4 database and returns its DSN for go-sql-driver (TCP, user root, no
// parameters).
func (m *Database) CreateDatabase(ctx context.Context, name string) (string, error) {
	return CreateDatabase(ctx, AdminConfig(m.Addr), name)
}

// CreateDatabase creates an empty utf8mb4 database on a server and returns its DSN, which keeps the parameters of cfg.
func CreateDatabase(ctx context.Context, cfg *mysql.Config, name string) (string, error) {
	db, err := openAdmin(cfg)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE `"+name+"` CHARACTER SET utf8mb4"); err != nil {
		return "", err
	}

	cfg = cfg.Clone()
	cfg.DBName = name
	return cfg.FormatDSN(), nil
}

// DropDatabase drops a database. It waits at most 2 s for transactions that a test has left open.
func DropDatabase(cfg *mysql.Config, name string) error {
	cfg = cfg.Clone()
	if cfg.Params == nil {
		cfg.Params = make(map[string]string)
	}

	cfg.Params["lock_wait_timeout"] = "2" // seconds; the default is a day or a year
	db, err := openAdmin(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = db.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+name+"`")
	return err
}

// AdminConfig returns a connection as root. It has no parameters, because the code under test adds those that it needs.
func AdminConfig(addr string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User = "root"
	cfg.Net = "tcp"
	cfg.Addr = addr
	return cfg
}

func openAdmin(cfg *mysql.Config) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.DBName = ""
	return Open(cfg)
}

// Open opens a pool whose driver does not log broken connections: those to a starting server, or those that faults break.
func Open(cfg *mysql.Config) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}

	return sql.OpenDB(connector), nil
}
