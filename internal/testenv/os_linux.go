package testenv

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childAttr makes the kernel kill the child when the thread that started it
// ends. A process group of its own keeps Ctrl-C away from it: whoever started
// the server also stops it, in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// freeze stops a child of this process or lets it go on. It returns when every
// thread has stopped: the signal alone leaves the others some time, and on a
// busy machine they answer a request in it.
func freeze(p *os.Process, paused bool) error {
	if !paused {
		return p.Signal(syscall.SIGCONT)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		// Without WEXITED, the end of the child stays with the one who waits for it.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.Pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err // ECHILD: it has died
		}
		if info.Signo != 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
