package servers

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
)

// child is one run of a server program.
type child struct {
	proc *os.Process
	done chan struct{} // closed when the process has exited and was waited for
}

// startChild starts a program with an environment and appends its output to the log file.
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
	// startFailed parses the log.
	cmd.Env = append(slices.Clone(env), "LC_ALL=C")
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
