package handler

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/domain"
	"seckill/internal/ops/tracing"
)

const requestIDHeader = "X-Request-Id"

// validRequestID keeps line breaks and long texts from clients out of the log.
var validRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID sets the answer's request id to the client's, if it is valid, or to a new one.
func requestID(c *gin.Context) {
	id := c.GetHeader(requestIDHeader)
	if !validRequestID.MatchString(id) {
		id = rand.Text()
	}
	c.Writer.Header()[requestIDHeader] = []string{id}
}

func requestIDOf(c *gin.Context) string { return c.Writer.Header().Get(requestIDHeader) }

// secureHeaders sets the headers of an API without pages: no framing, sniffing, loading or caching. All answers share
// the header slices, so no handler may append to them.
func secureHeaders(c *gin.Context) {
	h := c.Writer.Header()
	h["X-Content-Type-Options"] = noSniff
	h["X-Frame-Options"] = noFrame
	h["Referrer-Policy"] = noReferrer
	h["Content-Security-Policy"] = noContent
	h["Cache-Control"] = noStore
}

var (
	noSniff    = []string{"nosniff"}
	noFrame    = []string{"DENY"}
	noReferrer = []string{"no-referrer"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	noStore    = []string{"no-store"}
)

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

// metrics are labelled with the route pattern, because a path contains ids, which must not become labels.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_http_requests_total", Help: "HTTP requests by route, method and status.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "seckill_http_request_seconds",
			Help:    "Time until the answer, in seconds, by route and method.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"route", "method"}),
	}

	for _, c := range []prometheus.Collector{m.requests, m.seconds} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}

	return m, nil
}

// knownMethod maps methods outside HTTP's usual ones to "other", so that clients cannot create labels.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return m
	}
	return "other"
}

// observe returns a middleware that counts and times each request and logs it at debug level.
func (e *errorWriter) observe(m *metrics) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		c.Next()
		took := time.Since(start)

		route := c.FullPath()
		if route == "" {
			route = "none"
		}

		method := knownMethod(c.Request.Method)
		m.requests.WithLabelValues(route, method, strconv.Itoa(c.Writer.Status())).Inc()
		tracing.Observe(c.Request.Context(), m.seconds.WithLabelValues(route, method), took.Seconds())

		if !e.log.Enabled(c.Request.Context(), slog.LevelDebug) {
			return
		}

		e.log.LogAttrs(c.Request.Context(), slog.LevelDebug, "request",
			slog.String("method", method), slog.String("route", route), slog.Int("status", c.Writer.Status()),
			slog.Duration("took", took), slog.String("request_id", requestIDOf(c)))
	}
}
