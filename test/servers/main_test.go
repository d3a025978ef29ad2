package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	remove := TempInMemory()
	code := m.Run()
	if remove != nil {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// startRedis starts a private Redis and stops it at cleanup. The test is skipped if the program is missing and not
// required.
func startRedis(t *testing.T) *Redis {
	t.Helper()
	return started(t, func(ctx context.Context) (*Redis, error) { return RunRedis(ctx) })
}

// startMariaDB is startRedis for a MariaDB.
func startMariaDB(t *testing.T) *Database {
	t.Helper()
	return started(t, func(ctx context.Context) (*Database, error) { return RunMariaDB(ctx) })
}

// startMySQL is startRedis for a MySQL.
func startMySQL(t *testing.T) *Database {
	t.Helper()
	return started(t, func(ctx context.Context) (*Database, error) { return RunMySQL(ctx) })
}

func started[S interface{ Stop() error }](t *testing.T, run func(context.Context) (S, error)) S {
	t.Helper()
	s, err := run(t.Context())
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("SECKILL_TEST_REQUIRE") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

// The test runs itself in another process, which starts a server and is killed.
func TestServersEndWithTheProcess(t *testing.T) {
	const env = "SERVERS_START"
	switch os.Getenv(env) {
	case "redis":
		r := startRedis(t)
		fmt.Println(r.addr(), r.dir.path)
		select {}
	case "mariadb":
		m := startMariaDB(t)
		fmt.Println(m.addr(), m.dir.path)
		select {}
	case "mysql":
		m := startMySQL(t)
		fmt.Println(m.addr(), m.dir.path)
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills the children of a killed process")
	}
	startRedis(t)
	startMariaDB(t)
	startMySQL(t)
	for _, server := range []string{"redis", "mariadb", "mysql"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestServersEndWithTheProcess$")
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
		require.Eventually(t, func() bool { return !answers(addr) }, StartTimeout, 10*time.Millisecond, server)
	}
}

func answers(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
