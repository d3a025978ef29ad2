package rig

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/rush"
)

// Answer is an HTTP response with a JSON body.
type Answer struct {
	Status int
	Header http.Header
	Body   map[string]any
}

// Do sends a request with a plain HTTP client. header holds names and values in turn.
func (p *Server) Do(t *testing.T, method, path, token string, header ...string) Answer {
	t.Helper()
	return p.SendBody(t, method, path, token, "", header...)
}

// SendBody is send with a body.
func (p *Server) SendBody(t *testing.T, method, path, token, body string, header ...string) Answer {
	t.Helper()
	a, err := p.trySend(t.Context(), method, path, token, body, header...)
	require.NoError(t, err)
	return a
}

// trySend is sendBody for requests that may fail.
func (p *Server) trySend(ctx context.Context, method, path, token, body string, header ...string) (a Answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, p.URL+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	a = Answer{Status: res.StatusCode, Header: res.Header}
	if res.StatusCode != http.StatusNoContent {
		err = json.NewDecoder(res.Body).Decode(&a.Body)
	}
	return a, err
}

// Click places an order. header holds additional headers, such as Prefer.
func (p *Server) Click(t *testing.T, token, sale string, header ...string) Answer {
	t.Helper()
	return p.Do(t, http.MethodPost, "/api/v1/vouchers/"+sale+"/orders", token, header...)
}

// Answered is send for a request that may be repeated. It repeats one that is answered 503.
func (p *Server) Answered(t *testing.T, method, path, token string, header ...string) (a Answer) {
	t.Helper()
	Eventually(t, "an answer other than 503", func() bool {
		a = p.Do(t, method, path, token, header...)
		return !forgive503(a.Status)
	})
	return a
}

// Queue places an order in lane queue while no worker commits, with a key, and returns its id.
func (p *Server) Queue(t *testing.T, token, sale string, header ...string) (order string) {
	t.Helper()
	if !slices.Contains(header, "Idempotency-Key") {
		header = append(header, "Idempotency-Key", rand.Text())
	}
	return RequireQueued(t, p.Answered(t, http.MethodPost, "/api/v1/vouchers/"+sale+"/orders", token, header...))
}

// RequireQueued requires a complete 202 response and returns the order id.
func RequireQueued(t *testing.T, a Answer) string {
	t.Helper()
	require.Equal(t, http.StatusAccepted, a.Status, a.Body)
	id, _ := a.Body["order_id"].(string)
	require.NotEmpty(t, id)
	require.Equal(t, map[string]any{"id": id, "order_id": id, "status": "queued"}, a.Body)
	require.Equal(t, "/api/v1/orders/"+id, a.Header.Get("Location"))
	return id
}

// RequireProblem requires an answer with a status and a code.
func RequireProblem(t *testing.T, status int, code string, a Answer) {
	t.Helper()
	require.Equal(t, status, a.Status, a.Body)
	require.Equal(t, code, a.Body["code"])
}

// RequireOrdered waits until a queued order is committed.
func RequireOrdered(t *testing.T, p *Server, token, id string) {
	t.Helper()
	Eventually(t, "order "+id+" is confirmed", func() bool {
		o, err := p.Order(t.Context(), token, id)
		require.False(t, err == nil && o.Status == "failed", "order %s failed: %s", id, o.Reason)
		return err == nil && o.Status == "pending_payment"
	})
}

// HoldWorkers returns a stack whose workers commit nothing until release is called.
func HoldWorkers(t *testing.T, s *Stack) (held *Stack, release func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hold")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	return s.With(EnvHold + "=" + file), func() { require.NoError(t, os.Remove(file)) }
}

// RequireSettled waits until the queue is empty. Entries of crashed workers are delivered again.
func RequireSettled(t *testing.T, s *Stack) {
	t.Helper()
	rdb := s.Client(t)
	Eventually(t, "the queue is empty", func() bool {
		lag, err := app.ReadLag(t.Context(), rdb)
		return err == nil && lag.Unsettled == 0
	})
}

// KeyedPost is a POST with an Idempotency-Key that can be sent repeatedly.
type KeyedPost struct {
	Path, Token, Key, Body string
}

// Reply is a response with its exact body.
type Reply struct {
	Status                 int
	Body, Location, Replay string
}

// Field returns a string field of the body.
func (r Reply) Field(t *testing.T, name string) string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.Body), &fields), r.Body)
	text, _ := fields[name].(string)
	return text
}

// Order returns the id of the order in the body.
func (r Reply) Order(t *testing.T) string {
	t.Helper()
	if r.Status == http.StatusAccepted {
		return r.Field(t, "order_id")
	}
	return r.Field(t, "id")
}

// Success reports whether the status is 2xx.
func (r Reply) Success() bool { return r.Status >= 200 && r.Status < 300 }

// InProgress reports whether another request with the key is not over.
func (r Reply) InProgress() bool { return strings.Contains(r.Body, "order_in_progress") }

// Post sends a request once over a new connection.
func Post(ctx context.Context, base string, k KeyedPost) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+k.Path, strings.NewReader(k.Body))
	if err != nil {
		return Reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+k.Token)
	req.Header.Set("Idempotency-Key", k.Key)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return Reply{
		Status: res.StatusCode, Body: string(text), Location: res.Header.Get("Location"), Replay: res.Header.Get("Idempotency-Replayed"),
	}, err
}

// Post sends a request and requires a response.
func (p *Server) Post(t *testing.T, k KeyedPost) Reply {
	t.Helper()
	r, err := Post(context.WithoutCancel(t.Context()), p.URL, k)
	require.NoError(t, err)
	return r
}

// PostUntilAnswered repeats a request until the response is definite: neither 5xx nor "order_in_progress".
func (p *Server) PostUntilAnswered(t *testing.T, k KeyedPost) Reply {
	t.Helper()
	var last Reply
	Eventually(t, k.Path+" is answered", func() bool {
		r, err := Post(t.Context(), p.URL, k)
		last = r
		return err == nil && !forgive503(r.Status) && r.Status < 500 && !r.InProgress()
	})
	return last
}

// SaleOf publishes a sale with the given stock and limit per user.
func (p *Server) SaleOf(t *testing.T, stock, limit int) string {
	t.Helper()
	return p.PostUntilAnswered(t, KeyedPost{"/api/v1/admin/vouchers", p.Admin(t), rand.Text(), SaleText(stock, limit)}).Field(t, "id")
}

// SaleText is the body of a request for a sale that runs.
func SaleText(stock, limit int) string {
	now := time.Now().UTC()
	text, _ := json.Marshal(map[string]any{
		"shop_id": "1", "title": "keys", "pay_value": 100, "actual_value": 200, "stock": stock, "limit_per_user": limit,
		"begin_at": now.Add(-time.Minute), "end_at": now.Add(time.Hour),
	})
	return string(text)
}

// OrdersOf is the path of the purchases of a sale.
func OrdersOf(sale string) string { return "/api/v1/vouchers/" + sale + "/orders" }

// ExpireLeases ends all idempotency leases, which otherwise last 10 s.
func (s *Stack) ExpireLeases(t *testing.T) {
	t.Helper()
	s.Exec(t, "UPDATE idempotency_keys SET locked_until = created_at")
}

// ExtendLeases makes all idempotency leases valid for an hour.
func (s *Stack) ExtendLeases(t *testing.T) {
	t.Helper()
	s.Exec(t, "UPDATE idempotency_keys SET locked_until = created_at + "+s.interval(time.Hour))
}

// AgeOrders moves the creation of all orders into the past.
func (s *Stack) AgeOrders(t *testing.T, by time.Duration) {
	t.Helper()
	s.Exec(t, "UPDATE voucher_orders SET created_at = created_at - "+s.interval(by))
}

// interval returns a duration as the database of the stack adds it to a time.
func (s *Stack) interval(d time.Duration) string {
	if s.Setting("SECKILL_MYSQL_DSN") == "" {
		return fmt.Sprint(d.Milliseconds())
	}
	return fmt.Sprintf("INTERVAL %d SECOND", int(d.Seconds()))
}

// Call sends a request with a JSON body (nil: none) and returns the answer, or an error if there was none.
func (p *Server) Call(ctx context.Context, method, path, token string, body any) (Answer, error) {
	text := []byte{}
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return Answer{}, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	a := Answer{Status: res.StatusCode, Header: res.Header}
	if err = json.NewDecoder(res.Body).Decode(&a.Body); errors.Is(err, io.EOF) { // there is no body
		err = nil
	}
	return a, err
}

// Reply is call for requests that have to be answered and may be repeated. It repeats one that is answered 503.
func (p *Server) Reply(t *testing.T, method, path, token string, body any) (a Answer) {
	t.Helper()
	Eventually(t, "an answer other than 503", func() bool {
		var err error
		a, err = p.Call(t.Context(), method, path, token, body)
		require.NoError(t, err)
		return !forgive503(a.Status)
	})
	return a
}

// Must is reply for requests that have to succeed. It returns the body of the answer.
func (p *Server) Must(t *testing.T, method, path, token string, body any) map[string]any {
	t.Helper()
	a := p.Reply(t, method, path, token, body)
	require.Less(t, a.Status, 300, "%s %s: %v", method, path, a.Body)
	return a.Body
}

// BuyReturned buys a unit that is returned in the background, after the commit. Until then the purchase is refused with
// sold_out or, in place of an order of the user, with duplicate_order.
func (p *Server) BuyReturned(t *testing.T, token, sale string) (o rush.Order) {
	t.Helper()
	key := rand.Text() // a purchase that is answered 503 may be committed
	Eventually(t, "the unit is on sale again", func() bool {
		var err error
		if o, err = p.PlaceWithKey(t.Context(), token, sale, key); err == nil {
			return true
		}
		var refusal *rush.Problem
		require.ErrorAs(t, err, &refusal)
		require.Contains(t, []string{"sold_out", "duplicate_order", "unavailable", "overloaded"}, refusal.Code)
		return false
	})
	RequireOrdered(t, p, token, o.ID)
	return o
}

// MustPlace places an order. It repeats a purchase that is answered 503, with the same key, because it may be committed.
func (p *Server) MustPlace(t *testing.T, token, sale string) rush.Order {
	t.Helper()
	key := rand.Text()
	return Answered(t, func() (rush.Order, error) { return p.PlaceWithKey(t.Context(), token, sale, key) })
}

// MustCancel cancels an order.
func (p *Server) MustCancel(t *testing.T, token, order string) rush.Order {
	t.Helper()
	return Answered(t, func() (rush.Order, error) { return p.Cancel(t.Context(), token, order) })
}

// RequireSoldOut requires that a purchase is refused with sold_out.
func (p *Server) RequireSoldOut(t *testing.T, token, sale string) {
	t.Helper()
	RequireProblem(t, http.StatusConflict, "sold_out", p.Answered(t, http.MethodPost, "/api/v1/vouchers/"+sale+"/orders", token))
}

// Buy places an order and requires that it is committed.
func (p *Server) Buy(t *testing.T, token, sale string) rush.Order {
	t.Helper()
	o := p.MustPlace(t, token, sale)
	RequireOrdered(t, p, token, o.ID)
	return o
}

// WaitFor waits until an order has a status, and returns when it was first seen.
func (p *Server) WaitFor(t *testing.T, token, order, status string) time.Time {
	t.Helper()
	Eventually(t, "order "+order+" is "+status, func() bool {
		o, err := p.Order(t.Context(), token, order)
		return err == nil && o.Status == status
	})
	return time.Now()
}

// Payments returns the references and statuses of an order's payments.
func (p *Server) Payments(t *testing.T, token, order string) (refs, statuses []string) {
	t.Helper()
	for _, item := range p.Must(t, http.MethodGet, "/orders/"+order+"/payments", token, nil)["items"].([]any) {
		refs = append(refs, item.(map[string]any)["provider_ref"].(string))
		statuses = append(statuses, item.(map[string]any)["status"].(string))
	}
	return refs, statuses
}

// Expire sets the deadline for the payment of an order.
func (s *Stack) Expire(t *testing.T, order string, at time.Time) {
	t.Helper()
	value := fmt.Sprint(at.UnixMilli())
	if s.Setting("SECKILL_MYSQL_DSN") != "" {
		value = at.UTC().Format("'2006-01-02 15:04:05.000000'")
	}
	s.Exec(t, "UPDATE voucher_orders SET expires_at = "+value+" WHERE id = "+order)
}

// ChangeStock requests a change of the stock and returns the answer. It repeats a request that is answered 503, with the same
// key, because the change may be committed.
func (p *Server) ChangeStock(t *testing.T, admin, sale string, delta int) (a Answer) {
	t.Helper()
	key, body := rand.Text(), fmt.Sprintf(`{"delta":%d,"reason":"counted again"}`, delta)
	Eventually(t, "the stock is changed or the change is refused", func() bool {
		a = p.SendBody(t, http.MethodPost, "/api/v1/admin/vouchers/"+sale+"/stock", admin, body, "Idempotency-Key", key)
		return !forgive503(a.Status) && a.Body["code"] != "order_in_progress"
	})
	return a
}

var (
	pathParam = regexp.MustCompile(`\\\{\w+\\\}`)
	hmdpRow   = regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\| ")
)

// Routes returns patterns of all routes in the API document and in docs/hmdp.md. Other tests compare these with the
// router.
func (p *Shop) Routes(t *testing.T) []*regexp.Regexp {
	t.Helper()
	doc := p.Do(t, http.MethodGet, "/api/v1/openapi.json", "").Body
	var names []string
	paths, ok := doc["paths"].(map[string]any)
	require.True(t, ok)
	for path, item := range paths {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				names = append(names, strings.ToUpper(method)+" "+path)
			}
		}
	}
	table, err := os.ReadFile("../../docs/hmdp.md")
	require.NoError(t, err)
	for _, m := range hmdpRow.FindAllStringSubmatch(string(table), -1) {
		names = append(names, m[1])
	}
	require.Greater(t, len(names), 40)
	all := make([]*regexp.Regexp, len(names))
	for i, name := range names {
		all[i] = regexp.MustCompile("^" + pathParam.ReplaceAllString(regexp.QuoteMeta(name), `[^/]+`) + "$")
	}
	return all
}

var phones atomic.Int64

// NewPhone returns an unused phone number.
func NewPhone() string { return fmt.Sprintf("137%08d", phones.Add(1)) }

// Sell places n orders of new users.
func (p *Shop) Sell(t *testing.T, sale string, n int) {
	t.Helper()
	for range n {
		token := p.LoginToken(t, NewPhone())
		_, err := p.Place(t.Context(), token, sale)
		require.NoError(t, err)
	}
}

// openEvents opens an event stream, again after an answer of 503. The stream lasts until the end of the test.
func (p *Server) openEvents(t *testing.T, path, token string) (stream io.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/api/v1"+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	Eventually(t, "an answer other than 503", func() bool {
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		if forgive503(res.StatusCode) {
			return false
		}
		require.Equal(t, http.StatusOK, res.StatusCode)
		stream = res.Body
		return true
	})
	return stream
}

// Follow opens the event stream of an order and returns its statuses. The channel is closed at the end of the stream.
func (p *Server) Follow(t *testing.T, token, order string) <-chan string {
	t.Helper()
	stream := p.openEvents(t, "/orders/"+order+"/events", token)
	statuses := make(chan string, 16)
	go func() {
		defer close(statuses)
		for lines := bufio.NewScanner(stream); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var o struct{ Status string }
				_ = json.Unmarshal([]byte(data), &o)
				statuses <- o.Status
			}
		}
	}()
	return statuses
}

// QueueUp orders until the order is queued, and returns its id. On a busy machine an answer can come too late: the
// order is queued although the buyer gets 503, and the next request is refused with its id. Any other answer is an
// error. A request without an answer is repeated, because its connection may have ended on the way.
func (p *Server) QueueUp(ctx context.Context, token, sale string) (id string, err error) {
	for {
		a, err := p.trySend(ctx, http.MethodPost, OrdersOf(sale), token, "", "Prefer", "wait=5")
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		id, _ := a.Body["order_id"].(string)
		code := a.Body["code"]
		switch {
		case err != nil:
		case id != "" && (a.Status == http.StatusAccepted || a.Status == http.StatusConflict && code == "duplicate_order"):
			return id, nil
		case !forgive503(a.Status) || code != "unavailable" && code != "overloaded" || a.Header.Get("Retry-After") == "":
			return "", fmt.Errorf("answered %d: %v", a.Status, a.Body)
		}
	}
}
