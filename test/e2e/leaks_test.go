package e2e

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/test/testenv"
)

// demoLine matches the lines of a demo's log that have login codes and the number of its admin, which is public.
var demoLine = regexp.MustCompile(`(?m)^.*(?:msg="login code"|` + app.DemoAdmin + `).*$`)

// leaks returns the secrets in the log of a server and in the metrics that were scraped from it. The search runs at the
// end of every server of these tests, and so after every kind of request.
func (s *stack) leaks(p *server) []string {
	log := strings.ReplaceAll(p.log.String(), app.DemoAdmin+" is the admin of demo mode", "") // a constant in a warning
	demo := s.setting("SECKILL_DEMO")
	if demo == "true" || demo == "" && s.setting("SECKILL_MYSQL_DSN") == "" {
		log = demoLine.ReplaceAllString(log, "")
	}
	var known []string
	for _, name := range []string{"SECKILL_JWT_SECRET", "SECKILL_PAYMENT_SECRET", "SECKILL_EVENTS_SECRET", "SECKILL_REDIS_PASSWORD"} {
		for secret := range strings.SplitSeq(s.setting(name), ",") {
			if secret != "" {
				known = append(known, secret)
			}
		}
	}
	return append(testenv.Leaks(log, known...), testenv.Leaks(p.metrics, known...)...)
}

var opsAddr = regexp.MustCompile(`msg="metrics and profiles" addr=(\S+)`)

// scrape stores the metrics of a server before it ends. Those of a server that the test has killed or paused, or that
// has no ops address, are not available.
func (p *server) scrape() {
	addr := opsAddr.FindStringSubmatch(p.log.String())
	if addr == nil {
		return
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(http.MethodGet, "http://"+addr[1]+"/metrics", http.NoBody)
	if err != nil {
		return
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0, text/plain; q=0.5") // as Prometheus does
	res, err := client.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err == nil {
		p.metrics += string(text)
	}
}

// TestPlantedLeaksAreFound: the search at the end of each server finds a secret in its log and in its metrics, even in a
// demo.
func TestPlantedLeaksAreFound(t *testing.T) {
	t.Parallel()
	s := embeddedStack(t)
	p := s.serve(t)
	p.admin(t)
	p.scrape()
	require.Contains(t, p.metrics, "seckill_security_events_total")
	search := func(log, metrics string) []string {
		planted := &server{log: &buffer{}, metrics: p.metrics + metrics}
		_, _ = planted.log.Write([]byte(p.log.String() + log))
		return s.leaks(planted)
	}
	require.Empty(t, search("", ""))
	require.Len(t, search("level=INFO msg=x phone=13812345678\n", ""), 1)
	require.Len(t, search("level=INFO msg=x secret="+testSecret+"\n", ""), 1)
	require.Len(t, search("", "seckill_x{phone=\"13812345678\"} 1\n"), 1)
	p.logs(t, `msg="login code"`)
}

// TestNothingPersonalIsLogged runs a server in production mode with its most detailed log, sends requests that carry
// phones, codes and tokens, valid and not, and searches log and metrics for them.
func TestNothingPersonalIsLogged(t *testing.T) {
	t.Parallel()
	s := realStack(t)
	demo := s.serve(t)
	sale := demo.sale(t, 5)
	require.Zero(t, demo.stop(t))

	production := s.with("SECKILL_DEMO=false", "SECKILL_LOG_LEVEL=debug")
	p := production.spawn(t, "") // with the messages of go-redis in its log
	code, out := production.runProcess(t, "seed", "--users", "1", "--tokens", "-", "--force")
	require.Zero(t, code, out)
	_, token, _ := strings.Cut(strings.TrimSpace(out), ",")
	order := p.mustPlace(t, token, sale)
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
}

// request sends a request whose answer does not matter.
func request(t *testing.T, p *server, method, path, token, body string) {
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

// reportsOnlyMasked requires the failed login of a phone in the metrics and, masked, in the log of a server in production
// mode. The search for secrets follows when the server ends.
func (p *server) reportsOnlyMasked(t *testing.T) {
	t.Helper()
	p.scrape()
	require.Contains(t, p.metrics, `seckill_security_events_total{event="login_failed"}`)
	p.logs(t, "phone=138****0001")
}
