// Package drain stops a server without breaking requests. Load balancers need time to notice that a server leaves, clients
// have connections open, and the kernel resets connections that the server has not accepted.
package drain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// ErrDraining is the error of Check once the drain has begun.
var ErrDraining = errors.New("the server is shutting down")

// settle is the time for connections that are being established when the drain ends. A client repeats an ignored attempt
// after a second, so the port is closed by then.
const settle = 500 * time.Millisecond

// maxSettles bounds how often Run waits for settle, while a server on a busy machine has not accepted what was established.
const maxSettles = 10

// Drain is the state of a server that may have to stop. The zero value serves. It is safe for concurrent use.
type Drain struct{ begun atomic.Bool }

// Check is a readiness check: it returns ErrDraining once the drain has begun.
func (d *Drain) Check(context.Context) error {
	if d.begun.Load() {
		return ErrDraining
	}
	return nil
}

// Handler returns h with `Connection: close` in every answer that begins during the drain. Idle connections stay open and
// are served: http.Server.SetKeepAlivesEnabled would close them, maybe under a request that is on its way.
func (d *Drain) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Listen listens on a TCP address for a server that Run will drain. It excludes Multipath TCP, on whose sockets Linux allows
// no filter.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var cfg net.ListenConfig
	cfg.SetMultipathTCP(false)
	return cfg.Listen(ctx, "tcp", addr)
}

// Run begins the drain and returns when the listener can be closed: after period, or when abort receives a value, which Run
// returns. The server must accept connections meanwhile. A period of zero ends at once.
func (d *Drain) Run(l net.Listener, period time.Duration, abort <-chan error) error {
	d.begun.Store(true)
	if period <= 0 {
		return nil
	}
	pause := period
	for n := 0; ; n++ {
		select {
		case err := <-abort:
			return err
		case <-time.After(pause):
		}
		switch {
		case n == 0:
			refuseConnections(l)
			pause = settle
		case n == maxSettles || !hasUnaccepted(l):
			return nil
		}
	}
}
