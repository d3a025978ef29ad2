package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/kit/loop"
)

// StartTimeout bounds the time until a started server answers. A start takes a fraction of a second, of a node of Galera
// some seconds; the rest is reserve for a busy machine.
const StartTimeout = 5 * time.Minute

// Process is a server process with its directory and its port, which stay the same when the process is restarted. Its
// methods are safe for concurrent use.
type Process struct {
	// Addr is host:port. Restart does not change it.
	Addr string

	bin  string
	args func(s *Process) []string
	env  []string // nil: that of this process
	// before is called before args at each start; nil: nothing is.
	before func(ctx context.Context, s *Process) error
	// ready returns nil if the server answers and is the process c. If the port was taken, another server answers.
	ready func(ctx context.Context, s *Process, c *child) error
	dir   *folder
	port  *port // reserved until Stop; nil before run

	peerPorts [3]*port // further ports for other servers; nil if it needs none

	mu     sync.Mutex
	child  *child
	paused bool
}

// errPortTaken is returned if the server could not bind its port.
var errPortTaken = errors.New("port is taken")

// run starts s for the first time, in a new directory and on a free port. fill, if it is not nil, fills the directory. ctx
// bounds only the start. If it fails, nothing of s is left.
func (s *Process) run(ctx context.Context, fill func(dir string) error) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()

	err := s.prepare(ctx, 0)
	if err == nil && fill != nil {
		err = fill(s.dir.path)
	}

	if err == nil {
		err = s.restart(ctx)
	}

	if err != nil {
		return errors.Join(err, s.Stop())
	}

	return nil
}

// Restart kills the process if it runs, starts it on the same port with the same data, and waits until it answers, at
// most StartTimeout.
func (s *Process) Restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
	defer cancel()
	return s.restart(ctx)
}

func (s *Process) restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	for {
		err := s.start(ctx)
		// A program that another test is just starting may have a copy of the port's last listener.
		if errors.Is(err, errPortTaken) && loop.Sleep(ctx, 50*time.Millisecond) == nil {
			continue
		}
		return err
	}
}

// Kill ends the process with SIGKILL, as a crash would, and returns when it has exited. The port stays reserved. Kill
// does nothing if the process is not running.
func (s *Process) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Terminate ends the process with SIGTERM, as a deployment would, and returns when it has exited. If it still runs after
// the timeout, it is killed, which is an error.
func (s *Process) Terminate(timeout time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.child.alive() {
		return nil
	}

	if err := s.child.proc.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminate %s: %w", filepath.Base(s.bin), err)
	}

	select {
	case <-s.child.done:
		s.child = nil
		return nil
	case <-time.After(timeout):
		s.kill()
		return fmt.Errorf("%s on port %d still ran %s after SIGTERM", filepath.Base(s.bin), s.port.number, timeout)
	}
}

// Pause stops the process with SIGSTOP. The kernel keeps its connections open and accepts new ones, but the server does
// not answer until Resume. On Linux, Pause returns when all threads have stopped.
func (s *Process) Pause() error { return s.freeze(true) }

// Resume continues a paused process.
func (s *Process) Resume() error { return s.freeze(false) }

func (s *Process) freeze(paused bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.child.alive() {
		return fmt.Errorf("%s on port %d is not running", filepath.Base(s.bin), s.port.number)
	}

	if err := freeze(s.child.proc, paused); err != nil {
		return fmt.Errorf("pause or resume %s: %w", filepath.Base(s.bin), err)
	}

	s.paused = paused
	return nil
}

// Stop kills the process, removes its data and releases its ports. The server cannot be used again.
func (s *Process) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()

	var err error
	if s.dir != nil {
		err = s.dir.remove()
	}
	for _, p := range append(s.peerPorts[:], s.port) {
		if p != nil {
			err = errors.Join(err, p.release())
		}
	}

	return err
}

// prepare gives a server its directory and its ports, n of them for the other members of a cluster.
func (s *Process) prepare(ctx context.Context, n int) error {
	var err error
	if s.dir, err = newFolder(); err != nil {
		return err
	}

	if s.port, err = reservePort(ctx); err != nil {
		return err
	}
	s.Addr = s.port.addr()

	for i := range n {
		if s.peerPorts[i], err = reservePort(ctx); err != nil {
			return err
		}
	}

	return nil
}

// member is a server of a cluster.
type member interface {
	start(ctx context.Context) error
	Stop() error
}

// startTogether starts the members of a cluster, none of which is ready before the others run.
func startTogether[M member](ctx context.Context, members []M) error {
	var group errgroup.Group
	for _, m := range members {
		group.Go(func() error { return m.start(ctx) })
	}

	return group.Wait()
}

func stopAll[M member](members []M) error {
	var errs []error
	for _, m := range members {
		errs = append(errs, m.Stop())
	}

	return errors.Join(errs...)
}

// Answers reports whether the process runs and is not paused.
func (s *Process) Answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.alive() && !s.paused
}

// PID returns the id of the process, or 0 if it is not running.
func (s *Process) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.child.alive() {
		return 0
	}

	return s.child.proc.Pid
}

// LastLog returns the end of the log.
func (s *Process) LastLog() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}

	return string(lastLines(log))
}

func (s *Process) kill() {
	if s.child != nil {
		s.child.kill()
	}

	s.child = nil
	s.paused = false
}

// Program returns the path of the running program.
func (s *Process) Program() string { return s.bin }

func (s *Process) logPath() string { return filepath.Join(s.dir.path, "log") }

// start starts the process and waits until it answers. If it fails, the process has ended.
func (s *Process) start(ctx context.Context) error {
	var logged int64
	if info, err := os.Stat(s.logPath()); err == nil {
		logged = info.Size()
	}

	if s.before != nil {
		if err := s.before(ctx, s); err != nil {
			return err
		}
	}

	c, err := startChild(s.bin, s.args(s), s.env, s.logPath())
	if err != nil {
		return err
	}

	for {
		select {
		case <-c.done:
			return s.startFailed(logged, "the process exited")
		default:
		}

		last := s.checkReady(ctx, c)
		if last == nil {
			s.child = c
			s.paused = false
			return nil
		}

		if loop.Sleep(ctx, 10*time.Millisecond) != nil {
			c.kill()
			return s.startFailed(logged, fmt.Sprintf("no answer in time (%v)", last))
		}
	}
}

// checkReady calls ready with a timeout of 1 s, so that one unanswered connection does not use up the whole time.
func (s *Process) checkReady(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.ready(ctx, s, c)
}

// startFailed returns the error of a failed start, with the end of the log. logged is the size of the log before.
func (s *Process) startFailed(logged int64, what string) error {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		log = []byte(err.Error())
	} else if int64(len(log)) >= logged {
		log = log[logged:]
	}

	err = fmt.Errorf("%s on port %d did not start: %s; its log ends:\n%s",
		filepath.Base(s.bin), s.port.number, what, lastLines(log))
	// There is no exit code for this case, but both servers log the error text of the C library.
	if bytes.Contains(log, []byte("Address already in use")) {
		return errors.Join(errPortTaken, err)
	}

	return err
}

func lastLines(text []byte) []byte {
	const n = 25
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

// Until calls check until it returns nil, for no longer than StartTimeout. Error: the last one of check, and that of ctx, which
// ended first.
func Until(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()

	for {
		err := check()
		if err == nil {
			return nil
		}

		if ended := loop.Sleep(ctx, 20*time.Millisecond); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// FindChromium is FindBinary for a Chromium or Chrome. It prefers Debian's build without windows, which needs half the
// processor time.
func FindChromium() (string, error) {
	var missing error
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		path, err := FindBinary(name)
		if err == nil {
			return path, nil
		}
		missing = errors.Join(missing, err)
		if !errors.Is(err, exec.ErrNotFound) {
			break
		}
	}

	return "", missing
}

// FindBinary finds a program in PATH or in the directories that Debian and Homebrew use for servers, which may not be
// in PATH.
func FindBinary(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}

	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/opt/homebrew/opt/mariadb/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}

	return "", fmt.Errorf("%s is not installed (\"make deps\" installs it on Debian and Ubuntu): %w", name, err)
}

// RunProgram starts a program that serves HTTP, and returns when GET /healthz answers 200. ctx and StartTimeout bound only
// the start; the program runs until Stop. args returns the arguments of each start for the address to listen on.
func RunProgram(ctx context.Context, bin string, env []string, args func(addr string) []string) (*Process, error) {
	s := &Process{bin: bin, env: env, ready: programReady, args: func(s *Process) []string { return args(s.Addr) }}
	if err := s.run(ctx, nil); err != nil {
		return nil, err
	}

	return s, nil
}

func programReady(ctx context.Context, s *Process, _ *child) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+"/healthz", http.NoBody)
	if err != nil {
		return err
	}

	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}

	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz answers %d", res.StatusCode)
	}

	return nil
}

// child is one run of a server program.
type child struct {
	proc *os.Process
	done chan struct{} // closed when the process has exited and was waited for
}

// startChild starts a program with an environment, nil for that of this process, and appends its output to the log file.
//
// One goroutine starts the program and waits for it, locked to its thread: Pdeathsig kills the child when the thread
// that started it ends, and the Go runtime may end other threads.
func startChild(bin string, args, env []string, logPath string) (*child, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}

	// No context: the process outlives this call.
	cmd := exec.Command(bin, args...) //nolint:gosec,noctx // FindBinary looked it up by a fixed name
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.Env = env
	// startFailed parses the log.
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = childAttr()

	c := &child{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)

		err := cmd.Start()
		// The child has its own descriptor.
		_ = log.Close()
		c.proc = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log has the reason
		}
	}()

	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}

	return c, nil
}

func (c *child) kill() {
	_ = c.proc.Kill() // fails if the process has exited
	<-c.done
}

func (c *child) alive() bool {
	if c == nil {
		return false
	}

	select {
	case <-c.done:
		return false
	default:
		return true
	}
}
