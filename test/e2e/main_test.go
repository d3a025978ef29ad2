// Package e2e tests whole servers over HTTP: rushes in every lane, kills, lost dependencies, failovers of clusters, commands.
package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

func TestMain(m *testing.M) { rig.Main(m) }

// metricsText returns metrics with the given numbers of answers.
func metricsText(ok, refused, notReady int) string {
	return fmt.Sprintf(`# TYPE seckill_http_requests counter
seckill_http_requests_total{method="GET",route="/api/v1/me",status="200"} %d.0
seckill_http_requests_total{method="POST",route="/api/v1/vouchers/:id/orders",status="503"} %d.0 # {trace_id="1"} 1.0
seckill_http_requests_total{method="GET",route="/readyz",status="503"} %d.0
`, ok, refused, notReady)
}

// TestRefusalsAreJudged: a server that refuses nine of ten requests is found, one that is busy or not ready is not.
func TestRefusalsAreJudged(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, rig.JudgeRefusals(metricsText(10, 90, 0)), "90 of 100 requests were answered 503")
	require.Error(t, rig.JudgeRefusals(metricsText(0, 21, 0)))
	require.NoError(t, rig.JudgeRefusals(metricsText(50, 50, 0)))
	require.NoError(t, rig.JudgeRefusals(metricsText(1, 20, 0)), "a busy machine")
	require.NoError(t, rig.JudgeRefusals(metricsText(10, 0, 90)), "probes")
	overloads := `seckill_order_seconds_count{lane="queue",outcome="overloaded"} 85.0` + "\n"
	require.NoError(t, rig.JudgeRefusals(metricsText(10, 100, 0)+overloads), "more buyers than the server decides on at once")
	require.Error(t, rig.JudgeRefusals(metricsText(10, 110, 0)+overloads))
	require.NoError(t, rig.JudgeRefusals(""), "a server without an ops address")
}

// TestForgivenIsCounted: the last line of a run says what the helpers repeated.
func TestForgivenIsCounted(t *testing.T) {
	t.Parallel()
	var f rig.Forgiven
	f.Servers.Store(10)
	f.Answers.Store(2)
	f.Dials.Store(1)
	require.Equal(t, "rig: forgave 2 answers 503, 1 dial time-outs and 0 commands without an answer in time of 10 servers", f.String())
}

// TestPlantedLeaksAreFound: the search at the end of each server finds a secret in its log and in its metrics, even in a
// demo.
func TestPlantedLeaksAreFound(t *testing.T) {
	t.Parallel()
	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	p.Admin(t)
	p.Scrape(t)
	require.Contains(t, p.Metrics, "seckill_security_events_total")
	search := func(log, metrics string) []string {
		planted := &rig.Server{Log: &rig.Buffer{}, Metrics: p.Metrics + metrics}
		_, _ = planted.Log.Write([]byte(p.Log.String() + log))
		return s.Leaks(planted)
	}
	require.Empty(t, search("", ""))
	require.Len(t, search("level=INFO msg=x phone=13812345678\n", ""), 1)
	require.Len(t, search("level=INFO msg=x secret="+rig.TestSecret+"\n", ""), 1)
	require.Len(t, search("", "seckill_x{phone=\"13812345678\"} 1\n"), 1)
	p.Logs(t, `msg="login code"`)
}

// TestNothingPersonalIsLogged runs a server in production mode with its most detailed log, sends requests that carry
// phones, codes and tokens, valid and not, and searches log and metrics for them.
func TestNothingPersonalIsLogged(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	demo := s.Serve(t)
	sale := demo.Sale(t, 5)
	require.Zero(t, demo.Stop(t))

	production := s.With("SECKILL_DEMO=false", "SECKILL_LOG_LEVEL=debug")
	p := production.Spawn(t, "") // with the messages of go-redis in its log
	code, out := production.RunProcess(t, "seed", "--users", "1", "--tokens", "-", "--force")
	require.Zero(t, code, out)
	_, token, _ := strings.Cut(strings.TrimSpace(out), ",")
	order := p.MustPlace(t, token, sale)
	for _, r := range []struct {
		want                      int
		method, path, token, body string
	}{
		{http.StatusOK, http.MethodPost, "/api/v1/orders/" + order.ID + "/pay", token, ""},
		{http.StatusOK, http.MethodGet, "/api/v1/orders/" + order.ID, token, ""},
		{http.StatusOK, http.MethodGet, "/api/v1/me/export", token, ""},
		{http.StatusForbidden, http.MethodGet, "/api/v1/admin/orders?phone=13800000001", token, ""},
		{http.StatusUnauthorized, http.MethodGet, "/api/v1/me", token + "x", ""},
		{http.StatusUnauthorized, http.MethodPost, "/api/v1/auth/login", "", `{"phone": "13800000001", "code": "123456"}`},
		{http.StatusUnauthorized, http.MethodPost, "/api/v1/auth/login", "", `{"phone": "13800000001 ", "code": "123456"}`},
		{http.StatusOK, http.MethodPost, "/user/login", "", `{"phone": "13800000001", "code": "123456"}`},
		{http.StatusOK, http.MethodPost, "/user/code?phone=138000000012", "", ""},
		{http.StatusUnauthorized, http.MethodPost, "/api/v1/auth/refresh", "", `{"refresh_token": "00112233445566778899aabbccddeeff.1.AbCdEfGhIjKlMnOpQrStUvWxYz"}`},
		{http.StatusBadRequest, http.MethodPost, "/api/v1/auth/refresh", "", `{"refresh_token": "` + token + `", "phone": "13800000001"}`},
		{http.StatusUnauthorized, http.MethodGet, "/api/v1/me?token=" + token + "&phone=13800000001", "", ""},
		{http.StatusNotFound, http.MethodGet, "/13800000001", "", ""},
	} {
		a := p.Do(t, rig.Request{Method: r.method, Path: r.path, Token: r.token, Body: r.body})
		assert.Equal(t, r.want, a.Status, "%s %s: %s", r.method, r.path, a.Text)
	}

	// The search for secrets follows when the server ends.
	p.Scrape(t)
	require.Contains(t, p.Metrics, `seckill_security_events_total{event="login_failed"}`)
	p.Logs(t, "phone=138****0001")
}
