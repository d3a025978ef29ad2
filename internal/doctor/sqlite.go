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

// SQLite is the embedded database and its data directory.
type SQLite struct {
	// Pool is the program's own; nil with an error in Err. fs.ErrNotExist: there is no database yet.
	Pool *sql.DB
	Err  error

	Dir        string
	Database   string   // its file in Dir
	Secrets    []string // other files in Dir that nobody else may read
	Migrations []int64
}

// Groups returns the checks. Nobody is asked before they run.
func (s SQLite) Groups() []Group {
	return []Group{
		{Reach: Check{Name: "database.reachable", Run: s.reach}, Checks: bind(&s, []rule[*SQLite]{
			{"database.schema", (*SQLite).checkSchema},
			{"database.journal", (*SQLite).checkJournal},
		})},
		{Checks: bind(&s, []rule[*SQLite]{
			{"data.permissions", (*SQLite).checkPermissions},
			{"data.disk", (*SQLite).checkDisk},
		})},
	}
}

func (s *SQLite) reach(ctx context.Context) Result {
	err := s.Err
	if errors.Is(err, fs.ErrNotExist) {
		return Result{Status: Skipped, Found: "there is no database in " + s.Dir + " yet: the first start makes it"}
	}
	if err == nil {
		err = s.Pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(new(int))
	}
	if err != nil {
		return Unanswered(err, "see that "+filepath.Join(s.Dir, s.Database)+" is a database of this program, and readable")
	}
	return Good("it answers")
}

// cure says what to do about a database that answered before.
func (s *SQLite) cure(error) string {
	return "see who holds the database: fuser " + filepath.Join(s.Dir, s.Database)
}

func (s *SQLite) checkSchema(ctx context.Context) Result {
	return checkSchema(ctx, s.Pool, sqliteTables, s.Migrations, s.cure)
}

// synchronousFull is the least that puts a commit on disk before it is answered.
const synchronousFull = 2

func (s *SQLite) checkJournal(ctx context.Context) Result {
	var mode string
	var synchronous int
	err := s.Pool.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	if err == nil {
		err = s.Pool.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous)
	}
	switch {
	case err != nil:
		return Unanswered(err, s.cure(err))
	case mode != "wal":
		return Bad(Fail, "put "+s.Dir+" on a local disk: SQLite keeps no write-ahead log on a network's", "journal_mode %s, not wal: readers and buyers hold each other up", mode)
	case synchronous < synchronousFull:
		return Bad(Fail, "a build of this program that opens it with synchronous=FULL", "synchronous %d: orders that were answered 201 are lost when the machine loses power", synchronous)
	}
	return Good("journal_mode wal, synchronous %d: a commit is on disk", synchronous)
}

// checkPermissions looks at what is in the directory: phone numbers, sessions, the signing secret.
func (s *SQLite) checkPermissions(context.Context) Result {
	dir, err := os.Stat(s.Dir)
	if err != nil {
		return Result{Status: Skipped, Found: s.Dir + " is not there yet: the first start makes it, for its own eyes only"}
	}
	for _, name := range append([]string{s.Database, s.Database + "-wal"}, s.Secrets...) {
		path := filepath.Join(s.Dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			return Bad(Fail, "chmod 600 "+path, "%s has mode %s: others may read it", name, octal(info.Mode()))
		}
	}
	if dir.Mode().Perm()&0o077 != 0 {
		return Bad(Warn, "chmod 700 "+s.Dir, "%s has mode %s", s.Dir, octal(dir.Mode()))
	}
	return Good("only its owner may read %s", s.Dir)
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }

// Free disk space. An order takes about 300 bytes with its indexes, the write-ahead log some times that.
const (
	diskWarn = 1 << 30
	diskFail = 100 << 20
)

func (s *SQLite) checkDisk(context.Context) Result {
	dir := s.Dir
	if _, err := os.Stat(dir); err != nil {
		dir = filepath.Dir(filepath.Clean(dir))
	}
	free, err := freeDisk(dir)
	if err != nil {
		return Heard(Skipped, "", "the free space cannot be told: ", err)
	}
	return diskResult(dir, free)
}

func diskResult(dir string, free uint64) Result {
	found := fmt.Sprintf("%d MiB free in %s", free>>20, dir)
	switch {
	case free < diskFail:
		return Bad(Fail, "make room, or set SECKILL_DATA_DIR to a larger disk", "%s: nothing is sold once it is full", found)
	case free < diskWarn:
		return Bad(Warn, "make room, or set SECKILL_DATA_DIR to a larger disk", "%s", found)
	}
	return Good("%s", found)
}
