package servers

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childAttr makes the kernel kill the child when the thread that started it ends. Ctrl-C does not reach the child's own
// process group, so the test process can stop it in order.
//
// Children ignore SIGXFSZ, which would end those that limitFiles keeps from writing.
func childAttr() *syscall.SysProcAttr {
	signal.Ignore(unix.SIGXFSZ)
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// freeze pauses or resumes a child of this process. A pause returns when every thread has stopped: after the signal
// alone, threads may still answer requests for a while on a busy machine.
func freeze(p *os.Process, paused bool) error {
	if !paused {
		return p.Signal(syscall.SIGCONT)
	}

	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}

	for {
		// Without WEXITED, the exit status stays available to the Wait of startChild.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.Pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err // ECHILD: the child has exited
		}
		if info.Signo != 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// limitFiles limits the size of the files that a child writes. 0: no limit.
func limitFiles(p *os.Process, size uint64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(p.Pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return err
	}

	if limit.Cur = size; size == 0 {
		limit.Cur = limit.Max
	}

	return unix.Prlimit(p.Pid, unix.RLIMIT_FSIZE, &limit, nil)
}

func freeMemory(dir string) uint64 {
	var info unix.Statfs_t
	if err := unix.Statfs(dir, &info); err != nil || info.Type != unix.TMPFS_MAGIC || unix.Access(dir, unix.W_OK) != nil {
		return 0
	}

	return info.Bavail * uint64(info.Bsize) //nolint:gosec // a block size is positive
}
