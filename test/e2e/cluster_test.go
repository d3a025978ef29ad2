package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/ops/doctor"
	"seckill/internal/ops/rush"
	"seckill/internal/sale/admission"
	"seckill/test/e2e/rig"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// This file tests servers on clusters of Redis, of databases and of lock nodes: failovers, elections, and access. Only make
// test-all starts clusters.

// clusterStack returns a stack on a Redis Cluster of the test.
func clusterStack(t *testing.T) (*rig.Stack, *servers.RedisCluster) {
	cluster := env.StartRedisCluster(t)
	rdb := cluster.Client(t).(*redis.ClusterClient)
	s := rig.ServerStack(t, env.OneKind(t).DSN(t))
	s.Env = append(s.Env, "SECKILL_REDIS_ADDRS="+strings.Join(rdb.Options().Addrs, ","))
	s.Redis = nil
	return s, cluster
}

// TestOpenSlot: while the slot of a sale moves to another node, purchases are refused with Retry-After. Afterwards the sale
// goes on by itself, exactly.
func TestOpenSlot(t *testing.T) {
	env.FullParallel(t)
	s, cluster := clusterStack(t)
	s = s.In("queue")
	p := s.Serve(t)
	p.MayRefuse() // while the slot is open
	sale := p.Sale(t, 20)
	tokens := s.Tokens(t, 40)
	rig.RequireQueued(t, p.Do(t, rig.Purchase(sale, tokens[0])))

	rdb := cluster.Client(t).(*redis.ClusterClient)
	n := env.Must(strconv.ParseInt(sale, 10, 64))(t)
	key := (admission.Shard(n) % admission.Shards).Gate(n)
	slot := rdb.ClusterKeySlot(t.Context(), key).Val()
	source := env.Must(rdb.MasterForKey(t.Context(), key))(t)
	var target *redis.Client
	for _, node := range cluster.Nodes {
		if node.Addr != source.Options().Addr {
			target = node.Client(t).(*redis.Client)
		}
	}
	id := func(node *redis.Client) any { return node.Do(t.Context(), "cluster", "myid").Val() }
	require.NoError(t, target.Do(t.Context(), "cluster", "setslot", slot, "importing", id(source)).Err())
	require.NoError(t, source.Do(t.Context(), "cluster", "setslot", slot, "migrating", id(target)).Err())
	for _, token := range tokens[1:4] {
		a := p.Once(t, rig.Purchase(sale, token))
		rig.RequireProblem(t, http.StatusServiceUnavailable, "unavailable", a)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}

	for _, node := range []*redis.Client{source, target} {
		require.NoError(t, node.Do(t.Context(), "cluster", "setslot", slot, "stable").Err())
	}
	c := rig.BuyersOf(sale, 20, tokens, p)
	rig.RequireAllServed(t, s, c, c.Run(t.Context()))
}

// TestRedisFailover kills the master in mid-rush and leaves it dead, or freezes it until its replica has taken over. A frozen one
// then goes on as a master until it learns that it is none, for which Sentinels need 10 s. Of a cluster it is the one with the id counter.
func TestRedisFailover(t *testing.T) {
	env.FullParallel(t)
	for kind, start := range map[string]func(t *testing.T) (s *rig.Stack, master *env.Redis, verdict func()){
		"cluster": func(t *testing.T) (*rig.Stack, *env.Redis, func()) {
			s, cluster := clusterStack(t)
			require.NoError(t, cluster.AddReplicas(t.Context()))
			master := env.Must(cluster.Client(t).(*redis.ClusterClient).MasterForKey(t.Context(), "icr:order:"+time.Now().UTC().Format("2006:01:02")))(t)
			i := slices.IndexFunc(cluster.Nodes, func(n *env.Redis) bool { return n.Addr == master.Options().Addr })
			return s, cluster.Nodes[i], func() { require.NoError(t, cluster.Replicas[i].Promoted(t.Context())) }
		},
		"Sentinels": func(t *testing.T) (*rig.Stack, *env.Redis, func()) {
			s, sentinel := sentinelStack(t)
			s.DoctorReports(t, "3 Sentinels name the same master")
			return s, sentinel.Nodes[0], func() { require.NoError(t, sentinel.Promoted(t.Context())) }
		},
	} {
		for _, how := range []string{"killed/lock", "killed/queue", "frozen/queue"} {
			t.Run(kind+"/"+how, func(t *testing.T) {
				t.Parallel()
				end, lane, _ := strings.Cut(how, "/")
				s, master, verdict := start(t)
				s = s.In(lane)
				sold := &failingSale{Stack: s, servers: []*rig.Server{s.Serve(t)}}
				if end == "killed" {
					failover(t, master.Kill, verdict, sold)
					return
				}

				pause := func() { require.NoError(t, master.Pause()) }
				resume := func() { verdict(); require.NoError(t, master.Resume()) }
				failover(t, pause, resume, sold)
				require.NoError(t, master.Replicating(t.Context()))
			})
		}
	}
}

// TestCounterMasterDown kills the master with the id counter of a cluster without replicas. Sales whose keys are on other
// masters continue: exactly, and with unique ids after the master has come back without the counter.
func TestCounterMasterDown(t *testing.T) {
	env.FullParallel(t)
	for _, lane := range rig.LockAndQueue {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s, cluster := clusterStack(t)
			s = s.In(lane)
			rdb := cluster.Client(t).(*redis.ClusterClient)
			masterOf := func(key string) string {
				return env.Must(rdb.MasterForKey(t.Context(), key))(t).Options().Addr
			}
			counter := "icr:order:" + time.Now().UTC().Format("2006:01:02")
			down := slices.IndexFunc(cluster.Nodes, func(n *env.Redis) bool { return n.Addr == masterOf(counter) })
			node := cluster.Nodes[down]
			p := s.Serve(t)
			p.MayRefuse() // while a node is down
			sale := func() string {
				for {
					id := p.Sale(t, 100)
					n := env.Must(strconv.ParseInt(id, 10, 64))(t)
					if masterOf((admission.Shard(n) % admission.Shards).Gate(n)) != node.Addr {
						return id
					}
				}
			}
			sales := []string{sale(), sale()}
			tokens := slices.DeleteFunc(s.Tokens(t, 300), func(token string) bool {
				return s.Lane == "lock" && masterOf("redlock:{"+app.OrderLockPrefix+rig.UserOf(t, token)+"}") == node.Addr
			})[:120]
			node.Kill()
			for i, id := range sales {
				c := rig.BuyersOf(id, 100, tokens, p)
				r := c.Run(t.Context())
				if i == 0 {
					p.RequireReady(t)
					if lane == "queue" && masterOf("seckill:queue") != node.Addr {
						code, out := s.Run(t, "reconcile", "--voucher", id)
						require.Zero(t, code, out)
					}
					require.NoError(t, node.Restart())
					rig.Eventually(t, "the counter is used again", func() bool { return rdb.Exists(t.Context(), counter).Val() == 1 })
				}
				rig.RequireExactSale(t, s, c, r)
			}

			other := cluster.Nodes[(down+1)%3]
			if lane == "lock" {
				require.NoError(t, other.Client(t).ConfigSet(t.Context(), "cluster-require-full-coverage", "yes").Err())
				other = cluster.Nodes[(down+2)%3]
				require.NoError(t, other.Client(t).ConfigSet(t.Context(), "cluster-require-full-coverage", "yes").Err())
			} else {
				other.Kill()
			}
			node.Kill()
			rig.Eventually(t, "a cluster without most of its masters, or which requires all of them, is down", func() bool {
				return rig.Fetch(t, p.URL+"/readyz").Status == http.StatusServiceUnavailable
			})
		})
	}
}

// sentinelStack returns a stack on a Redis with Sentinels of the test.
func sentinelStack(t *testing.T) (*rig.Stack, *servers.RedisSentinel) {
	t.Helper()
	sentinel := env.StartRedisSentinel(t, 2*time.Second)
	s := rig.ServerStack(t, env.OneKind(t).DSN(t))
	s.Redis = nil
	return s.With("SECKILL_REDIS_ADDRS="+strings.Join(sentinel.Addrs(), ","), "SECKILL_REDIS_SENTINEL="+servers.SentinelMaster), sentinel
}

// TestLaggingReplicaPromoted promotes a replica that lacks the last writes in lane queue: 10 orders that are in the
// database already, and 15 that were only queued. The queued ones are lost unless a worker had read them. Their units
// can be bought again, and the database refuses what the old gate admits in excess.
func TestLaggingReplicaPromoted(t *testing.T) {
	env.FullParallel(t)
	s, sentinel := sentinelStack(t)
	hold := filepath.Join(t.TempDir(), "hold")
	s = s.In("queue").With(rig.EnvHold + "=" + hold)
	p := s.Serve(t)
	const stock = 60
	tokens := s.Tokens(t, 90)
	sale := p.Sale(t, stock)
	buy := func(tokens []string) []rush.Answer {
		return rig.BuyersOf(sale, stock, tokens, p).Run(t.Context()).Answers
	}
	known := buy(tokens[:20])
	rig.RequireSettled(t, s)
	require.NoError(t, sentinel.StopReplication(t.Context()))
	missing := buy(tokens[20:30])
	rig.RequireSettled(t, s)
	for _, a := range slices.Concat(known, missing) {
		require.Equal(t, "ok", a.Code)
	}
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	var queued []string
	for _, token := range tokens[30:45] {
		queued = append(queued, p.Queue(t, token, sale))
	}
	sentinel.Nodes[0].Kill()
	require.NoError(t, sentinel.Promoted(t.Context()))
	require.NoError(t, os.Remove(hold))

	for i, token := range tokens[20:30] { // the gate does not know these buyers
		rig.Eventually(t, "the purchase is refused with the order that the database has", func() bool {
			_, err := p.Place(t.Context(), token, sale, "", "")
			var problem *rush.Problem
			return errors.As(err, &problem) && problem.Code == "duplicate_order" && problem.OrderID == missing[i].Order.ID
		})
	}
	c := rig.BuyersOf(sale, stock, tokens, p)
	r := &rush.Report{Codes: map[string]int{}, Answers: slices.Concat(known, missing, make([]rush.Answer, len(tokens)-30))}
	rig.RetryUnserved(t, s, c, r)
	rig.RequireAllServed(t, s, c, r)
	lost := 0
	for i, id := range queued {
		o, err := p.Order(t.Context(), tokens[30+i], id)
		require.True(t, err == nil || rig.HasCode(err, "not_found"), err)
		if err != nil || o.Status == "failed" {
			lost++
		} else {
			require.Equal(t, "pending_payment", o.Status, "read by a worker before the failover")
		}
	}
	t.Logf("%d of %d queued orders were lost", lost, len(queued))
	require.Positive(t, lost)
}

// failingSale is a sale in the middle of which a system fails over.
type failingSale struct {
	*rig.Stack

	servers []*rig.Server
	buyers  *rush.Buyers
	wait    func() *rush.Report
	// It buys one unit of another sale, for a user outside the rush.
	purchase rig.Request
}

// failover runs a rush of each sale with a fault in the middle of all of them, and verifies the promises at the end. verdict
// returns when the system has failed over. The times until then, and until all servers of a sale sell again, are logged and not
// judged.
func failover(t *testing.T, fail, verdict func(), sales ...*failingSale) {
	t.Helper()
	const units = 240
	for _, s := range sales {
		id := s.servers[0].Publish(t, rig.Offer{Stock: units, Segments: 16}) // segments have no effect in the other lanes
		tokens := s.Tokens(t, 301)
		s.buyers = rig.BuyersOf(id, units, tokens[:300], s.servers...)
		s.purchase = rig.Purchase(s.servers[0].Publish(t, rig.Offer{Stock: 10, LimitPerUser: 10}), tokens[300])
	}
	for _, s := range sales {
		for _, p := range s.servers {
			p.MayRefuse() // until the system has failed over
		}
		s.wait = rig.LongRush(t, s.Stack, s.buyers, 5*time.Second)
	}

	fail()
	failed := time.Now()
	verdict()
	promoted := time.Now()
	for _, s := range sales {
		for _, p := range s.servers {
			p.Must(t, s.purchase)
		}
		t.Logf("lane %s: failed over after %.1f s, sells %.1f s later", s.Lane, promoted.Sub(failed).Seconds(), time.Since(promoted).Seconds())

		r := s.wait()
		if s.Lane == "queue" {
			rig.RetryUnserved(t, s.Stack, s.buyers, r)
		}
		rig.RequireAllServed(t, s.Stack, s.buyers, r)
	}
}

// documentedACL returns the words of the ACL SETUSER command for a user in docs/operations.md.
func documentedACL(t *testing.T, user string) []any {
	t.Helper()
	_, command, found := strings.Cut(read(t, "docs/operations.md"), "```\nACL SETUSER "+user+" ")
	require.True(t, found)
	command, _, _ = strings.Cut(command, "```")
	words := []any{"ACL", "SETUSER", user}
	for _, word := range strings.Fields(command) {
		words = append(words, word)
	}
	return words
}

// addUser creates a user with the documented rights and the password s3cret/@pass.
func addUser(t *testing.T, rdb env.RedisClient, user string) {
	t.Helper()
	require.NoError(t, rdb.Do(t.Context(), documentedACL(t, user)...).Err())
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", user, "resetpass", ">s3cret/@pass").Err())
}

// requireNothingDenied requires that no command was refused for lack of rights.
func requireNothingDenied(t *testing.T, rdb env.RedisClient) {
	t.Helper()
	denied := env.Must(rdb.ACLLog(t.Context(), 100).Result())(t)
	for _, d := range denied {
		require.Equal(t, "auth", d.Reason, "%+v", d) // a wrong password
	}
}

// TestRedisWithTLSAndUser runs sales and commands on one Redis, on a cluster and through Sentinels, whose servers the program
// reaches with TLS, a test CA and a user with the documented rights only. The password appears in no output, in which a process
// includes the messages of go-redis.
func TestRedisWithTLSAndUser(t *testing.T) {
	env.FullParallel(t)
	certificates := env.NewCertificates(t)
	sell := func(t *testing.T, servers []*env.Redis, found string, settings ...string) {
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
			rig.RequireExactSale(t, s, c, c.Run(t.Context()))
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
		sell(t, sentinel.Nodes[:1], "3 Sentinels name the same master",
			"SECKILL_REDIS_ADDRS="+url+strings.Join(sentinel.Addrs(), ","+url), "SECKILL_REDIS_SENTINEL="+servers.SentinelMaster)
		for _, n := range sentinel.Sentinels {
			requireNothingDenied(t, n.Client(t))
		}
	})
}

// TestLockNodesNeedMajority kills one of three independent lock nodes, then a second one, and then Redis. A server that starts
// before them, as docker compose may do, waits. TestPrepareDatabaseWaits of package app shows that the start goes on.
func TestLockNodesNeedMajority(t *testing.T) {
	env.FullParallel(t)
	s := rig.RealStack(t)
	nodes := []*env.Redis{env.StartRedis(t), env.StartRedis(t), env.StartRedis(t)}
	s = s.With("SECKILL_LOCK_NODES=" + nodes[0].Addr + "," + nodes[1].Addr + "," + nodes[2].Addr)
	p := s.Serve(t)
	sale, tokens := p.Sale(t, 10), s.Tokens(t, 3)
	p.MustPlace(t, tokens[0], sale)
	c := rig.BuyersOf(p.Sale(t, 300), 300, s.Tokens(t, 400), p)
	wait := rig.LongRush(t, s, c, time.Second)
	nodes[0].Kill()
	rig.RequireAllServed(t, s, c, wait())
	p.RequireReady(t)
	p.MustPlace(t, tokens[1], sale) // a majority is enough
	nodes[1].Kill()
	p.RequireUnavailable(t, tokens[2], sale)
	require.Contains(t, rig.Fetch(t, p.URL+"/readyz").Text, "lock nodes")
	s.RequireNoStart(t, "a majority of the lock nodes")
	require.Zero(t, p.Stop(t))
	s.KillRedis()
	s.RequireNoStart(t, "Redis")
}

// TestZooKeeperHasUserLocks sells beside an election in the ensemble of the user locks, and then loses its majority.
func TestZooKeeperHasUserLocks(t *testing.T) {
	env.FullParallel(t)
	ensemble := env.StartZooKeeper(t)
	s := rig.RealStack(t).With("SECKILL_LOCK_NODES=zk://" + strings.Join(ensemble.Servers(), ","))
	require.Equal(t, doctor.OK, s.Diagnose(t, 0)["locks.ensemble"].Status)
	hanging := "SECKILL_LOCK_NODES=zk://" + ensemble.Servers()[0]
	for range 2 {
		silent := env.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer silent.Close()
		hanging += "," + silent.Addr().String()
	}
	_, out := s.With(hanging).Run(t, "doctor")
	require.Contains(t, out, "the leader of the ensemble answers", "the doctor asks one server after the other")
	p := s.Serve(t)
	sale, tokens := p.Sale(t, 10), s.Tokens(t, 3)
	p.MustPlace(t, tokens[0], sale)
	c := rig.BuyersOf(p.Sale(t, 200), 200, s.Tokens(t, 300), p)
	wait := rig.LongRush(t, s, c, time.Second)
	first := env.Must(ensemble.Leader(t.Context()))(t)
	first.Kill()
	rig.RequireAllServed(t, s, c, wait())
	p.RequireReady(t)
	p.MustPlace(t, tokens[1], sale) // a majority is enough
	s.Verify(t)

	env.Must(ensemble.Leader(t.Context()))(t).Kill()
	rig.Eventually(t, "the server is not ready", func() bool { return rig.Fetch(t, p.URL+"/readyz").Status == http.StatusServiceUnavailable })
	p.RequireUnavailable(t, tokens[2], sale)
	require.Contains(t, rig.Fetch(t, p.URL+"/readyz").Text, "lock nodes")
	s.RequireNoStart(t, "ZooKeeper, which has the user locks,")
	require.Equal(t, doctor.Fail, s.Diagnose(t, rig.ExitUnchecked)["locks.ensemble"].Status)

	require.NoError(t, first.Restart())
	p.RequireReady(t)
	p.MustPlace(t, tokens[2], sale) // the session is established again
}

// TestGaleraFailover kills a node in mid-rush and leaves it dead, with sales in lanes lock and queue. Each sale has one server,
// whose proxy leads to that node, or three servers, each of which writes through another node first.
func TestGaleraFailover(t *testing.T) {
	env.FullParallel(t)
	for name, writers := range map[string]int{"one writer": 1, "three writers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := env.StartGalera(t)
			var sales []*failingSale
			for _, lane := range rig.LockAndQueue {
				s := rig.ServerStack(t, env.Must(g.CreateDatabase(t.Context(), "seckill_"+lane))(t)).In(lane)
				var servers []*rig.Server
				for node := range writers {
					at := env.StartProxy(t, g.Addrs(node)...).Addr
					servers = append(servers, s.With(led(s, g.Nodes[0].Addr, at)).Serve(t))
				}
				s = s.With(led(s, g.Nodes[0].Addr, env.StartProxy(t, g.Addrs(0)...).Addr))
				sales = append(sales, &failingSale{Stack: s, servers: servers})
			}
			failover(t, g.Nodes[0].Kill, func() { require.NoError(t, g.Formed(t.Context(), 2, 2)) }, sales...)
		})
	}
}

// TestSemiSyncFailover promotes a replica in mid-rush, with sales in lanes lock and queue, when it has executed what it received.
// The primary is killed, becomes read-only and keeps its connections, or is frozen and goes on when the replica has
// replaced it. It then waits for the answer of a replica until the end of the test, as with AFTER_SYNC and a timeout that
// is longer than any outage.
func TestSemiSyncFailover(t *testing.T) {
	env.FullParallel(t)
	for name, end := range map[string]func(t *testing.T, primary *env.Database){
		"killed": func(_ *testing.T, primary *env.Database) { primary.Kill() },
		"frozen": func(t *testing.T, primary *env.Database) { require.NoError(t, primary.Pause()) },
		"read-only": func(t *testing.T, primary *env.Database) {
			onServer(t, primary, "SET GLOBAL read_only = ON", replication[primary.Kind].disable) // in this order
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica := startSemiSync(t)
			at := env.StartProxy(t, primary.Addr)
			var sales []*failingSale
			for _, lane := range rig.LockAndQueue {
				s := rig.ServerStack(t, strings.Replace(primary.DSN(t), "root@", seller+"@", 1)).In(lane)
				s = s.With(led(s, primary.Addr, at.Addr))
				sales = append(sales, &failingSale{Stack: s, servers: []*rig.Server{s.Serve(t)}})
			}
			failover(t, func() { end(t, primary) }, func() {
				promote(t, replica)
				at.Lead(replica.Addr)
				if name == "frozen" {
					require.NoError(t, primary.Resume())
				}
			}, sales...)
		})
	}
}

// led returns the setting that leads the servers of a stack to the address of a proxy instead of a database.
func led(s *rig.Stack, addr, proxy string) string {
	return "SECKILL_MYSQL_DSN=" + strings.Replace(s.Setting("SECKILL_MYSQL_DSN"), addr, proxy, 1)
}

// seller is a database user without the right of root to write to a read-only server.
const seller = "seller"

// replication is what differs between the kinds of servers in semi-synchronous replication.
var replication = map[env.Kind]struct {
	primary, replica []string // arguments
	attach           string   // to a host and a port
	replicas         string   // the status variable with their number
	disable          string   // of the primary
	stopReceiver     string
	status           string
	received         [2]string // columns of status: file and position up to which the replica has received,
	executed         [2]string // and executed
	promote          []string
}{
	env.MariaDB: {
		primary: []string{
			"--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=60000",
		},
		replica:      []string{"--rpl-semi-sync-slave-enabled=ON"},
		attach:       "CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root'; START SLAVE",
		replicas:     "rpl_semi_sync_master_clients",
		disable:      "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
		stopReceiver: "STOP SLAVE IO_THREAD",
		status:       "SHOW SLAVE STATUS",
		received:     [2]string{"Master_Log_File", "Read_Master_Log_Pos"},
		executed:     [2]string{"Relay_Master_Log_File", "Exec_Master_Log_Pos"},
		promote:      []string{"STOP SLAVE", "RESET SLAVE ALL"},
	},
	env.MySQL: {
		primary: []string{
			"--plugin-load-add=semisync_source.so",
			"--loose-rpl-semi-sync-source-enabled=ON", "--loose-rpl-semi-sync-source-wait-point=AFTER_SYNC", "--loose-rpl-semi-sync-source-timeout=60000",
		},
		replica:      []string{"--plugin-load-add=semisync_replica.so", "--loose-rpl-semi-sync-replica-enabled=ON"},
		attach:       "CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='root'; START REPLICA",
		replicas:     "rpl_semi_sync_source_clients",
		disable:      "SET GLOBAL rpl_semi_sync_source_enabled = OFF",
		stopReceiver: "STOP REPLICA IO_THREAD",
		status:       "SHOW REPLICA STATUS",
		received:     [2]string{"Source_Log_File", "Read_Source_Log_Pos"},
		executed:     [2]string{"Relay_Source_Log_File", "Exec_Source_Log_Pos"},
		promote:      []string{"STOP REPLICA", "RESET REPLICA ALL"},
	},
}

// startSemiSync starts a primary with a semi-synchronous replica, which is read-only.
func startSemiSync(t *testing.T) (primary, replica *env.Database) {
	t.Helper()
	kind := env.OneKind(t)
	how := replication[kind]
	args := []string{"--log-bin", "--binlog-format=ROW"}
	primary = kind.Start(t, slices.Concat(args, []string{"--server-id=1"}, how.primary)...)
	replica = kind.Start(t, slices.Concat(args, []string{"--server-id=2", "--read-only=ON"}, how.replica)...)

	host, port, err := net.SplitHostPort(primary.Addr)
	require.NoError(t, err)
	onServer(t, replica, strings.Split(fmt.Sprintf(how.attach, host, port), "; ")...)
	rig.Eventually(t, "the replica is attached", func() bool {
		return row(t, primary, "SHOW STATUS LIKE '"+how.replicas+"'")["Value"] == "1"
	})
	onServer(t, primary, "CREATE USER "+seller, "GRANT ALL ON `seckill\\_test\\_%`.* TO "+seller)
	return primary, replica
}

// promote makes a replica the primary when it has executed what it received.
func promote(t *testing.T, replica *env.Database) {
	t.Helper()
	how := replication[replica.Kind]
	onServer(t, replica, how.stopReceiver)
	rig.Eventually(t, "the replica has executed its relay log", func() bool {
		state := row(t, replica, how.status)
		require.Empty(t, state["Last_SQL_Error"])
		for i := range how.received {
			if state[how.received[i]] != state[how.executed[i]] {
				return false
			}
		}
		return true
	})
	onServer(t, replica, append(how.promote, "SET GLOBAL read_only = OFF")...)
}

// administrator returns a stack whose queries are those of the administrator of a server.
func administrator(m *env.Database) *rig.Stack {
	return &rig.Stack{Env: []string{"SECKILL_MYSQL_DSN=root@tcp(" + m.Addr + ")/"}}
}

func onServer(t *testing.T, m *env.Database, statements ...string) {
	t.Helper()
	for _, stmt := range statements {
		administrator(m).Exec(t, stmt)
	}
}

// row returns the columns of the first row of a query of the administrator.
func row(t *testing.T, m *env.Database, query string) map[string]any {
	t.Helper()
	byName := map[string]any{}
	administrator(m).Query(t, func(db *sql.DB) {
		columns, rows := env.Query(t, db, query)
		require.NotEmpty(t, rows, query)
		for i, name := range columns {
			byName[name] = rows[0][i]
		}
	})
	return byName
}
