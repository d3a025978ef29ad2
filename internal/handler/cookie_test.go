package handler_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/handler"
)

const refreshCookie = "seckill_refresh"

// page is a client as the storefront is one: it asks for the cookie.
func (e *env) browser() client { return e.guest().with("X-Refresh-Token", "cookie") }

// holding is the page when the browser has this cookie.
func (c client) holding(cookie *http.Cookie) client {
	return c.with("Cookie", cookie.Name+"="+cookie.Value)
}

// cookie is the one that the answer sets.
func (a answer) cookie() *http.Cookie {
	a.t.Helper()
	cookies := (&http.Response{Header: a.header}).Cookies()
	require.Len(a.t, cookies, 1, a.what)
	return cookies[0]
}

// loginPage logs a phone in as a page does.
func (e *env) loginPage() answer {
	e.t.Helper()
	e.sendCode(phone).want(http.StatusNoContent)
	return e.browser().post("/api/v1/auth/login", map[string]string{"phone": phone, "code": e.outbox.code(phone)}).want(http.StatusOK)
}

func TestRefreshCookie(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a := e.loginPage()
	first := a.cookie()
	assert.NotContains(t, string(a.body), first.Value, "no script sees the token")
	assert.Equal(t, &http.Cookie{
		Name: refreshCookie, Value: first.Value, Path: "/api/v1/auth", MaxAge: 30 * 24 * 3600, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Raw: first.Raw,
	}, first)

	refreshed := e.browser().holding(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK)
	second := refreshed.cookie()
	assert.NotEqual(t, first.Value, second.Value)
	assert.NotContains(t, string(refreshed.body), second.Value)
	c := e.browser().holding(second)
	c.token = decode[loginView](refreshed).AccessToken
	c.get("/api/v1/me").want(http.StatusOK)

	gone := c.post("/api/v1/auth/logout", nil).want(http.StatusNoContent).cookie()
	assert.Empty(t, gone.Value)
	assert.Negative(t, gone.MaxAge)
	assert.Equal(t, first.Path, gone.Path)
	dead := e.browser().holding(second).post("/api/v1/auth/refresh", nil)
	dead.problem(http.StatusUnauthorized, "unauthenticated")
	assert.Negative(t, dead.cookie().MaxAge, "a cookie of no use is taken back")
}

// TestRefreshCookieIsNothingElse: without the header, which no other site can send, the cookie does nothing.
func TestRefreshCookieIsNothingElse(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	cookie := e.loginPage().cookie()
	bare := e.guest().holding(cookie)
	before := e.dump()
	bare.bad().post("/api/v1/auth/refresh", nil).problem(http.StatusBadRequest, "invalid_request")
	bare.post("/api/v1/auth/refresh", map[string]string{"refresh_token": "x"}).problem(http.StatusUnauthorized, "unauthenticated")
	for _, c := range []client{bare.bad(), e.browser().holding(cookie).bad()} {
		c.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
		c.get("/api/v1/orders").problem(http.StatusUnauthorized, "unauthenticated")
		c.post("/api/v1/auth/logout", nil).problem(http.StatusUnauthorized, "unauthenticated")
	}
	e.browser().post("/api/v1/auth/refresh", nil).problem(http.StatusUnauthorized, "unauthenticated")
	assert.Equal(t, before, e.dump())
	assert.NotEmpty(t, e.login(phone).login.RefreshToken, "everybody else has the token in the body")
}

// TestRefreshCookieTwice: two tabs that wake up together, or a page that is reloaded before its answer came, keep the
// session; a token that is used again later has been copied.
func TestRefreshCookieTwice(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.loginPage().cookie()
	one := e.browser().holding(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK).cookie()
	two := e.browser().holding(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK).cookie()
	assert.Equal(t, one.Value, two.Value)
	e.clock.advance(30 * time.Second) // longer than a page waits for an answer that does not come
	late := e.browser().holding(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK).cookie()
	assert.Equal(t, one.Value, late.Value)
	e.clock.advance(2 * time.Minute)
	l := decode[loginView](e.browser().holding(one).post("/api/v1/auth/refresh", nil).want(http.StatusOK))
	e.browser().holding(first).post("/api/v1/auth/refresh", nil).problem(http.StatusUnauthorized, "unauthenticated")
	e.as(l.AccessToken).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
}

// TestRefreshCookieSecure: Secure where the browser came by TLS, as far as a proxy that is trusted says so.
func TestRefreshCookieSecure(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, proxies, scheme string
		secure                bool
	}{
		{"plain", "", "", false},
		{"anybody may say https", "", "https", false},
		{"the proxy says https", "192.0.2.0/24", "https", true},
		{"one address", "192.0.2.1", "HTTPS, http", true},
		{"the proxy says http", "192.0.2.0/24", "http", false},
		{"another proxy", "198.51.100.0/24", "https", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(s *setup) {
				s.change = func(c *handler.Config) {
					if tc.proxies != "" {
						c.TrustedProxies = []string{tc.proxies}
					}
				}
			})
			cookie := e.loginPage().cookie()
			c := e.browser().holding(cookie).with("X-Forwarded-Proto", tc.scheme)
			a := c.direct("POST", "/api/v1/auth/refresh", nil).want(http.StatusOK) // from 192.0.2.1
			assert.Equal(t, tc.secure, a.cookie().Secure)
		})
	}
}
