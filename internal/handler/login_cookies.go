package handler

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
)

const (
	// The login cookie holds the login_id of the last code in cookie mode, so that a page needs no storage.
	loginCookie = "seckill_login"
	// The device cookie is set by every login. It marks a device that has logged in to a phone, whose codes strangers
	// cannot use up. The hm-dianping routes need it at the root.
	deviceCookie    = "seckill_device"
	deviceCookieAge = 365 * 24 * time.Hour
)

// asker returns the origin of a request for a code or of a login.
func asker(c *gin.Context) auth.Asker {
	address, _ := netip.ParseAddr(c.ClientIP()) // the zero Addr stands for all clients without an address
	return auth.Asker{Address: address, Device: cookieOf(c, deviceCookie)}
}

// cookieOf returns the value of a cookie, or "".
func cookieOf(c *gin.Context, name string) string {
	cookie, err := c.Request.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

func (p proxies) setLoginCookie(c *gin.Context, sent auth.SentCode) {
	p.setHTTPOnly(c, loginCookie, sent.LoginID, refreshPath, sent.ExpiresIn)
}

func (p proxies) setDeviceCookie(c *gin.Context, device string) {
	p.setHTTPOnly(c, deviceCookie, device, "/", deviceCookieAge)
}

// setHTTPOnly stores a value that scripts and other sites cannot use. A negative age deletes the cookie.
func (p proxies) setHTTPOnly(c *gin.Context, name, value, path string, age time.Duration) {
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // Secure is set whenever the browser uses TLS
		Name: name, Value: value, Path: path, MaxAge: int(age.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: p.overTLS(c),
	})
}
