package handler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/ratelimit"
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
	assert.Negative(t, mine.post("/api/v1/auth/logout-all", nil).want(http.StatusNoContent).cookie().MaxAge)
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
	assert.Equal(t, 1, e.securityEvents("login_blocked"))
	assert.Equal(t, before, e.dump(), "a refusal changes nothing")
	e.sendCode("13800000002").want(http.StatusOK) // the pause is per phone

	e.clock.advance(39*time.Second + 500*time.Millisecond)
	e.sendCode("+86 138-0000-0001").want(http.StatusOK)
	code := e.outbox.code(phone) // as people type and paste it. Package domain has the forms.
	e.tryCode("0086"+phone, "\u202a"+code[:3]+"–"+code[3:]+"\u202c\n").want(http.StatusOK)
}

// TestRefusedCodesAreLimited: a code that was not sent costs no quota, and can be requested again after one second, until there are many
// (one address made 500 calls a second). A client that disconnects while its code is sent, and a provider that is too slow, give no quota
// back, because the message may arrive.
func TestRefusedCodesAreLimited(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error // of the provider; nil: the client disconnects
		sent int   // messages until the limit
	}{
		"refused by the provider": {errors.New("the provider answered 500 for +49123"), 1 + 1500},
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
					switch {
					case sent == 1: // an earlier request
						return nil
					case tc.err == nil:
						disconnect()
						return ctx.Err()
					}
					return tc.err
				}
			}
		})
		for range 2 * 1500 {
			ctx, disconnect = context.WithCancel(t.Context())
			_, _ = e.Auth.SendCode(ctx, phone, auth.Asker{})
			disconnect()
		}
		assert.Equal(t, tc.sent, sent, name)
		if tc.sent > 1500 {
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
	change := func(statement string) { e.exec(statement+" WHERE phone = ?", other) }
	page.post("/voucher/seckill", e.courseVoucher()).text()
	c.get("/api/v1/admin/audit").want(http.StatusOK)
	e.store.fail(func() error { return domain.ErrUnavailable })
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

// TestRequestsPerCallerAreLimited: the clock of the buckets stands still. A session that is refreshed too often does not affect
// another one with the same address, and neither do made-up tokens.
func TestRequestsPerCallerAreLimited(t *testing.T) {
	e := start(t, func(s *setup) { s.limits, s.rateLimit = true, true })
	c, requests := e.buyer(1).bad(), 0
	for _, tc := range []struct {
		path  string
		body  any
		burst int
	}{
		{"/api/v1/auth/login", map[string]string{"phone": phone, "code": "1"}, 120},
		{"/api/v1/auth/refresh", map[string]string{"refresh_token": "x"}, 120},
		{"/api/v1/vouchers/0/entry", nil, 200},
		{"/api/v1/vouchers/0/orders", nil, 200},
	} {
		refusal, allowed := untilLimited(t, 2*tc.burst, func() answer {
			requests++ // X-Forwarded-For is ignored unless the peer is a trusted proxy
			return c.with("X-Forwarded-For", fmt.Sprintf("10.0.0.%d", requests%256)).direct("POST", tc.path, tc.body)
		})
		assert.Equal(t, tc.burst, allowed, tc.path)
		assert.Equal(t, 1, refusal.retryAfter(), tc.path)
	}
	page{c}.post("/voucher-order/seckill/0", nil).fails("操作太频繁，请稍后再试") // one limit for both APIs

	refresh := func(token string) answer {
		return e.guest().direct("POST", "/api/v1/auth/refresh", map[string]string{"refresh_token": token})
	}
	refresh("made up").problem(http.StatusTooManyRequests, "rate_limited")
	busy, other := c.login.RefreshToken, e.buyer(2).login.RefreshToken
	for range 120 {
		busy = decode[loginView](refresh(busy).want(http.StatusOK)).RefreshToken
	}
	refresh(busy).problem(http.StatusTooManyRequests, "rate_limited")
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

// TestTossedCookieIsIgnored: over TLS cookies are Secure and bound to the host, and one without the prefix, which a sibling
// subdomain can set, does nothing. A browser cannot use the session of a client without cookies either.
// TestPagesHaveSchemeOfBrowser has the proxies.
func TestTossedCookieIsIgnored(t *testing.T) {
	e := start(t, configured(func(c *handler.Config) { c.TrustedProxies = []string{"192.0.2.1"} }))
	tls := e.browser().with("X-Forwarded-Proto", "https")
	refresh := func(cookies ...*http.Cookie) answer {
		return tls.withCookie(cookies...).direct("POST", "/api/v1/auth/refresh", nil)
	}
	login := tls.direct("POST", "/api/v1/auth/login", e.credentials("13800000001")).want(http.StatusOK)
	victim, device := login.cookie(), login.cookieNamed(deviceCookie)
	for name, cookie := range map[string]*http.Cookie{refreshCookie: victim, deviceCookie: device} {
		assert.Equal(t, "__Host-"+name, cookie.Name)
		assert.Equal(t, "/", cookie.Path)
		assert.Empty(t, cookie.Domain)
		assert.True(t, cookie.Secure)
		assert.True(t, cookie.HttpOnly)
	}
	attacker := e.login("13800000002").login.RefreshToken
	tossed := &http.Cookie{Name: refreshCookie, Value: attacker}
	again := refresh(tossed, victim, device).want(http.StatusOK)
	assert.Equal(t, "13800000001", decode[loginView](again).User.Phone)
	assert.Equal(t, device.Value, again.cookieNamed(deviceCookie).Value, "the browser keeps its id")
	refresh(tossed, device).problem(http.StatusUnauthorized, "unauthenticated")
	refresh(tossed).problem(http.StatusUnauthorized, "unauthenticated")
	attacker = decode[loginView](e.refresh(attacker).want(http.StatusOK)).RefreshToken // the cookie had no effect

	refresh(&http.Cookie{Name: "__Host-" + refreshCookie, Value: attacker}).problem(http.StatusUnauthorized, "unauthenticated")
}

// TestInvalidTokens: TestDocumentListsReturnedCodes has the routes.
func TestInvalidTokens(t *testing.T) {
	e := start(t)
	user, now := e.login(phone).login.User.ID, e.clock.now()
	claims := func(changes jwt.MapClaims) jwt.MapClaims { // nil removes a claim
		c := jwt.MapClaims{
			"iss": "seckill", "aud": "seckill", "sub": user, "sid": "00112233445566778899aabbccddeeff", "role": "admin",
			"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
		}
		maps.Copy(c, changes)
		maps.DeleteFunc(c, func(_ string, value any) bool { return value == nil })
		return c
	}
	sign := func(method jwt.SigningMethod, key any, claims jwt.Claims, header map[string]any) string {
		token := jwt.NewWithClaims(method, claims)
		maps.Copy(token.Header, header) // in addition to those of the method, or in their place
		return env.Must(token.SignedString(key))(t)
	}
	with := func(changes jwt.MapClaims) string { return sign(jwt.SigningMethodHS256, secret, claims(changes), nil) }
	labelled := func(header map[string]any) string {
		return sign(jwt.SigningMethodHS256, secret, claims(nil), header)
	}
	years, past := now.AddDate(10, 0, 0), now.Add(-time.Second).Unix()
	forged := []byte("another secret that is long enough to sign")
	good := with(nil)
	e.as(good).get("/api/v1/me").want(http.StatusOK) // the base of the following variants is valid
	e.as(with(jwt.MapClaims{"role": "buyer", "exp": now.Add(24 * time.Hour).Unix()})).get("/api/v1/me").want(http.StatusOK)

	for name, tc := range map[string]struct{ token, code string }{
		"other secret":    {sign(jwt.SigningMethodHS256, forged, claims(nil), nil), "unauthenticated"},
		"expired":         {with(jwt.MapClaims{"exp": past}), "token_expired"},
		"expires now":     {with(jwt.MapClaims{"exp": now.Unix()}), "token_expired"},
		"expired, forged": {sign(jwt.SigningMethodHS256, forged, claims(jwt.MapClaims{"exp": past}), nil), "unauthenticated"},
		"none":            {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil), nil), "unauthenticated"},
		"HS512":           {sign(jwt.SigningMethodHS512, secret, claims(nil), nil), "unauthenticated"},
		"called RS256":    {labelled(map[string]any{"alg": "RS256"}), "unauthenticated"},
		"called hs256":    {labelled(map[string]any{"alg": "hs256"}), "unauthenticated"},
		"crit":            {labelled(map[string]any{"crit": []string{"b64"}, "b64": false}), "unauthenticated"},
		"empty crit":      {labelled(map[string]any{"crit": []string{}}), "unauthenticated"},
		"wrong iss":       {with(jwt.MapClaims{"iss": "elsewhere"}), "unauthenticated"},
		"no aud":          {with(jwt.MapClaims{"aud": nil}), "unauthenticated"},
		"no exp":          {with(jwt.MapClaims{"exp": nil}), "unauthenticated"},
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

type exportView struct {
	User            userView
	Sessions        []any
	LoginCodes      []any `json:"login_codes"`
	Orders          []orderView
	AdminRequests   []any                  `json:"admin_requests"`
	IdempotencyKeys []struct{ Key string } `json:"idempotency_keys"`
	WaitingRooms    []struct{ Number int } `json:"waiting_rooms"`
}

// exported has the member of an export, or of an order in it, with the records of each table with personal data.
var exported = map[string]string{
	"users":            "user",
	"sessions":         "sessions",
	"login_codes":      "login_codes",
	"second_factors":   "second_factors",
	"voucher_orders":   "orders",
	"payments":         "payments",
	"order_events":     "events",
	"audit_log":        "actions",
	"admin_requests":   "admin_requests",
	"idempotency_keys": "idempotency_keys",
	"room_places":      "waiting_rooms",
}

// notExported are the tables with data of persons that an export leaves out for the reasons in docs/operations.md.
var notExported = []string{"stock_changes", "revocations", "payment_notices"}

// impersonal are the tables without data of persons.
var impersonal = []string{"shops", "vouchers", "seckill_vouchers", "images", "rooms", "room_log", "offers"}

// TestExportKnowsAllTables: a new table is in the export, or docs/operations.md says why it is not, or it has no personal data.
// Package repo compares the columns with the document.
func TestExportKnowsAllTables(t *testing.T) {
	e := start(t)
	_, tables := env.Query(t, e.store.Pools()["write"],
		"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'")
	assert.ElementsMatch(t, slices.Concat(tables...), slices.Concat(slices.Collect(maps.Keys(exported)), notExported, impersonal))

	text := env.Must(os.ReadFile("../../docs/operations.md"))(t)
	_, section, _ := strings.Cut(string(text), "**Export.**")
	paragraph, _, _ := strings.Cut(section, "**Deletion.**")
	for _, table := range notExported {
		assert.Contains(t, paragraph, "`"+table+"`")
	}
}

func TestExportHasAllDataOfTheUserAndNoSecrets(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		e.store.RecordEvents()
		v, room := e.sale(10), e.sale(10)
		authenticator := e.enroll("13800000001", domain.RoleOperator)
		c, other := e.buyer(1), e.buyer(2)
		e.login(c.login.User.Phone)
		c.post("/api/v1/admin/vouchers/"+v.ID+"/stock", map[string]any{"delta": 1, "reason": "counted"}).want(http.StatusOK)
		paid := decode[orderView](c.get(c.with("Idempotency-Key", "the-key").paid(v).Order.path()).want(http.StatusOK))
		require.NotEmpty(t, paid.RedeemCode)
		foreign := other.paid(v).Order
		roomID, userID := mustID(t, room.ID), mustID(t, c.login.User.ID)
		for _, user := range []int64{mustID(t, other.login.User.ID), userID} {
			env.Must(e.store.JoinRoom(t.Context(), roomID, []domain.PlaceRequest{{UserID: user, Lost: -1}}))(t)
		}

		a := c.get("/api/v1/me/export").want(http.StatusOK)
		assert.Equal(t, `attachment; filename="seckill-data.json"`, a.header.Get("Content-Disposition"))
		all := decode[exportView](a)
		require.Equal(t, []int{1, 1, 1}, []int{len(all.Orders), len(all.IdempotencyKeys), len(all.WaitingRooms)})
		members := decode[map[string]any](a)
		maps.Copy(members, members["orders"].([]any)[0].(map[string]any))
		for table, name := range exported {
			assert.NotEmpty(t, members[name], table)
		}
		assert.Equal(t, c.login.User, all.User)
		assert.Equal(t, []int{2, 2, 3}, []int{len(all.LoginCodes), len(all.Sessions), len(all.AdminRequests)}, "two logins and a change")
		assert.Equal(t, paid.ID, all.Orders[0].ID)
		assert.Equal(t, "the-key", all.IdempotencyKeys[0].Key)
		assert.Equal(t, 1, all.WaitingRooms[0].Number)

		for what, secret := range map[string]string{
			"access token": c.token, "refresh token": c.login.RefreshToken, "redeem code": paid.RedeemCode, "TOTP secret": authenticator.key.Secret(),
			"session id": strings.Split(c.login.RefreshToken, ".")[0], "another user's phone": other.login.User.Phone,
			"another user's id": `_id":"` + other.login.User.ID + `"`, "another user's order": foreign.ID,
		} {
			require.NotEmpty(t, secret, what)
			assert.NotContains(t, string(a.body), secret, what)
		}
	})
}

func TestDeletedAccount(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		two := newEnv(t, func(s *setup) { s.store = e.store })
		v, second := e.sale(10), e.sale(10)
		c, other := e.login(phone), e.buyer(2)
		elsewhere := e.login(phone)
		paid := decode[orderView](c.get(c.with("Idempotency-Key", "the-key").paid(v).Order.path()).want(http.StatusOK))
		unpaid := decode[orderView](c.post(second.orders(), nil).want(http.StatusCreated))
		e.sendCode(phone).want(http.StatusOK)
		code := e.outbox.code(phone)
		require.Contains(t, e.dump(), phone)
		require.Contains(t, e.dumpOf("idempotency_keys"), "the-key")

		c.do(http.MethodDelete, "/api/v1/me", nil).want(http.StatusNoContent)

		assert.EqualValues(t, 10, e.stock(second.ID), "the unit of the unpaid order is back")
		for _, old := range []client{c, elsewhere} {
			old.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
			e.refresh(old.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
		}
		require.NoError(t, two.revoked.Load(t.Context())) // as the poller does twice per second
		two.as(elsewhere.token).get("/api/v1/orders").problem(http.StatusUnauthorized, "unauthenticated")
		e.refresh(other.login.RefreshToken).want(http.StatusOK)
		e.tryCode(phone, code).problem(http.StatusUnauthorized, "unauthenticated")

		again := auth.Erasure{UserID: mustID(t, c.login.User.ID), Now: e.clock.now()}
		assert.Empty(t, env.Must(e.store.EraseUser(t.Context(), again))(t))
		assert.Equal(t, 2, env.Must(e.store.PurgeSessions(t.Context(), e.clock.now().Add(time.Millisecond)))(t), "both sessions have ended")

		dump := e.dump()
		assert.NotContains(t, dump, phone)
		assert.Contains(t, dump, "voucher_orders ["+paid.ID+" "+c.login.User.ID, "the order and its user id stay")
		assert.NotContains(t, e.dumpOf("idempotency_keys"), "the-key")

		admin := e.admin()
		shown := decode[struct{ Status, Phone string }](admin.get("/api/v1/admin/orders/" + unpaid.ID).want(http.StatusOK))
		assert.Equal(t, "cancelled", shown.Status)
		assert.Empty(t, shown.Phone)
		admin.post("/api/v1/admin/redeem", map[string]string{"code": paid.RedeemCode}).want(http.StatusOK)

		newcomer := e.login(phone)
		assert.NotEqual(t, c.login.User.ID, newcomer.login.User.ID, "the phone has a new account")
		assert.Empty(t, decode[listView[orderView]](newcomer.get("/api/v1/orders").want(http.StatusOK)).Items)
		newcomer.post(v.orders(), nil).want(http.StatusCreated)
	})
}

// A deleted account is soon there again, with the limits of a new user: one phone bought twenty units of a sale a day.
func TestDeletionsOfPhoneAreLimited(t *testing.T) {
	e := start(t, func(s *setup) { s.limits = true })
	remove := func() answer { return e.login(phone).do(http.MethodDelete, "/api/v1/me", nil) }
	remove().want(http.StatusNoContent)
	remove().problem(http.StatusTooManyRequests, "rate_limited")
	e.clock.advance(24 * time.Hour)
	remove().want(http.StatusNoContent)
}

func TestAccountWithRoleIsNotDeleted(t *testing.T) {
	e := start(t)
	admin := e.admin()
	admin.do(http.MethodDelete, "/api/v1/me", nil).problem(http.StatusConflict, "invalid_state")
	admin.get("/api/v1/me").want(http.StatusOK)

	e = newEnv(t, withFactors)
	admin = e.login(adminPhone)
	require.Equal(t, "buyer", admin.login.User.Role, "before the enrolment")
	admin.do(http.MethodDelete, "/api/v1/me", nil).problem(http.StatusConflict, "invalid_state")
}

// A deletion that was interrupted after the cancellation can be repeated.
func TestDeletionCanBeRepeated(t *testing.T) {
	e := start(t, func(s *setup) { s.limits = true })
	v, c := e.sale(10), e.buyer(1)
	c.post(v.orders(), nil).want(http.StatusCreated)
	e.store.failFrom(4) // after the user, the list of orders and the cancellation
	c.do(http.MethodDelete, "/api/v1/me", nil).problem(http.StatusServiceUnavailable, "unavailable")
	e.store.fail(nil)
	c.get("/api/v1/me").want(http.StatusOK)
	c.do(http.MethodDelete, "/api/v1/me", nil).want(http.StatusNoContent)
	assert.EqualValues(t, 10, e.stock(v.ID))
}

const operatorPhone = "13900000002"

type app struct {
	e   *environment
	key *otp.Key
}

func (e *environment) enroll(phone string, role domain.Role) app {
	e.t.Helper()
	_, key, err := e.admins.Enroll(e.t.Context(), phone, role, nil)
	require.NoError(e.t, err)
	return app{e, key}
}

// password returns the password that the app shows after the given number of steps of 30 s.
func (a app) password(steps int) string {
	a.e.t.Helper()
	return env.Must(totp.GenerateCode(a.key.Secret(), a.e.clock.now().Add(time.Duration(steps)*30*time.Second)))(a.e.t)
}

func (e *environment) tryTOTP(phone, password string) answer {
	e.t.Helper()
	body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
	if password != "" {
		body["totp"] = password
	}
	return e.guest().post("/api/v1/auth/login", body)
}

func withFactors(s *setup) { s.factors = true }

// TestLoginWithSecondFactor: five wrong passwords of the app use up the login code; one leaves it valid. Refusals without a
// password are recorded once a minute. Package auth has the passwords that are valid.
func TestLoginWithSecondFactor(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		app := e.enroll(operatorPhone, domain.RoleOperator)
		e.sendCode(operatorPhone).want(http.StatusOK)
		assert.Equal(t, "The second factor is required", e.tryTOTP(operatorPhone, "").problem(http.StatusUnauthorized, "totp_required").Title)
		wrong := func() {
			p := e.tryTOTP(operatorPhone, otherCode(app.password(0))).problem(http.StatusUnauthorized, "totp_required")
			assert.Equal(t, "The second factor is wrong or used up", p.Title)
		}
		for range 5 {
			wrong()
			e.tryTOTP(operatorPhone, "").want(http.StatusUnauthorized)
		}
		e.tryTOTP(operatorPhone, app.password(0)).problem(http.StatusUnauthorized, "unauthenticated")
		e.clock.advance(time.Second) // the newer of two codes counts
		e.sendCode(operatorPhone).want(http.StatusOK)
		wrong()
		l := decode[loginView](e.tryTOTP(operatorPhone, app.password(0)).want(http.StatusOK))
		assert.Equal(t, []int{1 + 4, 5 + 1}, []int{e.securityEvents("totp_required"), e.securityEvents("totp_failed")})

		var recorded []string
		for _, r := range env.Must(e.store.AdminRequests(t.Context(), domain.RequestFilter{Page: domain.Page{Limit: 100}}))(t) {
			recorded = append(recorded, fmt.Sprintf("%s %s %d", r.Role, r.Route, r.Status))
		}
		refused := "buyer /api/v1/auth/login 401"
		require.Equal(t, append([]string{"operator /api/v1/auth/login 200"}, slices.Repeat([]string{refused}, 1+5+1)...), recorded)

		for range 2 { // the session keeps its second factor
			assert.Equal(t, "operator", l.User.Role)
			operator := e.as(l.AccessToken)
			operator.get("/api/v1/admin/orders").want(http.StatusOK)
			assert.Equal(t, "operator", decode[userView](operator.get("/api/v1/me").want(http.StatusOK)).Role)
			l = decode[loginView](e.refresh(l.RefreshToken).want(http.StatusOK))
		}

		e.sendCode(operatorPhone).want(http.StatusOK)
		e.tryTOTP(operatorPhone, app.password(0)).problem(http.StatusUnauthorized, "totp_required") // used
		e.login(phone)                                                                              // buyers need none
	}, withFactors)
}

// TestRoleWithoutSecondFactor: outside demo mode, roles above viewer are not in effect before the enrolment, in sessions
// that are older than it, and in sessions of the hm-dianping pages.
func TestRoleWithoutSecondFactor(t *testing.T) {
	e := start(t, withFactors)
	for range 2 {
		admin := e.login(adminPhone)
		assert.Equal(t, "buyer", admin.login.User.Role)
		admin.get("/api/v1/admin/orders").problem(http.StatusForbidden, "forbidden")
	}
	assert.Len(t, e.logs.of("WARN"), 2)
	before := e.login(adminPhone)
	app := e.enroll(adminPhone, "")
	require.NoError(t, e.revoked.Load(t.Context()))
	before.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	e.refresh(before.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")

	old := newEnv(t, func(s *setup) { s.store = e.store }) // as in demo mode: a session without a second factor
	session := old.login(adminPhone).login
	assert.Equal(t, "admin", session.User.Role)
	assert.Equal(t, "buyer", decode[loginView](e.refresh(session.RefreshToken).want(http.StatusOK)).User.Role)

	e.pageOf(adminPhone).post("/voucher/seckill", map[string]any{}).fails("没有权限")

	e.sendCode(adminPhone).want(http.StatusOK)
	l := decode[loginView](e.tryTOTP(adminPhone, app.password(0)).want(http.StatusOK))
	assert.Equal(t, "admin", l.User.Role)
	assert.Equal(t, "viewer", e.staff("13900000003", domain.RoleViewer).login.User.Role, "viewers need no second factor")

	env.Must(e.admins.Remove(t.Context(), adminPhone))(t)
	require.NoError(t, e.revoked.Load(t.Context()))
	e.as(l.AccessToken).get("/api/v1/admin/orders").problem(http.StatusUnauthorized, "unauthenticated")
	assert.Equal(t, "buyer", e.login(adminPhone).login.User.Role)
}

// changeSecret returns a server whose newest secret is another one than that of e, on the same database. old is whether
// it still accepts the secret of e.
func (e *environment) changeSecret(old bool, options ...option) *environment {
	e.t.Helper()
	secrets := [][]byte{[]byte("the next signing secret, 39 bytes long.")}
	if old {
		secrets = append(secrets, secret)
	}
	return newEnv(e.t, append(options, func(s *setup) { s.store, s.keys = e.store, domain.NewKeyring(secrets...) })...)
}

// TestChangeOfSecret: while the old secret is listed, a list that was begun before the change goes on, and a code that was sent before it
// is accepted, even from a client without a login id, whose request is found by its address.
func TestChangeOfSecret(t *testing.T) {
	e := start(t)
	first, second := e.sale(1), e.sale(1)
	list := decode[listView[voucherView]](e.guest().get(vouchersPath + "?limit=1").want(http.StatusOK))
	require.Equal(t, []string{second.ID}, idsOf(list.Items))
	next := vouchersPath + "?cursor=" + *list.NextCursor
	e.sendCode(phone).want(http.StatusOK)
	code := e.outbox.code(phone)

	dropped, changed := e.changeSecret(false), e.changeSecret(true)
	dropped.guest().bad().get(next).problem(http.StatusBadRequest, "invalid_request")
	dropped.tryCode(phone, code).problem(http.StatusUnauthorized, "unauthenticated")
	rest := decode[listView[voucherView]](changed.guest().get(next).want(http.StatusOK))
	require.Equal(t, []string{first.ID}, idsOf(rest.Items))
	changed.tryCode(phone, code).want(http.StatusOK)
}

// TestSecondFactorSurvivesChangeOfSecret: a login encrypts the second factor with the newest secret. One that no secret
// decrypts any more must be enrolled again, and the answer says so.
func TestSecondFactorSurvivesChangeOfSecret(t *testing.T) {
	e := start(t, withFactors)
	app := e.enroll(operatorPhone, domain.RoleOperator)
	login := func(e *environment, password string) answer {
		body := e.credentials(operatorPhone)
		if password != "" {
			body["totp"] = password
		}
		return e.guest().post("/api/v1/auth/login", body)
	}
	login(e, app.password(-1)).want(http.StatusOK)
	dropped := e.changeSecret(false, withFactors)
	p := login(dropped, "").problem(http.StatusForbidden, "forbidden")
	require.Equal(t, "The second factor must be enrolled again", p.Title)
	login(dropped, app.password(0)).problem(http.StatusForbidden, "forbidden")
	require.Len(t, dropped.logs.of("WARN"), 2)

	login(e.changeSecret(true, withFactors), app.password(0)).want(http.StatusOK)
	login(dropped, app.password(1)).want(http.StatusOK)
}

// TestKnownDevice: a device stays known after a change of secret if it refreshed its session in between, and is a stranger
// after the user has logged out everywhere or deleted the account.
func TestKnownDevice(t *testing.T) {
	e := start(t)
	// known reports whether strangers cannot use up the codes of the device at the same address.
	known := func(e *environment, proof *http.Cookie) bool {
		e.clock.advance(time.Second)
		e.guest().withCookie(proof).post("/api/v1/auth/code", phoneBody(phone)).want(http.StatusOK)
		e.clock.advance(time.Second)
		body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
		return e.guest().post("/api/v1/auth/login", body).status == http.StatusUnauthorized
	}
	login := func(e *environment) (proof *http.Cookie, user client, refresh string) {
		a := e.guest().post("/api/v1/auth/login", e.credentials(phone)).want(http.StatusOK)
		l := decode[loginView](a)
		return a.cookieNamed("seckill_known"), e.as(l.AccessToken), l.RefreshToken
	}
	proof, _, token := login(e)
	require.True(t, known(e, proof))
	dropped := e.changeSecret(false)
	require.False(t, known(dropped, proof))
	changed := e.changeSecret(true)
	body := map[string]string{"refresh_token": token}
	renewed := changed.guest().withCookie(proof).post("/api/v1/auth/refresh", body).want(http.StatusOK).cookieNamed("seckill_known")
	require.True(t, known(dropped, renewed))

	proof, user, _ := login(e)
	user.post("/api/v1/auth/logout-all", nil).want(http.StatusNoContent)
	require.False(t, known(e, proof))
	proof, user, _ = login(e)
	require.True(t, known(e, proof))
	user.do("DELETE", "/api/v1/me", nil).want(http.StatusNoContent)
	login(e)
	require.False(t, known(e, proof), "the phone has a new account")
}

// behindProxy makes X-Forwarded-For the client's address.
func behindProxy(s *setup) {
	s.limits, s.rateLimit = true, true
	s.change = func(c *handler.Config) { c.TrustedProxies = []string{"127.0.0.1"} }
}

func (c client) at(address string) client { return c.with("X-Forwarded-For", address) }

// person is a client at an address that stores cookies and login ids like a page, or like an app without cookies.
type person struct {
	client
	phone   string
	cookies bool
	known   *http.Cookie
}

func (p *person) send() answer {
	c := p.client
	if p.cookies {
		c = c.with("X-Refresh-Token", "cookie")
	}
	if p.known != nil {
		c = c.withCookie(p.known)
	}
	return c.post("/api/v1/auth/code", phoneBody(p.phone))
}

func (p *person) login(sent answer, code string) answer {
	body := map[string]string{"phone": p.phone, "code": code}
	c := p.client
	if p.cookies {
		c = c.with("X-Refresh-Token", "cookie").withCookie(sent.cookieNamed("seckill_login"))
	} else {
		body["login_id"] = decode[sentView](sent).LoginID
	}
	if p.known != nil {
		c = c.withCookie(p.known)
	}
	a := c.post("/api/v1/auth/login", body)
	if p.cookies && a.status == http.StatusOK {
		p.known = a.cookieNamed("seckill_known")
	}
	return a
}

// An owner logs in six times within twelve minutes, each time 8 seconds after the request for the code. A stranger
// makes two wrong guesses a second, with and without a login id, and requests codes all the time, over two servers. A
// stranger behind the owner's address also uses up the logins of that address twice, when the owner's device is known.
func TestStrangerCannotLockOwnerOut(t *testing.T) {
	env.FullParallel(t)
	rdb := env.StartRedis(t).Client(t)
	shared := &ratelimit.Shared{Redis: rdb, Timeout: time.Minute, Secret: secret, Log: slog.New(slog.DiscardHandler)}
	for name, tc := range map[string]struct {
		phone, stranger string
		cookies         bool
		flood           bool
	}{
		"page":                            {phone: phone, stranger: "198.51.100.9", cookies: true},
		"app without cookies":             {phone: "13800000002", stranger: "198.51.100.9"},
		"admin":                           {phone: adminPhone, stranger: "198.51.100.9", cookies: true},
		"page behind the same address":    {phone: "13800000003", stranger: "203.0.113.7", cookies: true, flood: true},
		"stranger in the same IPv4 /24":   {phone: "13800000004", stranger: "203.0.113.8", cookies: true},
		"page, stranger with an IPv6 /48": {phone: "13800000005", stranger: "2001:db8::1", cookies: true},
	} {
		t.Run(name, func(t *testing.T) {
			one := newEnv(t, behindProxy, func(s *setup) { s.shared = shared })
			two := newEnv(t, behindProxy, func(s *setup) { s.store, s.shared = one.store, shared })
			owner := &person{client: one.guest().at("203.0.113.7"), phone: tc.phone, cookies: tc.cookies}
			attack := func(second int) {
				stranger := &person{client: two.guest().at(tc.stranger), phone: tc.phone}
				if tc.stranger == "2001:db8::1" {
					stranger.client = two.guest().at(fmt.Sprintf("2001:db8:0:%x00::1", second%256))
				}
				for range 2 {
					two.tryCode(tc.phone, "000000")
					stranger.post("/api/v1/auth/login", map[string]string{"phone": tc.phone, "code": "000001"})
				}
				if sent := stranger.send(); sent.status == http.StatusOK {
					stranger.login(sent, "000002")
				}
			}
			for login := range 6 {
				sent := owner.send().want(http.StatusOK)
				code := one.outbox.code(tc.phone)
				for second := range 8 {
					attack(8*login + second)
					one.clock.advance(time.Second)
					two.clock.advance(time.Second)
				}
				if tc.flood && (login == 1 || login == 5) {
					stranger := one.guest().at(tc.stranger)
					guess := map[string]string{"phone": "13800000009", "code": "000000"}
					untilLimited(t, 1000, func() answer { return stranger.post("/api/v1/auth/login", guess) })
				}
				owner.login(sent, code).want(http.StatusOK)
				for _, key := range rdb.Keys(t.Context(), "*").Val() { // two minutes pass
					rdb.PExpire(t.Context(), key, max(time.Millisecond, rdb.PTTL(t.Context(), key).Val()-2*time.Minute))
				}
				one.clock.advance(2 * time.Minute)
				two.clock.advance(2 * time.Minute)
			}
		})
	}
}

// Twenty strangers at different addresses use up the codes of a phone for strangers. Its owner, whose device is known,
// still gets codes, and no more than 20 messages a day come from strangers.
func TestStrangersCannotUseUpOwnersCodes(t *testing.T) {
	e := start(t, behindProxy)
	owner := &person{client: e.guest().at("203.0.113.7"), phone: phone, cookies: true}
	owner.login(owner.send(), e.outbox.code(phone)).want(http.StatusOK)
	sent := 0
	for i := range 40 {
		if (&person{client: e.guest().at(fmt.Sprintf("198.51.%d.9", i)), phone: phone}).send().status == http.StatusOK {
			sent++
		}
	}
	assert.Equal(t, 12-1, sent, "all strangers share the codes of a phone; the owner was a stranger once")
	owner.login(owner.send().want(http.StatusOK), e.outbox.code(phone)).want(http.StatusOK)
	owner.client = e.guest().at("198.51.100.77") // the device moves to another network
	owner.login(owner.send().want(http.StatusOK), e.outbox.code(phone)).want(http.StatusOK)

	other := &person{client: e.guest().at("198.51.100.9"), phone: "13800000002", cookies: true, known: owner.known}
	for i := range 40 {
		(&person{client: e.guest().at(fmt.Sprintf("198.51.%d.9", i)), phone: other.phone}).send()
	}
	other.send().problem(http.StatusTooManyRequests, "rate_limited") // a device is known for its own phone only
}

// A stranger's guess does the same whether or not the phone has requested a code or has an account.
func TestGuessesRevealNothing(t *testing.T) {
	e := start(t, behindProxy)
	e.login("13800000001")
	e.guest().at("203.0.113.7").post("/api/v1/auth/code", phoneBody("13800000002")).want(http.StatusOK)
	before := e.dump()
	answers := map[string]int{}
	for _, victim := range []string{"13800000001", "13800000002", "13800000003"} {
		for _, id := range []string{"", "JBSWY3DPEHPK3PXPJBSWY3DPEH"} {
			body := map[string]string{"phone": victim, "code": "000000", "login_id": id}
			p := e.guest().at("198.51.100.9").post("/api/v1/auth/login", body).problem(http.StatusUnauthorized, "unauthenticated")
			p.RequestID = ""
			answers[fmt.Sprint(p)]++
		}
	}
	assert.Len(t, answers, 1)
	assert.Equal(t, before, e.dump(), "no guess is stored")
}
