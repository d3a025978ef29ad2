// Package e2e tests whole servers over HTTP: rushes in every lane, kills, lost dependencies, failovers of clusters, commands.
package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

func TestMain(m *testing.M) { rig.Main(m) }

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

// TestPlantedLeaksAreFound: the search at the end of each server finds a secret in its log and in its metrics, even in a
// demo.
func TestPlantedLeaksAreFound(t *testing.T) {
	t.Parallel()
	search := func(log, metrics string) []string {
		planted := &rig.Server{Log: &env.Buffer{}, Metrics: metrics}
		_, _ = planted.Log.Write([]byte(`level=INFO msg="login code" phone=13812345678` + "\n" + log))
		return rig.EmbeddedStack(t).Leaks(planted)
	}
	require.Empty(t, search("", ""))
	require.Len(t, search("level=INFO msg=x phone=13812345678\n", ""), 1)
	require.Len(t, search("level=INFO msg=x secret="+rig.TestSecret+"\n", ""), 1)
	require.Len(t, search("", "seckill_x{phone=\"13812345678\"} 1\n"), 1)
}

// TestNothingPersonalIsLogged runs a server in production mode with its most detailed log, sends requests that carry
// phones, codes and tokens, valid and not, and searches log and metrics for them.
func TestNothingPersonalIsLogged(t *testing.T) {
	env.FullParallel(t)
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
		{http.StatusOK, http.MethodPost, "/api/v1/orders/" + order + "/pay", token, ""},
		{http.StatusOK, http.MethodGet, "/api/v1/orders/" + order, token, ""},
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

// traceStore is a receiver of OTLP over HTTP.
type traceStore struct {
	mu    sync.Mutex
	raw   bytes.Buffer
	spans []*tracepb.Span
}

func (s *traceStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var export collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &export) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(body)
	for _, of := range export.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			s.spans = append(s.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// TestTraceFromRequestToCommit: in every lane, one trace has the request, the waits and the transaction of an order, and
// continues that of the client. Requests that are not sampled have no span. The spans have no personal data.
func TestTraceFromRequestToCommit(t *testing.T) {
	env.FullParallel(t)
	const tracedRequest = "POST /api/v1/vouchers/:id/orders"

	for lane, want := range map[string][]string{
		"lock":  {"batch wait", "transaction", "user lock", tracedRequest},
		"batch": {"batch wait", "transaction", tracedRequest},
		"queue": {"admission", "batch wait", "batch wait", "transaction", tracedRequest},
	} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			const (
				parentID = "b7ad6b7169203331"
				key      = "a-key-of-the-buyer"
			)
			traces := &traceStore{}
			srv := httptest.NewServer(traces)
			defer srv.Close()
			s := rig.EmbeddedStack(t).In(lane).With("OTEL_EXPORTER_OTLP_ENDPOINT=" + srv.URL)
			p := s.With("OTEL_TRACES_SAMPLER=parentbased_always_off").Spawn(t, "")
			sale := p.Sale(t, 10)
			var phone, token, traceID string
			place := func(sampled string) {
				var a rig.Answer
				n := 0
				rig.Eventually(t, "a purchase is placed", func() bool { // a refused one by another buyer, in a trace of its own
					n++
					phone = rig.NewPhone()
					token = p.LoginToken(t, phone)
					traceID = fmt.Sprintf("0af7651916cd43dd8448eb211c8%03d%s", n, sampled)
					a = p.Once(t, rig.Purchase(sale, token).Keyed(key).With("Traceparent", "00-"+traceID+"-"+parentID+"-"+sampled))
					return !a.Busy()
				})
				require.True(t, a.Success(), a.Text)
				rig.RequireOrdered(t, p, token, a.Order())
			}
			place("00") // it also loads the gate
			place("01")

			p.Scrape(t)
			for _, histogram := range []string{"seckill_http_request_seconds", "seckill_order_seconds"} {
				require.Regexp(t, `(?m)^`+histogram+`_bucket\{.*\} \d+ # \{trace_id="`+traceID+`"\}`, p.Metrics)
			}
			require.Zero(t, p.Stop(t)) // exports the last spans

			byName := map[string]*tracepb.Span{}
			var names []string
			for _, span := range traces.spans {
				id := hex.EncodeToString(span.GetTraceId())
				require.True(t, strings.HasSuffix(id, "01"), "a span of a request that is not sampled")
				if id != traceID {
					continue
				}
				byName[span.GetName()] = span
				names = append(names, span.GetName())
			}
			require.ElementsMatch(t, want, names)
			require.Equal(t, parentID, hex.EncodeToString(byName[tracedRequest].GetParentSpanId()))
			for _, name := range want {
				if name != tracedRequest {
					require.Equal(t, byName[tracedRequest].GetSpanId(), byName[name].GetParentSpanId(), name)
				}
			}
			for _, secret := range []string{phone, phone[3:], token, key, "Bearer"} {
				require.NotContains(t, traces.raw.String(), secret)
			}
			require.NotContains(t, traces.raw.String(), "127.0.0.1", "an address is personal data")
		})
	}
}
