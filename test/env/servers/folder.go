package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// makeTemplate returns a data directory to copy. It is filled once per machine, user and version of the server, and kept in the
// user's cache, because that takes longer than copying it and starting a server.
func makeTemplate(
	ctx context.Context, kind, version string, args []string, fill func(ctx context.Context, dir string) error,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*StartTimeout)
	defer cancel()

	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}

	path := filepath.Join(cache, templateName(kind, version, args))
	return makeOnce(ctx, path, func(dir string) error { return fill(ctx, dir) })
}

func fillTemplate(ctx context.Context, program string, args []string) error {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // FindBinary looked it up by a fixed name
	// That of MariaDB is a script whose children may outlive it and keep the output open.
	cmd.WaitDelay = time.Second

	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, lastLines(out))
	}

	return nil
}

func templateName(kind, version string, args []string) string {
	hash := sha256.Sum256([]byte(version + "\n" + strings.Join(args, "\n")))
	return fmt.Sprintf("%s-%x", kind, hash[:6])
}

// makeOnce returns the directory at path and creates it with fill if it does not exist. If several processes need it,
// one creates it and the others wait. An incomplete directory never appears under its final name.
func makeOnce(ctx context.Context, path string, fill func(dir string) error) (string, error) {
	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return "", fmt.Errorf("wait for %s.lock: %w", path, err)
	}
	defer func() { _ = lock.Close() }()

	if _, err := os.Stat(path); err == nil {
		return path, nil
	}

	building := path + ".new"
	err := errors.Join(os.RemoveAll(building), os.Mkdir(building, 0o700))
	if err == nil {
		err = fill(building)
	}

	if err == nil {
		err = os.Rename(building, path)
	}

	if err != nil {
		return "", errors.Join(err, os.RemoveAll(building))
	}

	return path, nil
}

// cacheFolder returns the directory for templates and port locks: in the user's cache, or in the temporary directory of
// a user without one.
func cacheFolder() (string, error) {
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "seckill-tests")
		if os.MkdirAll(dir, 0o700) == nil {
			return dir, nil
		}
	}

	dir := filepath.Join(os.TempDir(), "seckill-tests-"+strconv.Itoa(os.Getuid()))
	return dir, os.MkdirAll(dir, 0o700)
}
