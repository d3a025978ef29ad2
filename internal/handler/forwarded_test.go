package handler

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
)

// TestForwardedAddresses: gateways write ports (goauthentik/authentik#25679, un33k/django-ipware#87, rack/rack#1227),
// brackets, quotes, several lines and RFC 7239's header. 127.0.0.1 and 10.0.0.0/8 are trusted.
func TestForwardedAddresses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		peer   string
		header http.Header
		want   string
		warns  bool
	}{
		"bare":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"203.0.113.7"}}, "203.0.113.7", false},
		"port":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"203.0.113.7:51234"}}, "203.0.113.7", false},
		"IPv6":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"2001:db8::1"}}, "2001:db8::1", false},
		"IPv6 and port":              {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"[2001:db8:7::1]:443"}}, "2001:db8:7::1", false},
		"brackets":                   {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"[2001:db8::1]"}}, "2001:db8::1", false},
		"quotes":                     {"127.0.0.1:9", http.Header{"X-Forwarded-For": {`"[2001:db8::1]:443"`}}, "2001:db8::1", false},
		"IPv4 in IPv6":               {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"::ffff:203.0.113.7"}}, "203.0.113.7", false},
		"zone":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"fe80::1%eth0"}}, "fe80::1", false},
		"trusted hops":               {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9, 203.0.113.7:80 ,10.1.2.3:4711"}}, "203.0.113.7", false},
		"several lines":              {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9", "203.0.113.7:80", "10.1.2.3"}}, "203.0.113.7", false},
		"Forwarded":                  {"127.0.0.1:9", http.Header{"Forwarded": {`For=203.0.113.7; proto=https;by=10.0.0.1`}}, "203.0.113.7", false},
		"Forwarded, IPv6":            {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9, for="[2001:db8::1]:443";proto=https, for=10.1.1.1`}}, "2001:db8::1", false},
		"X-Forwarded-For goes first": {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9`}, "X-Forwarded-For": {"203.0.113.7:1"}}, "203.0.113.7", false},
		"neither":                    {"127.0.0.1:9", http.Header{}, "127.0.0.1", false},
		"a word":                     {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"unknown"}}, "127.0.0.1", true},
		"obfuscated":                 {"127.0.0.1:9", http.Header{"Forwarded": {"for=_hidden"}}, "127.0.0.1", true},
		"another client":             {"203.0.113.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9:1"}, "Forwarded": {"for=198.51.100.9"}}, "203.0.113.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router := gin.New()
			router.RemoteIPHeaders = []string{forwardedForHeader}
			trusted := []string{"127.0.0.1", "10.0.0.0/8"}
			require.NoError(t, router.SetTrustedProxies(trusted))
			got := ""
			router.GET("/", func(c *gin.Context) { got = c.ClientIP() })
			var logs strings.Builder
			h := readForwarded(router, ParseProxies(trusted), slog.New(slog.NewTextHandler(&logs, nil)))

			for range 2 {
				r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				r.RemoteAddr = test.peer
				r.Header = test.header.Clone()
				h.ServeHTTP(httptest.NewRecorder(), r)
				require.Equal(t, test.want, got)
			}
			require.Equal(t, test.warns, strings.Count(logs.String(), "names no address") == 1, logs.String())
		})
	}
}
