package servers

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRestartWaitsForItsPort(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short")
	}
	t.Parallel()
	start := map[string]func(t *testing.T) *Process{
		"redis":   func(t *testing.T) *Process { return startRedis(t).Process },
		"mariadb": func(t *testing.T) *Process { return startMariaDB(t).Process },
	}
	for name, start := range start {
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

// Without the lock, another server could take the port of a killed server, and clients that expect a dead server would
// reach a living one.
func TestPortStaysReservedUntilStop(t *testing.T) {
	t.Parallel()
	s := startRedis(t).Process
	number := s.port.number
	s.Kill()
	_, err := tryPort(t.Context(), number)
	require.ErrorIs(t, err, errReserved)
	require.NoError(t, s.Restart())
	_, err = tryPort(t.Context(), number)
	require.ErrorIs(t, err, errReserved)
	require.NoError(t, s.Stop())
	p, err := tryPort(t.Context(), number)
	require.NoError(t, err)
	require.NoError(t, p.release())
}

func TestTryPortRejectsPortInUse(t *testing.T) {
	t.Parallel()
	addr, release, err := ReserveAddr(t.Context())
	require.NoError(t, err)
	// A program that another test is just starting has a copy of each listener until it runs, so a port may stay in use for a
	// moment: here after the probe of ReserveAddr, below after Close.
	eventually := func(free func() bool, message string) {
		t.Helper()
		require.Eventually(t, free, time.Minute, time.Millisecond, message)
	}
	var l net.Listener
	eventually(func() bool { l, err = net.Listen("tcp", addr); return err == nil }, "the port is free")
	require.NoError(t, release())
	number := l.Addr().(*net.TCPAddr).Port
	_, err = tryPort(t.Context(), number)
	require.Error(t, err)
	require.NotErrorIs(t, err, errReserved)
	require.NoError(t, l.Close())
	eventually(func() bool {
		p, err := tryPort(t.Context(), number)
		return err == nil && p.release() == nil
	}, "a failed attempt must not keep the lock")
}

func TestFailedStartShowsTheLog(t *testing.T) {
	startRedis(t) // skips if there is no redis-server
	_, err := RunRedis(t.Context(), "--maxmemory-policy", "no-such-policy")
	require.ErrorContains(t, err, "no-such-policy")
	require.NotErrorIs(t, err, errPortTaken)
}
