package testenv

import (
	"os"
	"syscall"
)

// childAttr makes the kernel kill the child when the thread that started it
// ends. A process group of its own keeps Ctrl-C away from it: whoever started
// the server also stops it, in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func freeze(p *os.Process, paused bool) error {
	if paused {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
