package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SQLite describes the embedded database and its data directory.
type SQLite struct {
	// Pool is opened as the server opens it. If that failed, Pool is nil and Err has the error; fs.ErrNotExist means
	// that there is no database yet.
	Pool *sql.DB
	Err  error

	Dir string
	// File name in Dir.
	Database string
	// Other files in Dir that only the owner may read.
	Secrets    []string
	Migrations []int64
}

// Groups returns the checks. It does no I/O itself.
func (s SQLite) Groups() []Group {
	return []Group{
		{Reach: Check{Name: "database.reachable", Run: s.reach}, Checks: []Check{
			{Name: "database.schema", Run: s.checkSchema},
			{Name: "database.journal", Run: s.checkJournal},
		}},
		{Checks: []Check{
			{Name: "data.permissions", Run: s.checkPermissions},
		}},
	}
}

func (s *SQLite) reach(ctx context.Context) Result {
	err := s.Err
	if errors.Is(err, fs.ErrNotExist) {
		return Result{Status: Skipped, Found: "there is no database in " + s.Dir + " yet: the first start creates it"}
	}

	if err == nil {
		err = s.Pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(new(int))
	}

	if err != nil {
		return Unanswered(err, "make sure that "+filepath.Join(s.Dir, s.Database)+" is readable and a database of this program")
	}
	return Good("reachable")
}

func (s *SQLite) fix(error) string {
	return "find the process that locks the database: fuser " + filepath.Join(s.Dir, s.Database)
}

func (s *SQLite) checkSchema(ctx context.Context) Result {
	return checkSchema(ctx, s.Pool, "sqlite", s.Migrations, s.fix)
}

func (s *SQLite) checkJournal(ctx context.Context) Result {
	var mode string
	if err := s.Pool.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return Unanswered(err, s.fix(err))
	}
	if mode != "wal" {
		return Bad(Fail, "put "+s.Dir+" on a local disk: SQLite has no write-ahead log on network file systems",
			"journal_mode %s, not wal: readers and writers block each other", mode)
	}

	return Good("journal_mode wal")
}

// checkPermissions checks the access rights of the directory, which holds phone numbers, sessions and the signing
// secret.
func (s *SQLite) checkPermissions(context.Context) Result {
	dir, err := os.Stat(s.Dir)
	if err != nil {
		return Result{Status: Skipped, Found: s.Dir + " does not exist yet: the first start creates it with mode 0700"}
	}

	for _, name := range append([]string{s.Database, s.Database + "-wal"}, s.Secrets...) {
		path := filepath.Join(s.Dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			return Bad(Fail, "chmod 600 "+path, "%s has mode %s: other users may read it", name, octal(info.Mode()))
		}
	}

	if dir.Mode().Perm()&0o077 != 0 {
		return Bad(Warn, "chmod 700 "+s.Dir, "%s has mode %s", s.Dir, octal(dir.Mode()))
	}

	return Good("only its owner may read %s", s.Dir)
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }
