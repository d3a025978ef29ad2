package handler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/handler"
)

const phone = "13800000001"

// phoneBody is the body of /auth/code.
func phoneBody(phone string) map[string]string { return map[string]string{"phone": phone} }

func (e *env) sendCode(phone string) answer {
	e.t.Helper()
	return e.guest().post("/api/v1/auth/code", phoneBody(phone))
}

func (e *env) tryCode(phone, code string) answer {
	e.t.Helper()
	return e.guest().post("/api/v1/auth/login", map[string]string{"phone": phone, "code": code})
}

func (e *env) refresh(token string) answer {
	e.t.Helper()
	return e.guest().post("/api/v1/auth/refresh", map[string]string{"refresh_token": token})
}

// otherCode is a code that is not this one.
func otherCode(code string) string {
	n, _ := strconv.Atoi(code)
	return fmt.Sprintf("%06d", (n+1)%1_000_000)
}

// retryAfter reads the header in seconds.
func (a answer) retryAfter() int {
	a.t.Helper()
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(a.t, err, a.what)
	return n
}

func TestLoginRefreshLogout(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.login(phone)
	assert.Equal(t, 900, c.login.ExpiresIn)
	me := decode[userView](c.get("/api/v1/me").want(http.StatusOK))
	assert.Equal(t, userView{ID: c.login.User.ID, Phone: phone, Role: "buyer"}, me)

	again := e.login(phone)
	assert.Equal(t, c.login.User.ID, again.login.User.ID, "one phone is one user")

	l := decode[loginView](e.refresh(c.login.RefreshToken).want(http.StatusOK))
	assert.NotEqual(t, c.login.RefreshToken, l.RefreshToken, "the refresh token is rotated")
	assert.Equal(t, me.ID, l.User.ID)
	fresh := e.as(l.AccessToken)
	fresh.get("/api/v1/me").want(http.StatusOK)
	c.get("/api/v1/me").want(http.StatusOK) // an access token lives on until it expires

	fresh.post("/api/v1/auth/logout", nil).want(http.StatusNoContent)
	fresh.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	c.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	fresh.post("/api/v1/auth/logout", nil).problem(http.StatusUnauthorized, "unauthenticated")
	e.refresh(l.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
	again.get("/api/v1/me").want(http.StatusOK) // another session of the same user
}

// TestRefreshReuseEndsTheSession: a token that is used twice was copied, and nobody knows by whom.
func TestRefreshReuseEndsTheSession(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.login(phone)
	l := decode[loginView](e.refresh(c.login.RefreshToken).want(http.StatusOK))
	e.refresh(c.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
	c.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	e.as(l.AccessToken).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	e.refresh(l.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
}

func TestRefreshRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	good := e.login(phone).login.RefreshToken
	for name, token := range map[string]string{
		"garbage": "garbage", "dots": "..", "no signature": good[:34], "access token": e.login(phone).token,
		"next generation": good[:33] + "2" + good[34:], "other session": "0" + good[1:] + "x",
	} {
		a := e.refresh(token)
		a.problem(http.StatusUnauthorized, "unauthenticated")
		assert.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer", name)
	}
	e.clock.advance(30 * 24 * time.Hour)
	e.refresh(good).problem(http.StatusUnauthorized, "unauthenticated")
}

// TestLogoutReachesOtherInstances: two servers on one database.
func TestLogoutReachesOtherInstances(t *testing.T) {
	t.Parallel()
	one := newEnv(t)
	two := newEnv(t, func(s *setup) { s.store = one.store })
	c := one.login(phone)
	two.as(c.token).get("/api/v1/me").want(http.StatusOK)
	c.post("/api/v1/auth/logout", nil).want(http.StatusNoContent)
	require.NoError(t, two.revoked.Load(t.Context())) // what the poller does twice a second
	two.as(c.token).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	restarted := newEnv(t, func(s *setup) { s.store = one.store })
	restarted.as(c.token).get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
}

func TestLoginCodeWorksOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.tryCode(phone, "123456").problem(http.StatusUnauthorized, "unauthenticated") // nothing was sent yet
	e.sendCode(phone).want(http.StatusNoContent)
	code := e.outbox.code(phone)
	e.tryCode("13800000002", code).problem(http.StatusUnauthorized, "unauthenticated")
	e.tryCode(phone, code).want(http.StatusOK)
	e.tryCode(phone, code).problem(http.StatusUnauthorized, "unauthenticated")
}

func TestLoginCodeFiveGuesses(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[int]int{4: http.StatusOK, 5: http.StatusUnauthorized, 6: http.StatusUnauthorized} {
		t.Run(strconv.Itoa(wrong), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t) // the limits are off: guesses are counted all the same
			e.sendCode(phone).want(http.StatusNoContent)
			code := e.outbox.code(phone)
			for range wrong {
				e.tryCode(phone, otherCode(code)).problem(http.StatusUnauthorized, "unauthenticated")
			}
			e.tryCode(phone, code).want(want)
			e.sendCode(phone).want(http.StatusNoContent)
			e.tryCode(phone, e.outbox.code(phone)).want(http.StatusOK) // a new code has new tries
		})
	}
}

func TestLoginCodeExpires(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int{
		2*time.Minute - time.Millisecond: http.StatusOK, 2 * time.Minute: http.StatusUnauthorized,
	} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.sendCode(phone).want(http.StatusNoContent)
			e.clock.advance(after)
			e.tryCode(phone, e.outbox.code(phone)).want(want)
		})
	}
}

func TestNewCodeReplacesTheOld(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.sendCode(phone).want(http.StatusNoContent)
	old := e.outbox.code(phone)
	for e.outbox.code(phone) == old { // one in a million is the same again
		e.sendCode(phone).want(http.StatusNoContent)
	}
	e.tryCode(phone, old).problem(http.StatusUnauthorized, "unauthenticated")
	e.tryCode(phone, e.outbox.code(phone)).want(http.StatusOK)
}

func TestCodeCooldown(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) { s.limits = true })
	e.sendCode(phone).want(http.StatusNoContent)
	first := e.outbox.code(phone)
	e.clock.advance(20*time.Second + 500*time.Millisecond)
	a := e.sendCode(phone)
	a.problem(http.StatusTooManyRequests, "rate_limited")
	assert.Equal(t, 40, a.retryAfter(), "39.5 s are left: rounded up, never too early")
	e.sendCode("13800000002").want(http.StatusNoContent) // another phone does not wait

	e.clock.advance(40 * time.Second)
	e.sendCode("+86" + phone).want(http.StatusNoContent)
	e.tryCode("+86"+phone, e.outbox.code(phone)).want(http.StatusOK)
	e.tryCode(phone, first).problem(http.StatusUnauthorized, "unauthenticated")
}

func TestCodesPerDay(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) { s.limits = true })
	const perDay = 20
	for range perDay {
		e.sendCode(phone).want(http.StatusNoContent)
		e.clock.advance(time.Minute)
	}
	a := e.sendCode(phone)
	a.problem(http.StatusTooManyRequests, "rate_limited")
	assert.Equal(t, int((24*time.Hour - perDay*time.Minute).Seconds()), a.retryAfter())
	e.clock.advance(time.Duration(a.retryAfter()) * time.Second)
	e.sendCode(phone).want(http.StatusNoContent)
}

func TestCodesWithoutLimits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 25 {
		e.sendCode(phone).want(http.StatusNoContent)
	}
}

func TestDemoCode(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) { s.demo = true })
	code := e.sendCode(phone).want(http.StatusNoContent).header.Get("X-Demo-Code")
	e.tryCode(phone, code).want(http.StatusOK)
	real := newEnv(t)
	assert.Empty(t, real.sendCode(phone).want(http.StatusNoContent).header.Get("X-Demo-Code"))
}

// brokenSender loses messages while it is broken.
type brokenSender struct {
	auth.CodeSender
	broken *atomic.Bool
}

func (s brokenSender) SendCode(ctx context.Context, phone, code string) error {
	if s.broken.Load() {
		return errors.New("the provider answered 500 for +49123")
	}
	return s.CodeSender.SendCode(ctx, phone, code)
}

// TestCodeNotSent: the answer says "try again in a second", so that must work.
func TestCodeNotSent(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	e := newEnv(t, func(s *setup) {
		s.limits = true
		s.sender = func(inner auth.CodeSender) auth.CodeSender { return brokenSender{inner, &broken} }
	})
	a := e.sendCode(phone)
	a.problem(http.StatusServiceUnavailable, "unavailable")
	assert.NotContains(t, string(a.body), "provider")
	broken.Store(false)
	e.clock.advance(time.Duration(a.retryAfter()) * time.Second)
	e.sendCode(phone).want(http.StatusNoContent)
}

func TestAdminAndBuyer(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.sale(1)
	buyer, admin := e.buyer(1), e.admin()
	before := e.dump()
	buyer.post("/api/v1/admin/vouchers", e.saleBody(1)).problem(http.StatusForbidden, "forbidden")
	buyer.patch(v.adminPath(), map[string]string{"status": "off"}).problem(http.StatusForbidden, "forbidden")
	buyer.bad().patch("/api/v1/admin/vouchers/x", "{").problem(http.StatusForbidden, "forbidden") // before anything else
	assert.Equal(t, before, e.dump())
	assert.Equal(t, "admin", decode[userView](admin.get("/api/v1/me").want(http.StatusOK)).Role)
	admin.post(v.orders(), nil).want(http.StatusCreated) // an admin may do what a buyer may
}

// TestRequestsPerCaller presses the engine directly, faster than the buckets fill.
func TestRequestsPerCaller(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, path string
		body       any
		burst      int
	}{
		{"codes", "/api/v1/auth/code", phoneBody("1"), 60},
		{"logins", "/api/v1/auth/login", map[string]string{"phone": "1", "code": "1"}, 120},
		{"refreshes", "/api/v1/auth/refresh", map[string]string{"refresh_token": "x"}, 120},
		{"orders", "/api/v1/vouchers/0/orders", nil, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(s *setup) { s.rateLimit = true })
			c := e.buyer(1).bad()
			limited := 0
			for i := range 3 * tc.burst {
				// X-Forwarded-For of a peer that is no trusted proxy is anybody's invention.
				a := c.with("X-Forwarded-For", fmt.Sprintf("10.0.0.%d", i)).direct("POST", tc.path, tc.body)
				if a.status == http.StatusTooManyRequests {
					a.problem(http.StatusTooManyRequests, "rate_limited")
					assert.Equal(t, 1, a.retryAfter())
					limited++
				}
			}
			assert.Positive(t, limited)
			assert.LessOrEqual(t, limited, 2*tc.burst)
		})
	}
}

// TestRefreshLimit: who reloads for ever is stopped, and nobody else behind his address is.
func TestRefreshLimit(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) { s.rateLimit = true })
	const burst = 120
	refresh := func(token string) answer {
		return e.guest().bad().direct("POST", "/api/v1/auth/refresh", map[string]string{"refresh_token": token})
	}
	wild, calm := e.buyer(1).login.RefreshToken, e.buyer(2).login.RefreshToken
	wild = decode[loginView](refresh(wild).want(http.StatusOK)).RefreshToken
	limited := 0
	for range 2 * burst {
		a := refresh(wild)
		if a.status == http.StatusOK {
			wild = decode[loginView](a).RefreshToken
			continue
		}
		a.problem(http.StatusTooManyRequests, "rate_limited")
		limited++
	}
	require.Positive(t, limited)
	for range 2 * burst {
		refresh("made up")
	}
	refresh(calm).want(http.StatusOK)
}

// TestTrustedProxy: behind one, each address has its own bucket.
func TestTrustedProxy(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) {
		s.rateLimit = true
		s.change = func(c *handler.Config) { c.TrustedProxies = []string{"192.0.2.0/24"} } // httptest's address
	})
	for i := range 100 {
		e.guest().bad().with("X-Forwarded-For", fmt.Sprintf("10.0.0.%d", i)).
			direct("POST", "/api/v1/auth/code", phoneBody("1")).want(http.StatusBadRequest)
	}
}
