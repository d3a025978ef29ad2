package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
// user's cache, because that takes longer than copying it and starting a server. If several processes need it, one fills it
// and the others wait.
func makeTemplate(
	ctx context.Context, kind, version string, args []string, fill func(ctx context.Context, dir string) error,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*StartTimeout)
	defer cancel()

	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}

	hash := sha256.Sum256([]byte(version + "\n" + strings.Join(args, "\n")))
	path := filepath.Join(cache, fmt.Sprintf("%s-%x", kind, hash[:6]))

	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return "", fmt.Errorf("wait for %s.lock: %w", path, err)
	}
	defer func() { _ = lock.Close() }()

	if _, err := os.Stat(path); err == nil {
		return path, nil
	}

	// An incomplete directory never appears under the final name.
	building := path + ".new"
	err = errors.Join(os.RemoveAll(building), os.Mkdir(building, 0o700))
	if err == nil {
		err = fill(ctx, building)
	}

	if err == nil {
		err = os.Rename(building, path)
	}

	if err != nil {
		return "", errors.Join(err, os.RemoveAll(building))
	}

	return path, nil
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

// Ports of test servers. They are below the range of ephemeral ports, because an outgoing connection could take one of
// those while its server is down. A Redis Cluster node also listens on its port + 10,000, which is outside the range.
const (
	firstPort = 10_000
	ports     = 10_000
)

// port is a TCP port of 127.0.0.1 with the lock that reserves it.
type port struct {
	number int
	lock   *flock.Flock
}

// errReserved is returned if another server has reserved the port.
var errReserved = errors.New("port is reserved")

func reservePort(ctx context.Context) (*port, error) {
	var last error
	for range 100 {
		p, err := tryPort(ctx, firstPort+rand.IntN(ports))
		if err == nil {
			return p, nil
		}
		last = err
	}

	return nil, fmt.Errorf("find a free port: %w", last)
}

// tryPort reserves a port for this process with a lock file, one per port. It returns errReserved if another server of
// this or another test process of the user has reserved the port, and an error if the port is in use. The lock ends
// with release or with the process; the file stays, because removing a lock file is a race.
func tryPort(ctx context.Context, number int) (*port, error) {
	cache, err := cacheFolder()
	if err != nil {
		return nil, err
	}

	dir := filepath.Join(cache, "ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	p := &port{number, flock.New(filepath.Join(dir, strconv.Itoa(number)))}
	locked, err := p.lock.TryLock()
	switch {
	case err != nil:
		return nil, err
	case !locked:
		return nil, fmt.Errorf("%d: %w", number, errReserved)
	}

	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.addr())
	if err != nil {
		return nil, errors.Join(err, p.release())
	}

	return p, l.Close()
}

func (p *port) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

func (p *port) release() error { return p.lock.Close() }

// ReserveAddr returns an address of 127.0.0.1 on which no process listens. No test server gets its port until release, which
// must stay reachable, is called or the process ends, so that a server can be stopped and started again on it.
func ReserveAddr(ctx context.Context) (addr string, release func() error, err error) {
	p, err := reservePort(ctx)
	if err != nil {
		return "", nil, err
	}

	return p.addr(), p.release, nil
}
