package e2e

import (
	"context"
	"math"
	"net/http"
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

// postConcurrently sends a request n times at once, and repeats what is answered 503. It requires equal responses, of which
// all but one are replays. If a request was repeated all may be, because its lost success may be the other one.
func postConcurrently(t *testing.T, n int, k rig.KeyedPost, servers ...*rig.Server) rig.Reply {
	t.Helper()
	replies, errs := make([]rig.Reply, n), make([]error, n)
	var repeated atomic.Bool
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(20 * time.Millisecond) {
				replies[i], errs[i] = rig.Post(context.Background(), servers[i%len(servers)].URL, k)
				if errs[i] != nil || replies[i].Status != http.StatusServiceUnavailable && !replies[i].InProgress() {
					return
				}
				repeated.Store(true)
			}
		})
	}
	wg.Wait()
	var fresh []rig.Reply
	for i := range replies {
		require.NoError(t, errs[i])
		if replies[i].Replay == "" {
			fresh = append(fresh, replies[i])
		}
		replies[i].Replay = ""
		require.Equal(t, replies[0], replies[i])
	}
	require.True(t, len(fresh) == 1 || len(fresh) == 0 && repeated.Load(), "%d responses are no replays", len(fresh))
	return replies[0]
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
