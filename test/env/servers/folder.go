package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	folderPrefix = "seckill-tests-"
	// The path of a Unix socket has at most 103 bytes on macOS and 107 on Linux. The part after the directory is
	// shorter than 10.
	maxFolderPath = 90
)

// folder is a private temporary directory with a lock that this process holds. If the lock is free, the process that
// created the directory was killed.
type folder struct {
	path string
	lock *flock.Flock
}

// TempInMemory makes os.TempDir a new directory in memory if that has 4 GiB free, and returns the function that removes
// it, or nil: tests commit thousands of transactions, and the fsync of a busy disk would take most of their time. The
// data survives the end of a process, as on a disk. TMPDIR takes precedence.
func TempInMemory() (remove func() error) {
	if os.Getenv("TMPDIR") != "" || freeMemory(memoryDir) < minMemory {
		return nil
	}

	f, err := newFolderIn(memoryDir)
	if err != nil {
		return nil
	}

	if err := os.Setenv("TMPDIR", f.path); err != nil {
		panic(err) // the name and the value are valid
	}

	return f.remove
}

const (
	memoryDir = "/dev/shm"
	minMemory = 4 << 30
)

// newFolder creates a directory and removes those of killed processes.
func newFolder() (*folder, error) { return newFolderIn(os.TempDir()) }

func newFolderIn(base string) (*folder, error) {
	base, err := filepath.EvalSymlinks(base) // servers report resolved paths
	if err != nil {
		return nil, err
	}

	if len(base) > maxFolderPath-len(folderPrefix)-12 {
		base = "/tmp"
	}

	sweep(base)
	path, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return nil, err
	}

	f := &folder{path: path, lock: flock.New(filepath.Join(path, "lock"))}
	if ok, err := f.lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("lock %s (acquired: %t): %w", path, ok, err), os.RemoveAll(path))
	}

	return f, nil
}

func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.path), f.lock.Close())
}

// sweep removes the directories of killed processes in base. It ignores errors, because nothing depends on the removal.
func sweep(base string) {
	locks, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*", "lock"))
	for _, path := range locks {
		// A young directory may not be locked yet.
		if info, err := os.Stat(path); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock := flock.New(path)
		if ok, err := lock.TryLock(); err == nil && ok {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = lock.Close()
	}
}
