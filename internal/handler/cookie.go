package handler

import (
	"crypto/rand"
	"errors"
	"net/http"
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
	refreshCookieAge  = 30 * 24 * time.Hour // lifetime of a session; the server checks it in any case

	// deviceCookie holds the random id of a browser.
	deviceCookie    = "seckill_device"
	deviceCookieAge = 400 * 24 * time.Hour // the longest that browsers accept; longer than any session
	deviceIDLength  = 26                   // of rand.Text

	// hostPrefix begins the name of a cookie if the browser uses TLS. Browsers accept such a cookie only from the host
	// itself, over TLS and for all paths, so a sibling subdomain cannot set it.
	hostPrefix = "__Host-"
	// deleteCookie is the age that deletes a cookie.
	deleteCookie = -time.Second
	// plainPath is the path of cookies without TLS.
	plainPath = "/api/v1/auth"
)

func wantsCookie(c *gin.Context) bool { return c.GetHeader(refreshModeHeader) == refreshByCookie }

// refreshCookie is refresh in cookie mode. It clears the cookie if the token is invalid. Every browser has a device, so
// the session of a client without one cannot be used here.
func (a *api) refreshCookie(c *gin.Context) error {
	token := cookie(c, refreshCookie)
	if token == "" {
		return domain.ErrUnauthenticated
	}

	l, err := a.exchange(c, token, deviceID(c), auth.BrowserGrace)
	if errors.Is(err, domain.ErrUnauthenticated) {
		setCookie(c, refreshCookie, "", deleteCookie)
	}

	if err != nil {
		return err
	}

	return a.writeLogin(c, l)
}

// deviceID returns the opaque id of the caller's browser, 26 random characters, and stores it in the browser. A browser
// without a valid id receives a new one. Clients that keep no cookies have another id at each request.
func deviceID(c *gin.Context) string {
	id := cookie(c, deviceCookie)
	if len(id) != deviceIDLength {
		id = rand.Text()
	}

	setCookie(c, deviceCookie, id, deviceCookieAge)
	return id
}

func cookieName(c *gin.Context, name string) string {
	if overTLS(c) {
		return hostPrefix + name
	}
	return name
}

func cookie(c *gin.Context, name string) string {
	found, err := c.Request.Cookie(cookieName(c, name))
	if err != nil {
		return ""
	}
	return found.Value
}

func setCookie(c *gin.Context, name, value string, age time.Duration) {
	cookie := http.Cookie{ //nolint:gosec // Secure is set whenever the browser uses TLS
		Name:     cookieName(c, name),
		Value:    value,
		Path:     plainPath,
		MaxAge:   int(age.Seconds()),
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   overTLS(c),
	}
	if cookie.Secure {
		// Required by the prefix.
		cookie.Path = "/"
	}

	http.SetCookie(c.Writer, &cookie)
}

func overTLS(c *gin.Context) bool { return c.Request.URL.Scheme == "https" }

const (
	// loginCookie holds the login_id of the last code in cookie mode, so that a page needs no storage.
	loginCookie = "seckill_login"
	// knownCookie is set by every login. It proves that the device has logged in to a phone, whose codes strangers then
	// cannot use up. The hm-dianping routes receive it over TLS only, because of plainPath.
	knownCookie    = "seckill_known"
	knownCookieAge = deviceCookieAge
)

func askerOf(c *gin.Context) auth.Asker {
	return auth.Asker{Address: address(c.Request), Proof: cookie(c, knownCookie)}
}
