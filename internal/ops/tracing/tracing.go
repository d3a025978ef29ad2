// Package tracing traces purchases with OpenTelemetry: from the request, over the batch or the queue, to the transaction
// that commits the order. Without a [Tracer], nothing of it is on the path of an order.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

const (
	// defaultRatio is the share of the requests that is sampled if OTEL_TRACES_SAMPLER is not set. The default of
	// OpenTelemetry is all of them, which at the start of a sale cost more than the orders.
	defaultRatio = 0.01
	// flushTimeout bounds the export of the last spans when the server stops.
	flushTimeout = 3 * time.Second
	// errorInterval is the shortest time between two warnings about failed exports.
	errorInterval = time.Minute
)

// Tracer makes spans and exports them. The methods that wrap a part of a server return it unchanged if the Tracer is nil.
// It is safe for concurrent use.
type Tracer struct {
	trace.Tracer
	provider *sdktrace.TracerProvider
}

// New returns a Tracer that exports to the endpoint in OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
// or nil if there is none, or if OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER turn tracing off. The SDK reads the other
// variables of OpenTelemetry. The error names a variable whose value is not supported.
func New(ctx context.Context, log *slog.Logger) (*Tracer, error) {
	endpoint := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	exporter := cmp.Or(os.Getenv("OTEL_TRACES_EXPORTER"), "otlp")
	if endpoint == "" || exporter == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil //nolint:nilnil // a nil Tracer is valid
	}
	if exporter != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is neither otlp nor none", exporter)
	}

	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not http/protobuf", protocol)
	}

	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// It may contain a password.
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: not an http or https URL")
	}

	client, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("the exporter of traces (OTEL_EXPORTER_OTLP_*): %w", err)
	}

	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "seckill")),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("the resource of traces (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}

	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(client), sdktrace.WithResource(about)}
	if strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER")) == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(defaultRatio))))
	}

	// An error of OTEL_TRACES_SAMPLER: the SDK would sample every request instead.
	var invalid error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { invalid = err }))
	provider := sdktrace.NewTracerProvider(options...)
	if invalid != nil {
		return nil, errors.Join(fmt.Errorf("OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG: %w", invalid), provider.Shutdown(ctx))
	}

	warnings := rate.Sometimes{Interval: errorInterval}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		warnings.Do(func() { log.Warn("traces are not exported", "err", err) })
	}))

	log.Info("purchases are traced")
	return &Tracer{Tracer: provider.Tracer("seckill"), provider: provider}, nil
}

// Requests returns the tracer of requests, nil for a nil Tracer.
func (t *Tracer) Requests() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.Tracer
}

// Close exports the last spans, for up to 3 s, and stops the Tracer.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// traceparent is the header of W3C trace contexts.
const traceparent = "traceparent"

func encode(ctx context.Context) string {
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return header[traceparent]
}

func decode(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}

// Observe records a number of seconds. If the request of ctx is sampled, its trace id becomes an exemplar.
func Observe(ctx context.Context, histogram prometheus.Observer, seconds float64) {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		if h, ok := histogram.(prometheus.ExemplarObserver); ok {
			h.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": span.TraceID().String()})
			return
		}
	}
	histogram.Observe(seconds)
}
