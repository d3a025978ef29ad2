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
	// A Unix socket path has room for 103 bytes on macOS and 107 on Linux;
	// what follows the folder's name here is shorter than 10.
	maxFolderPath = 90
)

// folder is a private temporary folder with a lock that this process holds:
// a folder whose lock is free belongs to a process that was killed.
type folder struct {
	path string
	lock *flock.Flock
}

// newFolder makes a folder, and removes those that dead processes left.
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
		return nil, errors.Join(fmt.Errorf("lock %s (got it: %t): %w", path, ok, err), os.RemoveAll(path))
	}
	return f, nil
}

func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.path), f.lock.Close())
}

// sweep removes what killed processes left in base. Nothing depends on it, so
// it keeps quiet about folders that it may not or cannot remove.
func sweep(base string) {
	locks, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*", "lock"))
	for _, path := range locks {
		// Somebody who has just made a folder is about to lock it.
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
