//go:build unix

package lock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// envSystem and envServers make TestHolderProcess a holder of a lock of that system.
const (
	envSystem  = "LOCK_TEST_SYSTEM"
	envServers = "LOCK_TEST_SERVERS"
)

// pausedLock returns the lock of both processes. Its holder is dead after lease without a renewal.
func pausedLock(t *testing.T, system, servers string, lease time.Duration) Locker {
	t.Helper()
	if system == "zookeeper" {
		return newZooKeeper(t, strings.Split(servers, ","), WithRoot("/paused"), WithSessionTimeout(lease)).Mutex("a")
	}
	return newLocks(t, servers, WithWatchdog(lease)).Mutex("a")
}

// A paused process cannot notice that its lease has ended. When it continues, a write of its own may arrive after those
// of the next holder, and only the token distinguishes them. It notices the loss soon afterwards.
func TestPausedHolder(t *testing.T) {
	env.Full(t)
	t.Parallel()
	for system, start := range map[string]func(t *testing.T) string{
		"redis":     func(t *testing.T) string { return startRedis(t) },
		"zookeeper": func(t *testing.T) string { return strings.Join(env.SharedZooKeeper(t).Servers(), ",") },
	} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			pauseHolder(t, system, start(t))
		})
	}
}

func pauseHolder(t *testing.T, system, servers string) {
	t.Helper()
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$", "-test.v") //nolint:gosec // this program
	holder.Env = append(os.Environ(), envSystem+"="+system, envServers+"="+servers)
	in, err := holder.StdinPipe()
	require.NoError(t, err)
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	lines := bufio.NewScanner(out)
	until := func(prefix string) (rest string) {
		t.Helper()
		for lines.Scan() {
			if rest, found := strings.CutPrefix(lines.Text(), prefix); found {
				return rest
			}
		}
		t.Fatalf("the holder ended before it printed %q", prefix)
		return ""
	}
	until("held ")

	require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
	h, err := pausedLock(t, system, servers, calmLease).Lock(soon(t))
	require.NoError(t, err, "the lease ends without a release")
	_, err = io.WriteString(in, "write\n") // as if it had been about to write
	require.NoError(t, err)
	require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
	late, err := strconv.ParseUint(until("late write "), 10, 64)
	require.NoError(t, err)
	require.Less(t, late, h.Token())
	until("lost")

	require.NoError(t, holder.Wait())
	require.NoError(t, h.Context().Err())
	release(t, h)
}

// TestHolderProcess is the process of the holder.
func TestHolderProcess(t *testing.T) {
	servers := os.Getenv(envServers)
	if servers == "" {
		return // an ordinary test run
	}
	h := must(t)(persistent{pausedLock(t, os.Getenv(envSystem), servers, time.Second)}.Lock(soon(t)))
	fmt.Println("held", h.Token())
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)

	fmt.Println("late write", h.Token())
	requireDone(t, h.Context(), ErrLost)
	fmt.Println("lost")
	require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
}
