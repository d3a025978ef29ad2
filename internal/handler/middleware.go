package handler

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"seckill/internal/domain"
	"seckill/internal/handler/hmdp"
	"seckill/internal/ops/salestats"
	"seckill/internal/ops/tracing"
)

const requestIDHeader = "X-Request-Id"

// validRequestID keeps line breaks and long texts from clients out of the log.
var validRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func requestID(c *gin.Context) {
	id := c.GetHeader(requestIDHeader)
	if !validRequestID.MatchString(id) {
		id = rand.Text()
	}
	c.Writer.Header()[requestIDHeader] = []string{id}
}

func requestIDOf(c *gin.Context) string { return c.Writer.Header().Get(requestIDHeader) }

// secureHeaders are those of an API without pages: no framing, sniffing, loading or caching. All answers share their slices,
// so no handler may append to them.
var secureHeaders = http.Header{
	"X-Content-Type-Options":  {"nosniff"},
	"X-Frame-Options":         {"DENY"},
	"Referrer-Policy":         {"no-referrer"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
	"Cache-Control":           {"no-store"},
}

func setSecureHeaders(c *gin.Context) { maps.Copy(c.Writer.Header(), secureHeaders) }

// answerTimeout bounds the waits of a request, so that the answer arrives within 5 s even if a dependency hangs.
const answerTimeout = 4 * time.Second

func withTimeout(d time.Duration) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), d)
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	}
}

// limitBody refuses a Content-Length over maxBody, even on routes that do not read the body.
func limitBody(c *gin.Context) error {
	if c.Request.ContentLength > maxBody {
		return domain.Invalid("body", "must have at most %d bytes", maxBody)
	}
	return nil
}

// checkQuery refuses a query of the API that cannot be read: net/url leaves out what it cannot read, such as title=50%, and a
// list without its filter has all rows. A semicolon is a part of a value.
func checkQuery(c *gin.Context) error {
	if c.Request.URL.RawQuery == "" || !strings.HasPrefix(c.FullPath(), "/api/v1/") {
		return nil
	}

	c.Request.URL.RawQuery = strings.ReplaceAll(c.Request.URL.RawQuery, ";", "%3B")
	if _, err := url.ParseQuery(c.Request.URL.RawQuery); err != nil {
		return domain.Invalid("query", "is not valid")
	}
	return nil
}

// observe returns a middleware that measures requests, and logs them at the level debug. Metrics are labelled with the route
// pattern, because a path contains ids, which must not become labels.
func (e *errorWriter) observe(reg prometheus.Registerer) gin.HandlerFunc {
	registered := promauto.With(reg)

	requests := registered.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_http_requests_total", Help: "HTTP requests by route, method and status.",
	}, []string{"route", "method", "status"})

	seconds := registered.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "seckill_http_request_seconds",
		Help:    "Time until the answer, in seconds, by route and method.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"route", "method"})

	return func(c *gin.Context) {
		start := time.Now()
		c.Next()
		took := time.Since(start)

		route := c.FullPath()
		method := c.Request.Method
		if route == "" {
			// Of any text, from which clients could create labels.
			route = "none"
			method = "other"
		}

		requests.WithLabelValues(route, method, strconv.Itoa(c.Writer.Status())).Inc()
		tracing.Observe(c.Request.Context(), seconds.WithLabelValues(route, method), took.Seconds())

		if !e.log.Enabled(c.Request.Context(), slog.LevelDebug) {
			return
		}

		e.log.LogAttrs(c.Request.Context(), slog.LevelDebug, "request",
			slog.String("method", method), slog.String("route", route), slog.Int("status", c.Writer.Status()),
			slog.Duration("took", took), slog.String("request_id", requestIDOf(c)))
	}
}

type headKey struct{}

// answerHead answers HEAD like GET (RFC 9110, 9.3.2). net/http leaves out the body. Handlers whose body costs much, or does
// not end, ask isHead.
func answerHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

func isHead(c *gin.Context) bool {
	return c.Request.Context().Value(headKey{}) != nil
}

// localHosts refuses requests whose Host is a public DNS name. It protects a demo on this machine from web pages that let
// their own name resolve to 127.0.0.1 (DNS rebinding): to the browser, the demo is then a part of their site. It accepts
// what nobody can register: addresses, localhost and its subdomains, names without a dot and names in .internal. Behind nginx the
// name is that of its upstream: "backend" in the hm-dianping course, host.docker.internal in a container. Error:
// domain.ErrForeignHost.
func localHosts(c *gin.Context) error {
	host := c.Request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}

	host = strings.ToLower(strings.TrimSuffix(host, "."))
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	private := strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
	if err != nil && strings.Contains(host, ".") && !private {
		return domain.ErrForeignHost
	}

	return nil
}

var errCrossOrigin = errors.New("this request was sent by a page of another site: use the pages of this server, or a proxy that keeps the Host header")

// refuseCrossOrigin returns a middleware that refuses requests which a page of another site makes its visitors send.
// Any page could otherwise have login codes sent from its visitors' addresses, because such a POST needs no CORS
// preflight. Browsers mark these requests with Sec-Fetch-Site or Origin; other clients send neither and pass.
func refuseCrossOrigin(e *errorWriter, hm *hmdp.API) gin.HandlerFunc {
	protection := http.NewCrossOriginProtection()

	return func(c *gin.Context) {
		switch {
		case protection.Check(c.Request) == nil:
		case c.FullPath() == "" || strings.HasPrefix(c.FullPath(), "/api/v1/"):
			e.write(c, errCrossOrigin)
		default:
			e.security.record(c, eventCrossOrigin)
			hm.Fail(c, hmdp.ErrCrossOrigin)
		}
	}
}

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

		if id, ok := domain.ParseID(c.Param("id")); ok {
			span.SetAttributes(attribute.Int64("seckill.voucher_id", id))
		}
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	}
}

// outcomeKey is the context key under which classify stores the outcome of an error.
const outcomeKey = "outcome"

// countAnswers returns a middleware that counts the answers to buyers by voucher and outcome for the live statistics.
// It must be the first of its route, so that the measured time covers the whole request.
func countAnswers(counters *salestats.Counters) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		c.Next()
		if id, ok := domain.ParseID(c.Param("id")); ok && c.Writer.Status() != statusClientGone {
			counters.CountAnswer(id, answerOf(c), time.Since(start))
		}
	}
}

func answerOf(c *gin.Context) string {
	if c.Writer.Header()[replayedHeader] != nil {
		return salestats.OutcomeReplayed
	}
	if code := c.GetString(outcomeKey); code != "" {
		return code
	}

	// Not from classify: a panic.
	if c.Writer.Status() >= http.StatusBadRequest {
		return "internal"
	}
	return salestats.OutcomeOK
}
