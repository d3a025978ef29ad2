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

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

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
	env.Full(t)
	t.Parallel()
	for lane, want := range map[string][]string{
		"lock":  {"batch wait", "transaction", "user lock", tracedRequest},
		"batch": {"batch wait", "transaction", tracedRequest},
		"queue": {"admission", "batch wait", "batch wait", "transaction", tracedRequest},
	} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			traceOrder(t, lane, want)
		})
	}
}

const tracedRequest = "POST /api/v1/vouchers/:id/orders"

// traceOrder requires that the spans of an order have these names.
func traceOrder(t *testing.T, lane string, want []string) {
	t.Helper()
	const (
		parentID = "b7ad6b7169203331"
		key      = "a-key-of-the-buyer"
	)
	traces := &traceStore{}
	srv := httptest.NewServer(traces)
	defer srv.Close()
	p := rig.EmbeddedStack(t).In(lane).With("OTEL_EXPORTER_OTLP_ENDPOINT="+srv.URL, "OTEL_TRACES_SAMPLER=parentbased_always_off").Spawn(t, "")
	sale := p.Sale(t, 10)
	var phone, token, traceID string
	place := func(sampled string) {
		t.Helper()
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
}
