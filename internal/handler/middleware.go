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

	"seckill/internal/service"
)

const requestIDHeader = "X-Request-Id"

// goodRequestID keeps what callers send from ending up as line breaks or novels in our log.
var goodRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID takes over the caller's request id or makes one, and returns it with the answer.
func requestID(c *gin.Context) {
	id := c.GetHeader(requestIDHeader)
	if !goodRequestID.MatchString(id) {
		id = rand.Text()
	}
	c.Writer.Header()[requestIDHeader] = []string{id}
}

func requestIDOf(c *gin.Context) string { return c.Writer.Header().Get(requestIDHeader) }

// secureHeaders are right for an API that serves no page: nothing may be framed, sniffed, loaded or kept. The slices
// are shared by all answers; nobody appends to them.
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

// answerTimeout is what is left of the 5 s within which a caller has an answer while a dependency is stuck.
const answerTimeout = 4 * time.Second

// within bounds everything that a request waits for.
func within(d time.Duration) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), d)
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	}
}

// limitBody refuses large bodies also where none is read.
func limitBody(c *gin.Context) error {
	if c.Request.ContentLength > maxBody {
		return service.Invalid("body", "must have at most %d bytes", maxBody)
	}
	return nil
}

// metrics are counted by route pattern: a path holds ids, and a label must not.
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
			Name: "seckill_http_request_seconds", Help: "Time to answer by route.",
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

// knownMethod keeps a made-up method from becoming a label.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return m
	}
	return "other"
}

// observe counts and times each request, and logs it at debug level.
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
		m.requests.WithLabelValues(route, method, statusText(c.Writer.Status())).Inc()
		m.seconds.WithLabelValues(route, method).Observe(took.Seconds())
		if !e.log.Enabled(c.Request.Context(), slog.LevelDebug) {
			return
		}
		e.log.LogAttrs(c.Request.Context(), slog.LevelDebug, "request",
			slog.String("method", method), slog.String("route", route), slog.Int("status", c.Writer.Status()),
			slog.Duration("took", took), slog.String("request_id", requestIDOf(c)))
	}
}

// statusText writes the statuses of the API without allocating.
func statusText(status int) string {
	switch status {
	case http.StatusOK:
		return "200"
	case http.StatusCreated:
		return "201"
	case http.StatusConflict:
		return "409"
	}
	return strconv.Itoa(status)
}
