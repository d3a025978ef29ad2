package testenv

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main(m, func() error { return goleak.Find() })
}

// The test runs itself in another process, which starts a server and is killed.
func TestServersEndWithTheProcess(t *testing.T) {
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
		t.Skip("only Linux kills the children of a killed process")
	}
	SharedRedis(t)
	SharedMariaDB(t)
	for _, server := range []string{"redis", "mariadb"} {
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

// fakeTB records how a test ended.
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

func BenchmarkStart(b *testing.B) {
	SharedMariaDB(b) // creates the template
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
