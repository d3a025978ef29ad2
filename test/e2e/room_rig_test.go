package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
)

// enter gives each token a place in a room, on the servers in turn.
func enter(t *testing.T, sale string, tokens []string, servers ...*rig.Server) []*rig.Waiter {
	t.Helper()
	all := make([]*rig.Waiter, len(tokens))
	concurrently(len(tokens), func(i int) {
		w := &rig.Waiter{P: servers[i%len(servers)], Token: tokens[i], Sale: sale, Passes: map[time.Time]string{}}
		for try := 0; try < 100 && w.Ticket == ""; try++ {
			a, err := w.P.TryEntry(t.Context(), http.MethodPost, w.Token, sale, "")
			if err != nil || a.Busy() {
				break
			}
			w.Note(a)
		}
		all[i] = w
	})
	for _, w := range all {
		require.NotEmpty(t, w.Ticket)
	}
	return all
}

// concurrently calls fn for the numbers below n, at most 256 at a time.
func concurrently(n int, fn func(i int)) {
	semaphore, done := make(chan struct{}, 256), make(chan struct{})
	for i := range n {
		go func() {
			semaphore <- struct{}{}
			fn(i)
			<-semaphore
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
}
