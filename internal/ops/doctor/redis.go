package doctor

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/kit/redisconn"
)

// Redis describes one server (the one Redis, a node of the cluster, or a lock node) and the use that the program makes
// of it.
type Redis struct {
	Addr   string
	Client *redis.Client
	// Cluster is true if the program expects a node of a cluster.
	Cluster bool
	// Sentinel is true if Sentinels name the server.
	Sentinel bool
	// Locks is true if the server holds only user locks.
	Locks bool
	// Queue is true if the server holds queued orders (lane queue).
	Queue bool
	// UserLocks is true if the server also holds user locks (lane lock without lock nodes).
	UserLocks bool

	// What reach has read.
	info, config map[string]string
	// infoErr and configErr are set if INFO or CONFIG is refused, as by many providers.
	infoErr, configErr error
}

// redisSettings are read with CONFIG GET one by one, because CONFIG GET * would return passwords.
var redisSettings = []string{"appendfsync", "cluster-require-full-coverage"}

// Group returns the checks. It does no I/O itself.
func (n Redis) Group() Group {
	on := "redis " + n.Addr
	if n.Locks {
		on = "lock node " + n.Addr
	}

	return Group{
		On:    on,
		Reach: Check{Name: "redis.reachable", Run: n.reach},
		Checks: []Check{
			{Name: "redis.version", Run: n.checkVersion},
			{Name: "redis.eviction", Run: n.checkEviction},
			{Name: "redis.persistence", Run: n.checkPersistence},
			{Name: "redis.role", Run: n.checkRole},
			{Name: "redis.cluster", Run: n.checkCluster},
			{Name: "redis.scripts", Run: n.checkScripts},
			{Name: "redis.channels", Run: n.checkChannels},
			{Name: "redis.password", Run: n.checkPassword},
			{Name: "redis.clock", Run: n.checkClock},
		},
	}
}

func (n *Redis) reach(ctx context.Context) Result {
	if err := n.Client.Ping(ctx).Err(); err != nil {
		return Unanswered(err, redisFix(err))
	}

	var text string
	if text, n.infoErr = n.Client.Info(ctx).Result(); n.infoErr != nil && !refused(n.infoErr) {
		return Unanswered(n.infoErr, redisFix(n.infoErr))
	}

	n.info = parseInfo(text)
	n.config = map[string]string{}
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
		return Unanswered(n.configErr, redisFix(n.configErr))
	}

	return Good("reachable")
}

func refused(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

func redisFix(err error) string {
	switch {
	case badCertificate(err):
		return "name the server in the address as its certificate does, and the file with its authority in SECKILL_REDIS_CA"
	case redis.HasErrorPrefix(err, "DB index"):
		return "name a database in SECKILL_REDIS_ADDRS that the server has: redis-cli CONFIG GET databases"
	case strings.Contains(err.Error(), "tls: certificate required"):
		return "CONFIG SET tls-auth-clients no, and in redis.conf: the program has no certificate of its own"
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "AUTH"):
		return "set SECKILL_REDIS_PASSWORD to the password of the server; that of Sentinels is in the URL of SECKILL_REDIS_ADDRS"
	case redis.HasErrorPrefix(err, "LOADING"):
		return "wait until it has loaded its data: redis-cli INFO persistence"
	case redis.HasErrorPrefix(err, "MISCONF"):
		return "see the log of Redis: the disk is full or gone, or a fork failed; then BGSAVE, if the error is about a snapshot"
	case redis.HasErrorPrefix(err, "NOPERM"):
		return "allow the user of SECKILL_REDIS_USERNAME the command PING, and the other commands of the program"
	case errors.Is(err, redis.Nil):
		return "see redis.sentinels"
	case refused(err):
		return "see the log of Redis, and redis-cli INFO: it answers, but does not serve"
	}
	return "check host, port and scheme (rediss:// is TLS) in SECKILL_REDIS_ADDRS and SECKILL_LOCK_NODES, whether the server runs, " +
		"how busy it is and what address it announces, and the firewalls in between"
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			info[name] = value
		}
	}
	return info
}

// unknown is the result if INFO or CONFIG is refused or does not have the name.
func (n *Redis) unknown(command, name string) Result {
	err := n.infoErr
	if command == "CONFIG GET" {
		err = n.configErr
	}
	if err != nil {
		return FromError(Skipped, "get the value of "+name+" from the provider", command+" is refused: ", err)
	}
	return Result{Status: Skipped, Found: "the server does not report " + name}
}

func (n *Redis) checkVersion(context.Context) Result {
	text := n.info["redis_version"]
	if text == "" {
		return n.unknown("INFO", "redis_version")
	}

	if other := n.info["dragonfly_version"]; other != "" {
		return Bad(Warn, "use Redis 6.2 or newer, or Valkey: the program is tested with these", "this is Dragonfly %s", other)
	}

	_, version := parseVersion(text)
	name := "Redis " + text
	if v := n.info["valkey_version"]; v != "" {
		name = "Valkey " + v + " (compatible with Redis " + text + ")"
	}

	if slices.Compare(version, []int{6, 2}) < 0 {
		return Bad(Fail, "upgrade to Redis 6.2 or newer, or to Valkey", "%s is too old", name)
	}

	return Good("%s", name)
}

func (n *Redis) checkEviction(context.Context) Result {
	policy := n.info["maxmemory_policy"]
	limit := n.info["maxmemory"]
	most, _ := strconv.ParseFloat(limit, 64)
	used, _ := strconv.ParseFloat(n.info["used_memory"], 64)

	const nearlyAll = 0.9
	switch {
	case policy == "":
		return n.unknown("INFO", "maxmemory_policy (must be noeviction)")
	case policy == "noeviction" && most > 0 && used > nearlyAll*most:
		return Bad(Warn, "CONFIG SET maxmemory to more, and in redis.conf; redis-cli --memkeys shows what uses it",
			"%.0f %% of maxmemory are used: at the limit Redis refuses purchases and new locks", used/most*100)
	case policy == "noeviction":
		return Good("maxmemory-policy noeviction")
	case limit == "0":
		return Good("maxmemory 0: nothing is evicted (the policy is %s)", policy)
	}

	return Bad(Fail, "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
		"maxmemory-policy %s: when memory runs out, Redis evicts stock, buyers and locks", policy)
}

// checkPersistence reports what a restart loses. The database has every order that was answered 201, and the admission
// gate is always rebuilt from it.
func (n *Redis) checkPersistence(context.Context) Result {
	aof, known := n.info["aof_enabled"]
	switch {
	case !known:
		return n.unknown("INFO", "appendonly")
	case n.Locks:
		return Good("losing locks does not oversell: the database decides")
	case aof != "1" && n.configErr != nil:
		// A managed service, possibly with replicas instead of a file.
		return Bad(Warn, "ask the provider which data survives a failover and a restart of all nodes",
			"appendonly no, and CONFIG is refused: what a restart loses depends on the provider. In lane queue it may be orders that were answered 202")
	case aof != "1" && n.Queue:
		return Bad(Fail, "CONFIG SET appendonly yes, and in redis.conf",
			"appendonly no: a restart loses the queued orders, which were answered 202. The gate is rebuilt from the database")
	case aof != "1":
		return Bad(Warn, "CONFIG SET appendonly yes, and in redis.conf",
			"appendonly no: a restart loses locks and the order ID counter; this lane loses no order")
	}

	switch fsync := n.config["appendfsync"]; fsync {
	case "":
		return n.unknown("CONFIG GET", "appendfsync (should be everysec or always)")
	case "no":
		status := Warn
		if n.Queue {
			status = Fail
		}
		return Bad(status, "CONFIG SET appendfsync everysec, and in redis.conf",
			"appendfsync no: a power failure loses about 30 s of data, queued orders included; the gate is rebuilt")
	default:
		return Good("appendonly yes, appendfsync %s", fsync)
	}
}

func (n *Redis) checkRole(ctx context.Context) Result {
	role := n.info["role"]
	switch {
	case role == "":
		return n.unknown("INFO", "role")
	case role == "master":
		return n.checkMaster(ctx)
	case n.Cluster && !n.Locks:
		return Good("replica, used only to find the masters")
	}

	return Bad(Fail, "name the master ("+net.JoinHostPort(n.info["master_host"], n.info["master_port"])+"), or REPLICAOF NO ONE to make this the master",
		"this is a replica: writes are refused, or lost at the next synchronization")
}

// checkMaster finds a master that refuses writes, as one without its replicas may do, or that nothing can replace.
func (n *Redis) checkMaster(ctx context.Context) Result {
	// Another check reports a node of a cluster that is used as a single server.
	err := redisconn.NodeReady(ctx, n.Client)
	switch {
	case err == nil && (n.Cluster || n.Sentinel) && !n.Locks && n.info["connected_slaves"] == "0":
		return Bad(Warn, "add a replica: REPLICAOF, or redis-cli --cluster add-node --cluster-slave",
			"a master without a replica: while it is down, nothing takes over")
	case err == nil:
		return Good("master")
	case refused(err):
		return FromError(Fail, "redis-cli INFO replication, persistence and memory", "a master that refuses writes: ", err)
	default:
		return Unanswered(err, redisFix(err))
	}
}

func (n *Redis) checkCluster(ctx context.Context) Result {
	enabled := n.info["cluster_enabled"] == "1"
	switch {
	case n.info["cluster_enabled"] == "":
		return n.unknown("INFO", "cluster_enabled")
	case !n.Cluster && enabled:
		return Bad(Fail, "name two or more nodes, SECKILL_REDIS_ADDRS=host1:port,host2:port, so that the program uses a cluster client",
			"this is a cluster node, but the program treats it as a single server: keys of other nodes are refused (MOVED)")
	case !n.Cluster:
		return Good("not a cluster node")
	case !enabled:
		return Bad(Fail, "name one server in SECKILL_REDIS_ADDRS, or create a cluster: redis-cli --cluster create",
			"several addresses mean a cluster, but this server is not a cluster node")
	}

	text, err := n.Client.ClusterInfo(ctx).Result()
	switch {
	case refused(err):
		return FromError(Skipped, "confirm with the provider that all slots are covered", "CLUSTER INFO is refused: ", err)
	case err != nil:
		return Unanswered(err, redisFix(err))
	}

	result := clusterResult(parseInfo(text))
	if result.Status != OK {
		return result
	}

	//nolint:staticcheck // the client's own command, which Redis 6.2 has
	if err := n.Client.ClusterSlots(ctx).Err(); err != nil {
		return FromError(Fail, n.grant("+cluster|slots")+", and CONFIG SET cluster-preferred-endpoint-type ip or hostname",
			"the program cannot read CLUSTER SLOTS, which names the masters: ", err)
	}

	if n.config["cluster-require-full-coverage"] == "yes" {
		return Bad(Warn, "CONFIG SET cluster-require-full-coverage no, and in redis.conf",
			"cluster-require-full-coverage yes: while one master is down, all masters refuse commands, and no sale continues")
	}

	return n.checkOpenSlots(ctx, result)
}

// checkOpenSlots returns the result of a cluster in order, or a warning if this node is giving away or receiving a slot.
func (n *Redis) checkOpenSlots(ctx context.Context, inOrder Result) Result {
	nodes, err := n.Client.ClusterNodes(ctx).Result()
	switch {
	case refused(err):
		return FromError(Skipped, "allow it, or see redis-cli --cluster check: no slot may be open during a sale", "CLUSTER NODES is refused: ", err)
	case err != nil:
		return Unanswered(err, redisFix(err))
	}

	if open := openSlots(nodes); len(open) > 0 {
		return Bad(Warn, "wait for the end of the resharding, or redis-cli --cluster fix. Do not reshard during a sale",
			"slots are being moved (%s): locks and sales in them are refused (TRYAGAIN)", strings.Join(open, ", "))
	}

	return inOrder
}

// openSlots returns the slots that the node which answered CLUSTER NODES gives away ([slot->-node]) or receives
// ([slot-<-node]). A node knows only its own.
func openSlots(nodes string) []string {
	var open []string
	for line := range strings.Lines(nodes) {
		for field := range strings.FieldsSeq(line) {
			slot, _, found := strings.Cut(strings.TrimPrefix(field, "["), "-")
			if found && strings.HasPrefix(field, "[") {
				open = append(open, slot)
			}
		}
	}

	return open
}

// probeScript names a key by a variable, as most scripts of the program do. Those of RedLocks name theirs literally.
const (
	probeScript = "local key = KEYS[1]\nreturn redis.call('EXISTS', key)"
	lockScript  = "return redis.call('EXISTS', KEYS[1])"
	lockKey     = "redlock:doctor"

	// queueScript runs the commands without which lane queue loads no sale and admits no buyer.
	queueScript = "redis.call('TIME')\nreturn redis.call('INFO', 'replication')"
)

// probeKeys have a key of each pattern that the program uses on every server: gates and queues, and ids.
var probeKeys = []string{"seckill:doctor", "icr:doctor", "{icr:doctor}:run"}

// checkScripts runs a script whose keys a server cannot see in its text, with keys like those of the program. Some services
// refuse such scripts, and an ACL user may lack keys.
func (n *Redis) checkScripts(ctx context.Context) Result {
	script := probeScript
	keys := probeKeys
	kind := "a script that names a key by a variable"
	if n.UserLocks {
		keys = append(slices.Clip(keys), lockKey)
	}
	if n.Locks {
		script = lockScript
		keys = []string{lockKey}
		kind = "a script"
	}

	probe := redis.NewScript(script)
	var err error
	for _, key := range keys {
		// The program sends a script once, and its hash from then on.
		err = probe.Eval(ctx, n.Client, []string{key}).Err()
		if err == nil {
			err = probe.EvalSha(ctx, n.Client, []string{key}).Err()
		}

		if err != nil && !redis.HasErrorPrefix(err, "MOVED") {
			kind += " (" + key + ")"
			break
		}
	}

	// The probe reaches one master of a cluster. This script runs on each of them, because each has an ACL of its own.
	if n.Queue && (err == nil || redis.HasErrorPrefix(err, "MOVED")) {
		err = n.Client.Eval(ctx, queueScript, nil).Err()
		if refused(err) {
			return FromError(Fail, n.grant("+info +time")+", if they are not renamed",
				"INFO or TIME in a script is refused, so lane queue accepts no order: ", err)
		}
	}

	switch {
	case err == nil && n.Locks:
		return Good("scripts run, and those of these locks name their keys literally")
	case err == nil:
		return Good("scripts may name keys by variables")
	case redis.HasErrorPrefix(err, "MOVED"):
		return Good("the key of the script is on another node")
	case redis.HasErrorPrefix(err, "CLUSTERDOWN"):
		return Result{Status: Skipped, Found: "the cluster is down: see redis.cluster"}
	case redis.HasErrorPrefix(err, "NOPERM"):
		return FromError(Fail, n.grant("+@scripting ~seckill:* ~icr:* ~{icr:* ~redlock:*"), kind+" is refused: ", err)
	case refused(err):
		return FromError(Fail, "Alibaba Cloud: set script_check_enable to 0. Another service: connect to Redis without its proxy, or use another one",
			kind+" is refused, and the program needs such scripts: ", err)
	default:
		return Unanswered(err, redisFix(err))
	}
}

func (n *Redis) grant(rights string) string {
	return "ACL SETUSER " + cmp.Or(n.Client.Options().Username, "default") + " " + rights
}

// checkChannels uses a channel of each kind, without messages for others. Since Redis 7 a new user may use no channel.
func (n *Redis) checkChannels(ctx context.Context) Result {
	if n.Locks {
		return Good("these locks use no channel")
	}

	for _, channel := range []string{"seckill:doctor", "lock:doctor"} {
		err := n.Client.Publish(ctx, channel, "").Err()
		if err == nil {
			subscription := n.Client.Subscribe(ctx, channel)
			_, err = subscription.Receive(ctx)
			_ = subscription.Close()
		}

		switch {
		case err == nil:
		case refused(err):
			return FromError(Warn, n.grant("&seckill:* &lock:* +@pubsub"),
				"channel "+channel+" is refused: results of queued orders and changes of sales reach other servers late, and no waiter for a lock is woken: ", err)
		default:
			return Unanswered(err, redisFix(err))
		}
	}

	return Good("channels can be used")
}

const clusterSlots = 16384

func clusterResult(info map[string]string) Result {
	const change = "redis-cli --cluster check, then --cluster fix"
	if info["cluster_state"] != "ok" {
		return Bad(Fail, change, "cluster_state:%s, %s of %d slots are served", info["cluster_state"], info["cluster_slots_ok"], clusterSlots)
	}
	if info["cluster_slots_ok"] != strconv.Itoa(clusterSlots) {
		return Bad(Fail, change, "%s of %d slots are served: lane queue cannot sell the vouchers of the other slots", info["cluster_slots_ok"], clusterSlots)
	}
	return Good("cluster_state:ok, all slots are served by %s masters", info["cluster_size"])
}

func (n *Redis) checkPassword(context.Context) Result {
	switch {
	case n.Client.Options().Password != "":
		return Good("password required")
	case IsLoopback(n.Addr):
		return Good("no password, on a loopback address")
	}
	return Bad(Warn, "requirepass in redis.conf and SECKILL_REDIS_PASSWORD (or ACL SETUSER default >password)",
		"no password on %s: anyone with access to the port can change stock", n.Addr)
}

// IsLoopback reports whether an address (host:port) is reachable from this machine only.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "localhost" {
		return err == nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Limits of the clock difference. Leases, stream IDs and the ages of queued orders all use the clock of Redis. Only the
// reconciler's limit of 10 s compares it with the local clock.
const (
	redisSkewWarn = 2 * time.Second
	redisSkewFail = 10 * time.Second
)

func (n *Redis) checkClock(ctx context.Context) Result {
	found, err := measureSkew(ctx, func(ctx context.Context) (time.Time, error) { return n.Client.Time(ctx).Result() })
	switch {
	case refused(err):
		return FromError(Skipped, n.grant("+time, which the locks use"), "TIME is refused: ", err)
	case err != nil:
		return Unanswered(err, redisFix(err))
	}
	return found.result(redisSkewWarn, redisSkewFail, "in lane queue a sale must be open by it, too, and the ages of queued orders are wrong by as much")
}
