//go:build linux || darwin

package doctor

import "syscall"

// OpenFiles returns the limit of open files and connections of this process.
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}

func freeDisk(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	err := syscall.Statfs(dir, &stat)
	return stat.Bavail * uint64(stat.Bsize), err //nolint:gosec // a block has a positive size
}
