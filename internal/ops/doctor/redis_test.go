package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/redisconn"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// check runs the checks of a server. The edits change what the program expects.
func check(t *testing.T, r *env.Redis, edits ...func(*Redis)) map[string]Finding {
	t.Helper()
	of := Redis{Addr: r.Addr, Client: clientOf(t, r)}
	for _, edit := range edits {
		edit(&of)
	}
	return examine(t, of.Group())
}

func clientOf(t *testing.T, server *env.Redis) *redis.Client { return server.Client(t).(*redis.Client) }

func do(t *testing.T, rdb env.RedisClient, args ...any) {
	t.Helper()
	require.NoError(t, rdb.Do(t.Context(), args...).Err(), args)
}

func queue(r *Redis) { r.Queue = true }
func locks(r *Redis) { r.Locks = true }

// ahead sets the clock of the server.
func ahead(by time.Duration) func(*Redis) {
	return func(r *Redis) {
		r.Client.AddHook(env.RedisHook{Command: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if c, ok := cmd.(*redis.TimeCmd); ok {
				c.SetVal(c.Val().Add(by))
			}
			return err
		}})
	}
}

func TestWellConfiguredRedis(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t, "--appendonly", "yes", "--maxmemory", "500mb", "--maxmemory-policy", "noeviction")
	found := check(t, r, queue)
	allGood(t, found)
	for _, f := range found {
		assert.Equal(t, "redis "+r.Addr, f.On)
	}
	assert.Len(t, found, 1+len(Redis{}.Group().Checks))
	assert.Equal(t, "lock node "+r.Addr, check(t, r, locks)["redis.version"].On)
}

// All settings that can be wrong at the same time are wrong first, then the others.
func TestMisconfiguredRedis(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	rdb := r.Client(t)
	want(t, check(t, r, queue, ahead(time.Minute)), map[string]Status{
		"redis.reachable": OK, "redis.version": OK, "redis.eviction": Fail, "redis.persistence": Fail, "redis.role": OK,
		"redis.cluster": OK, "redis.password": OK, "redis.clock": Fail,
	})
	assert.Equal(t, Warn, check(t, r)["redis.persistence"].Status, "the other lanes lose no order")
	assert.Equal(t, OK, check(t, r, locks)["redis.persistence"].Status)

	do(t, rdb, "CONFIG", "SET", "appendonly", "yes")
	do(t, rdb, "CONFIG", "SET", "appendfsync", "no")
	do(t, rdb, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	want(t, check(t, r, ahead(-4*time.Second)), map[string]Status{"redis.persistence": Warn, "redis.eviction": Fail, "redis.clock": Warn})
	want(t, check(t, r, queue), map[string]Status{"redis.persistence": Fail})
	do(t, rdb, "CONFIG", "SET", "maxmemory", "0")
	want(t, check(t, r), map[string]Status{"redis.eviction": OK})
	do(t, rdb, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	do(t, rdb, "CONFIG", "SET", "maxmemory", "500kb")
	want(t, check(t, r), map[string]Status{"redis.eviction": Warn}) // full
}

// A Redis whose last snapshot has failed refuses all writes, and PING as well.
func TestFailedSnapshot(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t)
	rdb := r.Client(t)
	dir := env.Must(rdb.ConfigGet(t.Context(), "dir").Result())(t)["dir"]
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dump.rdb", "in the way"), 0o700))
	do(t, rdb, "CONFIG", "SET", "save", "3600 1")
	do(t, rdb, "BGSAVE")
	require.Eventually(t, func() bool { return redis.HasErrorPrefix(rdb.Ping(t.Context()).Err(), "MISCONF") }, time.Minute, 10*time.Millisecond)

	found := check(t, r)["redis.reachable"]
	assert.Equal(t, Fail, found.Status)
	assert.Contains(t, found.Found, "MISCONF")
	assert.Contains(t, found.Change, "log of Redis")
}

func TestAdviceFitsTheError(t *testing.T) {
	for advice, err := range map[string]error{
		"tls-auth-clients":    &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")},
		"it answers":          refusal("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
		"that of Sentinels":   fmt.Errorf("all Sentinels: %w", refusal("NOAUTH Authentication required.")),
		"see redis.sentinels": fmt.Errorf("all Sentinels: %w", redis.Nil),
		"rediss:// is TLS":    io.EOF,
	} {
		assert.Contains(t, redisFix(err), advice)
	}
}

func TestDatabaseThatTheServerLacks(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr, DB: 1_000_000})
	defer func() { require.NoError(t, rdb.Close()) }()
	found := check(t, r, func(n *Redis) { n.Client = rdb })["redis.reachable"]
	assert.Equal(t, Fail, found.Status)
	assert.Contains(t, found.Change, "CONFIG GET databases")
}

// A managed Redis refuses CONFIG, and later INFO and TIME as well.
func TestRefusedCommandsSkipTheirChecks(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t, "--appendonly", "yes")
	rdb := r.Client(t)
	do(t, rdb, "ACL", "SETUSER", "admin", "on", ">hunter2", "~*", "&*", "+@all")
	do(t, rdb, "ACL", "SETUSER", "default", "-config")
	found := check(t, r, queue)
	want(t, found, map[string]Status{
		"redis.reachable": OK, "redis.version": OK, "redis.eviction": OK, "redis.persistence": Skipped, "redis.role": OK,
	})
	assert.NotEmpty(t, found["redis.persistence"].Change)

	// A provider may have replicas instead of the file.
	bare := env.StartRedis(t)
	do(t, bare.Client(t), "ACL", "SETUSER", "default", "-config")
	for _, edit := range []func(*Redis){queue, func(*Redis) {}} {
		want(t, check(t, bare, edit), map[string]Status{"redis.persistence": Warn})
	}
	assert.Equal(t, OK, check(t, bare, locks)["redis.persistence"].Status)

	do(t, rdb, "ACL", "SETUSER", "default", "-info", "-time")
	found = check(t, r, queue)
	for _, name := range []string{"version", "eviction", "persistence", "role", "cluster", "clock"} {
		assert.Equal(t, Skipped, found["redis."+name].Status, name)
		assert.NotEmpty(t, found["redis."+name].Change, name)
	}
	want(t, found, map[string]Status{"redis.reachable": OK})

	// The scripts of lane queue need both.
	for _, missing := range []string{"-info", "-time"} {
		do(t, rdb, "ACL", "SETUSER", "default", "+info", "+time", missing)
		assert.Contains(t, check(t, r, queue)["redis.scripts"].Found, "lane queue accepts no order", missing)
		assert.Equal(t, OK, check(t, r)["redis.scripts"].Status, missing)
	}
}

func TestRedisVersions(t *testing.T) {
	for _, tc := range []struct {
		want Status
		info map[string]string
	}{
		{OK, map[string]string{"redis_version": "6.2.0"}},
		{Fail, map[string]string{"redis_version": "6.0.16"}},
		{OK, map[string]string{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"}},
		{Warn, map[string]string{"redis_version": "7.4.0", "dragonfly_version": "df-v1.3"}},
		{Skipped, nil},
	} {
		assert.Equal(t, tc.want, (&Redis{info: tc.info}).checkVersion(t.Context()).Status, tc.info)
	}
}

func TestReplica(t *testing.T) {
	env.Full(t)
	t.Parallel()
	master, replica := env.StartRedis(t), env.StartRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	do(t, replica.Client(t), "REPLICAOF", host, port)

	want(t, check(t, replica), map[string]Status{"redis.role": Fail})
	assert.Equal(t, OK, check(t, replica, func(r *Redis) { r.Cluster = true })["redis.role"].Status, "a cluster client gets the masters from it")
	want(t, check(t, replica, func(r *Redis) { r.Cluster, r.Locks = true, true }), map[string]Status{"redis.role": Fail})
}

func TestClusterOfRedis(t *testing.T) {
	t.Parallel()
	c := env.StartRedisCluster(t)
	inCluster := func(r *Redis) { r.Cluster = true }
	assert.Equal(t, OK, check(t, c.Nodes[0], inCluster)["redis.cluster"].Status)
	do(t, c.Nodes[0].Client(t), "CONFIG", "SET", "cluster-require-full-coverage", "yes")
	want(t, check(t, c.Nodes[0], inCluster), map[string]Status{"redis.cluster": Warn})
	do(t, c.Nodes[0].Client(t), "CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
	want(t, check(t, c.Nodes[0], inCluster), map[string]Status{"redis.cluster": Fail})
	do(t, c.Nodes[0].Client(t), "CONFIG", "SET", "cluster-preferred-endpoint-type", "ip")
	do(t, c.Nodes[0].Client(t), "CONFIG", "SET", "cluster-require-full-coverage", "no")
	want(t, check(t, c.Nodes[0]), map[string]Status{"redis.cluster": Fail}) // treated as a single server
	single := env.StartRedis(t)
	want(t, check(t, single, inCluster), map[string]Status{"redis.cluster": Fail})

	// A slot that is being moved.
	id := func(n *env.Redis) string { return n.Client(t).Do(t.Context(), "CLUSTER", "MYID").Val().(string) }
	slot := c.Client(t).ClusterKeySlot(t.Context(), "x").Val()
	master := env.Must(c.Client(t).(*redis.ClusterClient).MasterForKey(t.Context(), "x"))(t)
	owner := slices.IndexFunc(c.Nodes, func(n *env.Redis) bool { return n.Addr == master.Options().Addr })
	source, target := c.Nodes[owner], c.Nodes[(owner+1)%3]
	do(t, target.Client(t), "CLUSTER", "SETSLOT", slot, "IMPORTING", id(source))
	do(t, source.Client(t), "CLUSTER", "SETSLOT", slot, "MIGRATING", id(target))
	for _, n := range []*env.Redis{source, target} {
		want(t, check(t, n, inCluster), map[string]Status{"redis.cluster": Warn})
	}
	do(t, target.Client(t), "CLUSTER", "SETSLOT", slot, "STABLE")
	do(t, source.Client(t), "CLUSTER", "SETSLOT", slot, "STABLE")
	assert.Equal(t, OK, check(t, source, inCluster)["redis.cluster"].Status)
	do(t, source.Client(t), "ACL", "SETUSER", "default", "-cluster|nodes")
	assert.Equal(t, Skipped, check(t, source, inCluster)["redis.cluster"].Status)
	do(t, source.Client(t), "ACL", "SETUSER", "default", "+cluster|nodes")
	for _, n := range c.Nodes {
		assert.Equal(t, OK, check(t, n, inCluster)["redis.scripts"].Status)
		assert.Contains(t, check(t, n, inCluster)["redis.role"].Found, "without a replica")
		do(t, n.Client(t), "CONFIG", "SET", "min-replicas-to-write", 1)
		assert.Contains(t, check(t, n, inCluster)["redis.role"].Found, "NOREPLICAS")
		do(t, n.Client(t), "ACL", "SETUSER", "default", "-time")
		want(t, check(t, n, inCluster, queue), map[string]Status{"redis.scripts": Fail})
	}

	known := redisconn.Options()
	known.Addrs = []string{single.Addr, c.Nodes[2].Addr}
	cluster := redisconn.Open(known)
	defer cluster.Close()
	assert.ElementsMatch(t, []string{c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr}, Masters(t.Context(), cluster))
	known.Addrs = []string{single.Addr, single.Addr}
	nowhere := redisconn.Open(known)
	defer nowhere.Close()
	assert.Empty(t, Masters(t.Context(), nowhere))

	do(t, c.Nodes[0].Client(t), "CLUSTER", "DELSLOTS", 7)
	want(t, check(t, c.Nodes[0], inCluster), map[string]Status{"redis.cluster": Fail})
	assert.Equal(t, Fail, clusterResult(map[string]string{"cluster_state": "fail", "cluster_slots_ok": "16384"}).Status)
}

// TestUserWithoutChannels: the program works without channels, but slower, which shows in a rush only.
// Source: redis/redis-py#2707, redisson/redisson#5439.
func TestUserWithoutChannels(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t)
	assert.Equal(t, OK, check(t, r)["redis.channels"].Status)
	for _, rights := range [][]any{{"resetchannels"}, {"resetchannels", "&lock:*"}, {"allchannels", "-@pubsub"},
		{"resetchannels", "&seckill:*", "+@pubsub"}, {"allchannels", "-subscribe"}} {
		do(t, r.Client(t), append([]any{"ACL", "SETUSER", "default"}, rights...)...)
		want(t, check(t, r), map[string]Status{"redis.channels": Warn})
		assert.Equal(t, OK, check(t, r, locks)["redis.channels"].Status, "a RedLock uses none")
	}
	do(t, r.Client(t), "ACL", "SETUSER", "default", "resetchannels", "&seckill:*", "&lock:*", "+@pubsub")
	assert.Equal(t, OK, check(t, r)["redis.channels"].Status)

	do(t, r.Client(t), "ACL", "SETUSER", "shop", "on", ">word", "allkeys", "+@all", "resetchannels")
	shop := servers.LogIn(t, r.Addr, "shop", "word")
	found := check(t, r, func(r *Redis) { r.Client = shop })["redis.channels"]
	assert.Contains(t, found.Change, "ACL SETUSER shop &seckill:*")
}

// literalKeys answers like a service that looks for KEYS[n] in the text of scripts.
func literalKeys(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if cmd.Name() != "eval" || literalKey.MatchString(cmd.Args()[1].(string)) {
		return next(ctx, cmd)
	}
	cmd.SetErr(refusal("ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array"))
	return cmd.Err()
}

var literalKey = regexp.MustCompile(`redis\.call\('\w+', KEYS\[`)

type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// TestScriptsWithLiteralKeysOnly: the program's scripts name keys by variables, which some services refuse at the first use.
// Source: go-redis/redis_rate#93, redisson/redisson#4221.
func TestScriptsWithLiteralKeysOnly(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t)
	assert.Equal(t, OK, check(t, r)["redis.scripts"].Status)
	rdb := clientOf(t, r)
	rdb.AddHook(env.RedisHook{Command: literalKeys})
	through := func(r *Redis) { r.Client = rdb }
	want(t, check(t, r, through), map[string]Status{"redis.scripts": Fail})
	assert.Equal(t, OK, check(t, r, through, locks)["redis.scripts"].Status)

	do(t, r.Client(t), "ACL", "SETUSER", "default", "-evalsha")
	want(t, check(t, r), map[string]Status{"redis.scripts": Fail})
	do(t, r.Client(t), "ACL", "SETUSER", "default", "+evalsha", "-eval")
	want(t, check(t, r), map[string]Status{"redis.scripts": Fail})
	assert.Equal(t, Fail, check(t, r, locks)["redis.scripts"].Status, "the scripts of locks are refused as well")
}

// An ACL user needs the keys of every kind, of user locks only where they are.
func TestUserWithoutKeys(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t)
	userLocks := func(r *Redis) { r.UserLocks = true }
	for _, missing := range []string{"~seckill:*", "~icr:*", "~{icr:*", "~redlock:*"} {
		rights := []any{"ACL", "SETUSER", "default", "resetkeys"}
		for _, pattern := range []string{"~seckill:*", "~icr:*", "~{icr:*", "~redlock:*"} {
			if pattern != missing {
				rights = append(rights, pattern)
			}
		}
		do(t, r.Client(t), rights...)

		found := check(t, r, userLocks)
		want(t, found, map[string]Status{"redis.scripts": Fail})
		assert.Contains(t, found["redis.scripts"].Change, missing)
		onlyLocks := missing == "~redlock:*"
		assert.Equal(t, onlyLocks, check(t, r)["redis.scripts"].Status == OK, missing)
		assert.Equal(t, !onlyLocks, check(t, r, locks)["redis.scripts"].Status == OK, missing)
	}
}

// A master without its replicas, or at its memory limit, refuses the writes that /readyz tries.
func TestMasterThatRefusesWrites(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t)
	want(t, check(t, r), map[string]Status{"redis.role": OK})
	do(t, r.Client(t), "CONFIG", "SET", "min-replicas-to-write", "1")
	want(t, check(t, r), map[string]Status{"redis.role": Fail})
	want(t, check(t, r, locks), map[string]Status{"redis.role": Fail})
	do(t, r.Client(t), "CONFIG", "SET", "min-replicas-to-write", "0")
	do(t, r.Client(t), "CONFIG", "SET", "maxmemory", "1")
	want(t, check(t, r), map[string]Status{"redis.role": Fail})
}

// A server that hangs is in TestHangingChecksEndAtTheirDeadlines, and what one says that refuses the user in TestStatusPerSetting.
func TestUnreachableServers(t *testing.T) {
	t.Parallel()
	closed := servers.NewClient(t, &redis.Options{Addr: "127.0.0.1:1", Password: "hunter2", MaxRetries: -1})
	for kind, group := range map[string]Group{
		"database": MySQL{Pool: dial(t, "stranger:hunter2@tcp(127.0.0.1:1)/none")}.Group(),
		"redis":    Redis{Addr: "127.0.0.1:1", Client: closed}.Group(),
	} {
		for name, f := range examine(t, group) {
			reach := name == kind+".reachable"
			assert.Equal(t, map[bool]Status{true: Fail, false: Skipped}[reach], f.Status, name)
			assert.Equal(t, reach, f.Unasked, name)
			assert.NotContains(t, f.Found, "hunter2")
		}
	}
}

func TestMissingPasswordWarnsUnlessLoopback(t *testing.T) {
	for _, tc := range []struct {
		addr     string
		password string
		want     Status
	}{
		{"127.0.0.1:6379", "", OK}, {"[::1]:6379", "", OK}, {"localhost:6379", "", OK},
		{"10.0.0.5:6379", "", Warn}, {"redis:6379", "", Warn}, {"redis:6379", "word", OK},
	} {
		client := servers.NewClient(t, &redis.Options{Addr: tc.addr, Password: tc.password})
		n := &Redis{Addr: tc.addr, Client: client}
		assert.Equal(t, tc.want, n.checkPassword(t.Context()).Status, tc.addr)
	}
}

func TestLockNodes(t *testing.T) {
	t.Parallel()
	verdict := func(want Status, nodes ...*redis.Client) string {
		r := examine(t, LockNodes(nodes))["locks.independent"].Result
		require.Equal(t, want, r.Status, r.Found)
		return r.Found
	}
	verdict(OK)
	var all []*env.Redis
	var nodes []*redis.Client
	for range 3 {
		r := env.StartRedis(t)
		all, nodes = append(all, r), append(nodes, clientOf(t, r))
	}
	verdict(OK, nodes...)
	verdict(Warn, nodes[0]) // Redlock needs several nodes
	verdict(Warn, nodes[0], nodes[1])
	verdict(Fail, nodes[0], nodes[1], clientOf(t, all[0])) // one server under two names

	// One that refuses INFO, and one that does not answer.
	do(t, nodes[0], "ACL", "SETUSER", "default", "-info")
	all[2].Kill()
	found := verdict(Skipped, nodes...)
	assert.Contains(t, found, all[0].Addr+", "+all[2].Addr)
}

func TestSentinels(t *testing.T) {
	env.Full(t)
	t.Parallel()
	sentinel := env.StartRedisSentinel(t, 30*time.Second)
	addrs := sentinel.Addrs()
	verdict := func(master string, addrs ...string) Result {
		all := map[string]*redis.SentinelClient{}
		for _, addr := range addrs {
			c := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1})
			t.Cleanup(func() { _ = c.Close() })
			all[addr] = c
		}
		return examine(t, Sentinels(all, master))["redis.sentinels"].Result
	}
	require.Equal(t, Good("3 Sentinels name the same master, and can order a failover"), verdict(servers.SentinelMaster, addrs...))
	assert.Equal(t, Warn, verdict(servers.SentinelMaster, addrs[0]).Status, "one Sentinel may be down")
	r := verdict(servers.SentinelMaster, addrs[0], addrs[1], "127.0.0.1:1")
	assert.Equal(t, Warn, r.Status)
	assert.Contains(t, r.Found, "the Sentinel 127.0.0.1:1: ")
	r = verdict("another", addrs...)
	assert.Equal(t, Fail, r.Status)
	assert.Contains(t, r.Found, "No such master")

	// A Sentinel that lost its configuration watches the replica, which was the master once.
	wrong := sentinel.Sentinels[2].Client(t)
	do(t, wrong, "SENTINEL", "REMOVE", servers.SentinelMaster)
	replica := sentinel.Nodes[1].Addr
	host, port, _ := net.SplitHostPort(replica)
	do(t, wrong, "SENTINEL", "MONITOR", servers.SentinelMaster, host, port, 1)
	r = verdict(servers.SentinelMaster, addrs...)
	assert.Equal(t, Fail, r.Status)
	assert.Contains(t, r.Found, replica)
}

// Miniredis reports few values. A missing value must not be a failure.
func TestMissingValuesAreNotFailures(t *testing.T) {
	t.Parallel()
	addr := env.StartMiniredis(t).Addr()
	rdb := servers.NewClient(t, &redis.Options{Addr: addr, MaxRetries: -1})
	for name, f := range examine(t, Redis{Addr: addr, Client: rdb}.Group()) {
		assert.Contains(t, []Status{OK, Skipped}, f.Status, "%s: %s", name, f.Found)
		assert.False(t, strings.Contains(f.Found, "%!"), f.Found)
	}
}

func TestRedisChecksAreReadOnly(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t, "--appendonly", "yes")
	rdb := r.Client(t)
	dirty := func() string {
		info := env.Must(rdb.Info(context.Background(), "persistence").Result())(t)
		return parseInfo(info)["rdb_changes_since_last_save"] + " " + parseInfo(info)["aof_current_size"]
	}
	was := dirty()
	check(t, r, queue)
	require.Equal(t, was, dirty())
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	require.NotEqual(t, was, dirty(), "a write would be seen")
}
