//go:build linux || darwin

package connlimit

import "syscall"

// OpenFiles returns the limit of open files and connections of this process.
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}
