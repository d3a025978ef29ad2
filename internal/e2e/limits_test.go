package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimitsHoldOverServers checks that a caller that has used up a limit on one server is refused by another one,
// whose clock differs.
func TestLimitsHoldOverServers(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, s *stack) {
		s = s.with("SECKILL_RATE_LIMIT=on")
		token, rdb := s.tokens(t, 1)[0], s.client(t)
		first := s.serve(t, "")
		second := s.with(envClock+"="+time.Now().Add(time.Hour).Format(time.RFC3339)).serve(t, "")
		for _, limit := range []struct {
			name, path, body string
			burst            int
		}{
			{"codes", "/auth/code", `{"phone":"1"}`, 60},
			{"logins", "/auth/login", `{"phone":"1","code":"1"}`, 120},
			{"refreshes", "/auth/refresh", `{"refresh_token":"1"}`, 120},
			{"entries", "/vouchers/0/entry", "", 200},
		} {
			post := func(p *process) answer {
				return p.sendBody(t, http.MethodPost, "/api/v1"+limit.path, token, limit.body)
			}
			for range limit.burst {
				require.NotEqual(t, http.StatusTooManyRequests, post(first).status, limit.name)
			}
			// On a slow machine the bucket is not empty yet.
			buckets, err := rdb.Keys(t.Context(), "seckill:limit:"+limit.name+":*").Result()
			require.NoError(t, err)
			require.Len(t, buckets, 1)
			require.NoError(t, rdb.PExpire(t.Context(), buckets[0], time.Hour).Err())

			// The second server has its own full bucket, which it uses when Redis takes too long.
			var a answer
			for range limit.burst / 2 {
				if a = post(second); a.status == http.StatusTooManyRequests {
					break
				}
			}
			require.Equal(t, http.StatusTooManyRequests, a.status, limit.name)
			require.Equal(t, "rate_limited", a.body["code"])
			require.Equal(t, "1", a.header.Get("Retry-After"))
		}
	})
}
