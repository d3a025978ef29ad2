package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// errDraining is the error of drain.check once the drain has begun.
var errDraining = errors.New("the server is shutting down")

// drain is the state of a server that may have to stop. Load balancers need time to notice that a server leaves: it goes on
// serving meanwhile, and asks its clients to close their connections. The zero value serves. It is safe for concurrent use.
type drain struct{ begun atomic.Bool }

func (d *drain) check(context.Context) error {
	if d.begun.Load() {
		return errDraining
	}
	return nil
}

// handler returns h with `Connection: close` in every answer that begins during the drain. Idle connections stay open and
// are served: http.Server.SetKeepAlivesEnabled would close them, maybe under a request that is on its way.
func (d *drain) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

func (d *drain) run(period time.Duration, failed <-chan error) error {
	d.begun.Store(true)
	select {
	case err := <-failed:
		return err
	case <-time.After(period):
		return nil
	}
}
