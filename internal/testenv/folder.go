package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	folderPrefix = "seckill-testenv-"
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

// newFolder creates a directory and removes those of killed processes.
func newFolder() (*folder, error) {
	base, err := filepath.EvalSymlinks(os.TempDir()) // servers report resolved paths
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
