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

// browser returns a client in cookie mode, like the storefront.
func (e *env) browser() client { return e.guest().with("X-Refresh-Token", "cookie") }

// withCookie returns the client with a cookie.
func (c client) withCookie(cookie *http.Cookie) client {
	return c.with("Cookie", cookie.Name+"="+cookie.Value)
}

// cookie returns the refresh cookie that the answer sets.
func (a answer) cookie() *http.Cookie { a.t.Helper(); return a.cookieNamed(refreshCookie) }

// cookieNamed returns a cookie that the answer sets.
func (a answer) cookieNamed(name string) *http.Cookie {
	a.t.Helper()
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == name {
			return c
		}
	}
	require.Fail(a.t, "the answer sets no cookie "+name, a.what)
	return nil
}

// loginBrowser logs the phone in, in cookie mode.
func (e *env) loginBrowser() answer {
	e.t.Helper()
	e.sendCode(phone).want(http.StatusOK)
	return e.browser().post("/api/v1/auth/login", map[string]string{"phone": phone, "code": e.outbox.code(phone)}).want(http.StatusOK)
}

func TestRefreshCookie(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		e := newEnv(t, db)
		a := e.loginBrowser()
		first := a.cookie()
		assert.NotContains(t, string(a.body), first.Value, "the token is not in the body")
		assert.Equal(t, &http.Cookie{
			Name: refreshCookie, Value: first.Value, Path: "/api/v1/auth", MaxAge: 30 * 24 * 3600, HttpOnly: true,
			SameSite: http.SameSiteStrictMode, Raw: first.Raw,
		}, first)

		refreshed := e.browser().withCookie(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK)
		second := refreshed.cookie()
		assert.NotEqual(t, first.Value, second.Value)
		assert.NotContains(t, string(refreshed.body), second.Value)
		c := e.browser().withCookie(second)
		c.token = decode[loginView](refreshed).AccessToken
		c.get("/api/v1/me").want(http.StatusOK)

		gone := c.post("/api/v1/auth/logout", nil).want(http.StatusNoContent).cookie()
		assert.Empty(t, gone.Value)
		assert.Negative(t, gone.MaxAge)
		assert.Equal(t, first.Path, gone.Path)
		dead := e.browser().withCookie(second).post("/api/v1/auth/refresh", nil)
		dead.problem(http.StatusUnauthorized, "unauthenticated")
		assert.Negative(t, dead.cookie().MaxAge, "an invalid cookie is cleared")
	})
}

// TestRefreshCookieAuthorizesOnlyRefresh: no other route accepts the cookie, and neither does refresh without the
// header of cookie mode, which no other site can send.
func TestRefreshCookieAuthorizesOnlyRefresh(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		e := newEnv(t, db)
		cookie := e.loginBrowser().cookie()
		bare := e.guest().withCookie(cookie)
		before := e.dump()
		bare.bad().post("/api/v1/auth/refresh", nil).problem(http.StatusBadRequest, "invalid_request")
		bare.post("/api/v1/auth/refresh", map[string]string{"refresh_token": "x"}).problem(http.StatusUnauthorized, "unauthenticated")
		for _, c := range []client{bare.bad(), e.browser().withCookie(cookie).bad()} {
			c.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
			c.get("/api/v1/orders").problem(http.StatusUnauthorized, "unauthenticated")
			c.post("/api/v1/auth/logout", nil).problem(http.StatusUnauthorized, "unauthenticated")
		}
		e.browser().post("/api/v1/auth/refresh", nil).problem(http.StatusUnauthorized, "unauthenticated")
		assert.Equal(t, before, e.dump())
		assert.NotEmpty(t, e.login(phone).login.RefreshToken, "without cookie mode the token is in the body")
	})
}

// TestRefreshCookieCanBeReusedBriefly: two tabs that refresh at the same time, or a page that is reloaded before the
// answer arrives, keep the session. A token that is used again later ends it.
func TestRefreshCookieCanBeReusedBriefly(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		e := newEnv(t, db)
		first := e.loginBrowser().cookie()
		one := e.browser().withCookie(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK).cookie()
		two := e.browser().withCookie(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK).cookie()
		assert.Equal(t, one.Value, two.Value)
		e.clock.advance(30 * time.Second) // longer than the timeout of a page
		late := e.browser().withCookie(first).post("/api/v1/auth/refresh", nil).want(http.StatusOK).cookie()
		assert.Equal(t, one.Value, late.Value)
		e.clock.advance(2 * time.Minute)
		l := decode[loginView](e.browser().withCookie(one).post("/api/v1/auth/refresh", nil).want(http.StatusOK))
		e.browser().withCookie(first).post("/api/v1/auth/refresh", nil).problem(http.StatusUnauthorized, "unauthenticated")
		e.as(l.AccessToken).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	})
}

// TestRefreshCookieIsSecureOverTLS: the cookie is Secure if a trusted proxy reports that the browser uses TLS.
func TestRefreshCookieIsSecureOverTLS(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		for _, tc := range []struct {
			name, proxies, scheme string
			secure                bool
		}{
			{"plain", "", "", false},
			{"https from an untrusted peer", "", "https", false},
			{"https from the proxy", "192.0.2.0/24", "https", true},
			{"one address", "192.0.2.1", "HTTPS, http", true},
			{"http from the proxy", "192.0.2.0/24", "http", false},
			{"another proxy", "198.51.100.0/24", "https", false},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, db, func(s *setup) {
					s.change = func(c *handler.Config) {
						if tc.proxies != "" {
							c.TrustedProxies = []string{tc.proxies}
						}
					}
				})
				cookie := e.loginBrowser().cookie()
				c := e.browser().withCookie(cookie).with("X-Forwarded-Proto", tc.scheme)
				a := c.direct("POST", "/api/v1/auth/refresh", nil).want(http.StatusOK) // from 192.0.2.1
				assert.Equal(t, tc.secure, a.cookie().Secure)
			})
		}
	})
}
