package handler

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/service"
)

// A page that keeps a refresh token where its scripts can read it gives it to every script that gets in. So a browser
// may ask, by a header, that the token comes and goes in a cookie which no script reads. The cookie opens /auth/refresh
// and nothing else: everything that changes something wants an access token in a header, which another site cannot
// send. A page of another site cannot use the cookie for that one route either: it is SameSite=Strict, and the header
// makes browsers ask first (CORS preflight), which nobody answers.
const (
	refreshModeHeader = "X-Refresh-Token"
	refreshByCookie   = "cookie"
	refreshCookie     = "seckill_refresh"
	refreshPath       = "/api/v1/auth"
	refreshCookieAge  = 30 * 24 * time.Hour // the session's; the server decides, this only tidies up
)

// wantsCookie says whether the client is a page that keeps its refresh token in the cookie.
func wantsCookie(c *gin.Context) bool { return c.GetHeader(refreshModeHeader) == refreshByCookie }

// refreshCookie is refresh with the token of the cookie. A token that is no good is taken back.
func (h *authHandler) refreshCookie(c *gin.Context) error {
	token, err := c.Request.Cookie(refreshCookie)
	if err != nil || token.Value == "" {
		return service.ErrUnauthenticated
	}
	l, err := h.exchange(c, token.Value, auth.BrowserPatience)
	if errors.Is(err, service.ErrUnauthenticated) {
		h.setCookie(c, "")
	}
	if err != nil {
		return err
	}
	return h.writeLogin(c, l)
}

// setCookie hands the browser a refresh token, or takes it away if it is empty.
func (h *authHandler) setCookie(c *gin.Context, token string) {
	cookie := http.Cookie{ //nolint:gosec // Secure is set wherever the browser came by TLS
		Name: refreshCookie, Value: token, Path: refreshPath, MaxAge: int(refreshCookieAge.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: h.overTLS(c),
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.Writer, &cookie)
}

// overTLS says whether the browser came by TLS, here or at a proxy that is trusted.
func (h *authHandler) overTLS(c *gin.Context) bool {
	if c.Request.TLS != nil {
		return true
	}
	from, err := netip.ParseAddr(c.RemoteIP())
	if err != nil {
		return false
	}
	from = from.Unmap()
	for _, p := range h.proxies {
		if p.Contains(from) {
			scheme, _, _ := strings.Cut(c.GetHeader("X-Forwarded-Proto"), ",")
			return strings.EqualFold(strings.TrimSpace(scheme), "https")
		}
	}
	return false
}

// parseProxies reads addresses and networks. gin has refused those that are neither.
func parseProxies(list []string) []netip.Prefix {
	var proxies []netip.Prefix
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			proxies = append(proxies, p)
		} else if a, err := netip.ParseAddr(text); err == nil {
			proxies = append(proxies, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return proxies
}
