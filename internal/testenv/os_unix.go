//go:build unix && !linux

package testenv

import (
	"os"
	"syscall"
)

// childAttr leaves the child in the group of the test process: Ctrl-C ends
// both. Nothing ends it when the test process is killed.
func childAttr() *syscall.SysProcAttr { return nil }

func freeze(p *os.Process, paused bool) error {
	if paused {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
