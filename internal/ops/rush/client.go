// Package rush simulates the load of a flash sale: it creates a sale on a running server, lets many buyers order
// concurrently, and checks the answers against the state that the public API shows afterwards.
package rush

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// Client calls the API of one server. It is safe for concurrent use.
type Client struct {
	// Names the program in its requests.
	UserAgent string

	base string
	http *http.Client
}

// requestTimeout bounds one request. It is far above the 5 s within which the server promises an answer.
const requestTimeout = 30 * time.Second

// maxAnswer bounds the body of an answer, in bytes.
const maxAnswer = 1 << 20

// NewClient returns a client for the server at base, such as http://127.0.0.1:8080, with up to conns connections.
func NewClient(base string, conns int) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is not the address of a server, such as http://127.0.0.1:8080", base)
	}

	return &Client{
		base: u.Scheme + "://" + u.Host,
		http: &http.Client{
			Timeout: requestTimeout,
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				MaxConnsPerHost:     conns,
				MaxIdleConnsPerHost: conns,
				IdleConnTimeout:     time.Minute,
			},
		},
	}, nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Problem is an error answer of the server (RFC 9457).
type Problem struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	Detail     string        `json:"detail"`
	OrderID    string        `json:"order_id"`
	RetryAfter time.Duration `json:"-"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s", p.Status, p.Code, cmp.Or(p.Detail, http.StatusText(p.Status)))
}

// Send sends one request of the API with an Idempotency-Key, unless that is empty, and decodes a 2xx answer into out,
// unless that is nil. Any other status is a *Problem.
func (c *Client) Send(ctx context.Context, method, path, token, key string, in, out any) error {
	_, err := c.do(ctx, method, "/api/v1"+path, token, in, out, keyHeader, key)
	return err
}

const keyHeader = "Idempotency-Key"

// do sends one request and decodes a 2xx answer into out, unless out is nil. Any other status is a *Problem. headers are
// names and values in turn; an empty value sets none.
func (c *Client) do(ctx context.Context, method, path, token string, in, out any, headers ...string) (http.Header, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}

	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}

	req.Header.Set("User-Agent", c.UserAgent)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}

	for header := range slices.Chunk(headers, 2) {
		if header[1] != "" {
			req.Header.Set(header[0], header[1])
		}
	}

	if method == http.MethodPost {
		// For a queued order: wait up to 3 s for its outcome.
		req.Header.Set("Prefer", "wait=3")
	}

	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()

	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}

	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, newProblem(res, text)
	}

	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			return nil, fmt.Errorf("decode the answer to %s %s: %w", method, path, err)
		}
	}

	return res.Header, nil
}

func newProblem(res *http.Response, text []byte) *Problem {
	var p Problem
	if json.Unmarshal(text, &p) != nil || p.Code == "" {
		// The answer of a proxy, not of the server.
		p.Code = "http_" + strconv.Itoa(res.StatusCode)
	}

	p.Status = res.StatusCode
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		p.RetryAfter = time.Duration(n) * time.Second
	}

	return &p
}

// Login logs a phone in with the code that a server in demo mode returns, and returns the access token.
func (c *Client) Login(ctx context.Context, phone string) (string, error) {
	var sent struct {
		LoginID string `json:"login_id"`
	}
	header, err := c.do(ctx, http.MethodPost, "/api/v1/auth/code", "", map[string]string{"phone": phone}, &sent)
	if err != nil {
		return "", err
	}

	code := header.Get("X-Demo-Code")
	if code == "" {
		return "", errors.New("the server returns no login code: it is not in demo mode (SECKILL_DEMO)")
	}

	credentials := map[string]string{
		"phone":    phone,
		"code":     code,
		"login_id": sent.LoginID,
	}
	var login struct {
		AccessToken string `json:"access_token"`
	}
	_, err = c.do(ctx, http.MethodPost, "/api/v1/auth/login", "", credentials, &login)
	return login.AccessToken, err
}

// retryBusy repeats f while the server fails for a time, after the time in Retry-After, for no longer than patience.
func retryBusy(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	for {
		err := f()
		var p *Problem
		if !errors.As(err, &p) || p.Code != "unavailable" && p.Code != "overloaded" {
			return err
		}

		if loop.Sleep(ctx, max(p.RetryAfter, 100*time.Millisecond)) != nil {
			return err
		}
	}
}

// Voucher is the public view of a sale.
type Voucher struct {
	ID    string `json:"id"`
	Stock int64  `json:"stock"`
	State string `json:"state"`
}

// CreateSale publishes a seckill voucher with stock units. Its sale is open for an hour from now.
func (c *Client) CreateSale(ctx context.Context, adminToken, title string, stock int64) (Voucher, error) {
	now := time.Now().UTC()
	var v Voucher
	_, err := c.do(ctx, http.MethodPost, "/api/v1/admin/vouchers", adminToken, map[string]any{
		"shop_id":      "1",
		"title":        title,
		"pay_value":    100,
		"actual_value": 200,
		"force":        true,
		"stock":        stock,
		"begin_at":     now.Add(-time.Minute),
		"end_at":       now.Add(time.Hour),
	}, &v)

	return v, err
}

// EndSale ends a sale for good. It retries while the server is busy.
func (c *Client) EndSale(ctx context.Context, adminToken, voucherID string) error {
	return retryBusy(ctx, func() error {
		return c.ChangeVoucher(ctx, adminToken, voucherID, map[string]any{"status": "expired"})
	})
}

// Voucher reads a sale.
func (c *Client) Voucher(ctx context.Context, id string) (Voucher, error) {
	var v Voucher
	_, err := c.do(ctx, http.MethodGet, "/api/v1/vouchers/"+id, "", nil, &v)
	return v, err
}

// Order is a buyer's view of an order.
type Order struct {
	ID        string `json:"id"`
	VoucherID string `json:"voucher_id"`
	Status    string `json:"status"`
	// Why a failed order failed.
	Reason string `json:"reason"`
}

// holdsUnit reports whether the order is active, which means that it holds a unit of the stock. A queued order does
// not.
func (o Order) holdsUnit() bool {
	status, _ := domain.ParseOrderStatus(o.Status)
	return status.Active()
}

// Queued is the status of an order that is not committed yet. Its answer has only an ID and the status.
const Queued = "queued"

// ChangeVoucher changes the given fields of a voucher.
func (c *Client) ChangeVoucher(ctx context.Context, adminToken, voucherID string, fields map[string]any) error {
	_, err := c.do(ctx, http.MethodPatch, "/api/v1/admin/vouchers/"+voucherID, adminToken, fields, nil)
	return err
}

// Place orders one unit, with an Idempotency-Key and a pass of the sale unless they are empty.
func (c *Client) Place(ctx context.Context, token, voucherID, key, pass string) (Order, error) {
	var o Order
	_, err := c.do(ctx, http.MethodPost, "/api/v1/vouchers/"+voucherID+"/orders", token, nil, &o, keyHeader, key, "X-Entry-Pass", pass)
	return o, err
}

// Order reads one order.
func (c *Client) Order(ctx context.Context, token, id string) (Order, error) {
	var o Order
	_, err := c.do(ctx, http.MethodGet, "/api/v1/orders/"+id, token, nil, &o)
	return o, err
}

// Orders reads the newest orders of the token's user.
func (c *Client) Orders(ctx context.Context, token string) ([]Order, error) {
	var list struct {
		Items []Order `json:"items"`
	}
	_, err := c.do(ctx, http.MethodGet, "/api/v1/orders?limit=100", token, nil, &list)
	return list.Items, err
}
