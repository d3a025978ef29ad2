package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// templateName returns a name that is unique for the kind of server, its version and the arguments.
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
