package handler

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

type securityEvent string

const (
	eventCodeSent      securityEvent = "code_sent"
	eventLogin         securityEvent = "login"
	eventLoginFailed   securityEvent = "login_failed"
	eventLoginBlocked  securityEvent = "login_blocked"
	eventTokenRefused  securityEvent = "token_refused"
	eventRefreshReused securityEvent = "refresh_reused"
	eventForbidden     securityEvent = "admin_forbidden"
	eventWebhook       securityEvent = "webhook_signature"
	eventPassForged    securityEvent = "pass_forged"
	eventUnknownCode   securityEvent = "redeem_unknown_code"
	eventErased        securityEvent = "account_erased"
	eventCrossOrigin   securityEvent = "cross_origin"
	eventTOTPRequired  securityEvent = "totp_required"
	eventTOTPFailed    securityEvent = "totp_failed"
)

// securityEvents lists all events, whose counters exist from the start.
var securityEvents = []securityEvent{
	eventCodeSent, eventLogin, eventLoginFailed, eventLoginBlocked, eventTokenRefused, eventRefreshReused, eventForbidden,
	eventWebhook, eventPassForged, eventUnknownCode, eventErased, eventCrossOrigin, eventTOTPRequired, eventTOTPFailed,
}

// eventOf returns the security event of a refused request, or "" if the refusal is none. This is the one place that
// decides it.
func eventOf(c *gin.Context, err error) securityEvent {
	var limited *domain.RateLimitedError
	route := c.FullPath()
	switch {
	case errors.Is(err, domain.ErrWrongCode):
		return eventLoginFailed
	case errors.Is(err, domain.ErrTOTPRequired):
		return eventTOTPRequired
	case errors.Is(err, domain.ErrWrongTOTP):
		return eventTOTPFailed
	case errors.Is(err, errCrossOrigin):
		return eventCrossOrigin
	case errors.Is(err, domain.ErrTokenReused):
		return eventRefreshReused
	case errors.Is(err, domain.ErrUnauthenticated):
		switch {
		case route == "/api/v1/payments/webhook/:provider":
			return eventWebhook
		case c.GetHeader("Authorization") != "":
			return eventTokenRefused
		}
	case errors.Is(err, domain.ErrForbidden):
		return eventForbidden
	case errors.Is(err, domain.ErrEntryRequired) && (c.GetHeader(passHeader) != "" || c.GetHeader(ticketHeader) != ""):
		return eventPassForged
	case errors.As(err, &limited) && (c.GetString(loginPhoneKey) != "" || route == "/api/v1/auth/refresh"):
		return eventLoginBlocked
	case errors.Is(err, domain.ErrUnknownCode):
		return eventUnknownCode
	}

	return ""
}

// securityLog counts security events and logs them without personal data in clear. It is safe for concurrent use.
type securityLog struct {
	log    *slog.Logger
	counts *prometheus.CounterVec
	// lines limits the lines of each event, so that an attack cannot fill the disk. The counters miss nothing.
	lines map[securityEvent]*rate.Limiter
}

// The lines of each event that are logged per second, and at once.
const (
	securityLineRate  = 1
	securityLineBurst = 10
)

func newSecurityLog(reg prometheus.Registerer, log *slog.Logger) *securityLog {
	s := &securityLog{
		log:   log,
		lines: map[securityEvent]*rate.Limiter{},
		counts: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_security_events_total", Help: "Security events; see docs/operations.md.",
		}, []string{"event"}),
	}

	// Otherwise a counter first appears with the value 1, and rate() misses it.
	for _, e := range securityEvents {
		s.counts.WithLabelValues(string(e))
		s.lines[e] = rate.NewLimiter(securityLineRate, securityLineBurst)
	}

	return s
}

func (s *securityLog) observe(c *gin.Context, err error) {
	if e := eventOf(c, err); e != "" {
		s.record(c, e)
	}
}

// loginPhoneKey is the context key of the phone in a request for a code or a login, as typed.
const loginPhoneKey = "login_phone"

func (s *securityLog) record(c *gin.Context, e securityEvent) {
	s.counts.WithLabelValues(string(e)).Inc()
	if !s.lines[e].Allow() {
		return
	}

	attrs := []any{
		"event", string(e), "network", auth.Network(address(c.Request)), "method", c.Request.Method, "route", c.FullPath(), "request_id", requestIDOf(c),
	}

	if id, ok := c.Value(identityKey).(auth.Identity); ok {
		attrs = append(attrs, "user_id", id.UserID)
	}
	if phone := c.GetString(loginPhoneKey); phone != "" {
		attrs = append(attrs, "phone", domain.MaskPhone(domain.Typed(phone)))
	}

	s.log.Info("security", attrs...)
}

// strictTransport makes browsers that use TLS use nothing else for a year. Purchases do without it: a browser has loaded
// a page or logged in before.
func strictTransport(c *gin.Context) {
	if overTLS(c) {
		c.Writer.Header()["Strict-Transport-Security"] = strictForAYear
	}
}

var strictForAYear = []string{"max-age=31536000"}

// securityTxtLife is how long a copy of security.txt is valid. RFC 9116 recommends less than a year.
const securityTxtLife = 180 * 24 * time.Hour

func securityTxt(contact string, now func() time.Time) gin.HandlerFunc {
	return func(c *gin.Context) {
		expires := now().UTC().Truncate(24 * time.Hour).Add(securityTxtLife)
		c.String(http.StatusOK, "Contact: %s\nExpires: %s\nPreferred-Languages: en, zh\n", contact, expires.Format(time.RFC3339))
	}
}
