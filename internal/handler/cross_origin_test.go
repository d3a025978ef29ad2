package handler_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCrossOriginRequestsAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	login := e.loginBrowser()
	before := e.dump()
	for name, headers := range map[string]map[string]string{
		"fetch":             {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example", "Content-Type": "text/plain"},
		"form":              {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "null"},
		"subdomain":         {"Sec-Fetch-Site": "same-site", "Origin": "https://other.shop.example"},
		"older browser":     {"Origin": "https://evil.example"},
		"older, sandboxed":  {"Origin": "null"},
		"forged forwarding": {"Origin": "https://evil.example", "X-Forwarded-Host": "evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			c := e.guest().in(t).bad().withCookie(login.cookie())
			for k, v := range headers {
				c = c.with(k, v)
			}
			send := func(method, path, body string) *http.Response {
				req := c.request(e.url, method, path, body)
				if headers["Content-Type"] != "" {
					req.Header.Set("Content-Type", headers["Content-Type"])
				}
				res, err := e.http.Do(req)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				return res
			}
			for _, path := range []string{"/api/v1/auth/code", "/api/v1/auth/login", "/api/v1/auth/refresh", "/api/v1/vouchers/1/orders", "/nowhere", "/"} {
				assert.Equal(t, http.StatusForbidden, send("POST", path, `{"phone":"13800000009"}`).StatusCode, path)
			}
			assert.Equal(t, http.StatusForbidden, send("PATCH", "/api/v1/admin/vouchers/1", "{}").StatusCode)
			assert.Equal(t, http.StatusForbidden, send("DELETE", "/api/v1/admin/rush", "").StatusCode)
			assert.Equal(t, http.StatusOK, send("GET", "/api/v1/vouchers", "").StatusCode, "links from other sites work")
			page{c}.post("/user/code?phone=13800000009", nil).fails("请求来自其他网站，已拒绝")
		})
	}
	p := e.guest().with("Origin", "https://evil.example").bad()
	res, err := e.http.Do(p.request(e.url, "POST", "/api/v1/auth/code", `{"phone":"13800000009"}`))
	require.NoError(t, err)
	assert.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	require.NoError(t, res.Body.Close())
	assert.Equal(t, before, e.dump())
	assert.Empty(t, e.outbox.code("13800000009"), "no code was sent")
}

func TestRequestsOfThisOriginPass(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, headers := range map[string]map[string]string{
		"curl, app or webhook": {}, "page": {"Sec-Fetch-Site": "same-origin", "Origin": e.url}, "older browser": {"Origin": e.url},
		"page behind a proxy that changes Host": {"Sec-Fetch-Site": "same-origin", "Origin": "https://shop.example"},
		"typed":                                 {"Sec-Fetch-Site": "none"},
	} {
		c := e.guest()
		for k, v := range headers {
			c = c.with(k, v)
		}
		c.post("/api/v1/auth/code", phoneBody(phone)).want(http.StatusOK)
		page{c}.post("/user/code?phone="+phone, nil).none()
	}
}
