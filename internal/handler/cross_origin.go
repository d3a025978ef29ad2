package handler

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

var errCrossOrigin = errors.New("this request was sent by a page of another site: use the pages of this server, or a proxy that keeps the Host header")

// refuseCrossOrigin returns a middleware that refuses requests which a page of another site makes its visitors send.
// Any page could otherwise have login codes sent from its visitors' addresses, because such a POST needs no CORS
// preflight. Browsers mark these requests with Sec-Fetch-Site or Origin; other clients send neither and pass.
func refuseCrossOrigin(e *errorWriter, h *hmdpHandler) gin.HandlerFunc {
	protection := http.NewCrossOriginProtection()

	return func(c *gin.Context) {
		switch {
		case protection.Check(c.Request) == nil:
		case c.FullPath() == "" || strings.HasPrefix(c.FullPath(), "/api/v1/"):
			e.write(c, errCrossOrigin)
		default:
			e.security.record(c, eventCrossOrigin)
			h.fail(c, hmdpError("请求来自其他网站，已拒绝"))
		}
	}
}
