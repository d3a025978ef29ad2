//go:build unix

package lock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/testenv"
)

// envHolder, the addresses of the servers, makes TestHolderProcess a holder of a lock of the system envSystem. It writes
// to envStore.
const (
	envSystem = "LOCK_TEST_SYSTEM"
	envHolder = "LOCK_TEST_HOLDER"
	envStore  = "LOCK_TEST_STORE"
)

// pausedLock returns the lock of both processes. Its holder is dead after lease without a renewal.
func pausedLock(t *testing.T, system, servers string, lease time.Duration) Locker {
	t.Helper()
	if system == "zookeeper" {
		return newZooKeeper(t, strings.Split(servers, ","), WithRoot("/paused"), WithSessionTimeout(lease)).Mutex("a")
	}
	return newLocks(t, servers, WithWatchdog(lease)).Mutex("a")
}

// store is a store with fencing: it refuses a write whose token is smaller than an earlier one.
type store struct {
	mu     sync.Mutex
	newest uint64
	writes []string // in order of arrival, refused ones with a "!"
}

func (s *store) write(token uint64, value string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.newest {
		s.writes = append(s.writes, "!"+value)
		return false
	}
	s.newest = token
	s.writes = append(s.writes, value)
	return true
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseUint(r.FormValue("token"), 10, 64)
	if err != nil || !s.write(token, r.FormValue("value")) {
		w.WriteHeader(http.StatusConflict)
	}
}

// A paused process cannot notice that its lease has ended. When it continues, its next write arrives after that of the
// next holder, and only the token distinguishes them. It notices the loss soon afterwards.
func TestPausedHolder(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for system, start := range map[string]func(t *testing.T) string{
		"redis":     func(t *testing.T) string { return testenv.StartRedis(t).Addr },
		"zookeeper": func(t *testing.T) string { return strings.Join(testenv.SharedZooKeeper(t).Servers(), ",") },
	} {
		t.Run(system, func(t *testing.T) { t.Parallel(); pauseHolder(t, system, start(t)) })
	}
}

func pauseHolder(t *testing.T, system, servers string) {
	t.Helper()
	s := &store{}
	web := httptest.NewServer(s)
	defer web.Close()

	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$", "-test.v") //nolint:gosec // this program
	holder.Env = append(os.Environ(), envSystem+"="+system, envHolder+"="+servers, envStore+"="+web.URL)
	in, err := holder.StdinPipe()
	require.NoError(t, err)
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	lines := bufio.NewScanner(out)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("the holder ended before it printed %q", want)
	}
	until("held")

	require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
	h, err := pausedLock(t, system, servers, calmLease).Lock(soon(t))
	require.NoError(t, err, "the lease ends without a release")
	require.True(t, s.write(h.Token(), "next"))
	_, err = io.WriteString(in, "write\n") // as if it had been about to write
	require.NoError(t, err)
	require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
	until("409 late")
	until("lost")
	require.NoError(t, holder.Wait())
	require.NoError(t, h.Context().Err())
	require.True(t, s.write(h.Token(), "again"))
	require.NoError(t, h.Release(context.Background()))
	require.Equal(t, []string{"first", "next", "!late", "again"}, s.writes)
}

// TestHolderProcess is the process of the holder.
func TestHolderProcess(t *testing.T) {
	servers := os.Getenv(envHolder)
	if servers == "" {
		return // an ordinary test run
	}
	l := pausedLock(t, os.Getenv(envSystem), servers, time.Second)
	var h *Hold
	eventually(t, "held", func() bool { // a third of the lease is the time for an answer
		var err error
		h, err = l.TryLock(context.Background())
		return err == nil
	})
	write := func(value string) int {
		// Without the hold's context: the request may have been in flight already.
		resp, err := http.PostForm(os.Getenv(envStore), url.Values{"token": {strconv.FormatUint(h.Token(), 10)}, "value": {value}}) //nolint:noctx // see above
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}

	require.Equal(t, http.StatusOK, write("first"))
	fmt.Println("held")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)

	fmt.Println(write("late"), "late")
	<-h.Context().Done()
	require.ErrorIs(t, context.Cause(h.Context()), ErrLost)
	fmt.Println("lost")
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
	http.DefaultClient.CloseIdleConnections()
}
