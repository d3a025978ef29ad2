package testenv

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main(m, func() error { return goleak.Find() })
}

func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMariaDBKeepsCommittedRowsOverKill(t *testing.T) {
	t.Parallel()
	m := StartMariaDB(t)
	dsn := m.DSN(t)
	db := openDB(t, dsn)
	_, err := db.Exec("CREATE TABLE t (id INT PRIMARY KEY)")
	require.NoError(t, err)
	_, err = db.Exec("INSERT INTO t VALUES (7)")
	require.NoError(t, err)
	open, err := db.Begin()
	require.NoError(t, err)
	_, err = open.Exec("INSERT INTO t VALUES (8)")
	require.NoError(t, err)

	m.Kill()
	m.Kill() // once more does nothing
	require.Error(t, open.Commit())
	require.NoError(t, m.Restart())

	var ids string
	require.NoError(t, openDB(t, dsn).QueryRow("SELECT GROUP_CONCAT(id) FROM t").Scan(&ids))
	assert.Equal(t, "7", ids)
}

func TestMariaDBPause(t *testing.T) {
	t.Parallel()
	m := StartMariaDB(t)
	db := openDB(t, m.DSN(t))
	require.NoError(t, db.Ping())
	require.NoError(t, m.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, db.PingContext(ctx), context.DeadlineExceeded)
	require.NoError(t, m.Resume())
	require.NoError(t, db.Ping())
	require.NoError(t, m.Pause(), "a paused server can be stopped, and its databases are not dropped")
}

func TestMariaDBArgsOverride(t *testing.T) {
	t.Parallel()
	m := StartMariaDB(t, "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=32M")
	var flush, log int
	row := openDB(t, m.DSN(t)).QueryRow("SELECT @@innodb_flush_log_at_trx_commit, @@innodb_log_file_size")
	require.NoError(t, row.Scan(&flush, &log))
	assert.Equal(t, []int{2, 32 << 20}, []int{flush, log})
}

func TestDatabasesAreSeparateAndDropped(t *testing.T) {
	var dsns [2]string
	t.Run("use", func(t *testing.T) {
		for i := range dsns {
			dsns[i] = MySQLDSN(t)
			_, err := openDB(t, dsns[i]).Exec("CREATE TABLE t (s VARCHAR(9)) SELECT '😀' AS s")
			require.NoError(t, err, "the second must not find the table of the first")
		}
	})
	for _, dsn := range dsns {
		assert.ErrorContains(t, openDB(t, dsn).Ping(), "Unknown database")
	}
}

func TestMySQLDSNUsesTheExternalServer(t *testing.T) {
	m := SharedMariaDB(t)
	t.Setenv(EnvMySQLDSN, fmt.Sprintf("root@tcp(%s)/mysql?timeout=5s", m.Addr))
	dsn := MySQLDSN(t)
	assert.Regexp(t, `^root@tcp\(`+m.Addr+`\)/seckill_test_\w+\?timeout=5s$`, dsn)
	require.NoError(t, openDB(t, dsn).Ping())
}

func TestCreateDatabase(t *testing.T) {
	m := SharedMariaDB(t)
	dsn, err := m.CreateDatabase(t.Context(), "by_name")
	require.NoError(t, err)
	assert.Equal(t, "root@tcp("+m.Addr+")/by_name", dsn)
	require.NoError(t, dropDatabase(adminConfig(m.Addr), "by_name"))
}

func TestRedisForgetsOverKill(t *testing.T) {
	t.Parallel()
	r := StartRedis(t)
	rdb := r.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	r.Kill()
	require.Error(t, rdb.Ping(t.Context()).Err())
	require.ErrorContains(t, r.Pause(), "not running")
	require.NoError(t, r.Restart())
	require.ErrorIs(t, rdb.Get(t.Context(), "k").Err(), redis.Nil)
}

func TestRedisArgsOverride(t *testing.T) {
	t.Parallel()
	r := StartRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--requirepass", "secret")
	rdb := r.Client(t, func(o *redis.Options) { o.Password = "secret" })
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	require.NoError(t, r.Restart(), "of a server that still runs")
	v, err := rdb.Get(t.Context(), "k").Result()
	require.NoError(t, err)
	assert.Equal(t, "v", v)
}

func TestRedisPause(t *testing.T) {
	t.Parallel()
	r := StartRedis(t)
	rdb := r.Client(t)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, r.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, rdb.Ping(ctx).Err())
	require.NoError(t, r.Resume())
	require.NoError(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, r.Pause())
	require.NoError(t, r.Restart(), "a paused server can be restarted")
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestEachRedisIsEmptyAndTimePasses(t *testing.T) {
	for range 2 { // the second round finds nothing of the first
		EachRedis(t, func(t *testing.T, rdb *redis.Client) {
			n, err := rdb.DBSize(t.Context()).Result()
			require.NoError(t, err)
			require.Zero(t, n)
			require.NoError(t, rdb.Set(t.Context(), "stays", "v", 0).Err())
			require.NoError(t, rdb.Set(t.Context(), "goes", "v", 50*time.Millisecond).Err())
			require.Eventually(t, func() bool {
				return errors.Is(rdb.Get(context.Background(), "goes").Err(), redis.Nil)
			}, startTimeout, 10*time.Millisecond)
			require.NoError(t, rdb.Get(t.Context(), "stays").Err())
		})
	}
}

func TestDatabaseNumbersAreUsedAgain(t *testing.T) {
	r := StartRedis(t)
	first := r.database(t)
	require.NoError(t, first.Set(t.Context(), "k", "v", 0).Err())
	r.handedOut.Store(redisDatabases - 1)
	again := r.database(t)
	assert.Equal(t, first.Options().DB, again.Options().DB)
	assert.ErrorIs(t, again.Get(t.Context(), "k").Err(), redis.Nil)
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	servers := map[string]func(t *testing.T) *server{
		"redis":   func(t *testing.T) *server { return StartRedis(t).server },
		"mariadb": func(t *testing.T) *server { return StartMariaDB(t).server },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Kill()
			l, err := net.Listen("tcp", s.addr())
			require.NoError(t, err)
			require.ErrorIs(t, s.start(t.Context()), errPortTaken)
			restarted := make(chan error)
			go func() { restarted <- s.Restart() }()
			require.NoError(t, l.Close())
			require.NoError(t, <-restarted)
		})
	}
}

func TestFailedStartShowsTheLog(t *testing.T) {
	StartRedis(t) // skips where there is none
	_, err := RunRedis(t.Context(), "--maxmemory-policy", "no-such-policy")
	require.ErrorContains(t, err, "no-such-policy")
	require.NotErrorIs(t, err, errPortTaken)
}

// TestServersDieWithTheProcess runs this test in another process, which starts
// a server and is killed.
func TestServersDieWithTheProcess(t *testing.T) {
	const env = "TESTENV_START"
	switch os.Getenv(env) {
	case "redis":
		r := StartRedis(t)
		fmt.Println(r.addr(), r.dir.path)
		select {}
	case "mariadb":
		m := StartMariaDB(t)
		fmt.Println(m.addr(), m.dir.path)
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the children of a killed process")
	}
	SharedRedis(t)
	SharedMariaDB(t)
	for _, server := range []string{"redis", "mariadb"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestServersDieWithTheProcess$")
		cmd.Env = append(os.Environ(), env+"="+server)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		addr, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		require.True(t, answers(addr))

		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.Eventually(t, func() bool { return !answers(addr) }, startTimeout, 10*time.Millisecond, server)
	}
}

func answers(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func TestMissingProgramSkipsOrFails(t *testing.T) {
	_, err := findBinary("no-such-server")
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "make test")

	for _, c := range []struct {
		require, want string
		err           error
	}{
		{"", "skip", err},
		{"1", "fatal", err},
		{"", "fatal", context.DeadlineExceeded},
		{"", "", nil},
	} {
		t.Setenv(EnvRequire, c.require)
		tb := &fakeTB{TB: t}
		done := make(chan struct{})
		go func() { defer close(done); need(tb, c.err) }()
		<-done
		assert.Equal(t, c.want, tb.ended)
	}
}

// fakeTB notes how a test ended.
type fakeTB struct {
	testing.TB
	ended string
}

func (f *fakeTB) Skip(...any)  { f.ended = "skip"; runtime.Goexit() }
func (f *fakeTB) Fatal(...any) { f.ended = "fatal"; runtime.Goexit() }

func TestLazyStartsOnce(t *testing.T) {
	tries := 0
	var l lazy[*MariaDB]
	for range 2 {
		_, err := l.get(func(context.Context) (*MariaDB, error) {
			tries++
			return nil, exec.ErrNotFound
		})
		require.ErrorIs(t, err, exec.ErrNotFound)
	}
	assert.Equal(t, 1, tries)
	require.NoError(t, l.stop())
}

func TestMakeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "template")
	made := 0
	fill := func(dir string) error {
		made++
		return os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)
	}
	_, err := makeOnce(t.Context(), path, func(dir string) error {
		require.NoError(t, fill(dir))
		return exec.ErrNotFound
	})
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.NoDirExists(t, path, "half a template")

	results := make(chan error)
	for range 8 {
		go func() {
			_, err := makeOnce(context.Background(), path, fill)
			results <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-results)
	}
	assert.Equal(t, 2, made, "once by the failed attempt, once by one of eight")
	require.FileExists(t, filepath.Join(path, "f"))
}

func TestTemplateIsReused(t *testing.T) {
	SharedMariaDB(t)
	bin, err := findBinary("mariadbd")
	require.NoError(t, err)
	dir, err := dataTemplate(t.Context(), bin)
	require.NoError(t, err)
	before, err := os.Stat(dir)
	require.NoError(t, err)
	StartMariaDB(t)
	after, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, before.ModTime(), after.ModTime())
	assert.NotEqual(t, templateName("10", nil), templateName("11", nil))
}

func TestSweepRemovesOnlyWhatTheDeadLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	old := time.Now().Add(-time.Hour)
	folders := make(map[string]*folder)
	for _, name := range []string{"dead", "alive", "young"} {
		f, err := newFolder()
		require.NoError(t, err)
		folders[name] = f
	}
	for _, name := range []string{"dead", "alive"} {
		require.NoError(t, os.Chtimes(folders[name].lock.Path(), old, old))
	}
	require.NoError(t, folders["dead"].lock.Close())
	require.NoError(t, folders["young"].lock.Close())

	sweep(filepath.Dir(folders["dead"].path))
	assert.NoDirExists(t, folders["dead"].path)
	assert.DirExists(t, folders["alive"].path)
	assert.DirExists(t, folders["young"].path)
	for _, f := range folders {
		require.NoError(t, f.remove())
	}
	assert.NoDirExists(t, folders["alive"].path)
}

func BenchmarkStart(b *testing.B) {
	SharedMariaDB(b) // the template is there afterwards
	b.Run("mariadb", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, StartMariaDB(b).Stop())
		}
	})
	b.Run("redis", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, StartRedis(b).Stop())
		}
	})
	b.Run("database", func(b *testing.B) {
		for b.Loop() {
			SharedMariaDB(b).DSN(b)
		}
	})
}
