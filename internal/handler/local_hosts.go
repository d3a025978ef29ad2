package handler

import (
	"net"
	"net/netip"
	"strings"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// localHosts refuses requests whose Host is a public DNS name. It protects a demo on this machine from web pages that let
// their own name resolve to 127.0.0.1 (DNS rebinding): to the browser, the demo is then a part of their site. Addresses,
// localhost and its subdomains, and names without a dot pass: nginx sends the name of its upstream, such as "backend" in
// the hm-dianping course. Error: domain.ErrForeignHost.
func localHosts(c *gin.Context) error {
	host := c.Request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}

	host = strings.ToLower(strings.TrimSuffix(host, "."))
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil && strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost") {
		return domain.ErrForeignHost
	}

	return nil
}
