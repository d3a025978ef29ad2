package handler

import (
	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
)

const (
	// loginCookie holds the login_id of the last code in cookie mode, so that a page needs no storage.
	loginCookie = "seckill_login"
	// knownCookie is set by every login. It proves that the device has logged in to a phone, whose codes strangers then
	// cannot use up. The hm-dianping routes receive it over TLS only, because of plainPath.
	knownCookie    = "seckill_known"
	knownCookieAge = deviceCookieAge
)

func (k cookies) asker(c *gin.Context) auth.Asker {
	return auth.Asker{Address: address(c), Proof: k.cookie(c, knownCookie)}
}
