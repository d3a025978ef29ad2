package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/redis/go-redis/v9"

	"seckill/internal/app"
	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/lock"
	"seckill/internal/ops/doctor"
	"seckill/internal/repo"
	"seckill/internal/repo/sqldb"
	"seckill/migrations"
)

// discoverTimeout bounds the search for the masters of a cluster before the checks.
const discoverTimeout = 2 * time.Second

// doctorCmd checks what serve would run on. It changes nothing.
type doctorCmd struct {
	JSON      bool `name:"json" help:"Print JSON instead of a table."`
	Strict    bool `help:"Exit with code 1 on warnings as well."`
	Instances int  `default:"1" placeholder:"N" help:"Number of servers, to add up their connections (${default})."`
}

// maxInstances keeps the sums of connections far from the largest integer.
const maxInstances = 10_000

// Run prints a row per check, followed by the change if one is needed.
func (d doctorCmd) Run(e *app.Env) error {
	if d.Instances < 1 || d.Instances > maxInstances {
		return fmt.Errorf("--instances must be between 1 and %d, got %d", maxInstances, d.Instances)
	}

	x := newExamination(e, d.Instances)
	defer x.close()

	report := newDoctorReport(doctor.Run(e.Ctx, x.groups(e.Ctx)), secretsOf(e.Config))
	var err error
	if d.JSON {
		err = report.printJSON(e.Out)
	} else {
		err = report.print(e.Out)
	}

	if err != nil {
		return err
	}

	return report.verdict(d.Strict)
}

// examination holds what the checks read. Opening it accesses the disk, but no server.
type examination struct {
	env       *app.Env
	instances int
	// Nil if storeErr is set.
	store    *repo.Store
	storeErr error
	// For single servers.
	clients []io.Closer
	// The shared of the servers; nil if sharedErr is set or no server runs.
	shared    redis.UniversalClient
	sharedErr error
}

func newExamination(e *app.Env, instances int) *examination {
	x := &examination{env: e, instances: instances}
	x.store, x.storeErr = existingStore(e)
	x.shared, x.sharedErr = app.SharedRedis(e.Config)
	return x
}

func (x *examination) close() {
	for _, c := range x.clients {
		_ = c.Close()
	}

	if x.shared != nil {
		_ = x.shared.Close()
	}

	if x.store != nil {
		_ = x.store.Close()
	}
}

func (x *examination) groups(ctx context.Context) []doctor.Group {
	settings := []doctor.Group{app.SettingsChecks(x.env.Config)}
	return slices.Concat(settings, x.databaseGroups(), x.redisGroups(ctx), x.lockNodeGroups(), []doctor.Group{x.salesGroup()})
}

func (x *examination) databaseGroups() []doctor.Group {
	cfg := x.env.Config
	if cfg.Embedded() {
		s := doctor.SQLite{
			Err:        x.storeErr,
			Dir:        cfg.DataDir,
			Database:   app.DatabaseFile,
			Secrets:    []string{app.SecretFile, app.RedisInfoFile},
			Migrations: knownMigrations("sqlite"),
		}

		if x.store != nil {
			s.Pool = x.store.Pools()["write"]
		}

		return s.Groups()
	}

	if x.storeErr != nil {
		return []doctor.Group{{Reach: doctor.Check{Name: "database.reachable", Run: func(context.Context) doctor.Result {
			return doctor.Unanswered(x.storeErr, "SECKILL_MYSQL_DSN=user:password@tcp(host:3306)/seckill")
		}}}}
	}

	pools := x.store.Pools()

	return []doctor.Group{doctor.MySQL{
		Pool:       pools["write"],
		Conns:      pools["write"].Stats().MaxOpenConnections + pools["read"].Stats().MaxOpenConnections + sqldb.LongLivedConns,
		Migrations: knownMigrations("mysql"),
		Instances:  x.instances,
	}.Group()}
}

func (x *examination) redisGroups(ctx context.Context) []doctor.Group {
	cfg := x.env.Config
	if cfg.EmbeddedRedis() {
		return []doctor.Group{{Reach: doctor.Check{Name: "redis.reachable", Run: x.reachEmbedded}}}
	}

	opts, err := cfg.SharedRedisOptions()
	if err != nil {
		return []doctor.Group{badRedisSetting(err)}
	}

	queue := cfg.OrderLane == "queue"
	userLocks := cfg.OrderLane == "lock" && len(cfg.LockNodes) == 0
	if opts.MasterName != "" {
		master := doctor.Redis{
			Addr:      "master " + opts.MasterName,
			Client:    x.shared.(*redis.Client),
			Sentinel:  true,
			Queue:     queue,
			UserLocks: userLocks,
		}
		return []doctor.Group{doctor.Sentinels(x.sentinels(opts), opts.MasterName), master.Group()}
	}

	addrs := slices.Clone(opts.Addrs)
	cluster := len(opts.Addrs) > 1
	if cluster {
		ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
		defer cancel()

		for _, master := range doctor.Masters(ctx, x.shared) {
			if !slices.Contains(addrs, master) {
				addrs = append(addrs, master)
			}
		}
	}

	var groups []doctor.Group
	for _, addr := range addrs {
		r := x.redis(addr, opts)
		r.Cluster = cluster
		r.Queue = queue
		r.UserLocks = userLocks
		groups = append(groups, r.Group())
	}

	return groups
}

func badRedisSetting(err error) doctor.Group {
	return doctor.Group{Reach: doctor.Check{Name: "redis.reachable", Run: func(context.Context) doctor.Result {
		return doctor.FromError(doctor.Fail, "see SECKILL_REDIS_ADDRS, SECKILL_LOCK_NODES and SECKILL_REDIS_CA", "", err)
	}}}
}

func (x *examination) sentinels(opts *redis.UniversalOptions) map[string]*redis.SentinelClient {
	all := map[string]*redis.SentinelClient{}
	for _, addr := range opts.Addrs {
		o := opts.Simple()
		o.Addr = addr
		o.DB = 0
		o.Username = opts.SentinelUsername
		o.Password = opts.SentinelPassword
		c := redis.NewSentinelClient(o)
		x.clients = append(x.clients, c)
		all[addr] = c
	}

	return all
}

func (x *examination) redis(addr string, opts *redis.UniversalOptions) doctor.Redis {
	o := opts.Simple()
	o.Addr = addr
	c := redis.NewClient(o)
	x.clients = append(x.clients, c)
	return doctor.Redis{Addr: addr, Client: c}
}

func (x *examination) lockNodeGroups() []doctor.Group {
	if len(x.env.Config.ZooKeeperServers()) > 0 {
		return []doctor.Group{{Checks: []doctor.Check{{Name: "locks.ensemble", Run: x.checkEnsemble}}}}
	}

	var nodes []*redis.Client
	var groups []doctor.Group
	for _, node := range x.env.Config.LockNodes {
		opts, err := x.env.Config.RedisOptions(node)
		if err != nil {
			return []doctor.Group{badRedisSetting(err)}
		}

		r := x.redis(opts.Addrs[0], opts)
		r.Locks = true
		nodes = append(nodes, r.Client)
		groups = append(groups, r.Group())
	}

	return append(groups, doctor.LockNodes(nodes))
}

func (x *examination) checkEnsemble(ctx context.Context) doctor.Result {
	servers := x.env.Config.ZooKeeperServers()
	// A third of it is the time for a server that hangs, after which the check asks the next one.
	z, err := lock.NewZooKeeper(servers, lock.WithSessionTimeout(1500*time.Millisecond))
	if err == nil {
		// Its end may take longer than a check.
		x.clients = append(x.clients, z)
		err = z.Ping(ctx)
	}

	switch {
	case err != nil:
		// It may be down as well as hang: the client waits for both.
		r := doctor.FromError(doctor.Fail, "start the servers, and check SECKILL_LOCK_NODES, their logs and the firewalls in between",
			"no answer in time of a leader: ", err)
		r.Unasked = true
		return r
	case len(servers) < 3:
		return doctor.Bad(doctor.Warn, "name at least three servers of an ensemble", "SECKILL_LOCK_NODES names %d: no order is placed while it is down", len(servers))
	}
	return doctor.Good("the leader of the ensemble answers")
}

func (x *examination) reachEmbedded(ctx context.Context) doctor.Result {
	const cure = "restart the server; if no server runs, delete " + app.RedisInfoFile

	switch {
	case x.sharedErr != nil:
		return doctor.Unanswered(x.sharedErr, cure)
	case x.shared == nil:
		return doctor.Result{Status: doctor.Skipped, Found: "Redis is embedded in the server, and no server runs"}
	}

	if err := x.shared.Ping(ctx).Err(); err != nil {
		return doctor.Unanswered(err, cure)
	}
	return doctor.Good("the embedded Redis of the running server answers")
}

func (x *examination) salesGroup() doctor.Group {
	cfg := x.env.Config
	s := doctor.Sales{
		Lane:       cfg.OrderLane,
		PayTimeout: cfg.PayTimeout,
		Admins:     cfg.AdminPhones,
		Demo:       cfg.IsDemo(),
	}

	if secrets, err := app.ExistingSecrets(cfg); err == nil {
		s.Opens = auth.NewSecondFactors(secrets).Opens
	}

	if x.store == nil {
		// All other checks are skipped.
		return s.Group()
	}

	s.Store = x.store
	if x.shared != nil {
		gate := app.NewGate(x.shared, cfg.QueueBacklog, x.store.Voucher, x.env.Log)
		s.Gate = gate
		s.Lag = gate.Lag
	}

	return s.Group()
}

func knownMigrations(dialect string) []int64 {
	// The pattern is constant, and every name begins with a number.
	files, _ := fs.Glob(migrations.FS, dialect+"/*.sql")

	versions := make([]int64, len(files))
	for i, f := range files {
		versions[i], _ = goose.NumericComponent(f)
	}

	return versions
}

func secretsOf(cfg app.Config) []string {
	secrets := cfg.RedisSecrets()
	for _, text := range []string{cfg.JWTSecret, cfg.PaymentSecret, cfg.EventsSecret} {
		for _, k := range domain.ParseKeyring(text) {
			secrets = append(secrets, string(k.Secret))
		}
	}

	if dsn, err := mysql.ParseDSN(cfg.MySQLDSN); err == nil {
		secrets = append(secrets, dsn.Passwd)
	}

	// Shorter ones would mask parts of ordinary words.
	return slices.DeleteFunc(secrets, func(s string) bool { return len(s) < 4 })
}

type doctorReport struct {
	Findings []doctor.Finding `json:"findings"`
	OK       int              `json:"ok"`
	Warnings int              `json:"warnings"`
	Failed   int              `json:"failed"`
	Skipped  int              `json:"skipped"`
	// Failed because a server did not answer.
	Unasked int `json:"unasked"`
}

func newDoctorReport(findings []doctor.Finding, secrets []string) doctorReport {
	r := doctorReport{Findings: findings}
	count := map[doctor.Status]int{}
	for i, f := range r.Findings {
		r.Findings[i].Found = f.Masked(secrets)
		count[f.Status]++
		if f.Unasked {
			r.Unasked++
		}
	}

	r.OK = count[doctor.OK]
	r.Warnings = count[doctor.Warn]
	r.Failed = count[doctor.Fail]
	r.Skipped = count[doctor.Skipped]
	return r
}

func (r doctorReport) printJSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

func (r doctorReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		found := f.Found
		if f.On != "" {
			found = f.On + ": " + found
		}

		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, found)
		if f.Change != "" {
			fmt.Fprintf(w, "\t\t  -> %s\n", f.Change)
		}
	}

	if err := w.Flush(); err != nil {
		return err
	}

	_, err := fmt.Fprintf(out, "%s: %d ok, %s, %d failed, %d skipped\n",
		domain.Count(len(r.Findings), "check"), r.OK, domain.Count(r.Warnings, "warning"), r.Failed, r.Skipped)

	return err
}

func (r doctorReport) verdict(strict bool) error {
	switch {
	case r.Unasked > 0:
		return fmt.Errorf("%s without an answer, %d failed in total; docs/operations.md explains each check", domain.Count(r.Unasked, "check"), r.Failed)
	case r.Failed > 0:
		return &exitError{ExitViolation, fmt.Errorf("%s failed; docs/operations.md explains each check", domain.Count(r.Failed, "check"))}
	case strict && r.Warnings > 0:
		return &exitError{ExitViolation, fmt.Errorf("%s, counted as a failure by --strict; docs/operations.md explains each check", domain.Count(r.Warnings, "warning"))}
	}
	return nil
}
