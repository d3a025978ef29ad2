package handler_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
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

// retryAfter returns the header Retry-After in seconds.
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

// TestTypedLoginCode: a code logs in as people type and paste it. Package domain has the forms. Source: alphagov/signon#2230,
// mysociety/fixmystreet#3581, Automattic/wp-calypso#23042.
func TestTypedLoginCode(t *testing.T) {
	e := start(t)
	typed := func() string {
		code := e.outbox.code(phone)
		return "\u202a" + code[:3] + "–" + code[3:] + "\u202c\n"
	}
	e.sendCode(phone).want(http.StatusOK)
	e.tryCode(phone, typed()).want(http.StatusOK)

	p := e.page()
	p.post("/user/code?phone="+phone, nil).none()
	p.post("/user/login", map[string]string{"phone": phone, "code": typed()}).text()
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
			t.Helper()
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
		for _, id := range []string{"x", "ü😀", strings.ToLower(first)} {
			refused(phone, code1, id)
		}
		for range 4 {
			refused(phone, otherCode(code1), first)
		}
		e.tryLogin(phone, code1, first).want(http.StatusOK)
		refused(phone, code1, first)
		e.tryLogin(phone, code3, third).want(http.StatusOK) // guesses without a login id do not count against it

		_, last := send()
		e.clock.advance(2*time.Minute - 2*time.Millisecond)
		e.tryCode(phone, last).want(http.StatusOK)
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
	e.tryCode("0086"+phone, e.outbox.code(phone)).want(http.StatusOK)
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
		for range 20 {
			ctx, disconnect = context.WithCancel(t.Context())
			_, _ = e.auth.SendCode(ctx, phone, auth.Asker{})
			disconnect()
		}
		assert.Equal(t, tc.sent, sent, name)
		if tc.sent == 20 {
			a := e.sendCode(phone)
			a.problem(http.StatusServiceUnavailable, "unavailable")
			assert.NotContains(t, string(a.body), "provider")
			require.Equal(t, 1, a.retryAfter())
			assert.NotContains(t, e.dumpOf("login_codes"), phone)
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
		t.Helper()
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
