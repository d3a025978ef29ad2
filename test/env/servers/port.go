package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gofrs/flock"
)

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

// held keeps the ports of ReserveAddr reachable. The garbage collector would close their lock files.
var held sync.Map // *port to struct{}

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

// ReserveAddr returns an address of 127.0.0.1 on which no process listens. No test server gets its port until release
// is called or the process ends, so that a server can be stopped and started again on it.
func ReserveAddr(ctx context.Context) (addr string, release func() error, err error) {
	p, err := reservePort(ctx)
	if err != nil {
		return "", nil, err
	}

	held.Store(p, struct{}{})
	return p.addr(), func() error { held.Delete(p); return p.release() }, nil
}
