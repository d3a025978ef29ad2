package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

// TestLimitsHoldOverServers checks that a caller that has used up a limit on one server is refused by another one,
// whose clock differs.
func TestLimitsHoldOverServers(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t).With("SECKILL_RATE_LIMIT=on")
	token, rdb := s.Tokens(t, 1)[0], s.Client(t)
	first := s.Serve(t)
	second := s.With(rig.EnvClock + "=" + time.Now().Add(time.Hour).Format(time.RFC3339)).Serve(t)
	buckets := func(limit string) []string {
		keys, err := rdb.Keys(t.Context(), "seckill:limit:"+limit+":*").Result()
		require.NoError(t, err)
		return keys
	}
	for _, request := range []string{"POST /orders", "GET /entry", "GET /entry/events"} {
		method, path, _ := strings.Cut(request, " ")
		first.Once(t, rig.Request{Method: method, Path: "/api/v1/vouchers/0" + path, Token: token})
	}
	require.Empty(t, buckets("*"), "purchases and polls do without Redis")
	for _, limit := range []struct {
		name, path, body string
		burst            int
	}{
		{"{logins}:logins", "/auth/login", `{"phone":"13800000001","code":"1"}`, 120},
		{"refreshes", "/auth/refresh", `{"refresh_token":"1"}`, 120},
		{"entries", "/vouchers/0/entry", "", 200},
	} {
		post := func(p *rig.Server) rig.Answer {
			return p.Once(t, rig.Post(limit.path, token, limit.body))
		}
		for range limit.burst {
			require.NotEqual(t, http.StatusTooManyRequests, post(first).Status, limit.name)
		}
		rig.Eventually(t, "the bucket is empty and stays so", func() bool { // on a slow machine it is refilled meanwhile
			post(first)
			keys := buckets(limit.name)
			return len(keys) == 1 && rdb.PExpire(t.Context(), keys[0], time.Hour).Val()
		})

		// The second server has its own full bucket, which it uses when Redis takes too long.
		var a rig.Answer
		for range limit.burst / 2 {
			if a = post(second); a.Status == http.StatusTooManyRequests {
				break
			}
		}
		require.Equal(t, http.StatusTooManyRequests, a.Status, limit.name)
		require.Equal(t, "rate_limited", a.Body["code"])
		require.Equal(t, "1", a.Header.Get("Retry-After"))
	}
}
