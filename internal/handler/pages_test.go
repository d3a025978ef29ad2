package handler_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/handler"
)

// TestPagesHaveSchemeOfBrowser: the URL of a page's request has the scheme of the browser. A proxy is believed if it is
// trusted, and nobody else: neither the header of another client nor a request for another server's URL.
func TestPagesHaveSchemeOfBrowser(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) {
		s.change = func(c *handler.Config) {
			c.TrustedProxies = []string{"192.0.2.1"}
			c.Pages = map[string]http.Handler{"/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.URL.Scheme)
			})}
		}
	})
	for _, c := range []struct{ from, claimed, url, want string }{
		{"192.0.2.1:1", "https", "/", "https"}, {"192.0.2.1:1", "http", "/", "http"}, {"192.0.2.1:1", "", "/", "http"},
		{"192.0.2.2:1", "https", "/", "http"}, {"192.0.2.2:1", "", "http://shop.example/", "http"}, {"192.0.2.2:1", "", "https://shop.example/", "https"},
	} {
		req := httptest.NewRequest(http.MethodGet, c.url, http.NoBody) // a URL with https is a connection over TLS
		req.RemoteAddr = c.from
		req.Header.Set("X-Forwarded-Proto", c.claimed)
		rec := httptest.NewRecorder()
		e.engine.ServeHTTP(rec, req)
		assert.Equal(t, c.want, rec.Body.String(), "%+v", c)
	}
	req := httptest.NewRequest(http.MethodGet, "https://shop.example/", http.NoBody)
	req.TLS = nil // only the request line says so
	rec := httptest.NewRecorder()
	e.engine.ServeHTTP(rec, req)
	assert.Equal(t, "http", rec.Body.String())
}

// TestPagesAreServedBesideAPI: pages are served with their own headers to GET and HEAD.
func TestPagesAreServedBesideAPI(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) {
		s.change = func(c *handler.Config) {
			c.Pages = map[string]http.Handler{"/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Security-Policy", "default-src 'self'")
				_, _ = io.WriteString(w, "a page")
			})}
			c.MissingPage = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(http.StatusNotFound)
			})
		}
	})
	request := func(method, path string, accept ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, e.url+path, nil)
		require.NoError(t, err)
		req.Header["Accept"] = accept
		res, err := e.http.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res, string(body)
	}
	for method, body := range map[string]string{http.MethodGet: "a page", http.MethodHead: ""} {
		res, got := request(method, "/")
		assert.Equal(t, http.StatusOK, res.StatusCode, method)
		assert.Equal(t, body, got)
		assert.Equal(t, "default-src 'self'", res.Header.Get("Content-Security-Policy"))
		assert.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
		assert.NotEmpty(t, res.Header.Get("X-Request-Id"))
	}
	for _, other := range [][2]string{{http.MethodPost, "/"}, {http.MethodGet, "/other"}} {
		res, _ := request(other[0], other[1])
		assert.Equal(t, http.StatusNotFound, res.StatusCode, other)
		assert.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	}
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range [][3]string{
		{http.MethodGet, "/other", "text/html"}, {http.MethodHead, "/other", "text/html"}, {http.MethodPost, "/other", "application/problem+json"},
		{http.MethodGet, "/api/v1/other", "application/problem+json"},
	} {
		res, _ := request(c[0], c[1], browser)
		assert.Equal(t, http.StatusNotFound, res.StatusCode, c)
		assert.Equal(t, c[2], res.Header.Get("Content-Type"), c)
	}
}
