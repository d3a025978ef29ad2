package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceRequests returns a middleware that makes a span of each request and continues the trace of the client, if it
// sends one (W3C traceparent). The span has no personal data: neither user, address, path nor headers, which is why it is
// not that of otelgin. tracer may be nil.
func traceRequests(tracer trace.Tracer) gin.HandlerFunc {
	if tracer == nil {
		return func(*gin.Context) {}
	}

	return func(c *gin.Context) {
		ctx := propagation.TraceContext{}.Extract(c.Request.Context(), propagation.HeaderCarrier(c.Request.Header))
		ctx, span := tracer.Start(ctx, c.Request.Method+" "+c.FullPath(), trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()

		if !span.IsRecording() {
			return
		}

		c.Request = c.Request.WithContext(ctx)
		c.Next()

		status := c.Writer.Status()
		span.SetAttributes(attribute.String("http.request.method", c.Request.Method), attribute.String("http.route", c.FullPath()),
			attribute.Int("http.response.status_code", status))

		if id, ok := parseID(c.Param("id")); ok {
			span.SetAttributes(attribute.Int64("seckill.voucher_id", id))
		}
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	}
}
