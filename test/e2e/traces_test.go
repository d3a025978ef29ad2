package e2e

import (
	"bytes"
	"encoding/hex"
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
	"seckill/test/testenv"
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
	testenv.Full(t)
	t.Parallel()
	for lane, want := range map[string][]string{
		"lock":  {"batch wait", "transaction", "user lock", tracedRequest},
		"batch": {"batch wait", "transaction", tracedRequest},
		"queue": {"admission", "batch wait", "batch wait", "transaction", tracedRequest},
	} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			for try := 1; !traceOrder(t, lane, want); try++ {
				require.Less(t, try, 5, "no order was placed in time and exported")
			}
		})
	}
}

const tracedRequest = "POST /api/v1/vouchers/:id/orders"

// traceOrder requires that the spans of an order have these names. It returns false if the machine is so busy that the order
// is not placed in time, or that the server reports that it cannot export the spans.
func traceOrder(t *testing.T, lane string, want []string) bool {
	t.Helper()
	const (
		traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		key, phone        = "a-key-of-the-buyer", "13800000077"
	)
	traces := &traceStore{}
	srv := httptest.NewServer(traces)
	defer srv.Close()
	p := rig.EmbeddedStack(t).In(lane).With("OTEL_EXPORTER_OTLP_ENDPOINT="+srv.URL, "OTEL_TRACES_SAMPLER=parentbased_always_off").Spawn(t, "")
	sale := p.Sale(t, 10)
	token, other := p.LoginToken(t, phone), p.LoginToken(t, "13800000078")
	place := func(token, traceparent string) int {
		a := p.Once(t, rig.Purchase(sale, token).Keyed(key).With("Prefer", "wait=3").With("Traceparent", traceparent))
		require.Contains(t, []int{http.StatusCreated, http.StatusAccepted, http.StatusServiceUnavailable}, a.Status, a.Body)
		return a.Status
	}
	unsampled := "00-" + strings.Repeat("ab", 16) + "-" + parentID + "-00"
	// The first order also loads the gate, which is tried before and after.
	if place(other, unsampled) != http.StatusCreated || place(token, "00-"+traceID+"-"+parentID+"-01") != http.StatusCreated {
		return false
	}

	p.Scrape(t)
	for _, histogram := range []string{"seckill_http_request_seconds", "seckill_order_seconds"} {
		require.Regexp(t, `(?m)^`+histogram+`_bucket\{.*\} \d+ # \{trace_id="`+traceID+`"\}`, p.Metrics)
	}
	require.Zero(t, p.Stop(t)) // exports the last spans
	if log := p.Log.String(); strings.Contains(log, "cannot export the last traces") || strings.Contains(log, "traces are not exported") {
		return false
	}

	byName := map[string]*tracepb.Span{}
	var names []string
	for _, span := range traces.spans {
		require.Equal(t, traceID, hex.EncodeToString(span.GetTraceId()))
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
	return true
}
