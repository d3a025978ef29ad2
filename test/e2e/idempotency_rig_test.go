package e2e

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
	"seckill/test/e2e/rig"
	"seckill/test/servers"
)

// requireOrders waits until the queue is empty and requires that these are the buyer's orders of the sale that are not
// cancelled.
func requireOrders(t *testing.T, s *rig.Stack, p *rig.Server, token, sale string, ids ...string) {
	t.Helper()
	if s.Lane == "queue" {
		rig.RequireSettled(t, s)
	}
	all := rig.Answered(t, func() ([]rush.Order, error) { return p.Orders(t.Context(), token) })
	var held []string
	for _, o := range all {
		if o.VoucherID == sale && o.Status != "cancelled" {
			held = append(held, o.ID)
		}
	}
	require.ElementsMatch(t, ids, held)
}

// postConcurrently sends a request n times at once, and repeats what is answered 503. It requires equal answers, of which
// all but one are replays. If a request was repeated all may be, because its lost success may be the other one.
func postConcurrently(t *testing.T, n int, k rig.Request, servers ...*rig.Server) rig.Answer {
	t.Helper()
	answers, errs := make([]rig.Answer, n), make([]error, n)
	var repeated atomic.Bool
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(20 * time.Millisecond) {
				answers[i], errs[i] = servers[i%len(servers)].Send(t.Context(), k)
				if errs[i] != nil || !answers[i].Busy() {
					return
				}
				repeated.Store(true)
			}
		})
	}
	wg.Wait()

	fresh := 0
	for i, a := range answers {
		require.NoError(t, errs[i])
		if !a.Replayed() {
			fresh++
		}
		requireSame(t, answers[0], a)
	}
	require.True(t, fresh == 1 || fresh == 0 && repeated.Load(), "%d answers are no replays", fresh)
	return answers[0]
}

// requireSame requires equal answers, of which one may be the replay of the other one.
func requireSame(t *testing.T, want, got rig.Answer) {
	t.Helper()
	require.Equal(t, want.Status, got.Status)
	require.Equal(t, want.Text, got.Text)
	require.Equal(t, want.Header.Get("Location"), got.Header.Get("Location"))
}

// dropReplies starts a proxy in front of a server that closes the connection of each request once the server has
// answered, and returns it with its URL.
func dropReplies(t *testing.T, p *rig.Server) (d *servers.Proxy, url string) {
	t.Helper()
	d, err := servers.StartProxy(t.Context(), strings.TrimPrefix(p.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	d.Inject(servers.DropReply, "", math.MaxInt)
	return d, "http://" + d.Addr
}
