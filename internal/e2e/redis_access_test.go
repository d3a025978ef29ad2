package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/testenv"
)

// documentedACL returns the words of the ACL SETUSER command in docs/deployment.md.
func documentedACL(t *testing.T) []any {
	t.Helper()
	text, err := os.ReadFile("../../docs/deployment.md")
	require.NoError(t, err)
	_, command, found := strings.Cut(string(text), "```\nACL SETUSER")
	require.True(t, found)
	command, _, _ = strings.Cut(command, "```")
	words := []any{"ACL", "SETUSER"}
	for _, word := range strings.Fields(command) {
		words = append(words, word)
	}
	return words
}

// TestRedisWithTLSAndUser runs a sale and the commands with TLS, a test CA, a database number and a user with the
// documented rights. The password appears in no output.
func TestRedisWithTLSAndUser(t *testing.T) {
	t.Parallel()
	testenv.Long(t)
	rds := testenv.StartTLSRedis(t)
	admin := rds.Client(t)
	require.NoError(t, admin.Do(t.Context(), documentedACL(t)...).Err())
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "seckill", "resetpass", ">s3cret/@pass").Err())
	for i, lane := range lanes {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := serverStack(t, testenv.MySQLDSN(t)).in(lane)
			s.redis = nil
			url := "rediss://seckill:s3cret%2F%40pass@" + rds.TLSAddr + "/" + string(rune('3'+i))
			s = s.with("SECKILL_REDIS_ADDRS="+url, "SECKILL_LOCK_NODES="+url, "SECKILL_REDIS_CA="+rds.CAFile)
			p := s.serve(t, "")
			c := buyersOf(p.sale(t, 50), 50, s.tokens(t, 80), p)
			r := c.Run(t.Context())
			requireExactSale(t, c, r)
			requireInvariants(t, s, c, r)
			code, out := s.run(t, "reconcile", "--apply")
			require.Zero(t, code, out)
			_, found := s.run(t, "doctor", "--json")
			require.NotContains(t, found, "NOPERM")
			require.Contains(t, found, rds.TLSAddr)

			denied, err := admin.ACLLog(t.Context(), 100).Result()
			require.NoError(t, err)
			for _, d := range denied {
				require.Equal(t, "auth", d.Reason, "%+v", d) // a wrong password, which follows
			}

			bad := strings.Replace(url, "s3cret", "wr0ng", 1)
			_, refused := s.with("SECKILL_REDIS_ADDRS="+bad).run(t, "doctor")
			require.Contains(t, refused, "WRONGPASS")
			for _, text := range []string{p.log.String(), out, found, refused} {
				require.NotContains(t, text, "s3cret")
				require.NotContains(t, text, "wr0ng")
				require.NotContains(t, text, "NOPERM")
			}
			_, untrusted := s.with("SECKILL_REDIS_CA=").run(t, "doctor")
			require.Contains(t, untrusted, "certificate")
		})
	}
}
