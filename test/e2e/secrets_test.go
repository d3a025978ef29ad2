package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/rush"
	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestServeRefusesUnsafeSettings starts the program with the settings of a trial on a real database.
func TestServeRefusesUnsafeSettings(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t).With("SECKILL_MYSQL_DSN=root@tcp("+rig.FreeAddr(t)+")/seckill", "SECKILL_UNSAFE=")
	code, out := s.RunProcess(t, "serve")
	require.Equal(t, 1, code)
	require.NotContains(t, out, "waiting for", "it refuses before it connects")
	for _, name := range []string{"jwt_secret", "demo", "rate_limit", "sandbox"} {
		require.Contains(t, out, "\n  "+name+": ")
	}
	require.Contains(t, out, "SECKILL_UNSAFE=jwt_secret,demo,rate_limit,sandbox")
	require.NotContains(t, out, rig.TestSecret)

	out = s.With("SECKILL_UNSAFE=jwt_secret,demo,rate_limit,sandbox").RequireNoStart(t, "the database")
	require.Equal(t, 4, strings.Count(out, "accepted by SECKILL_UNSAFE"), out)
}

// holder is the owner of a paid order.
type holder struct {
	token, refresh, idle string
	order, code          string
}

// newHolder buys and pays an order, and logs in at both APIs.
func newHolder(t *testing.T, p *rig.Server, r *rig.CodeReceiver, sale, phone string) holder {
	t.Helper()
	login := r.Login(t, p, phone)
	h := holder{token: login["access_token"].(string), refresh: login["refresh_token"].(string)}
	p.Must(t, rig.Request{Method: http.MethodPost, Path: "/user/code?phone=" + phone})
	h.idle = p.Must(t, rig.Request{Method: http.MethodPost, Path: "/user/login", Body: map[string]string{
		"phone": phone, "code": r.Code(phone),
	}})["data"].(string)
	h.order = p.Buy(t, h.token, sale).ID
	p.Must(t, rig.Pay(h.order, h.token))
	p.WaitFor(t, h.token, h.order, "paid")
	h.code = h.shown(t, p)
	return h
}

// shown returns the redeem code that the page of the order shows.
func (h holder) shown(t *testing.T, p *rig.Server) string {
	t.Helper()
	return p.Must(t, rig.Get("/orders/"+h.order, h.token))["redeem_code"].(string)
}

// requireSession requires that every token of the holder works or that none does.
func (h holder) requireSession(t *testing.T, p *rig.Server, valid bool) {
	t.Helper()
	want := http.StatusUnauthorized
	if valid {
		want = http.StatusOK
	}
	a := p.Do(t, rig.Get("/me", h.token))
	require.Equal(t, want, a.Status, "access token")
	a = p.Do(t, rig.Post("/auth/refresh", "", map[string]string{"refresh_token": h.refresh}))
	require.Equal(t, want, a.Status, "refresh token")
	a = p.Do(t, rig.Request{Method: http.MethodGet, Path: "/user/me"}.With("Authorization", h.idle))
	require.Equal(t, want, a.Status, "session of the course's pages")
}

// redeem enters a redeem code as the merchant and returns the status of the answer.
func redeem(t *testing.T, p *rig.Server, admin, code string) int {
	t.Helper()
	return p.Do(t, rig.Post("/admin/redeem", admin, map[string]string{"code": code})).Status
}

// TestChangeOfSecret changes the secret of a server in two steps: a new secret signs while the old one is still
// accepted, then the old one is dropped. The most detailed logs contain neither codes, tokens nor phones.
func TestChangeOfSecret(t *testing.T) {
	env.Full(t)
	t.Parallel()
	r := rig.StartCodeReceiver(t)
	base := rig.EmbeddedStack(t).CodesTo(r).With("SECKILL_ADMIN_PHONES="+app.DemoAdmin, "SECKILL_LOG_LEVEL=debug")
	file := filepath.Join(t.TempDir(), "secrets")
	const first, second = "an old secret of at least 32 bytes", "a new secret of at least 32 bytes!"
	var servers []*rig.Server
	start := func(secrets ...string) *rig.Server {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(secrets, "\n")+"\n"), 0o600))
		if len(secrets) == 1 { // it decrypts no second factor from before
			r.Enroll(t, base.With("SECKILL_JWT_SECRET="+secrets[0]), app.DemoAdmin)
		}
		servers = append(servers, base.With("SECKILL_JWT_SECRET=", "SECKILL_JWT_SECRET_FILE="+file).Spawn(t, ""))
		return servers[len(servers)-1]
	}

	p := start(first)
	admin := r.Login(t, p, app.DemoAdmin)["access_token"].(string)
	v := rig.Answered(t, func() (rush.Voucher, error) { return p.CreateSale(t.Context(), admin, 9) })
	ada, bob, eve := newHolder(t, p, r, v.ID, "13911110001"), newHolder(t, p, r, v.ID, "13911110002"), newHolder(t, p, r, v.ID, "13911110003")
	require.Zero(t, p.Stop(t))

	p = start(second, first)
	ada.requireSession(t, p, true)
	require.Equal(t, http.StatusOK, redeem(t, p, admin, ada.code), "a code that was shown before the change")
	shown := bob.shown(t, p)
	require.NotEqual(t, bob.code, shown)
	require.Equal(t, http.StatusOK, redeem(t, p, admin, shown), "the code that is shown now")
	cat := newHolder(t, p, r, v.ID, "13911110004")
	require.Zero(t, p.Stop(t))

	p = start(second)
	bob.requireSession(t, p, false)
	cat.requireSession(t, p, true)
	admin = r.Login(t, p, app.DemoAdmin)["access_token"].(string)
	require.Equal(t, http.StatusBadRequest, redeem(t, p, admin, eve.code))
	require.Equal(t, http.StatusOK, redeem(t, p, admin, cat.code))
	require.Zero(t, p.Stop(t))

	codes := r.Sent()
	require.GreaterOrEqual(t, len(codes), 6)
	for _, p := range servers {
		log := p.Log.String()
		require.Contains(t, log, "level=")
		for _, code := range codes { // a metric may have six digits by chance
			require.NotRegexp(t, `\b`+code+`\b`, log)
		}
		for _, h := range []holder{ada, bob, eve, cat} {
			for _, secret := range []string{h.token, h.refresh, h.idle, h.code} {
				require.NotContains(t, log+p.Metrics, secret)
			}
		}
		require.NotContains(t, log+p.Metrics, "1391111000", "the phones")
	}
}
