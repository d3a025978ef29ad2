package e2e

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/rush"
)

// TestServeRefusesUnsafeSettings starts the program with the settings of a trial on a real database.
func TestServeRefusesUnsafeSettings(t *testing.T) {
	t.Parallel()
	s := embeddedStack(t).with("SECKILL_MYSQL_DSN=root@tcp("+freeAddr(t)+")/seckill", "SECKILL_UNSAFE=")
	code, out := s.runProcess(t, "serve")
	require.Equal(t, 1, code)
	require.NotContains(t, out, "waiting for", "it refuses before it connects")
	for _, name := range []string{"jwt_secret", "demo", "rate_limit", "sandbox"} {
		require.Contains(t, out, "\n  "+name+": ")
	}
	require.Contains(t, out, "SECKILL_UNSAFE=jwt_secret,demo,rate_limit,sandbox")
	require.NotContains(t, out, testSecret)
	code, out = s.with("SECKILL_UNSAFE=jwt_secret,demo,rate_limit,sandbox", envStartTimeout+"=100ms").runProcess(t, "serve")
	require.Equal(t, 1, code)
	require.Contains(t, out, "waiting for the database")
	require.Equal(t, 4, strings.Count(out, "accepted by SECKILL_UNSAFE"), out)
}

// TestLogOfRealServerHasNoCodes runs a server outside demo mode at the most detailed log level: logins, wrong codes, a
// purchase, and a receiver of codes that is down. Log and metrics contain neither codes, tokens nor phones.
func TestLogOfRealServerHasNoCodes(t *testing.T) {
	t.Parallel()
	r := startCodeReceiver(t)
	const boss, buyer, other, lost = "13911115555", "13911112222", "13911113333", "13911114444"
	s := embeddedStack(t).codesTo(r).with("SECKILL_LOG_LEVEL=debug", "SECKILL_ADMIN_PHONES="+boss, "SECKILL_OPS_ADDR=127.0.0.1:0")
	r.enroll(t, s, boss)
	p := s.serve(t)
	admin := r.login(t, p, boss)["access_token"].(string)
	login := r.login(t, p, buyer)
	token, refresh := login["access_token"].(string), login["refresh_token"].(string)
	r.request(t, p, other)
	a := p.reply(t, http.MethodPost, "/auth/login", "", map[string]string{"phone": other, "code": "no code"})
	require.GreaterOrEqual(t, a.status, 400)
	v := answered(t, func() (rush.Voucher, error) { return p.CreateSale(t.Context(), admin, 5) })
	o := p.buy(t, token, v.ID)
	p.must(t, http.MethodPost, "/orders/"+o.ID+"/pay", token, nil)
	p.waitFor(t, token, o.ID, "paid")
	p.must(t, http.MethodGet, "/admin/orders?phone="+buyer, admin, nil)
	code := p.must(t, http.MethodGet, "/orders/"+o.ID, token, nil)["redeem_code"].(string)
	ops := regexp.MustCompile(`metrics and profiles" addr=(\S+)`).FindStringSubmatch(p.log.String())
	require.NotNil(t, ops)
	res, err := http.Get("http://" + ops[1] + "/metrics")
	require.NoError(t, err)
	metrics, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, string(metrics), "seckill_order_seconds")
	require.Zero(t, p.stop(t))

	down := s.with("SECKILL_CODE_URL=http://" + freeAddr(t)).serve(t)
	a, err = down.call(t.Context(), http.MethodPost, "/auth/code", "", map[string]string{"phone": lost})
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Zero(t, down.stop(t))

	log := p.log.String() + down.log.String()
	require.Contains(t, log, "send login code")
	codes := r.sent()
	require.GreaterOrEqual(t, len(codes), 3)
	for _, code := range codes { // a metric may have six digits by chance
		require.NotRegexp(t, `\b`+code+`\b`, log)
	}
	for _, secret := range []string{buyer, other, lost, boss, admin, token, refresh, code} {
		require.NotContains(t, log+string(metrics), secret)
	}
}

// TestWithoutSenderNoCodeIsSent: a server without a receiver of codes starts only if this is accepted, and answers 503.
func TestWithoutSenderNoCodeIsSent(t *testing.T) {
	t.Parallel()
	s := embeddedStack(t).with("SECKILL_DEMO=false")
	code, out := s.with("SECKILL_UNSAFE=sandbox,jwt_secret,rate_limit").runProcess(t, "serve", "--addr", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, out, "\n  codes: ")
	p := s.serve(t)
	a, err := p.call(t.Context(), http.MethodPost, "/auth/code", "", map[string]string{"phone": "13911112222"})
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Empty(t, a.header.Get("X-Demo-Code"))
	p.logs(t, "SECKILL_CODE_URL is not set")
	require.NotContains(t, p.log.String(), "13911112222")
}

// holder is the owner of a paid order.
type holder struct {
	token, refresh, idle string
	order, code          string
}

// newHolder buys and pays an order, and logs in at both APIs.
func newHolder(t *testing.T, p *server, r *codeReceiver, sale, phone string) holder {
	t.Helper()
	login := r.login(t, p, phone)
	h := holder{token: login["access_token"].(string), refresh: login["refresh_token"].(string)}
	b := browser{t: t, url: p.url}
	retryTimeouts(t, func() error {
		if _, _, err := b.call(http.MethodPost, "/user/code?phone="+phone, nil); err != nil {
			return err
		}
		idle, _, err := b.call(http.MethodPost, "/user/login", map[string]string{"phone": phone, "code": r.code(phone)})
		if err == nil {
			h.idle = idle.(string)
		}
		return err
	})
	h.order = p.buy(t, h.token, sale).ID
	p.must(t, http.MethodPost, "/orders/"+h.order+"/pay", h.token, nil)
	p.waitFor(t, h.token, h.order, "paid")
	h.code = h.shown(t, p)
	return h
}

// shown returns the redeem code that the page of the order shows.
func (h holder) shown(t *testing.T, p *server) string {
	t.Helper()
	return p.must(t, http.MethodGet, "/orders/"+h.order, h.token, nil)["redeem_code"].(string)
}

// requireSession requires that every token of the holder works or that none does.
func (h holder) requireSession(t *testing.T, p *server, valid bool) {
	t.Helper()
	want := http.StatusUnauthorized
	if valid {
		want = http.StatusOK
	}
	a := p.reply(t, http.MethodGet, "/me", h.token, nil)
	require.Equal(t, want, a.status, "access token")
	a = p.reply(t, http.MethodPost, "/auth/refresh", "", map[string]string{"refresh_token": h.refresh})
	require.Equal(t, want, a.status, "refresh token")
	retryTimeouts(t, func() error {
		_, _, err := (&browser{t: t, url: p.url, token: h.idle}).call(http.MethodGet, "/user/me", nil)
		if !valid && errors.Is(err, errLogin) {
			return nil
		}
		if err == nil {
			require.True(t, valid, "session of the course's pages")
		}
		return err
	})
}

// redeem enters a redeem code as the merchant and returns the status of the answer.
func redeem(t *testing.T, p *server, admin, code string) int {
	t.Helper()
	return p.reply(t, http.MethodPost, "/admin/redeem", admin, map[string]string{"code": code}).status
}

// TestChangeOfSecret changes the secret of a server in two steps: a new secret signs while the old one is still
// accepted, then the old one is dropped.
func TestChangeOfSecret(t *testing.T) {
	t.Parallel()
	r := startCodeReceiver(t)
	base := embeddedStack(t).codesTo(r).with("SECKILL_ADMIN_PHONES=" + app.DemoAdmin)
	file := filepath.Join(t.TempDir(), "secrets")
	const first, second = "an old secret of at least 32 bytes", "a new secret of at least 32 bytes!"
	start := func(secrets ...string) *server {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(secrets, "\n")+"\n"), 0o600))
		if len(secrets) == 1 { // it decrypts no second factor from before
			r.enroll(t, base.with("SECKILL_JWT_SECRET="+secrets[0]), app.DemoAdmin)
		}
		return base.with("SECKILL_JWT_SECRET=", "SECKILL_JWT_SECRET_FILE="+file).spawn(t, "")
	}

	p := start(first)
	admin := r.login(t, p, app.DemoAdmin)["access_token"].(string)
	v := answered(t, func() (rush.Voucher, error) { return p.CreateSale(t.Context(), admin, 9) })
	ada, bob, eve := newHolder(t, p, r, v.ID, "13911110001"), newHolder(t, p, r, v.ID, "13911110002"), newHolder(t, p, r, v.ID, "13911110003")
	require.Zero(t, p.stop(t))

	p = start(second, first)
	ada.requireSession(t, p, true)
	require.Equal(t, http.StatusOK, redeem(t, p, admin, ada.code), "a code that was shown before the change")
	shown := bob.shown(t, p)
	require.NotEqual(t, bob.code, shown)
	require.Equal(t, http.StatusOK, redeem(t, p, admin, shown), "the code that is shown now")
	cat := newHolder(t, p, r, v.ID, "13911110004")
	require.Zero(t, p.stop(t))

	p = start(second)
	bob.requireSession(t, p, false)
	cat.requireSession(t, p, true)
	admin = r.login(t, p, app.DemoAdmin)["access_token"].(string)
	require.Equal(t, http.StatusBadRequest, redeem(t, p, admin, eve.code))
	require.Equal(t, http.StatusOK, redeem(t, p, admin, cat.code))
	require.Zero(t, p.stop(t))
}

// TestSessionsOfDemoEndWithIt: in demo mode any client logs in as any user, admins included. Redeem codes belong to
// orders and stay.
func TestSessionsOfDemoEndWithIt(t *testing.T) {
	t.Parallel()
	r := startCodeReceiver(t)
	demo := embeddedStack(t)
	p := demo.serve(t)
	stranger := p.admin(t)
	sale := p.sale(t, 9)
	require.Zero(t, p.stop(t))

	p = demo.codesTo(r).with("SECKILL_ADMIN_PHONES=" + app.DemoAdmin).serve(t)
	require.Equal(t, http.StatusUnauthorized, p.reply(t, http.MethodGet, "/admin/orders", stranger, nil).status)
	owner := newHolder(t, p, r, sale, "13911110001")
	require.Zero(t, p.stop(t))

	p = demo.serve(t)
	require.Equal(t, http.StatusOK, redeem(t, p, p.admin(t), owner.code))
}
