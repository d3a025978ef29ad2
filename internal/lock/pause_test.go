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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// envHolder makes TestHolderProcess a holder: the address of the Redis. What it writes goes to envStore.
const (
	envHolder = "LOCK_TEST_HOLDER"
	envStore  = "LOCK_TEST_STORE"
)

// store is a store that fences: it refuses a write whose token is smaller than one that it has seen.
type store struct {
	mu     sync.Mutex
	newest uint64
	writes []string // in the order in which they came, refused ones with a "!"
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

// TestPausedHolder: a process that stands still cannot hear that its lease has ended. When it goes on, its next write is
// later than that of the one who has the lock by now, and only the token can tell. It hears of the loss soon after.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	s := &store{}
	web := httptest.NewServer(s)
	defer web.Close()

	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$", "-test.v") //nolint:gosec // this program
	holder.Env = append(os.Environ(), envHolder+"="+server.Addr, envStore+"="+web.URL)
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
		t.Fatalf("the holder ended before it said %q", want)
	}
	until("held")

	require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
	h, err := newLocks(t, server.Addr).Mutex("a").Lock(soon(t))
	require.NoError(t, err, "its lease ends although it does not release")
	require.True(t, s.write(h.Token(), "next"))
	_, err = io.WriteString(in, "write\n") // as if it had been about to
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
	addr := os.Getenv(envHolder)
	if addr == "" {
		return // not that process
	}
	h, err := newLocks(t, addr, WithWatchdog(time.Second)).Mutex("a").TryLock(context.Background())
	require.NoError(t, err)
	write := func(value string) int {
		// Without the hold's context: the request may have been on its way.
		resp, err := http.PostForm(os.Getenv(envStore), url.Values{"token": {strconv.FormatUint(h.Token(), 10)}, "value": {value}}) //nolint:noctx // see above
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, write("first"))
	fmt.Println("held")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)
	fmt.Println(write("late"), "late")
	<-h.Context().Done()
	require.ErrorIs(t, context.Cause(h.Context()), ErrLost)
	fmt.Println("lost")
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
	http.DefaultClient.CloseIdleConnections()
}
