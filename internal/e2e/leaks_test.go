package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
)

// secret is something that logs and metrics must not contain.
type secret struct {
	name    string
	pattern *regexp.Regexp
	demo    bool // not even in demo mode, whose log has login codes
}

var secrets = []secret{
	{"access token", regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}`), true},
	{"refresh token", regexp.MustCompile(`\b[0-9a-f]{32}\.(?:[0-9]+\.)?[\w-]{20,}`), true},
	{"redeem code", regexp.MustCompile(`\b[0-9A-Z]{4}(?:-[0-9A-Z]{4}){5}\b`), true},
	{"signing secret", regexp.MustCompile(regexp.QuoteMeta(testSecret)), true},
	{"phone", regexp.MustCompile(`(?:^|[^\w.-])(?:\+[1-9][0-9]{6,14}|1[3-9][0-9]{9})(?:$|[^\w.])`), false},
	{"login code", regexp.MustCompile(`(?i)\bcode"?[=:]"?[0-9]{6}\b`), false},
}

// leaks returns the secrets in a text. The number of the demo's admin is public: a warning names it.
func leaks(text string, demo bool) (found []string) {
	text = strings.ReplaceAll(text, app.DemoAdmin, "")
	for _, s := range secrets {
		if demo && !s.demo {
			continue
		}
		if leak := s.pattern.FindString(text); leak != "" {
			found = append(found, s.name+": "+leak)
		}
	}
	return found
}

// requireNoLeaks searches the log of a server. It runs at the end of every server of these tests.
func (s *stack) requireNoLeaks(t *testing.T, log string) {
	t.Helper()
	demo := s.setting("SECKILL_DEMO")
	byDefault := demo == "" && s.setting("SECKILL_MYSQL_DSN") == ""
	require.Empty(t, leaks(log, demo == "true" || byDefault), "the log has secrets")
}

func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	for planted, want := range map[string]string{
		`level=INFO msg=x token=eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJzZWNraWxsIn0.c2lnbmF0dXJl`:             "access token",
		`level=INFO msg=x err="00112233445566778899aabbccddeeff.3.AbCdEfGhIjKlMnOpQrStUvWx"`:           "refresh token",
		`level=INFO msg=x token=00112233445566778899aabbccddeeff.AbCdEfGhIjKlMnOpQrStUvWx`:             "refresh token",
		`{"msg":"x","redeem_code":"0BHT-K000-0001-AAAA-BBBB-CCCC"}`:                                    "redeem code",
		`level=WARN msg=x secret=` + testSecret:                                                        "signing secret",
		`level=INFO msg="login code" phone=13800000001`:                                                "phone",
		`level=INFO msg=x err="no route to +447911123456"`:                                             "phone",
		`level=INFO msg=x code=123456`:                                                                 "login code",
		`{"msg":"x","code":"123456"}`:                                                                  "login code",
		`level=INFO msg=security event=login_failed network=127.0.0.0/24 phone=138****0001 status=401`: "",
		`level=WARN msg=x order_id=3368803458027454464 request_id=1F8QG5 took=13.800000001ms`:          "",
	} {
		found := leaks("level=INFO msg=before\n"+planted+"\nlevel=INFO msg=after\n", false)
		if want == "" {
			assert.Empty(t, found, planted)
			continue
		}
		if assert.Len(t, found, 1, planted) {
			assert.True(t, strings.HasPrefix(found[0], want), found)
		}
	}
	assert.Empty(t, leaks(`msg="login code" phone=13800000001 code=123456`, true), "a demo writes codes to its log")
}

// TestNothingPersonalIsLogged runs a server in production mode with its most detailed log, sends requests that carry
// phones, codes and tokens, valid and not, and searches log and metrics for them.
func TestNothingPersonalIsLogged(t *testing.T) {
	t.Parallel()
	each(t, false, func(t *testing.T, s *stack) {
		demo := s.serve(t, "")
		sale := demo.sale(t, 5)
		require.Zero(t, demo.stop(t))

		production := s.with("SECKILL_DEMO=false", "SECKILL_LOG_LEVEL=debug", "SECKILL_OPS_ADDR=127.0.0.1:0")
		p := production.serve(t, "")
		code, out := production.run(t, "seed", "--users", "1", "--tokens", "-", "--force")
		require.Zero(t, code, out)
		_, token, _ := strings.Cut(strings.TrimSpace(out), ",")
		order, err := p.Place(t.Context(), token, sale)
		require.NoError(t, err)
		for _, r := range []struct{ method, path, token, body string }{
			{http.MethodPost, "/api/v1/orders/" + order.ID + "/pay", token, ""},
			{http.MethodGet, "/api/v1/orders/" + order.ID, token, ""},
			{http.MethodGet, "/api/v1/me/export", token, ""},
			{http.MethodGet, "/api/v1/admin/orders?phone=13800000001", token, ""},
			{http.MethodGet, "/api/v1/me", token + "x", ""},
			{http.MethodPost, "/api/v1/auth/login", "", `{"phone": "13800000001", "code": "123456"}`},
			{http.MethodPost, "/api/v1/auth/login", "", `{"phone": "13800000001 ", "code": "123456"}`},
			{http.MethodPost, "/user/login", "", `{"phone": "13800000001", "code": "123456"}`},
			{http.MethodPost, "/user/code?phone=138000000012", "", ""},
			{http.MethodPost, "/api/v1/auth/refresh", "", `{"refresh_token": "00112233445566778899aabbccddeeff.1.AbCdEfGhIjKlMnOpQrStUvWxYz"}`},
			{http.MethodPost, "/api/v1/auth/refresh", "", `{"refresh_token": "` + token + `", "phone": "13800000001"}`},
			{http.MethodGet, "/api/v1/me?token=" + token + "&phone=13800000001", "", ""},
			{http.MethodGet, "/13800000001", "", ""},
		} {
			request(t, p, r.method, r.path, r.token, r.body)
		}
		p.reportsOnlyMasked(t)
	})
}

// request sends a request whose answer does not matter.
func request(t *testing.T, p *process, method, path, token, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
}

// reportsOnlyMasked searches the metrics and the log of a server in production mode, which must have seen the failed
// login of a phone.
func (p *process) reportsOnlyMasked(t *testing.T) {
	t.Helper()
	_, rest, ok := strings.Cut(p.log.String(), `msg="metrics and profiles" addr=`)
	require.True(t, ok)
	addr, _, _ := strings.Cut(rest, "\n")
	metrics := body(t, fmt.Sprintf("http://%s/metrics", addr))
	require.Contains(t, metrics, `seckill_security_events_total{event="login_failed"}`)
	require.Contains(t, p.log.String(), "phone=138****0001")
	for where, text := range map[string]string{"metrics": metrics, "log": p.log.String()} {
		require.Empty(t, leaks(text, false), where)
	}
}
