package handler_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/handler"
	"seckill/test/env"
)

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

// TestRefreshCookieAuthorizesOnlyRefresh: no other route accepts the cookie, and neither does refresh without the
// header of cookie mode, which no other site can send.
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
	text := env.Must(token.SignedString(key))(t)
	return text
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
}

func TestAuthorizationHeader(t *testing.T) {
	e := start(t)
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
