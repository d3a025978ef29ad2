package handler_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/handler"
)

// TestDemoRefusesForeignHosts sends requests as a web page does whose name resolves to the demo's address.
func TestDemoRefusesForeignHosts(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(s *setup) {
		s.demo, s.change = true, func(cfg *handler.Config) { cfg.LocalHosts = true }
	})
	send := func(host string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/auth/code", strings.NewReader(`{"phone":"13800000001"}`))
		r.Host = host
		w := httptest.NewRecorder()
		e.engine.ServeHTTP(w, r)
		return w
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "EVIL.example.", "localhost.evil.example", "127.0.0.1.nip.io", "[evil.example]:80", "evil.notlocalhost"} {
		a := send(host)
		require.Equal(t, http.StatusForbidden, a.Code, host)
		require.Empty(t, a.Header().Get("X-Demo-Code"), host)
	}
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST.", "shop.localhost:8080", "127.0.0.1:8080", "192.0.2.7", "[::1]:8080", "[::1]", "backend"} {
		a := send(host)
		require.Less(t, a.Code, 300, host)
		require.NotEmpty(t, a.Header().Get("X-Demo-Code"), host)
	}
}
