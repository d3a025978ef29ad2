package cluster

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// documentedACL returns the words of the ACL SETUSER command for a user in docs/deployment.md.
func documentedACL(t *testing.T, user string) []any {
	t.Helper()
	text, err := os.ReadFile("../../../docs/deployment.md")
	require.NoError(t, err)
	_, command, found := strings.Cut(string(text), "```\nACL SETUSER "+user+" ")
	require.True(t, found)
	command, _, _ = strings.Cut(command, "```")
	words := []any{"ACL", "SETUSER", user}
	for _, word := range strings.Fields(command) {
		words = append(words, word)
	}
	return words
}

// addUser creates a user with the documented rights and the password s3cret/@pass.
func addUser(t *testing.T, rdb *redis.Client, user string) {
	t.Helper()
	require.NoError(t, rdb.Do(t.Context(), documentedACL(t, user)...).Err())
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", user, "resetpass", ">s3cret/@pass").Err())
}

// requireNothingDenied requires that no command was refused for lack of rights.
func requireNothingDenied(t *testing.T, rdb *redis.Client) {
	t.Helper()
	denied, err := rdb.ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	for _, d := range denied {
		require.Equal(t, "auth", d.Reason, "%+v", d) // a wrong password
	}
}

// TestRedisWithTLSAndUser runs sales and commands on one Redis, on a cluster and through Sentinels, whose servers the program
// reaches with TLS, a test CA and a user with the documented rights only. The password appears in no output, in which a process
// includes the messages of go-redis.
func TestRedisWithTLSAndUser(t *testing.T) {
	t.Parallel()
	env.Full(t)
	certificates := env.NewCertificates(t)
	sell := func(t *testing.T, servers []*env.Redis, found string, settings ...string) {
		t.Helper()
		for _, rds := range servers {
			addUser(t, rds.Client(t), "seckill")
		}
		for _, lane := range []string{"lock", "queue"} {
			s := rig.ServerStack(t, env.OneKind(t).DSN(t)).In(lane)
			s.Redis = nil
			s = s.With(settings...).With("SECKILL_REDIS_CA="+certificates.CAFile,
				"SECKILL_REDIS_USERNAME=seckill", "SECKILL_REDIS_PASSWORD=s3cret/@pass", "SECKILL_LOG_LEVEL=debug")
			p := s.Spawn(t, "")
			c := rig.BuyersOf(p.Publish(t, rig.Offer{Stock: 50, Segments: 16}), 50, s.Tokens(t, 80), p)
			r := c.Run(t.Context())
			rig.RequireExactSale(t, s, c, r)
			_, out := s.RunProcess(t, "reconcile", "--apply")
			for _, text := range []string{p.Log.String(), out, s.DoctorReports(t, found, "--json")} {
				require.NotContains(t, text, "s3cret")
				require.NotContains(t, text, "NOPERM")
			}
		}
		for _, rds := range servers {
			requireNothingDenied(t, rds.Client(t))
		}
	}
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		rds := env.StartTLSRedis(t, certificates)
		url := "rediss://seckill:s3cret%2F%40pass@" + rds.Announced + "/3"
		sell(t, []*env.Redis{rds}, rds.Announced, "SECKILL_REDIS_ADDRS="+url, "SECKILL_LOCK_NODES="+url)

		s := rig.ServerStack(t, env.OneKind(t).DSN(t)).With("SECKILL_REDIS_CA="+certificates.CAFile, "SECKILL_REDIS_ADDRS="+strings.Replace(url, "s3cret", "wr0ng", 1))
		require.NotContains(t, s.DoctorReports(t, "WRONGPASS"), "wr0ng")
		s.With("SECKILL_REDIS_ADDRS="+url, "SECKILL_REDIS_CA=").DoctorReports(t, "certificate")
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := env.StartTLSRedisCluster(t, certificates)
		first, second := cluster.Nodes[0].Announced, cluster.Nodes[1].Announced // the third is discovered
		sell(t, cluster.Nodes, cluster.Nodes[2].Announced, "SECKILL_REDIS_ADDRS=rediss://"+first+","+second)
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := env.StartTLSRedisSentinel(t, certificates, 2*time.Second)
		for _, n := range sentinel.Sentinels {
			addUser(t, n.Client(t), "watcher")
		}
		url := "rediss://watcher:s3cret%2F%40pass@"
		sell(t, []*env.Redis{sentinel.Master}, "3 Sentinels agree on the master",
			"SECKILL_REDIS_ADDRS="+url+strings.Join(sentinel.Addrs(), ","+url), "SECKILL_REDIS_SENTINEL="+servers.SentinelMaster)
		for _, n := range sentinel.Sentinels {
			requireNothingDenied(t, n.Client(t))
		}
	})
}
