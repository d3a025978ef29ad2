package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

type contract struct {
	doc    *openapi3.T
	router routers.Router
}

var theContract = sync.OnceValues(func() (*contract, error) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	router, err := legacy.NewRouter(doc)
	return &contract{doc: doc, router: router}, err
})

// client sends requests and validates every request and answer against the OpenAPI document.
type client struct {
	t       testing.TB
	env     *environment
	token   string
	login   loginView // zero for a guest
	header  http.Header
	invalid bool // requests violate the document
}

func (e *environment) guest() client { return client{t: e.t, env: e} }

func (e *environment) as(token string) client { return client{t: e.t, env: e, token: token} }

// bad returns the client for requests that deliberately violate the document. Answers are still validated.
func (c client) bad() client { c.invalid = true; return c }

func (c client) with(name, value string) client {
	c.header = c.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set(name, value)
	return c
}

func (c client) get(path string) answer            { c.t.Helper(); return c.do("GET", path, nil) }
func (c client) post(path string, body any) answer { c.t.Helper(); return c.do("POST", path, body) }
func (c client) patch(path string, body any) answer {
	c.t.Helper()
	return c.do("PATCH", path, body)
}

// request builds a request. body is nil, a string that is sent as it is, or a value that is encoded as JSON. Each use
// needs a new request, because a body can be read only once.
func (c client) request(url, method, path string, body any) *http.Request {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		payload = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		assert.NoError(c.t, err)
		payload = bytes.NewReader(text)
	}
	req := env.Must(http.NewRequestWithContext(context.Background(), method, url+path, payload))(c.t)
	for name, values := range c.header {
		req.Header[name] = values
	}
	if payload != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req
}

// do sends a request and validates the exchange. It is safe for concurrent use.
func (c client) do(method, path string, body any) answer {
	c.t.Helper()
	a := c.send(c.request(c.env.url, method, path, body))
	if a.status != 0 {
		c.check(c.request("", method, path, body), a)
	}
	return a
}

// direct is do without a network, for tests with many requests per second.
func (c client) direct(method, path string, body any) answer {
	c.t.Helper()
	a := c.serve(c.env.handler, c.request("", method, path, body))
	c.check(c.request("", method, path, body), a)
	return a
}

// send sends a request. The answer has no status if there is none.
func (c client) send(req *http.Request) answer {
	c.t.Helper()
	a := answer{t: c.t, what: req.Method + " " + req.URL.RequestURI()}
	res, err := c.env.http.Do(req)
	if !assert.NoError(c.t, err, a.what) {
		return a
	}
	defer func() { _ = res.Body.Close() }()
	a.status, a.header = res.StatusCode, res.Header
	a.body, err = io.ReadAll(res.Body)
	assert.NoError(c.t, err, a.what)
	return a
}

const testPeer = "192.0.2.1:1234"

// serve has a server answer a request without a network.
func (c client) serve(server http.Handler, req *http.Request) answer {
	rec := httptest.NewRecorder()
	if req.RemoteAddr == "" {
		req.RemoteAddr = testPeer
	}
	server.ServeHTTP(rec, req)
	return answer{t: c.t, what: req.Method + " " + req.URL.RequestURI(), status: rec.Code, header: rec.Header(), body: rec.Body.Bytes()}
}

// raw is direct without the validation. The body is not decompressed.
func (c client) raw(method, path string, body any) answer {
	return c.serve(c.env.handler, c.request("", method, path, body))
}

// taker is the connection of a client that takes an answer in its own way.
type taker struct {
	*httptest.ResponseRecorder
	take func(part []byte)
}

func (w taker) Write(part []byte) (int, error) {
	w.take(part)
	return len(part), nil
}

// take is raw for a GET whose answer goes to a function, as it is written.
func (c client) take(path string, part func([]byte)) {
	req := c.request("", http.MethodGet, path, nil)
	req.RemoteAddr = testPeer
	c.env.handler.ServeHTTP(taker{httptest.NewRecorder(), part}, req)
}

// check validates one exchange against the document.
func (c client) check(req *http.Request, a answer) {
	t := a.t
	t.Helper()
	checkEveryAnswer(t, a)
	k := env.Must(theContract())(t)
	if a.status == http.StatusMethodNotAllowed { // of a method that the document does not have
		assert.NotContains(t, a.header.Get("Allow"), req.Method, a.what)
		checkProblem(t, k, "MethodProblem", a)
		return
	}
	route, params, err := k.router.FindRoute(req)
	// The document's router ignores a trailing slash; the server does not.
	if err != nil || strings.HasSuffix(req.URL.Path, "/") { // not in the document, so the answer must be 404
		assert.Equal(t, http.StatusNotFound, a.status, "%s is not in the document", a.what)
		checkProblem(t, k, "NotFoundProblem", a)
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: hasToken, IncludeResponseStatus: true, MultiError: true,
			RejectWhenRequestBodyNotSpecified: true, SkipSettingDefaults: true,
		},
	}
	if !c.invalid {
		assert.NoError(t, openapi3filter.ValidateRequest(req.Context(), in), "%s: the request", a.what)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header,
		Body: io.NopCloser(bytes.NewReader(a.body)), Options: in.Options,
	}
	assert.NoError(t, openapi3filter.ValidateResponse(req.Context(), out), "%s: the answer %d %s", a.what, a.status, a.body)
	if response := route.Operation.Responses.Status(a.status); response != nil {
		checkHeaders(t, response.Value, a)
	}
}

// hasToken checks the bearerAuth of the document: a bearer token must be present. The server checks its validity.
func hasToken(_ context.Context, in *openapi3filter.AuthenticationInput) error {
	if in.SecuritySchemeName == "signature" {
		return nil // has its own tests
	}
	if !strings.HasPrefix(in.RequestValidationInput.Request.Header.Get("Authorization"), "Bearer ") {
		return errors.New("the document requires a bearer token")
	}
	return nil
}

// checkHeaders reports headers of an answer that the document does not declare. openapi3filter does not check them.
func checkHeaders(t testing.TB, response *openapi3.Response, a answer) {
	t.Helper()
	for _, name := range []string{"Location", "Retry-After", "WWW-Authenticate", "X-Demo-Code", "Set-Cookie", "ETag", "X-Server-Time", "Vary"} {
		if a.header.Get(name) != "" {
			assert.Contains(t, response.Headers, name, "%s: a header that is not documented", a.what)
		}
	}
	if a.header.Get("Idempotency-Replayed") != "" && a.status < http.StatusBadRequest {
		assert.Contains(t, response.Headers, "Idempotency-Replayed", a.what)
	}
	if len(response.Content) == 0 {
		assert.Empty(t, a.body, "%s: a body that is not documented", a.what)
	}
}

// checkEveryAnswer checks the headers and the problem body that all answers must have.
func checkEveryAnswer(t testing.TB, a answer) {
	t.Helper()
	cached := "no-store"
	switch {
	case a.header.Get("ETag") != "":
		cached = "no-cache"
	case a.header.Get("Content-Type") == "image/jpeg":
		cached = "public, max-age=31536000, immutable"
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cache-Control": cached,
	} {
		assert.Equal(t, want, a.header.Get(name), "%s %d: %s", a.what, a.status, name)
	}
	assert.Regexp(t, requestID, a.header.Get("X-Request-Id"), "%s %d", a.what, a.status)
	if a.status < 400 {
		return
	}
	assert.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.what)
	var p problemView
	if assert.NoError(t, json.Unmarshal(a.body, &p), "%s %d: %s", a.what, a.status, a.body) {
		assert.Equal(t, a.status, p.Status, a.what)
		if a.header.Get("Idempotency-Replayed") == "" { // a replay has the id of the first request
			assert.Equal(t, a.header.Get("X-Request-Id"), p.RequestID, a.what)
		}
	}
}

func checkProblem(t testing.TB, k *contract, schema string, a answer) {
	t.Helper()
	var value any
	if assert.NoError(t, json.Unmarshal(a.body, &value), a.what) {
		assert.NoError(t, k.doc.Components.Schemas[schema].Value.VisitJSON(value), a.what)
	}
}

type answer struct {
	t      testing.TB
	what   string // the request, for messages
	status int
	header http.Header
	body   []byte
}

func (a answer) want(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s: %s", a.what, a.body)
	return a
}

// problem returns the error body and stops the test if status or code differ.
func (a answer) problem(status int, code string) problemView {
	a.t.Helper()
	p := decode[problemView](a.want(status))
	require.Equal(a.t, code, p.Code, "%s: %s", a.what, a.body)
	return p
}

func decode[T any](a answer) T {
	a.t.Helper()
	var v T
	require.NoError(a.t, json.Unmarshal(a.body, &v), "%s: %s", a.what, a.body)
	return v
}

func mustID(t testing.TB, id string) int64 {
	t.Helper()
	return env.Must(strconv.ParseInt(id, 10, 64))(t)
}

// The fields of bodies that tests use. The complete bodies are validated against the document.

type problemView struct {
	Type, Code, Title, Detail string
	Status                    int
	RequestID                 string `json:"request_id"`
	OrderID                   string `json:"order_id"`
	Errors                    []struct{ Field, Detail string }
}

func (p problemView) fields() []string {
	names := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		names[i] = e.Field
	}
	return names
}

type userView struct{ ID, Phone, Role string }

type loginView struct {
	AccessToken  string `json:"access_token"`
	ExpiresIn    int    `json:"expires_in"`
	RefreshToken string `json:"refresh_token"`
	User         userView
}

type voucherView struct {
	ID, Title, Type, Status, State string
	InitialStock                   *int64 `json:"initial_stock"`
	AddedStock                     int64  `json:"added_stock"`
	Stock                          *int64
	BeginAt                        string `json:"begin_at"`
	EndAt                          string `json:"end_at"`
	LimitPerUser                   int    `json:"limit_per_user"`
	UpdatedAt                      string `json:"updated_at"`
	ServerTime                     string `json:"server_time"`
}

func (v voucherView) path() string      { return "/api/v1/vouchers/" + v.ID }
func (v voucherView) adminPath() string { return "/api/v1/admin/vouchers/" + v.ID }
func (v voucherView) orders() string    { return v.path() + "/orders" }
func (v voucherView) number() int64     { n, _ := strconv.ParseInt(v.ID, 10, 64); return n }

type orderView struct {
	ID, Status  string
	VoucherID   string `json:"voucher_id"`
	UserID      string `json:"user_id"`
	Amount      int64
	CreatedAt   string `json:"created_at"`
	ExpiresAt   string `json:"expires_at"`
	PaidAt      string `json:"paid_at"`
	RedeemedAt  string `json:"redeemed_at"`
	CancelledAt string `json:"cancelled_at"`
	RefundedAt  string `json:"refunded_at"`
	RedeemCode  string `json:"redeem_code"`
	Ahead       *int64
}

func (o orderView) path() string { return "/api/v1/orders/" + o.ID }

type auditEntry struct {
	Actor, Action, Detail string
	ActorID               string `json:"actor_id"`
	VoucherID             string `json:"voucher_id"`
}

// audit returns the changes in the audit log that a query selects, newest first.
func (c client) audit(query string) []auditEntry {
	c.t.Helper()
	return decode[listView[auditEntry]](c.get("/api/v1/admin/audit?" + query).want(http.StatusOK)).Items
}

type listView[T any] struct {
	Items      []T
	NextCursor *string `json:"next_cursor"`
}

// walk reads a list page by page and returns the sizes of the pages and all items.
func walk[T any](c client, path string, limit int) (sizes []int, all []T) {
	c.t.Helper()
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	next := fmt.Sprintf("%s%slimit=%d", path, sep, limit)
	for at := next; ; {
		l := decode[listView[T]](c.get(at).want(http.StatusOK))
		sizes, all = append(sizes, len(l.Items)), append(all, l.Items...)
		if l.NextCursor == nil {
			return sizes, all
		}
		require.Less(c.t, len(sizes), 50, "the list does not end")
		at = next + "&cursor=" + *l.NextCursor
	}
}
