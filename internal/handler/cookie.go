package handler

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

// In cookie mode, which a page selects with the header X-Refresh-Token: cookie, the refresh token travels in an
// HttpOnly cookie, so an injected script cannot read it. The cookie authorizes /auth/refresh only; every other change
// requires an access token in a header, which another site cannot send. Another site cannot use the cookie for a
// refresh either: it is SameSite=Strict, and the custom header triggers a CORS preflight, which this server does not
// answer.
const (
	refreshModeHeader = "X-Refresh-Token"
	refreshByCookie   = "cookie"
	refreshCookie     = "seckill_refresh"
	refreshPath       = "/api/v1/auth"
	refreshCookieAge  = 30 * 24 * time.Hour // lifetime of a session; the server checks it in any case
)

// wantsCookie reports whether the request selects cookie mode.
func wantsCookie(c *gin.Context) bool { return c.GetHeader(refreshModeHeader) == refreshByCookie }

// refreshCookie is refresh in cookie mode. It clears the cookie if the token is invalid.
func (h *authHandler) refreshCookie(c *gin.Context) error {
	token, err := c.Request.Cookie(refreshCookie)
	if err != nil || token.Value == "" {
		return domain.ErrUnauthenticated
	}
	l, err := h.exchange(c, token.Value, auth.BrowserGrace)
	if errors.Is(err, domain.ErrUnauthenticated) {
		h.setCookie(c, "")
	}
	if err != nil {
		return err
	}
	return h.writeLogin(c, l)
}

// setCookie stores the refresh token in the browser; an empty token clears the cookie.
func (h *authHandler) setCookie(c *gin.Context, token string) {
	cookie := http.Cookie{ //nolint:gosec // Secure is set whenever the browser uses TLS
		Name: refreshCookie, Value: token, Path: refreshPath, MaxAge: int(refreshCookieAge.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: h.proxies.overTLS(c),
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.Writer, &cookie)
}

// proxies are the addresses and networks that are trusted to set X-Forwarded-Proto.
type proxies []netip.Prefix

// overTLS reports whether the browser connected over TLS, either directly or, by X-Forwarded-Proto, to a trusted proxy.
func (p proxies) overTLS(c *gin.Context) bool {
	if c.Request.TLS != nil {
		return true
	}
	from, err := netip.ParseAddr(c.RemoteIP())
	if err != nil {
		return false
	}
	from = from.Unmap()
	for _, network := range p {
		if network.Contains(from) {
			scheme, _, _ := strings.Cut(c.GetHeader("X-Forwarded-Proto"), ",")
			return strings.EqualFold(strings.TrimSpace(scheme), "https")
		}
	}
	return false
}

// parseProxies parses addresses and networks. gin has already rejected any other entry.
func parseProxies(list []string) proxies {
	var parsed proxies
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			parsed = append(parsed, p)
		} else if a, err := netip.ParseAddr(text); err == nil {
			parsed = append(parsed, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return parsed
}
