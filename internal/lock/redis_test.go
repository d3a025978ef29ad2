package lock

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// redisServer is a redis-server process of one test.
type redisServer struct {
	addr string
	cmd  *exec.Cmd
	t    testing.TB
}

// startRedis starts a real redis-server, or skips the test where there is none.
func startRedis(t testing.TB) *redisServer {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("SECKILL_TEST_REQUIRE") == "1" {
			t.Fatal("redis-server is required: ", err)
		}
		t.Skip("no redis-server: ", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	require.NoError(t, l.Close())
	s := &redisServer{addr: addr, t: t}
	s.cmd = exec.Command(bin, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(s.Kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			return s
		}
	}
	t.Fatal("redis-server did not start on ", addr)
	return nil
}

func (s *redisServer) Pause()  { require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGSTOP)) }
func (s *redisServer) Resume() { require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGCONT)) }
func (s *redisServer) Kill()   { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() }
