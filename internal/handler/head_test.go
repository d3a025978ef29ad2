package handler_test

import (
	"io"
	"net/http"
	"regexp"
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

	send := func(method, path string, c client) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, e.url+path, http.NoBody)
		require.NoError(t, err)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		res, err := e.http.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}

	for _, path := range []string{
		"/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/vouchers", "/api/v1/vouchers/" + sale, "/api/v1/vouchers/999",
		"/api/v1/me", "/api/v1/me/export", "/api/v1/admin/orders", "/api/v1/admin/orders.csv", "/api/v1/admin/audit.csv",
		"/api/v1/orders/1/events", "/api/v1/admin/vouchers/" + sale + "/events", "/api/v1/nothing", "/shop-type/list", "/api/voucher/list/1",
	} {
		get, head := send(http.MethodGet, path, admin), send(http.MethodHead, path, admin)
		require.Equal(t, get.StatusCode, head.StatusCode, path)
		require.Equal(t, get.Header.Get("Content-Type"), head.Header.Get("Content-Type"), path)
		body, err := io.ReadAll(head.Body)
		require.NoError(t, err, path)
		require.Empty(t, body, path)
	}

	// The answer to HEAD of a stream ends at once, the one of a file has no rows.
	stream := send(http.MethodHead, "/api/v1/orders/"+order+"/events", buyer)
	require.Equal(t, http.StatusOK, stream.StatusCode)
	require.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))

	for path, allowed := range map[string][]string{
		"/healthz": {"GET", "HEAD"}, "/api/v1/me": {"DELETE", "GET", "HEAD"}, "/api/v1/auth/login": {"POST"},
		"/api/v1/vouchers/" + sale + "/entry": {"DELETE", "GET", "HEAD", "POST"}, "/api/v1/admin/vouchers/" + sale: {"PATCH"},
	} {
		for _, method := range []string{http.MethodPut, "PROPFIND"} {
			res := send(method, path, admin)
			require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, path)
			require.Equal(t, allowed, slices.Sorted(strings.SplitSeq(res.Header.Get("Allow"), ", ")), path)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Regexp(t, regexp.MustCompile(`"code":"method_not_allowed"`), string(body))
		}
	}
	require.Equal(t, http.StatusMethodNotAllowed, send(http.MethodHead, "/api/v1/auth/login", admin).StatusCode)
}
