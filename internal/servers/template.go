package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// innodbFiles keeps the files of an empty server small, because each server starts with a copy of them. A caller that
// measures speed passes a larger redo log ("--innodb-log-file-size=512M"), to which MariaDB resizes it at startup.
var innodbFiles = []string{
	"--innodb-log-file-size=16M",
	"--innodb-data-file-path=ibdata1:12M:autoextend",
	"--innodb-autoextend-increment=4",
}

// dataTemplate returns a data directory to copy. It is created once per machine, user and MariaDB version and kept in
// the user's cache, because creating it takes longer than copying it and starting a server.
func dataTemplate(ctx context.Context, mariadbd string) (string, error) {
	install, err := FindBinary("mariadb-install-db")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*StartTimeout)
	defer cancel()
	version, err := exec.CommandContext(ctx, mariadbd, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w\n%s", mariadbd, err, version)
	}
	args := append([]string{
		"--no-defaults", // must come first
		"--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--force", // --force: the host name may not resolve
	}, innodbFiles...)
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	return makeOnce(ctx, filepath.Join(cache, templateName(string(version), args)), func(dir string) error {
		args := append(slices.Clone(args), "--datadir="+dir)
		cmd := exec.CommandContext(ctx, install, args...) //nolint:gosec // FindBinary looked it up by a fixed name
		// It is a script whose children may outlive it and keep the output open.
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", install, err, lastLines(out, 25))
		}
		return nil
	})
}

// templateName returns a name that is unique for the version and the arguments.
func templateName(version string, args []string) string {
	hash := sha256.Sum256([]byte(version + "\n" + strings.Join(args, "\n")))
	return fmt.Sprintf("mariadb-%x", hash[:6])
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
		dir := filepath.Join(cache, "seckill-testenv")
		if os.MkdirAll(dir, 0o700) == nil {
			return dir, nil
		}
	}
	dir := filepath.Join(os.TempDir(), "seckill-testenv-"+strconv.Itoa(os.Getuid()))
	return dir, os.MkdirAll(dir, 0o700)
}
