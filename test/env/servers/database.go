package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Database is a process of MariaDB or MySQL, in which the user root has no password. Its methods are safe for concurrent use.
type Database struct{ *Process }

func runDatabase(ctx context.Context, bin, template string, args func(s *Process) []string) (*Database, error) {
	s := &Process{bin: bin, ready: databaseReady, args: args}
	if err := s.run(ctx, func(string) error { return copyTemplate(s, template) }); err != nil {
		return nil, err
	}

	return &Database{s}, nil
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
	var dir string
	if err := query(ctx, s.Addr, "SELECT @@datadir", &dir); err != nil {
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
	if err := execute(ctx, cfg, "CREATE DATABASE `"+name+"` CHARACTER SET utf8mb4"); err != nil {
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return execute(ctx, cfg, "DROP DATABASE IF EXISTS `"+name+"`")
}

// AdminConfig returns a connection as root. It has no parameters, because the code under test adds those that it needs.
func AdminConfig(addr string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User = "root"
	cfg.Net = "tcp"
	cfg.Addr = addr
	return cfg
}

// query reads a row as root.
func query(ctx context.Context, addr, statement string, into ...any) error {
	db, err := Open(AdminConfig(addr))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()

	return db.QueryRowContext(ctx, statement).Scan(into...)
}

// execute executes a statement without the database of cfg.
func execute(ctx context.Context, cfg *mysql.Config, statement string) error {
	cfg = cfg.Clone()
	cfg.DBName = ""
	db, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()

	_, err = db.ExecContext(ctx, statement)
	return err
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

// RunMySQL is RunMariaDB for a mysqld of version 8.4 or later.
func RunMySQL(ctx context.Context, args ...string) (*Database, error) {
	bin, version, err := findMySQL(ctx)
	if err != nil {
		return nil, err
	}

	template, err := mySQLTemplate(ctx, bin, version)
	if err != nil {
		return nil, fmt.Errorf("create an empty MySQL data directory: %w", err)
	}

	return runDatabase(ctx, bin, template, func(s *Process) []string {
		return append(mySQLArgs(s), args...)
	})
}

// findMySQL returns the path of mysqld and the output of its option --version. The one that .ci/install-mysql has
// unpacked in the user's cache comes first. Many systems have MariaDB or an older MySQL under the same name.
func findMySQL(ctx context.Context) (bin, version string, err error) {
	var found []string
	if cache, err := cacheFolder(); err == nil {
		found = append(found, filepath.Join(cache, "mysql", "mysqld"))
	}

	if path, err := FindBinary("mysqld"); err == nil {
		found = append(found, path)
	}

	for _, bin := range found {
		out, err := exec.CommandContext(ctx, bin, "--no-defaults", "--version").CombinedOutput() //nolint:gosec // a program of a fixed name
		if err == nil && recentMySQL(string(out)) {
			return bin, string(out), nil
		}
	}

	return "", "", fmt.Errorf("MySQL 8.4 or later is not installed (\"make deps\" unpacks it on Debian and Ubuntu): %w", exec.ErrNotFound)
}

// mySQLVersion matches the output of mysqld --version. That of MariaDB has the suffix -MariaDB behind its number.
var mySQLVersion = regexp.MustCompile(`Ver (\d+)\.(\d+)\.\d+(-MariaDB)?`)

// recentMySQL reports whether a program is a MySQL of version 8.4 or later.
func recentMySQL(version string) bool {
	m := mySQLVersion.FindStringSubmatch(version)
	if m == nil || m[3] != "" {
		return false
	}

	major, _ := strconv.Atoi(m[1]) // it consists of digits
	minor, _ := strconv.Atoi(m[2])
	return major > 8 || major == 8 && minor >= 4
}

func mySQLArgs(s *Process) []string {
	args := append(databaseArgs(s),
		"--mysqlx=OFF",
		"--secure-file-priv=NULL") // its default directory may not exist
	return append(args, mySQLFiles...)
}

// mySQLFiles is mariaDBFiles for MySQL.
var mySQLFiles = []string{
	"--innodb-redo-log-capacity=16M",
	"--innodb-data-file-path=ibdata1:12M:autoextend",
	"--innodb-autoextend-increment=4",
}

func mySQLTemplate(ctx context.Context, mysqld, version string) (string, error) {
	args := append([]string{
		"--no-defaults", // must come first
		"--initialize-insecure",
	}, mySQLFiles...)

	return makeTemplate(ctx, "mysql", version, args, func(ctx context.Context, dir string) error {
		// The user that exists already is root@localhost, which connections by TCP are not.
		users := dir + ".sql"
		err := os.WriteFile(users, []byte("CREATE USER root@'%';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"), 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(users) }()

		if err := fillTemplate(ctx, mysqld, slices.Concat(args, []string{"--datadir=" + dir, "--init-file=" + users}, asRoot())); err != nil {
			return err
		}

		// Replication needs servers with different ids.
		return os.Remove(filepath.Join(dir, "auto.cnf"))
	})
}

// RunMariaDB starts a mariadbd with an empty data directory and returns when it answers. ctx and StartTimeout
// bound only the start; the server runs until Stop. args are appended to the default arguments and override them. If
// the program is missing, the error wraps [exec.ErrNotFound].
func RunMariaDB(ctx context.Context, args ...string) (*Database, error) {
	bin, err := FindBinary("mariadbd")
	if err != nil {
		return nil, err
	}

	template, err := mariaDBTemplate(ctx, bin)
	if err != nil {
		return nil, fmt.Errorf("create an empty MariaDB data directory: %w", err)
	}

	return runDatabase(ctx, bin, template, func(s *Process) []string {
		return append(mariaDBArgs(s), args...)
	})
}

func mariaDBArgs(s *Process) []string {
	return append(databaseArgs(s), mariaDBFiles...)
}

// mariaDBFiles keeps the files of an empty server small, because each server starts with a copy of them. A caller that
// measures speed passes a larger redo log ("--innodb-log-file-size=512M"), to which MariaDB resizes it at startup.
var mariaDBFiles = []string{
	"--innodb-log-file-size=16M",
	"--innodb-data-file-path=ibdata1:12M:autoextend",
	"--innodb-autoextend-increment=4",
}

func mariaDBTemplate(ctx context.Context, mariadbd string) (string, error) {
	install, err := FindBinary("mariadb-install-db")
	if err != nil {
		return "", err
	}

	version, err := exec.CommandContext(ctx, mariadbd, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w\n%s", mariadbd, err, version)
	}

	args := append([]string{
		"--no-defaults", // must come first
		"--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--force", // --force: the host name may not resolve
	}, mariaDBFiles...)

	return makeTemplate(ctx, "mariadb", string(version), args, func(ctx context.Context, dir string) error {
		return fillTemplate(ctx, install, append(slices.Clone(args), "--datadir="+dir))
	})
}
