package ops_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"seckill/internal/domain"
	"seckill/internal/ops/tracing"
	"seckill/internal/sale/lane"
)

// recorder returns a Tracer and the function that returns its ended spans in their order.
func recorder(t *testing.T) (*tracing.Tracer, func() tracetest.SpanStubs) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	return &tracing.Tracer{Tracer: provider.Tracer("test")}, spans.GetSpans
}

// parent returns the traceparent of a sampled request, whose trace id and span id consist of the digit.
func parent(digit string) string {
	return "00-" + strings.Repeat(digit, 32) + "-" + strings.Repeat(digit, 16) + "-01"
}

type placer func(orders []domain.NewOrder) []domain.Placed

func (p placer) PlaceOrders(_ context.Context, orders []domain.NewOrder) []domain.Placed {
	return p(orders)
}

// A batch with several sampled purchases has one span with links to all of them, and each of their traces has a span of
// the batch. Other purchases have none.
func TestBatchLinksItsPurchases(t *testing.T) {
	tracer, spans := recorder(t)
	since := time.Now().Add(-time.Second)
	orders := tracer.Orders(placer(func(orders []domain.NewOrder) []domain.Placed { return make([]domain.Placed, len(orders)) }))
	orders.PlaceOrders(t.Context(), []domain.NewOrder{
		{}, {Trace: &domain.Trace{Parent: parent("1"), Since: since}}, {}, {Trace: &domain.Trace{Parent: parent("2"), Since: since}},
		{Trace: &domain.Trace{Parent: "invalid"}},
	})
	byTrace := map[string]map[string]tracetest.SpanStub{}
	for _, s := range spans() {
		id := s.SpanContext.TraceID().String()[:1]
		if !s.Parent.IsValid() {
			continue // of the invalid parent: a trace of its own
		}
		require.Equal(t, strings.Repeat(id, 16), s.Parent.SpanID().String())
		if byTrace[id] == nil {
			byTrace[id] = map[string]tracetest.SpanStub{}
		}
		byTrace[id][s.Name] = s
	}
	require.Len(t, byTrace, 2)
	first, second := byTrace["1"]["transaction"], byTrace["2"]["transaction"]
	require.Equal(t, byTrace["2"]["batch wait"].Parent.SpanID(), first.Links[0].SpanContext.SpanID())
	require.Equal(t, first.SpanContext.SpanID(), second.Links[0].SpanContext.SpanID())
	require.Equal(t, first.StartTime, second.StartTime)
	require.Equal(t, first.EndTime, second.EndTime)
	require.True(t, byTrace["2"]["batch wait"].StartTime.Equal(since))
	require.Equal(t, first.StartTime, byTrace["2"]["batch wait"].EndTime)
}

// The spans of a batch that could not reach the database have the status of an error.
func TestUnavailableBatchIsAnError(t *testing.T) {
	tracer, spans := recorder(t)
	orders := tracer.Orders(placer(func([]domain.NewOrder) []domain.Placed { return []domain.Placed{{Err: domain.ErrUnavailable}} }))
	orders.PlaceOrders(t.Context(), []domain.NewOrder{{Trace: &domain.Trace{Parent: parent("1"), Since: time.Now()}}})
	all := spans()
	require.Equal(t, codes.Error, all[len(all)-1].Status.Code)
}

type locks struct{ err error }

func (l locks) TryDo(ctx context.Context, _ int64, fn func(context.Context) error) error {
	if l.err != nil {
		return l.err
	}
	return fn(ctx)
}

// The span of a lock ends when the lock is acquired, or refused.
func TestLockSpanEndsWithTheWait(t *testing.T) {
	tracer, spans := recorder(t)
	ctx, request := tracer.Start(t.Context(), "request")
	require.NoError(t, tracer.Locks(locks{}).TryDo(ctx, 1, func(context.Context) error {
		require.Len(t, spans(), 1)
		return nil
	}))
	require.ErrorIs(t, tracer.Locks(locks{domain.ErrOrderInProgress}).TryDo(ctx, 1, nil), domain.ErrOrderInProgress)
	require.Len(t, spans(), 2)
	request.End()
}

type orderLane struct{ purchase domain.Purchase }

func (l *orderLane) Place(_ context.Context, p domain.Purchase) (domain.Order, bool, error) {
	l.purchase = p
	return domain.Order{}, false, nil
}

// A purchase carries the trace of its request only if that is sampled.
func TestOnlySampledPurchasesCarryATrace(t *testing.T) {
	tracer, _ := recorder(t)
	next := &orderLane{}
	traced := tracer.Lane(next)
	_, _, _ = traced.Place(t.Context(), domain.Purchase{})
	require.Nil(t, next.purchase.Trace)
	unsampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{1}}))
	_, _, _ = traced.Place(unsampled, domain.Purchase{})
	require.Nil(t, next.purchase.Trace)
	sampled := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": parent("3")})
	_, _, _ = traced.Place(sampled, domain.Purchase{})
	require.Equal(t, parent("3"), next.purchase.Trace.Parent)
}

// A purchase without a trace allocates nothing for it.
func TestUntracedPurchaseAllocatesNothing(t *testing.T) {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds"})
	ctx, untraced := t.Context(), domain.Purchase{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		untraced.Trace = untraced.Trace.Waiting()
		tracing.Observe(ctx, histogram, 1)
	}))
}

// Without an endpoint there is no Tracer, and every part of a server stays as it is.
func TestOffByDefault(t *testing.T) {
	for name, env := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, env)
			tracer, err := tracing.New(t.Context(), nil)
			require.NoError(t, err)
			require.Nil(t, tracer)
			next, batch, held := &orderLane{}, placer(nil), locks{}
			require.Same(t, next, tracer.Lane(next))
			require.IsType(t, batch, tracer.Orders(batch))
			require.Equal(t, held, tracer.Locks(held))
			require.Nil(t, tracer.Gate(lane.Gate(nil)))
			require.Nil(t, tracer.Requests())
			require.NoError(t, tracer.Close(t.Context()))
		})
	}
}

// A value that the program does not support is refused instead of ignored.
func TestInvalidSettingsAreRefused(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
		{"OTEL_TRACES_EXPORTER", "zipkin"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"},
		{"OTEL_TRACES_SAMPLER", "sometimes"},
		{"OTEL_TRACES_SAMPLER_ARG", "1%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			t.Setenv(c.name, c.value)
			_, err := tracing.New(t.Context(), nil)
			require.ErrorContains(t, err, c.name)
		})
	}
}
