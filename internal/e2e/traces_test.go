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
	t.Parallel()
	const (
		traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		key, phone        = "a-key-of-the-buyer", "13800000077"
		request           = "POST /api/v1/vouchers/:id/orders"
	)
	for lane, want := range map[string][]string{
		"lock":  {"batch wait", "transaction", "user lock", request},
		"batch": {"batch wait", "transaction", request},
		"queue": {"admission", "batch wait", "batch wait", "transaction", request},
	} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			traces := &traceStore{}
			srv := httptest.NewServer(traces)
			defer srv.Close()
			p := embeddedStack(t).in(lane).with("OTEL_EXPORTER_OTLP_ENDPOINT="+srv.URL, "OTEL_TRACES_SAMPLER=parentbased_always_off").spawn(t, "")
			sale := p.sale(t, 10)
			token := p.login(t, phone)
			place := func(token, traceparent string) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/api/v1/vouchers/"+sale+"/orders", http.NoBody)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+token)
				req.Header.Set("Idempotency-Key", key)
				req.Header.Set("Prefer", "wait=3")
				req.Header.Set("Traceparent", traceparent)
				res, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				require.Equal(t, http.StatusCreated, res.StatusCode)
			}
			other := p.login(t, "13800000078")
			place(other, "00-"+strings.Repeat("ab", 16)+"-"+parentID+"-00") // and loads the gate, which is tried before and after
			place(token, "00-"+traceID+"-"+parentID+"-01")

			p.scrape()
			for _, histogram := range []string{"seckill_http_request_seconds", "seckill_order_seconds"} {
				require.Regexp(t, `(?m)^`+histogram+`_bucket\{.*\} \d+ # \{trace_id="`+traceID+`"\}`, p.metrics)
			}
			require.Zero(t, p.stop(t)) // exports the last spans

			byName := map[string]*tracepb.Span{}
			var names []string
			for _, span := range traces.spans {
				require.Equal(t, traceID, hex.EncodeToString(span.GetTraceId()))
				byName[span.GetName()] = span
				names = append(names, span.GetName())
			}
			require.ElementsMatch(t, want, names)
			require.Equal(t, parentID, hex.EncodeToString(byName[request].GetParentSpanId()))
			for _, name := range want {
				if name != request {
					require.Equal(t, byName[request].GetSpanId(), byName[name].GetParentSpanId(), name)
				}
			}
			for _, secret := range []string{phone, phone[3:], token, key, "Bearer"} {
				require.NotContains(t, traces.raw.String(), secret)
			}
			require.NotContains(t, traces.raw.String(), "127.0.0.1", "an address is personal data")
		})
	}
}
