package handler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/test/env"
)

const phone = "13800000001"

func phoneBody(phone string) map[string]string { return map[string]string{"phone": phone} }

func (e *environment) sendCode(phone string) answer {
	e.t.Helper()
	return e.guest().post("/api/v1/auth/code", phoneBody(phone))
}

type sentView struct {
	LoginID     string `json:"login_id"`
	ExpiresIn   int    `json:"expires_in"`
	ResendAfter int    `json:"resend_after"`
}

// tryCode logs in without a login id, as older clients do.
func (e *environment) tryCode(phone, code string) answer {
	e.t.Helper()
	return e.guest().post("/api/v1/auth/login", map[string]string{"phone": phone, "code": code})
}

func (e *environment) credentials(phone string) map[string]string {
	e.t.Helper()
	sent := decode[sentView](e.sendCode(phone).want(http.StatusOK))
	return map[string]string{"phone": phone, "code": e.outbox.code(phone), "login_id": sent.LoginID}
}

func (e *environment) tryLogin(phone, code, loginID string) answer {
	e.t.Helper()
	return e.guest().post("/api/v1/auth/login", map[string]string{"phone": phone, "code": code, "login_id": loginID})
}

func (e *environment) refresh(token string) answer {
	e.t.Helper()
	return e.guest().post("/api/v1/auth/refresh", map[string]string{"refresh_token": token})
}

func otherCode(code string) string {
	n, _ := strconv.Atoi(code)
	return fmt.Sprintf("%06d", (n+1)%1_000_000)
}

func (a answer) retryAfter() int {
	a.t.Helper()
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(a.t, err, a.what)
	return n
}

func TestLoginRefreshLogout(t *testing.T) {
	e := start(t)
	c := e.login(phone)
	assert.Equal(t, 900, c.login.ExpiresIn)
	me := decode[userView](c.get("/api/v1/me").want(http.StatusOK))
	assert.Equal(t, userView{ID: c.login.User.ID, Phone: phone, Role: "buyer"}, me)

	assert.Empty(t, e.sendCode("13800000002").want(http.StatusOK).header.Get("X-Demo-Code"), "outside demo mode")

	again := e.login(phone)
	assert.Equal(t, c.login.User.ID, again.login.User.ID, "one phone is one user")

	l := decode[loginView](e.refresh(c.login.RefreshToken).want(http.StatusOK))
	assert.NotEqual(t, c.login.RefreshToken, l.RefreshToken, "the refresh token is rotated")
	assert.Equal(t, me.ID, l.User.ID)
	fresh := e.as(l.AccessToken)
	fresh.get("/api/v1/me").want(http.StatusOK)
	c.get("/api/v1/me").want(http.StatusOK) // an access token is valid until it expires

	fresh.post("/api/v1/auth/logout", nil).want(http.StatusNoContent)
	fresh.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	c.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	fresh.post("/api/v1/auth/logout", nil).problem(http.StatusUnauthorized, "unauthenticated")
	e.refresh(l.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
	again.get("/api/v1/me").want(http.StatusOK) // another session of the same user
}

// TestLogoutEverywhere: it ends every session of the user, of both APIs and on all instances, and no other.
func TestLogoutEverywhere(t *testing.T) {
	t.Parallel()
	one := newEnv(t)
	two := newEnv(t, func(s *setup) { s.store = one.store })
	phones, other := []client{one.login(phone), two.login(phone)}, one.buyer(2)
	page := one.pageOf(phone)
	browser := one.loginBrowser()
	at := func(e *environment, c client) client { c.env = e; return c }
	page.env = two
	page.get("/user/me").object() // a session is valid on every instance
	mine := one.as(decode[loginView](browser).AccessToken).with("X-Refresh-Token", "cookie")
	left := mine.post("/api/v1/auth/logout-all", nil).want(http.StatusNoContent)
	assert.Negative(t, left.cookie().MaxAge)
	require.NoError(t, two.revoked.Load(t.Context())) // as the poller does twice per second
	for _, e := range []*environment{one, two} {
		for _, c := range append(phones, mine) {
			at(e, c).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
		}
		page.env = e
		page.get("/user/me").loggedOut()
		at(e, other).get("/api/v1/me").want(http.StatusOK)
	}
	one.refresh(phones[0].login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
	one.login(phone).get("/api/v1/me").want(http.StatusOK)
}

// TestCodesOfSeveralRequests: each login id has its own code and its own five guesses, and only its phone can use it. Without a
// login id, the newest code of the address counts.
func TestCodesOfSeveralRequests(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		send := func() (id, code string) {
			sent := decode[sentView](e.sendCode(phone).want(http.StatusOK))
			assert.Equal(t, sentView{LoginID: sent.LoginID, ExpiresIn: 120, ResendAfter: 60}, sent)
			e.clock.advance(time.Millisecond)
			return sent.LoginID, e.outbox.code(phone)
		}
		refused := func(phone, code, loginID string) {
			e.tryLogin(phone, code, loginID).problem(http.StatusUnauthorized, "unauthenticated")
		}
		first, code1 := send()
		second, code2 := send()
		third, code3 := send()
		for range 5 {
			refused(phone, otherCode(code2), second)
			refused(phone, otherCode(code3), "")
		}
		refused(phone, code2, second)
		refused(phone, code3, "")
		if code1 != code3 { // else they are equal by chance
			refused(phone, code1, third)
		}
		refused("13800000002", code1, first)
		for _, id := range []string{"x", "ü\x00😀", strings.ToLower(first)} {
			refused(phone, code1, id)
		}
		for range 4 {
			refused(phone, otherCode(code1), first)
		}
		e.tryLogin(phone, code1, first).want(http.StatusOK)
		refused(phone, code1, first)
		e.tryLogin(phone, code3, third).want(http.StatusOK) // guesses without a login id do not count against it

		_, older := send()
		_, last := send()
		e.clock.advance(2*time.Minute - 3*time.Millisecond)
		e.tryCode(phone, last).want(http.StatusOK)
		e.tryCode(phone, older).want(http.StatusOK) // the newest that is not used
		_, last = send()
		e.clock.advance(2 * time.Minute)
		refused(phone, last, "")
	})
}

func TestCodeCooldown(t *testing.T) {
	e := start(t, func(s *setup) { s.limits = true })
	for range 3 {
		e.sendCode(phone).want(http.StatusOK)
	}
	e.clock.advance(20*time.Second + 500*time.Millisecond)
	before := e.dump()
	a := e.sendCode(phone)
	a.problem(http.StatusTooManyRequests, "rate_limited")
	assert.Equal(t, 40, a.retryAfter(), "the remaining 39.5 s are rounded up")
	assert.Equal(t, before, e.dump(), "a refusal changes nothing")
	e.sendCode("13800000002").want(http.StatusOK) // the pause is per phone

	e.clock.advance(39*time.Second + 500*time.Millisecond)
	e.sendCode("+86 138-0000-0001").want(http.StatusOK)
	code := e.outbox.code(phone) // as people type and paste it. Package domain has the forms.
	e.tryCode("0086"+phone, "\u202a"+code[:3]+"–"+code[3:]+"\u202c\n").want(http.StatusOK)
}

// TestMessagesThatFail: a code that was not sent costs no quota, and can be requested again after one second. A client that disconnects
// while its code is sent, and a provider that is too slow, give no quota back, because the message may arrive.
func TestMessagesThatFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error // of the provider; nil: the client disconnects
		sent int   // messages until the limit
	}{
		"refused by the provider": {errors.New("the provider answered 500 for +49123"), 20},
		"client disconnects":      {nil, 3},
		"provider is slow":        {&net.DNSError{IsTimeout: true}, 3},
	} {
		var ctx context.Context
		var disconnect context.CancelFunc
		sent := 0
		e := newEnv(t, func(s *setup) {
			s.limits = true
			s.sender = func(auth.CodeSender) auth.CodeSender {
				return func(ctx context.Context, _, _ string, _ time.Time) error {
					sent++
					if tc.err == nil {
						disconnect()
						return ctx.Err()
					}
					return tc.err
				}
			}
		})
		earlier := auth.LoginRequest{
			ID:        "earlier",
			Phone:     phone,
			Asker:     make([]byte, 16),
			Hash:      make([]byte, 32),
			CreatedAt: e.clock.now(),
			ExpiresAt: e.clock.now().Add(time.Minute),
		}
		require.NoError(t, e.store.AddLoginRequest(t.Context(), earlier))
		for range 20 {
			ctx, disconnect = context.WithCancel(t.Context())
			_, _ = e.Auth.SendCode(ctx, phone, auth.Asker{})
			disconnect()
		}
		assert.Equal(t, tc.sent, sent, name)
		if tc.sent == 20 {
			a := e.sendCode(phone)
			a.problem(http.StatusServiceUnavailable, "unavailable")
			assert.NotContains(t, string(a.body), "provider")
			require.Equal(t, 1, a.retryAfter())
			assert.Equal(t, 1, strings.Count(e.dumpOf("login_codes"), phone), "only the request that did not fail is left")
		}
	}
}

// TestRemovedAdminIsOut: an admin who is demoted, deleted, or taken off the configured phones cannot use a token that is
// still valid, on any admin route. While the database is down, admin routes are unavailable.
func TestRemovedAdminIsOut(t *testing.T) {
	e := start(t)
	const other = "13900000001"
	e.login(other)
	e.exec("UPDATE users SET role = 'admin' WHERE phone = ?", other)
	c, removed, page := e.login(other), e.admin(), e.pageOf(other)
	routes := func(c client, status int, code string) {
		c.get("/api/v1/admin/audit").problem(status, code)
		c.post("/api/v1/admin/vouchers", e.saleBody(1)).problem(status, code)
		c.get("/api/v1/admin/vouchers/1/events").problem(status, code)
	}
	change := func(statement string) {
		e.exec(statement+" WHERE phone = ?", other)
		e.clock.advance(time.Second) // the age up to which a role is used
	}
	page.post("/voucher/seckill", e.courseVoucher()).text()
	c.get("/api/v1/admin/audit").want(http.StatusOK)
	e.store.fail(func() error { return domain.ErrUnavailable })
	e.clock.advance(time.Second)
	routes(c, http.StatusServiceUnavailable, "unavailable")
	e.store.fail(nil)

	change("UPDATE users SET role = 'buyer'")
	routes(c, http.StatusForbidden, "forbidden")
	c.get("/api/v1/orders").want(http.StatusOK)
	page.post("/voucher/seckill", e.courseVoucher()).fails("没有权限")

	change("UPDATE users SET role = 'admin'")
	c.get("/api/v1/admin/audit").want(http.StatusOK)
	change("DELETE FROM users")
	routes(c, http.StatusUnauthorized, "unauthenticated")

	removed.get("/api/v1/admin/audit").want(http.StatusOK)
	restarted := newEnv(t, func(s *setup) { s.store, s.adminPhones = e.store, []string{other} })
	routes(restarted.as(removed.token), http.StatusForbidden, "forbidden")
}

// TestRequestsPerCallerAreLimited: the clock of the buckets stands still.
func TestRequestsPerCallerAreLimited(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, path string
		body       any
		burst      int
	}{
		{"logins", "/api/v1/auth/login", map[string]string{"phone": phone, "code": "1"}, 120},
		{"refreshes", "/api/v1/auth/refresh", map[string]string{"refresh_token": "x"}, 120},
		{"orders", "/api/v1/vouchers/0/orders", nil, 200},
		{"entries", "/api/v1/vouchers/0/entry", nil, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(s *setup) { s.limits, s.rateLimit = true, true })
			c := e.buyer(1).bad()
			limited := 0
			for i := range 3 * tc.burst {
				// X-Forwarded-For is ignored unless the peer is a trusted proxy.
				a := c.with("X-Forwarded-For", fmt.Sprintf("10.0.0.%d", i)).direct("POST", tc.path, tc.body)
				if a.status == http.StatusTooManyRequests {
					a.problem(http.StatusTooManyRequests, "rate_limited")
					assert.Equal(t, 1, a.retryAfter())
					limited++
				}
			}
			assert.Equal(t, 2*tc.burst, limited)
			if tc.name == "orders" { // of both APIs
				page{c}.post("/voucher-order/seckill/0", nil).fails("操作太频繁，请稍后再试")
			}
		})
	}
}

// TestRefreshLimitIsPerSession: a session that exceeds the limit does not affect another one with the same address.
func TestRefreshLimitIsPerSession(t *testing.T) {
	e := start(t, func(s *setup) { s.rateLimit = true })
	const burst = 120
	refresh := func(token string) answer {
		return e.guest().bad().direct("POST", "/api/v1/auth/refresh", map[string]string{"refresh_token": token})
	}
	busy, other := e.buyer(1).login.RefreshToken, e.buyer(2).login.RefreshToken
	for range burst {
		busy = decode[loginView](refresh(busy).want(http.StatusOK)).RefreshToken
	}
	refresh(busy).problem(http.StatusTooManyRequests, "rate_limited")
	for range 2 * burst {
		refresh("made up")
	}
	refresh(other).want(http.StatusOK)
}

const (
	refreshCookie = "seckill_refresh"
	deviceCookie  = "seckill_device"
)

// browser returns a client in cookie mode, like the storefront.
func (e *environment) browser() client { return e.guest().with("X-Refresh-Token", "cookie") }

func (c client) withCookie(cookies ...*http.Cookie) client {
	var pairs []string
	for _, cookie := range cookies {
		pairs = append(pairs, cookie.Name+"="+cookie.Value)
	}
	return c.with("Cookie", strings.Join(pairs, "; "))
}

func (a answer) cookie() *http.Cookie { a.t.Helper(); return a.cookieNamed(refreshCookie) }

// cookieNamed returns the cookie with this name, or with its __Host- form, that the answer sets once in one form.
func (a answer) cookieNamed(name string) *http.Cookie {
	a.t.Helper()
	set := map[string]*http.Cookie{}
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		require.NotContains(a.t, set, cookie.Name, a.what)
		set[cookie.Name] = cookie
	}
	if host, ok := set["__Host-"+name]; ok {
		require.NotContains(a.t, set, name, a.what)
		return host
	}
	require.Contains(a.t, set, name, a.what)
	return set[name]
}

func (e *environment) loginBrowser() answer {
	e.t.Helper()
	return e.browser().post("/api/v1/auth/login", e.credentials(phone)).want(http.StatusOK)
}

func TestRefreshCookie(t *testing.T) {
	e := start(t)
	a := e.loginBrowser()
	first := a.cookie()
	assert.NotContains(t, string(a.body), first.Value, "the token is not in the body")
	assert.Equal(t, &http.Cookie{
		Name: refreshCookie, Value: first.Value, Path: "/api/v1/auth", MaxAge: 30 * 24 * 3600, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Raw: first.Raw,
	}, first)

	device := a.cookieNamed(deviceCookie)
	assert.NotContains(t, e.dump(), device.Value, "the database has a hash")
	forged := e.browser().withCookie(&http.Cookie{Name: deviceCookie, Value: "1"}).post("/api/v1/auth/login", e.credentials("13800000002"))
	assert.Len(t, forged.want(http.StatusOK).cookieNamed(deviceCookie).Value, 26, "an id that the server cannot have made is replaced")
	refreshed := e.browser().withCookie(first, device).post("/api/v1/auth/refresh", nil).want(http.StatusOK)
	second := refreshed.cookie()
	assert.NotEqual(t, first.Value, second.Value)
	assert.NotContains(t, string(refreshed.body), second.Value)
	repeated := e.browser().withCookie(first, device).post("/api/v1/auth/refresh", nil).want(http.StatusOK)
	assert.Equal(t, second.Value, repeated.cookie().Value, "two tabs, or a page that is reloaded before the answer arrives, keep the session")
	c := e.browser().withCookie(second, device)
	c.token = decode[loginView](refreshed).AccessToken
	c.get("/api/v1/me").want(http.StatusOK)

	gone := c.post("/api/v1/auth/logout", nil).want(http.StatusNoContent).cookie()
	assert.Empty(t, gone.Value)
	assert.Negative(t, gone.MaxAge)
	assert.Equal(t, first.Path, gone.Path)
	dead := e.browser().withCookie(second, device).post("/api/v1/auth/refresh", nil)
	dead.problem(http.StatusUnauthorized, "unauthenticated")
	assert.Negative(t, dead.cookie().MaxAge, "an invalid cookie is cleared")
}

// No other route accepts the cookie, and neither does refresh without the header of cookie mode, which no other site can send.
func TestRefreshCookieAuthorizesOnlyRefresh(t *testing.T) {
	e := start(t)
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
}

// TestCopiedRefreshCookieEndsSession: a refresh cookie in another browser, or in a client without cookies, ends the session.
// TestRotateSessionOfAnotherDevice of package repo has the token that was exchanged a moment ago.
func TestCopiedRefreshCookieEndsSession(t *testing.T) {
	e := start(t)
	for name, steal := range map[string]func(token *http.Cookie) answer{
		"no device": func(token *http.Cookie) answer {
			return e.browser().withCookie(token).post("/api/v1/auth/refresh", nil)
		},
		"another device": func(token *http.Cookie) answer {
			device := &http.Cookie{Name: deviceCookie, Value: strings.Repeat("A", 26)}
			return e.browser().withCookie(token, device).post("/api/v1/auth/refresh", nil)
		},
		"without cookie mode": func(token *http.Cookie) answer { return e.refresh(token.Value) },
	} {
		login := e.loginBrowser()
		owner := e.as(decode[loginView](login).AccessToken)
		owner.get("/api/v1/me").want(http.StatusOK)
		stolen := steal(login.cookie())
		stolen.what = name
		stolen.problem(http.StatusUnauthorized, "unauthenticated")
		owner.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	}
}

// TestTossedCookieIsIgnored: over TLS a cookie without the prefix, which a sibling subdomain can set, does nothing. A
// browser cannot use the session of a client without cookies either.
func TestTossedCookieIsIgnored(t *testing.T) {
	e := start(t, configured(func(c *handler.Config) { c.TrustedProxies = []string{"192.0.2.1"} }))
	tls := e.browser().with("X-Forwarded-Proto", "https")
	refresh := func(cookies ...*http.Cookie) answer {
		return tls.withCookie(cookies...).direct("POST", "/api/v1/auth/refresh", nil)
	}
	login := tls.direct("POST", "/api/v1/auth/login", e.credentials("13800000001")).want(http.StatusOK)
	victim, device := login.cookie(), login.cookieNamed(deviceCookie)
	attacker := e.login("13800000002").login.RefreshToken
	tossed := &http.Cookie{Name: refreshCookie, Value: attacker}
	assert.Equal(t, "13800000001", decode[loginView](refresh(tossed, victim, device).want(http.StatusOK)).User.Phone)
	refresh(tossed, device).problem(http.StatusUnauthorized, "unauthenticated")
	refresh(tossed).problem(http.StatusUnauthorized, "unauthenticated")
	attacker = decode[loginView](e.refresh(attacker).want(http.StatusOK)).RefreshToken // the cookie had no effect

	own := &http.Cookie{Name: "__Host-" + refreshCookie, Value: attacker}
	refresh(own).problem(http.StatusUnauthorized, "unauthenticated")
}

// TestCookiesOverTLS: if the browser uses TLS, cookies are Secure and bound to the host. TestPagesHaveSchemeOfBrowser has the proxies.
func TestCookiesOverTLS(t *testing.T) {
	e := start(t, configured(func(c *handler.Config) { c.TrustedProxies = []string{"192.0.2.1"} }))
	for scheme, secure := range map[string]bool{"http": false, "https": true} {
		c := e.browser().with("X-Forwarded-Proto", scheme)
		login := c.direct("POST", "/api/v1/auth/login", e.credentials(phone)).want(http.StatusOK) // from 192.0.2.1
		refresh, device := login.cookie(), login.cookieNamed(deviceCookie)
		for name, cookie := range map[string]*http.Cookie{refreshCookie: refresh, deviceCookie: device} {
			path := "/api/v1/auth"
			if secure {
				name, path = "__Host-"+name, "/"
			}
			assert.Equal(t, name, cookie.Name)
			assert.Equal(t, path, cookie.Path)
			assert.Equal(t, secure, cookie.Secure)
			assert.Empty(t, cookie.Domain)
			assert.True(t, cookie.HttpOnly)
		}
		again := c.withCookie(refresh, device).direct("POST", "/api/v1/auth/refresh", nil).want(http.StatusOK)
		assert.Equal(t, device.Value, again.cookieNamed(deviceCookie).Value, "the browser keeps its id")
	}
}

func (e *environment) goodClaims(userID string) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "seckill", "aud": "seckill", "sub": userID, "sid": "00112233445566778899aabbccddeeff", "role": "admin",
		"iat": e.clock.now().Unix(), "exp": e.clock.now().Add(10 * time.Minute).Unix(),
	}
}

// sign returns a token with these claims, and with headers in addition to those of the method or in their place.
func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims, headers ...map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for _, header := range headers {
		maps.Copy(token.Header, header)
	}
	return env.Must(token.SignedString(key))(t)
}

// TestInvalidTokens: TestDocumentListsReturnedCodes has the routes.
func TestInvalidTokens(t *testing.T) {
	e := start(t)
	user, now := e.login(phone).login.User.ID, e.clock.now()
	claims := func(changes jwt.MapClaims) jwt.MapClaims { // nil removes a claim
		c := e.goodClaims(user)
		maps.Copy(c, changes)
		maps.DeleteFunc(c, func(_ string, value any) bool { return value == nil })
		return c
	}
	with := func(changes jwt.MapClaims) string { return sign(t, jwt.SigningMethodHS256, secret, claims(changes)) }
	labelled := func(header map[string]any) string {
		return sign(t, jwt.SigningMethodHS256, secret, claims(nil), header)
	}
	years, past := now.AddDate(10, 0, 0), now.Add(-time.Second).Unix()
	forged := []byte("another secret that is long enough to sign")
	good := with(nil)
	e.as(good).get("/api/v1/me").want(http.StatusOK) // the base of the following variants is valid
	e.as(with(jwt.MapClaims{"role": "buyer", "exp": now.Add(24 * time.Hour).Unix()})).get("/api/v1/me").want(http.StatusOK)

	for name, tc := range map[string]struct{ token, code string }{
		"other secret":    {sign(t, jwt.SigningMethodHS256, forged, claims(nil)), "unauthenticated"},
		"expired":         {with(jwt.MapClaims{"exp": past}), "token_expired"},
		"expires now":     {with(jwt.MapClaims{"exp": now.Unix()}), "token_expired"},
		"expired, forged": {sign(t, jwt.SigningMethodHS256, forged, claims(jwt.MapClaims{"exp": past})), "unauthenticated"},
		"none":            {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil)), "unauthenticated"},
		"HS512":           {sign(t, jwt.SigningMethodHS512, secret, claims(nil)), "unauthenticated"},
		"called RS256":    {labelled(map[string]any{"alg": "RS256"}), "unauthenticated"},
		"called hs256":    {labelled(map[string]any{"alg": "hs256"}), "unauthenticated"},
		"crit":            {labelled(map[string]any{"crit": []string{"b64"}, "b64": false}), "unauthenticated"},
		"empty crit":      {labelled(map[string]any{"crit": []string{}}), "unauthenticated"},
		"wrong iss":       {with(jwt.MapClaims{"iss": "elsewhere"}), "unauthenticated"},
		"no aud":          {with(jwt.MapClaims{"aud": nil}), "unauthenticated"},
		"no exp":          {with(jwt.MapClaims{"exp": nil}), "unauthenticated"},
		"for years":       {with(jwt.MapClaims{"exp": years.Unix()}), "unauthenticated"},
		"no iat, years":   {with(jwt.MapClaims{"exp": years.Unix(), "iat": nil}), "unauthenticated"},
		"iat in future":   {with(jwt.MapClaims{"exp": years.Unix(), "iat": years.Add(-time.Minute).Unix()}), "unauthenticated"},
		"admin, 16 min":   {with(jwt.MapClaims{"exp": now.Add(16 * time.Minute).Unix()}), "unauthenticated"},
		"buyer, 25 h":     {with(jwt.MapClaims{"exp": now.Add(25 * time.Hour).Unix(), "role": "buyer"}), "unauthenticated"},
		"no sid":          {with(jwt.MapClaims{"sid": nil}), "unauthenticated"},
		"sub is a word":   {with(jwt.MapClaims{"sub": "admin"}), "unauthenticated"},
		"sub is zero":     {with(jwt.MapClaims{"sub": "0"}), "unauthenticated"},
		"no signature":    {good[:len(good)-43], "unauthenticated"},
		"garbage":         {"a.b.c", "unauthenticated"},
	} {
		a := e.as(tc.token).get("/api/v1/me")
		a.what = name
		a.problem(http.StatusUnauthorized, tc.code)
		assert.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer", name)
	}

	// The base64 encoding of 32 bytes ends in two unused bits.
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(digits, good[len(good)-1])
	e.as(good[:len(good)-1]+string(digits[last^1])).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")

	// Only the header of RFC 6750 has a token, and only once.
	token := e.login(phone).token
	for header, want := range map[string]int{
		"Bearer " + token:       http.StatusOK,
		"bearer " + token:       http.StatusOK, // schemes are case-insensitive (RFC 9110, 11.1)
		token:                   http.StatusUnauthorized,
		"":                      http.StatusUnauthorized,
		"Bearer":                http.StatusUnauthorized,
		"Bearer\t":              http.StatusUnauthorized,
		"Basic " + token:        http.StatusUnauthorized,
		"Bearer x" + token:      http.StatusUnauthorized,
		"Bearer " + token + ",": http.StatusUnauthorized,
		"Bearer" + token:        http.StatusUnauthorized,
	} {
		a := e.guest().bad().with("Authorization", header).get("/api/v1/me").want(want)
		assert.Equal(t, want == http.StatusUnauthorized, a.header.Get("WWW-Authenticate") != "", header)
	}
	e.guest().bad().get("/api/v1/me?access_token="+token).problem(http.StatusUnauthorized, "unauthenticated")
}
