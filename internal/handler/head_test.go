package handler_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeadAndMethods: uptime monitors and previews ask by HEAD (gotify/server#687, thomiceli/opengist#773).
func TestHeadAndMethods(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin := e.admin()
	buyer := e.buyer(1)
	sale := e.sale(3).ID
	order := decode[orderView](buyer.post("/api/v1/vouchers/"+sale+"/orders", nil).want(http.StatusCreated)).ID

	send := func(method, path string, c client) answer {
		t.Helper()
		return c.send(c.request(e.url, method, path, nil))
	}

	for _, path := range []string{
		"/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/vouchers", "/api/v1/vouchers/" + sale, "/api/v1/vouchers/999",
		"/api/v1/me", "/api/v1/me/export", "/api/v1/admin/orders", "/api/v1/admin/orders.csv", "/api/v1/admin/audit.csv",
		"/api/v1/orders/1/events", "/api/v1/nothing", "/shop-type/list", "/api/voucher/list/1",
	} {
		get, head := send(http.MethodGet, path, admin), send(http.MethodHead, path, admin)
		require.Equal(t, get.status, head.status, path)
		require.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), path)
		require.Empty(t, head.body, path)
	}

	// The answer to HEAD of a stream ends at once, the one of a file has no rows.
	for path, c := range map[string]client{"/api/v1/orders/" + order + "/events": buyer, "/api/v1/admin/vouchers/" + sale + "/events": admin} {
		require.Equal(t, "text/event-stream", send(http.MethodHead, path, c).want(http.StatusOK).header.Get("Content-Type"))
	}

	for path, allowed := range map[string][]string{
		"/healthz": {"GET", "HEAD"}, "/api/v1/me": {"DELETE", "GET", "HEAD"}, "/api/v1/auth/login": {"POST"},
		"/api/v1/vouchers/" + sale + "/entry": {"DELETE", "GET", "HEAD", "POST"}, "/api/v1/admin/vouchers/" + sale: {"PATCH"},
	} {
		for _, method := range []string{http.MethodPut, "PROPFIND"} {
			a := send(method, path, admin)
			a.problem(http.StatusMethodNotAllowed, "method_not_allowed")
			require.Equal(t, allowed, slices.Sorted(strings.SplitSeq(a.header.Get("Allow"), ", ")), path)
		}
	}
	require.Equal(t, http.StatusMethodNotAllowed, send(http.MethodHead, "/api/v1/auth/login", admin).status)
}
