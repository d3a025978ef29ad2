package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is one server: the one Redis, a node of the cluster, or a lock node.
type Redis struct {
	Addr   string
	Client *redis.Client
	// Cluster says that the program expects a node of a cluster.
	Cluster bool
	// Locks says that the server holds user locks and nothing else.
	Locks bool
	// Queue says that orders wait in it: the lane queue.
	Queue bool
	// Password says that the program has one.
	Password bool
	// Instances is how many servers of ours will run, Conns how many connections each may open.
	Instances, Conns int
	Now              func() time.Time
}

// redisNode is a server that answered.
type redisNode struct {
	Redis
	info map[string]string
	// infoErr and configErr say that INFO or CONFIG may not be asked, as at many providers.
	infoErr, configErr error
	config             map[string]string
}

// redisSettings are read by CONFIG, one by one: all at once would bring passwords along.
var redisSettings = []string{"appendfsync", "timeout", "min-replicas-to-write", "maxclients", "stop-writes-on-bgsave-error", "save"}

// Group returns the checks. Nobody is asked before they run.
func (r Redis) Group() Group {
	n := &redisNode{Redis: r}
	on := "redis " + r.Addr
	if r.Locks {
		on = "lock node " + r.Addr
	}
	return Group{On: on, Reach: Check{Name: "redis.reachable", Run: n.reach}, Checks: bind(n, redisRules)}
}

var redisRules = []rule[*redisNode]{
	{"redis.version", (*redisNode).checkVersion},
	{"redis.eviction", (*redisNode).checkEviction},
	{"redis.memory", (*redisNode).checkMemory},
	{"redis.persistence", (*redisNode).checkPersistence},
	{"redis.role", (*redisNode).checkRole},
	{"redis.replicas", (*redisNode).checkReplicas},
	{"redis.cluster", (*redisNode).checkCluster},
	{"redis.connections", (*redisNode).checkConnections},
	{"redis.timeout", (*redisNode).checkTimeout},
	{"redis.password", (*redisNode).checkPassword},
	{"redis.clock", (*redisNode).checkClock},
	{"redis.latency", (*redisNode).checkLatency},
}

func (n *redisNode) reach(ctx context.Context) Result {
	if err := n.Client.Ping(ctx).Err(); err != nil {
		return Unanswered(err, redisCure(err))
	}
	var text string
	if text, n.infoErr = n.Client.Info(ctx).Result(); n.infoErr != nil && !refused(n.infoErr) {
		return Unanswered(n.infoErr, redisCure(n.infoErr))
	}
	n.info, n.config = parseInfo(text), map[string]string{}
	for _, name := range redisSettings {
		var values map[string]string
		if values, n.configErr = n.Client.ConfigGet(ctx, name).Result(); n.configErr != nil {
			break
		}
		if v, known := values[name]; known {
			n.config[name] = v
		}
	}
	if n.configErr != nil && !refused(n.configErr) {
		return Unanswered(n.configErr, redisCure(n.configErr))
	}
	return Good("it answers")
}

// refused says that the server answered, with an error: it may not be asked this.
func refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

func redisCure(err error) string {
	switch {
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "ERR AUTH"):
		return "set SECKILL_REDIS_PASSWORD to the password of the server"
	case redis.HasErrorPrefix(err, "LOADING"):
		return "wait until it has read its data: redis-cli INFO persistence"
	case redis.HasErrorPrefix(err, "NOPERM"):
		return "ACL SETUSER default +ping and all that the program uses"
	}
	return "check host and port in SECKILL_REDIS_ADDRS and SECKILL_LOCK_NODES, that the server runs, and the firewalls between"
}

// parseInfo reads lines of name:value.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			info[name] = value
		}
	}
	return info
}

// untold is the result where INFO or CONFIG is refused, or does not know the name.
func (n *redisNode) untold(command, name string) Result {
	err := n.infoErr
	if command == "CONFIG GET" {
		err = n.configErr
	}
	if err != nil {
		return Heard(Skipped, "ask the provider what "+name+" is", command+" is refused: ", err)
	}
	return Result{Status: Skipped, Found: "the server does not tell " + name}
}

func (n *redisNode) checkVersion(context.Context) Result {
	text := n.info["redis_version"]
	if text == "" {
		return n.untold("INFO", "redis_version")
	}
	if other := n.info["dragonfly_version"]; other != "" {
		return Bad(Warn, "use Redis 6.2+ or Valkey, which the program is tested with", "this is Dragonfly %s", other)
	}
	_, version := parseVersion(text)
	name := "Redis " + text
	if v := n.info["valkey_version"]; v != "" {
		name = "Valkey " + v + " (speaks Redis " + text + ")"
	}
	if before(version, [3]int{6, 2, 0}) {
		return Bad(Fail, "upgrade to Redis 6.2 or newer, or to Valkey", "%s is too old", name)
	}
	return Good("%s", name)
}

func (n *redisNode) checkEviction(context.Context) Result {
	policy, limit := n.info["maxmemory_policy"], n.info["maxmemory"]
	switch {
	case policy == "":
		return n.untold("INFO", "maxmemory_policy (it must be noeviction)")
	case policy == "noeviction":
		return Good("maxmemory-policy noeviction")
	case limit == "0":
		return Good("maxmemory 0: nothing is evicted (the policy would be %s)", policy)
	}
	return Bad(Fail, "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
		"maxmemory-policy %s: when memory runs short, Redis throws stock, buyers and locks away", policy)
}

// How full memory may be: past the first, look; past the second there is no time.
const (
	memoryWarn = 0.75
	memoryFail = 0.95
)

func (n *redisNode) checkMemory(context.Context) Result {
	used, err := strconv.ParseFloat(n.info["used_memory"], 64)
	if err != nil {
		return n.untold("INFO", "used_memory")
	}
	limit, of, change := number(n.info["maxmemory"]), "maxmemory", "CONFIG SET maxmemory to more, and in redis.conf"
	if limit == 0 {
		limit, of, change = number(n.info["total_system_memory"]), "the machine's memory", "give the machine more memory"
	}
	if limit == 0 {
		return Good("%s used, without a limit that it tells", size(int64(used)))
	}
	found := fmt.Sprintf("%s used of %s (%s)", size(int64(used)), size(int64(limit)), of)
	switch {
	case used > memoryFail*limit:
		return Bad(Fail, change, "%s: commands will be refused with OOM", found)
	case used > memoryWarn*limit:
		return Bad(Warn, change, "%s; a sale adds its buyers to it", found)
	}
	return Good("%s", found)
}

func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64) // 0 for what the server does not tell
	return n
}

// checkPersistence says what a restart costs. The database has every order that was answered 201, and a gate is rebuilt
// from it in any case.
func (n *redisNode) checkPersistence(context.Context) Result {
	aof, known := n.info["aof_enabled"]
	switch {
	case !known:
		return n.untold("INFO", "appendonly")
	case n.info["rdb_last_bgsave_status"] == "err" && n.config["stop-writes-on-bgsave-error"] != "no" && n.config["save"] != "":
		return Bad(Fail, "see the log of Redis (disk full? fork refused?), then BGSAVE", "the last snapshot failed: Redis refuses every write (MISCONF)")
	case aof == "1" && n.info["aof_last_write_status"] == "err":
		return Bad(Fail, "see the log of Redis: the disk is full or gone", "the append-only file could not be written: Redis refuses every write")
	case n.Locks:
		return Good("locks may be lost with it, and sell nothing twice: the database decides")
	case aof != "1" && n.configErr != nil: // a provider, who may have replicas instead
		return Bad(Warn, "ask the provider what survives a failover, and a restart of all",
			"appendonly no, and CONFIG is refused: what Redis loses depends on the provider. In the lane queue these may be orders whose buyers were answered 202")
	case aof != "1" && n.Queue:
		return Bad(Fail, "CONFIG SET appendonly yes, and in redis.conf",
			"appendonly no: a restart loses the queued orders, whose buyers were answered 202. The gate is rebuilt from the database")
	case aof != "1":
		return Bad(Warn, "CONFIG SET appendonly yes, and in redis.conf",
			"appendonly no: a restart loses locks and the counter of order ids, which this lane survives without losing an order")
	}
	switch fsync := n.config["appendfsync"]; fsync {
	case "":
		return n.untold("CONFIG GET", "appendfsync (it should be everysec or always)")
	case "no":
		status := Warn
		if n.Queue {
			status = Fail
		}
		return Bad(status, "CONFIG SET appendfsync everysec, and in redis.conf",
			"appendfsync no: a power cut costs half a minute of what Redis knows; queued orders are lost, the gate is rebuilt")
	default:
		return Good("appendonly yes, appendfsync %s", fsync)
	}
}

func (n *redisNode) checkRole(context.Context) Result {
	switch role := n.info["role"]; {
	case role == "":
		return n.untold("INFO", "its role")
	case role == "master":
		return Good("it is a master")
	case n.Cluster && !n.Locks:
		return Good("it is a replica, and only tells where the masters are")
	}
	return Bad(Fail, "name the master ("+net.JoinHostPort(n.info["master_host"], n.info["master_port"])+"), or REPLICAOF NO ONE if this is to be it",
		"it is a replica: writes are refused, or lost at the next synchronisation")
}

// maxLag is how far a replica may be behind, in bytes of the replication stream, and in seconds without a word.
const (
	maxLagBytes   = 1 << 20
	maxLagSeconds = 10
)

func (n *redisNode) checkReplicas(context.Context) Result {
	if n.info["role"] == "" {
		return n.untold("INFO", "its replicas")
	}
	if n.info["role"] != "master" {
		return Result{Status: Skipped, Found: "it is a replica itself"}
	}
	online, late := 0, ""
	for i := range atoi(n.info["connected_slaves"]) {
		replica := map[string]string{}
		for field := range strings.SplitSeq(n.info["slave"+strconv.Itoa(i)], ",") {
			name, value, _ := strings.Cut(field, "=")
			replica[name] = value
		}
		behind := number(n.info["master_repl_offset"]) - number(replica["offset"])
		switch {
		case replica["state"] != "online":
			late = fmt.Sprintf("replica %s:%s is not online (%s)", replica["ip"], replica["port"], replica["state"])
			continue
		case behind > maxLagBytes || atoi(replica["lag"]) > maxLagSeconds:
			late = fmt.Sprintf("replica %s:%s is %.0f bytes and %s s behind", replica["ip"], replica["port"], behind, replica["lag"])
		}
		online++
	}
	if need := atoi(n.config["min-replicas-to-write"]); need > online {
		return Bad(Fail, fmt.Sprintf("start the replicas, or CONFIG SET min-replicas-to-write %d", online),
			"min-replicas-to-write %d, but %d replicas are there: every write is refused (NOREPLICAS)", need, online)
	}
	if late != "" {
		return Bad(Warn, "see the replica's log, and the network between", "%s: what it lacks is lost in a failover, and the gate rebuilt", late)
	}
	if online == 0 {
		return Good("no replicas: nobody takes over if it goes away")
	}
	return Good("%d replicas follow closely", online)
}

func (n *redisNode) checkCluster(ctx context.Context) Result {
	enabled := n.info["cluster_enabled"] == "1"
	switch {
	case n.info["cluster_enabled"] == "":
		return n.untold("INFO", "whether it is part of a cluster")
	case !n.Cluster && enabled:
		return Bad(Fail, "name two or more of the nodes, SECKILL_REDIS_ADDRS=host1:port,host2:port: then the program speaks to a cluster",
			"it is a node of a cluster, and the program takes it for a single server: keys of other nodes are refused (MOVED)")
	case !n.Cluster:
		return Good("it is no node of a cluster")
	case !enabled:
		return Bad(Fail, "name one server in SECKILL_REDIS_ADDRS, or make a cluster of them: redis-cli --cluster create",
			"several addresses are a cluster, but this server is none's node")
	}
	text, err := n.Client.ClusterInfo(ctx).Result()
	switch {
	case refused(err):
		return Heard(Skipped, "ask the provider whether all slots are covered", "CLUSTER INFO is refused: ", err)
	case err != nil:
		return Unanswered(err, redisCure(err))
	}
	return clusterResult(parseInfo(text))
}

const clusterSlots = 16384

func clusterResult(info map[string]string) Result {
	const change = "redis-cli --cluster check, then --cluster fix"
	if info["cluster_state"] != "ok" {
		return Bad(Fail, change, "cluster_state:%s, %s of %d slots are served", info["cluster_state"], info["cluster_slots_ok"], clusterSlots)
	}
	if info["cluster_slots_ok"] != strconv.Itoa(clusterSlots) {
		return Bad(Fail, change, "%s of %d slots are served: the vouchers of the others cannot be sold in the lane queue", info["cluster_slots_ok"], clusterSlots)
	}
	return Good("cluster_state:ok, all slots are served by %s masters", info["cluster_size"])
}

func (n *redisNode) checkConnections(context.Context) Result {
	text := n.config["maxclients"]
	if text == "" {
		if text = n.info["maxclients"]; text == "" {
			return n.untold("CONFIG GET", "maxclients")
		}
	}
	limit, need := atoi(text), n.Instances*n.Conns
	if limit < need {
		return Bad(Fail, fmt.Sprintf("CONFIG SET maxclients %d, and in redis.conf", 2*need),
			"maxclients %d; %d servers open up to %d connections each", limit, n.Instances, n.Conns)
	}
	return Good("maxclients %d: room for %d servers of up to %d connections", limit, limit/max(n.Conns, 1), n.Conns)
}

// idleLeast is the least timeout of idle connections that a quiet minute before a sale does not meet.
const idleLeast = 300

func (n *redisNode) checkTimeout(context.Context) Result {
	text, known := n.config["timeout"]
	if !known {
		return n.untold("CONFIG GET", "timeout (it should be 0)")
	}
	if t := atoi(text); t > 0 && t < idleLeast {
		return Bad(Warn, "CONFIG SET timeout 0, and in redis.conf",
			"timeout %d: connections that were idle are closed, so the first buyers wait for new ones, or hear 503", t)
	}
	return Good("timeout %s", text)
}

func (n *redisNode) checkPassword(context.Context) Result {
	switch {
	case n.Password:
		return Good("it asks for a password")
	case isLoopback(n.Addr):
		return Good("no password, on a loopback address")
	}
	return Bad(Warn, "requirepass in redis.conf and SECKILL_REDIS_PASSWORD (or ACL SETUSER default >password)",
		"no password on %s: whoever reaches the port can give units away", n.Addr)
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "localhost" {
		return err == nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Limits of the clock of Redis. Leases, stream ids and the ages of queued orders are all by its own clock; only the
// reconciler's "older than 10 s" compares it with ours.
const (
	redisSkewWarn = 2 * time.Second
	redisSkewFail = 10 * time.Second
)

func (n *redisNode) checkClock(ctx context.Context) Result {
	found, err := measureSkew(ctx, n.Now, func(ctx context.Context) (time.Time, error) { return n.Client.Time(ctx).Result() })
	switch {
	case refused(err):
		return Heard(Skipped, "ACL SETUSER default +time: the locks use it, too", "TIME is refused: ", err)
	case err != nil:
		return Unanswered(err, redisCure(err))
	}
	return found.result(redisSkewWarn, redisSkewFail, "ages of queued orders are wrong by as much, and the reconciler takes young ones for old")
}

func (n *redisNode) checkLatency(ctx context.Context) Result {
	median, err := probe(ctx, func(ctx context.Context) error { return n.Client.Ping(ctx).Err() })
	if err != nil {
		return Unanswered(err, redisCure(err))
	}
	return latency(median, "an order in the lane lock waits for several of them, one in the lane queue for one", "run the servers beside Redis")
}
