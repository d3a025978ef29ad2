package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// server is one server process, its folder and its port. The process may die
// and come back; folder and port stay. Its methods are safe for concurrent use.
type server struct {
	bin  string
	args func(s *server) []string
	// ready asks the server whether it answers, and whether it is the
	// process c: on a port that was taken, somebody else answers.
	ready func(ctx context.Context, s *server, c *child) error
	dir   *folder
	port  int

	mu     sync.Mutex
	child  *child
	paused bool
}

// errPortTaken says that the server could not bind its port.
var errPortTaken = errors.New("port is taken")

// run starts s for the first time, on a port of its own choice. ctx bounds the
// start, not the life of the server.
func (s *server) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		s.port = port
		err = s.start(ctx)
		// Between freePort and the server's bind, another process may have
		// taken the port.
		if errors.Is(err, errPortTaken) && ctx.Err() == nil {
			continue
		}
		return err
	}
}

// Restart ends the process if it still runs, starts it again on the same port
// with the same data, and waits until it answers (30 s at most).
func (s *server) Restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	for {
		err := s.start(ctx)
		// The port is known to the clients, so it cannot change: wait for it.
		if errors.Is(err, errPortTaken) && sleep(ctx, 50*time.Millisecond) {
			continue
		}
		return err
	}
}

// Kill ends the process with SIGKILL, as a crash would, and returns when it is
// gone. Killing a dead server does nothing.
func (s *server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Pause freezes the process (SIGSTOP): connections stay open and new ones are
// accepted by the kernel, but nothing answers until Resume. On Linux it returns
// when the process stands still.
func (s *server) Pause() error { return s.freeze(true) }

// Resume lets a paused process go on.
func (s *server) Resume() error { return s.freeze(false) }

func (s *server) freeze(paused bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.child.alive() {
		return fmt.Errorf("%s on port %d is not running", filepath.Base(s.bin), s.port)
	}
	if err := freeze(s.child.proc, paused); err != nil {
		return fmt.Errorf("pause or resume %s: %w", filepath.Base(s.bin), err)
	}
	s.paused = paused
	return nil
}

// Stop kills the process and removes its data. The server cannot be used again.
func (s *server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	return s.dir.remove()
}

// answers tells whether the process runs and is not paused.
func (s *server) answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.alive() && !s.paused
}

func (s *server) kill() {
	if s.child != nil {
		s.child.kill()
	}
	s.child, s.paused = nil, false
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) logPath() string { return filepath.Join(s.dir.path, "log") }

// start starts the process and waits until it answers. Without success no
// process is left.
func (s *server) start(ctx context.Context) error {
	var logged int64
	if info, err := os.Stat(s.logPath()); err == nil {
		logged = info.Size()
	}
	c, err := startChild(s.bin, s.args(s), s.logPath())
	if err != nil {
		return err
	}
	for {
		select {
		case <-c.done:
			return s.startFailed(logged, "it ended")
		default:
		}
		last := s.ask(ctx, c)
		if last == nil {
			s.child, s.paused = c, false
			return nil
		}
		if !sleep(ctx, 10*time.Millisecond) {
			c.kill()
			return s.startFailed(logged, fmt.Sprintf("it did not answer in time (%v)", last))
		}
	}
}

// ask asks once, for a second at most: a connection that was accepted and
// forgotten must not use up all the time.
func (s *server) ask(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.ready(ctx, s, c)
}

// startFailed makes the error of a start, with what the server logged since.
func (s *server) startFailed(logged int64, what string) error {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		log = []byte(err.Error())
	} else if int64(len(log)) >= logged {
		log = log[logged:]
	}
	err = fmt.Errorf("%s on port %d did not start: %s; its log ends:\n%s",
		filepath.Base(s.bin), s.port, what, lastLines(log, 25))
	// No exit code tells this apart; both servers log the C library's text.
	if bytes.Contains(log, []byte("Address already in use")) {
		return errors.Join(errPortTaken, err)
	}
	return err
}

func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

// freePort returns a port on which nobody listens. It looks below the range
// from which systems take the ports of outgoing connections: a port from that
// range could be taken by any client while its server is dead, and Restart
// would wait for it in vain.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	var last error
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

// sleep waits for d and tells whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// findBinary looks for a program in PATH, and where Debian and Homebrew put
// servers, which is not in everybody's PATH.
func findBinary(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/opt/homebrew/opt/mariadb/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed (\"make test\" installs it): %w", name, err)
}
