package handler_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"seckill/internal/handler"
	"seckill/internal/ratelimit"
	"seckill/test/testenv"
)

// behindProxy makes X-Forwarded-For the client's address.
func behindProxy(s *setup) {
	s.limits, s.rateLimit = true, true
	s.change = func(c *handler.Config) { c.TrustedProxies = []string{"127.0.0.1"} }
}

// at returns the client at an address.
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

// login enters the code of a sent answer.
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
	t.Parallel()
	testenv.Full(t)
	rdb := testenv.StartRedis(t).Client(t)
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
	t.Parallel()
	e := newEnv(t, behindProxy)
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
	t.Parallel()
	e := newEnv(t, behindProxy)
	e.login("13800000001")
	e.guest().at("203.0.113.7").post("/api/v1/auth/code", phoneBody("13800000002")).want(http.StatusOK)
	stranger, before := e.guest().at("198.51.100.9"), e.dump()
	var answers []problemView
	for _, victim := range []string{"13800000001", "13800000002", "13800000003"} {
		for _, id := range []string{"", "JBSWY3DPEHPK3PXPJBSWY3DPEH"} {
			body := map[string]string{"phone": victim, "code": "000000", "login_id": id}
			p := stranger.post("/api/v1/auth/login", body).problem(http.StatusUnauthorized, "unauthenticated")
			p.RequestID = ""
			answers = append(answers, p)
		}
	}
	for _, a := range answers {
		assert.Equal(t, answers[0], a)
	}
	assert.Equal(t, before, e.dump(), "no guess is stored")
}
