package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/rush"
	"seckill/test/servers"
)

// keyedPost is a POST with an Idempotency-Key that can be sent repeatedly.
type keyedPost struct {
	path, token, key, body string
}

// reply is a response with its exact body.
type reply struct {
	status                 int
	body, location, replay string
}

// field returns a string field of the body.
func (r reply) field(t *testing.T, name string) string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &fields), r.body)
	text, _ := fields[name].(string)
	return text
}

// order returns the id of the order in the body.
func (r reply) order(t *testing.T) string {
	t.Helper()
	if r.status == http.StatusAccepted {
		return r.field(t, "order_id")
	}
	return r.field(t, "id")
}

// success reports whether the status is 2xx.
func (r reply) success() bool { return r.status >= 200 && r.status < 300 }

// inProgress reports whether another request with the key is not over.
func (r reply) inProgress() bool { return strings.Contains(r.body, "order_in_progress") }

// post sends a request once over a new connection.
func post(ctx context.Context, base string, k keyedPost) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+k.path, strings.NewReader(k.body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+k.token)
	req.Header.Set("Idempotency-Key", k.key)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{
		status: res.StatusCode, body: string(text), location: res.Header.Get("Location"), replay: res.Header.Get("Idempotency-Replayed"),
	}, err
}

// post sends a request and requires a response.
func (p *server) post(t *testing.T, k keyedPost) reply {
	t.Helper()
	r, err := post(context.WithoutCancel(t.Context()), p.url, k)
	require.NoError(t, err)
	return r
}

// postUntilAnswered repeats a request until the response is definite: neither 5xx nor "order_in_progress".
func (p *server) postUntilAnswered(t *testing.T, k keyedPost) reply {
	t.Helper()
	var last reply
	eventually(t, k.path+" is answered", func() bool {
		r, err := post(t.Context(), p.url, k)
		last = r
		return err == nil && r.status < 500 && !r.inProgress()
	})
	return last
}

// saleOf publishes a sale with the given stock and limit per user.
func (p *server) saleOf(t *testing.T, stock, limit int) string {
	t.Helper()
	return p.postUntilAnswered(t, keyedPost{"/api/v1/admin/vouchers", p.admin(t), fmt.Sprint(rand.Int64()), saleText(stock, limit)}).field(t, "id")
}

func saleText(stock, limit int) string {
	now := time.Now().UTC()
	text, _ := json.Marshal(map[string]any{
		"shop_id": "1", "title": "keys", "pay_value": 100, "actual_value": 200, "stock": stock, "limit_per_user": limit,
		"begin_at": now.Add(-time.Minute), "end_at": now.Add(time.Hour),
	})
	return string(text)
}

func ordersOf(sale string) string { return "/api/v1/vouchers/" + sale + "/orders" }

// expireLeases ends all idempotency leases, which otherwise last 10 s.
func (s *stack) expireLeases(t *testing.T) {
	t.Helper()
	s.exec(t, "UPDATE idempotency_keys SET locked_until = created_at")
}

// extendLeases makes all idempotency leases valid for an hour.
func (s *stack) extendLeases(t *testing.T) {
	t.Helper()
	s.exec(t, "UPDATE idempotency_keys SET locked_until = created_at + "+s.interval(time.Hour))
}

// ageOrders moves the creation of all orders into the past.
func (s *stack) ageOrders(t *testing.T, by time.Duration) {
	t.Helper()
	s.exec(t, "UPDATE voucher_orders SET created_at = created_at - "+s.interval(by))
}

// interval returns a duration as the database of the stack adds it to a time.
func (s *stack) interval(d time.Duration) string {
	if s.setting("SECKILL_MYSQL_DSN") == "" {
		return fmt.Sprint(d.Milliseconds())
	}
	return fmt.Sprintf("INTERVAL %d SECOND", int(d.Seconds()))
}

// requireOrders waits until the queue is empty and requires that these are the buyer's orders of the sale that are not
// cancelled.
func requireOrders(t *testing.T, s *stack, p *server, token, sale string, ids ...string) {
	t.Helper()
	if s.lane == "queue" {
		requireSettled(t, s)
	}
	all := answered(t, func() ([]rush.Order, error) { return p.Orders(t.Context(), token) })
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
func postConcurrently(t *testing.T, n int, k keyedPost, servers ...*server) reply {
	t.Helper()
	replies, errs := make([]reply, n), make([]error, n)
	var repeated atomic.Bool
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(20 * time.Millisecond) {
				replies[i], errs[i] = post(context.Background(), servers[i%len(servers)].url, k)
				if errs[i] != nil || replies[i].status != http.StatusServiceUnavailable && !replies[i].inProgress() {
					return
				}
				repeated.Store(true)
			}
		})
	}
	wg.Wait()
	var fresh []reply
	for i := range replies {
		require.NoError(t, errs[i])
		if replies[i].replay == "" {
			fresh = append(fresh, replies[i])
		}
		replies[i].replay = ""
		require.Equal(t, replies[0], replies[i])
	}
	require.True(t, len(fresh) == 1 || len(fresh) == 0 && repeated.Load(), "%d responses are no replays", len(fresh))
	return replies[0]
}

// dropReplies starts a proxy in front of a server that closes the connection of each request once the server has
// answered, and returns it with its URL.
func dropReplies(t *testing.T, p *server) (d *servers.Proxy, url string) {
	t.Helper()
	d, err := servers.StartProxy(t.Context(), strings.TrimPrefix(p.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	d.Inject(servers.DropReply, "", math.MaxInt)
	return d, "http://" + d.Addr
}
