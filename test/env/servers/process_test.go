package servers

import (
	"bufio"
	"context"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Without the lock, another server could take the port of a killed server, and clients that expect a dead server would
// reach a living one. A port that another program uses is not reserved.
func TestPortStaysReservedUntilStop(t *testing.T) {
	t.Parallel()
	s := starters["redis"](t)
	s.Kill()
	_, err := tryPort(t.Context(), s.port.number)
	require.ErrorIs(t, err, errReserved)
	require.NoError(t, s.Restart())
	_, err = tryPort(t.Context(), s.port.number)
	require.ErrorIs(t, err, errReserved)
	require.NoError(t, s.Stop())

	// A program that another test is just starting has a copy of each listener until it runs, so a port may stay in use for a
	// moment.
	eventually := func(free func() bool, message string) {
		require.Eventually(t, free, time.Minute, time.Millisecond, message)
	}

	var l net.Listener
	eventually(func() bool { l, err = net.Listen("tcp", s.Addr); return err == nil }, "the port is free")
	_, err = tryPort(t.Context(), s.port.number)
	require.Error(t, err)
	require.NotErrorIs(t, err, errReserved)

	require.NoError(t, l.Close())
	eventually(func() bool {
		p, err := tryPort(t.Context(), s.port.number)
		return err == nil && p.release() == nil
	}, "a failed attempt must not keep the lock")
}

func TestSweepRemovesOnlyDirectoriesOfKilledProcesses(t *testing.T) {
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

func TestRecentMySQL(t *testing.T) {
	for version, recent := range map[string]bool{
		"mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))":                               true,
		"/usr/sbin/mysqld  Ver 8.4.8-0ubuntu1 for Linux on x86_64 ((Ubuntu))":              true,
		"/usr/sbin/mysqld  Ver 10.0.1 for Linux on x86_64":                                 true,
		"/usr/sbin/mysqld  Ver 8.0.44-0ubuntu0.24.04.1 for Linux on x86_64 ((Ubuntu))":     false,
		"mysqld  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)": false,
		"": false,
	} {
		require.Equal(t, recent, recentMySQL(version), version)
	}
}

func TestMain(m *testing.M) {
	remove := TempInMemory()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if remove != nil {
			if err := remove(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
		os.Exit(code)
	}))
}

var starters = map[string]func(t *testing.T) *Process{
	"redis":   func(t *testing.T) *Process { return started(t, RunRedis).Process },
	"mariadb": func(t *testing.T) *Process { return started(t, RunMariaDB).Process },
	"mysql":   func(t *testing.T) *Process { return started(t, RunMySQL).Process },
}

// started starts a private server and stops it at cleanup. The test is skipped if the program is missing and not
// required.
func started[S interface{ Stop() error }](t *testing.T, run func(context.Context, ...string) (S, error)) S {
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
	if name := os.Getenv(env); name != "" {
		p := starters[name](t)
		fmt.Println(p.Addr, p.dir.path)
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills the children of a killed process")
	}
	servers := []string{"redis", "mariadb"}
	if os.Getenv("SECKILL_TEST") == "full" {
		// make test installs no MySQL.
		servers = append(servers, "mysql")
	}

	for _, server := range servers {
		t.Run(server, func(t *testing.T) {
			starters[server](t) // skips the test if the program is missing
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
			require.Eventually(t, func() bool { return !answers(addr) }, StartTimeout, 10*time.Millisecond)
		})
	}
}

func answers(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
