package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"seckill/internal/app"
	"seckill/internal/doctor"
	"seckill/internal/repo"
	"seckill/migrations"
)

// discoverPatience bounds the question for the masters of a cluster, before the checks begin.
const discoverPatience = 2 * time.Second

// pubSubConns is how many connections to a Redis a server holds beside its pool, generously.
const pubSubConns = 8

// doctorCmd looks at what serve would run on. It changes nothing.
type doctorCmd struct {
	JSON      bool `name:"json" help:"Print JSON instead of a table."`
	Strict    bool `help:"Exit 1 on warnings, too."`
	Instances int  `default:"1" placeholder:"N" help:"How many servers will run: their connections are added up (${default})."`
}

// Run prints a row per check, with what to change under those that are not in order.
func (d doctorCmd) Run(e *app.Env) error {
	if d.Instances < 1 {
		return &exitError{ExitUnchecked, fmt.Errorf("--instances must be at least 1, not %d", d.Instances)}
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
		return &exitError{ExitUnchecked, err}
	}
	return report.verdict(d.Strict)
}

// examination is what the checks look at. Opening it asks nobody but the disk.
type examination struct {
	env       *app.Env
	instances int
	store     *repo.Store // nil with an error in storeErr
	storeErr  error
	clients   map[string]*redis.Client // by address, of Redis and lock nodes
	shared    redis.UniversalClient    // what the program would use; nil with an error, or if none runs
	sharedErr error
}

func newExamination(e *app.Env, instances int) *examination {
	x := &examination{env: e, instances: instances, clients: map[string]*redis.Client{}}
	x.store, x.storeErr = existingStore(e)
	if e.Config.EmbeddedRedis() {
		// Looking for a running server would make the file.
		if _, err := os.Stat(filepath.Join(e.Config.DataDir, app.RedisLockFile)); err != nil {
			return x
		}
	}
	x.shared, x.sharedErr = app.SharedRedis(e.Config)
	return x
}

// client connects to one server as the program does.
func (x *examination) client(addr string) *redis.Client {
	c, known := x.clients[addr]
	if !known {
		c = app.OpenRedis(x.env.Config.RedisPassword, addr).(*redis.Client) // one address makes no cluster
		x.clients[addr] = c
	}
	return c
}

func (x *examination) close() {
	for _, c := range x.clients {
		_ = c.Close()
	}
	if x.shared != nil {
		_ = x.shared.Close()
	}
	if x.store != nil {
		_ = x.store.Close() // nothing was written
	}
}

// groups are all checks of this configuration.
func (x *examination) groups(ctx context.Context) []doctor.Group {
	return slices.Concat(
		[]doctor.Group{newConfigFacts(x.env.Config).group()}, []doctor.Group{doctor.ThisMachine().Group()},
		x.databaseGroups(), x.redisGroups(ctx), []doctor.Group{newSalesDoctor(x).group()},
	)
}

func (x *examination) databaseGroups() []doctor.Group {
	cfg := x.env.Config
	if cfg.Embedded() {
		s := doctor.SQLite{
			Err: x.storeErr, Dir: cfg.DataDir, Database: app.DatabaseFile, Secrets: []string{app.SecretFile, app.RedisInfoFile},
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
		Pool: pools["write"], Conns: pools["write"].Stats().MaxOpenConnections + pools["read"].Stats().MaxOpenConnections, Migrations: knownMigrations("mysql"), Instances: x.instances, Now: time.Now,
	}.Group()}
}

func (x *examination) redisGroups(ctx context.Context) []doctor.Group {
	cfg := x.env.Config
	if cfg.EmbeddedRedis() {
		groups := []doctor.Group{{Reach: doctor.Check{Name: "redis.reachable", Run: x.reachEmbedded}}}
		return append(groups, x.lockNodeGroups()...)
	}
	addrs, cluster := slices.Clone(cfg.RedisAddrs), len(cfg.RedisAddrs) > 1
	if cluster {
		seeds := make([]*redis.Client, len(addrs))
		for i, addr := range addrs {
			seeds[i] = x.client(addr)
		}
		ctx, cancel := context.WithTimeout(ctx, discoverPatience)
		defer cancel()
		for _, master := range doctor.Masters(ctx, seeds) {
			if !slices.Contains(addrs, master) {
				addrs = append(addrs, master)
			}
		}
	}
	var groups []doctor.Group
	for _, addr := range addrs {
		r := x.redis(addr)
		r.Cluster, r.Queue = cluster, cfg.OrderLane == "queue"
		groups = append(groups, r.Group())
	}
	return append(groups, x.lockNodeGroups()...)
}

func (x *examination) redis(addr string) doctor.Redis {
	c := x.client(addr)
	return doctor.Redis{
		Addr: addr, Client: c, Password: x.env.Config.RedisPassword != "",
		Instances: x.instances, Conns: c.Options().PoolSize + pubSubConns, Now: time.Now,
	}
}

func (x *examination) lockNodeGroups() []doctor.Group {
	nodes := map[string]*redis.Client{}
	var groups []doctor.Group
	for _, addr := range x.env.Config.LockNodes {
		nodes[addr] = x.client(addr)
		r := x.redis(addr)
		r.Locks = true
		groups = append(groups, r.Group())
	}
	return append(groups, doctor.LockNodes(nodes))
}

// reachEmbedded asks the Redis inside a running server. Nothing about it can be set.
func (x *examination) reachEmbedded(ctx context.Context) doctor.Result {
	const cure = "stop the server and start it again; if nothing of it runs, delete " + app.RedisInfoFile
	switch {
	case x.sharedErr != nil:
		return doctor.Unanswered(x.sharedErr, cure)
	case x.shared == nil:
		return doctor.Result{Status: doctor.Skipped, Found: "Redis is inside the server, and none runs"}
	}
	if err := x.shared.Ping(ctx).Err(); err != nil {
		return doctor.Unanswered(err, cure)
	}
	return doctor.Good("it answers, inside the running server")
}

// knownMigrations are the versions of a dialect's folder.
func knownMigrations(dialect string) []int64 {
	files, err := fs.Glob(migrations.FS, dialect+"/*.sql")
	if err != nil {
		return nil // the pattern is ours
	}
	var versions []int64
	for _, f := range files {
		number, _, _ := strings.Cut(filepath.Base(f), "_")
		if v, err := strconv.ParseInt(number, 10, 64); err == nil {
			versions = append(versions, v)
		}
	}
	return versions
}

// secretsOf are the words of a configuration that must not be printed.
func secretsOf(cfg app.Config) []string {
	secrets := []string{cfg.RedisPassword, cfg.JWTSecret, cfg.PaymentSecret}
	if dsn, err := mysql.ParseDSN(cfg.MySQLDSN); err == nil {
		secrets = append(secrets, dsn.Passwd)
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return len(s) < 4 }) // "a" is in every word
}

// doctorReport is what all checks found.
type doctorReport struct {
	Findings []doctor.Finding `json:"findings"`
	OK       int              `json:"ok"`
	Warnings int              `json:"warnings"`
	Failed   int              `json:"failed"`
	Skipped  int              `json:"skipped"`
	Unasked  int              `json:"unasked"` // of those that failed
}

// newDoctorReport counts, and takes out the secrets that an error of a driver or a server may have brought along.
func newDoctorReport(findings []doctor.Finding, secrets []string) doctorReport {
	r := doctorReport{Findings: findings}
	for i, f := range r.Findings {
		r.Findings[i].Found = f.Masked(secrets)
		*map[doctor.Status]*int{doctor.OK: &r.OK, doctor.Warn: &r.Warnings, doctor.Fail: &r.Failed, doctor.Skipped: &r.Skipped}[f.Status]++
		if f.Unasked {
			r.Unasked++
		}
	}
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
	_, err := fmt.Fprintf(out, "%d checks: %d ok, %d warnings, %d failed, %d skipped\n",
		len(r.Findings), r.OK, r.Warnings, r.Failed, r.Skipped)
	return err
}

// verdict is the exit code with its reason.
func (r doctorReport) verdict(strict bool) error {
	switch {
	case r.Unasked > 0:
		return &exitError{ExitUnchecked, fmt.Errorf("%d checks had no answer, %d failed in all; docs/doctor.md explains each", r.Unasked, r.Failed)}
	case r.Failed > 0:
		return &exitError{ExitViolation, fmt.Errorf("%d checks failed; docs/doctor.md explains each", r.Failed)}
	case strict && r.Warnings > 0:
		return &exitError{ExitViolation, fmt.Errorf("%d warnings, and --strict; docs/doctor.md explains each", r.Warnings)}
	}
	return nil
}
