//go:build unix && !linux

package servers

import (
	"errors"
	"os"
	"syscall"
)

// childAttr leaves the child in the process group of the test process, so that Ctrl-C ends both. If the test process is
// killed, the child keeps running.
func childAttr() *syscall.SysProcAttr { return nil }

func freeze(p *os.Process, paused bool) error {
	if paused {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}

func limitFiles(*os.Process, uint64) error { return errors.ErrUnsupported }

func freeMemory(string) uint64 { return 0 }
