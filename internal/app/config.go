package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/auth"
	"seckill/internal/payment"
	"seckill/internal/service"
)

// Config is everything that can be set, each by a flag and by one environment variable. Empty lists and empty
// strings mean "not set".
type Config struct {
	Addr          string         `env:"SECKILL_ADDR" default:":8080" placeholder:"ADDR" help:"Where to listen (${default})."`
	MySQLDSN      string         `name:"mysql-dsn" env:"SECKILL_MYSQL_DSN" placeholder:"DSN" help:"MySQL 8 or MariaDB 10.6+: user:password@tcp(host:3306)/seckill. Empty: SQLite in the data directory."`
	DataDir       string         `env:"SECKILL_DATA_DIR" default:"./data" placeholder:"DIR" help:"Where the embedded database and secrets are kept (${default})."`
	RedisAddrs    []string       `env:"SECKILL_REDIS_ADDRS" placeholder:"ADDR" help:"Redis 6.2+ (host:port); several are a cluster. Empty: a Redis inside the process."`
	RedisPassword string         `env:"SECKILL_REDIS_PASSWORD" placeholder:"PASSWORD" help:"Password of Redis and of the lock nodes."`
	LockNodes     []string       `env:"SECKILL_LOCK_NODES" placeholder:"ADDR" help:"Independent Redis servers for the user lock (Redlock, an odd number). Empty: the one Redis."`
	OrderLane     string         `env:"SECKILL_ORDER_LANE" default:"lock" enum:"lock,batch,queue" help:"How orders reach the database: ${enum} (${default})."`
	QueueBacklog  int            `env:"SECKILL_QUEUE_BACKLOG" default:"100000" placeholder:"N" help:"Lane queue: users whose orders may wait in each of the 16 streams for the database; more are refused (${default})."`
	JWTSecret     string         `env:"SECKILL_JWT_SECRET" placeholder:"SECRET" help:"Signs the tokens, at least 32 bytes. Required with MySQL; else generated into the data directory."`
	AdminPhones   []string       `env:"SECKILL_ADMIN_PHONES" placeholder:"PHONE" help:"Users with these phone numbers are admins. In the demo: 13800000000."`
	Demo          *bool          `env:"SECKILL_DEMO" negatable:"" help:"Login codes in the answer's header, sample shops and vouchers. Default: only on the embedded database."`
	RateLimit     string         `env:"SECKILL_RATE_LIMIT" default:"on" enum:"on,off" help:"Limits per address and per user, and the wait between login codes: ${enum} (${default}). Off for load tests only."`
	Proxies       []string       `name:"trusted-proxies" env:"SECKILL_TRUSTED_PROXIES" placeholder:"CIDR" help:"Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed. Empty: nobody's."`
	Timezone      string         `env:"SECKILL_TIMEZONE" default:"Asia/Shanghai" placeholder:"ZONE" help:"Zone of the times without one that the hm-dianping pages read and write (${default})."`
	PayTimeout    time.Duration  `env:"SECKILL_PAY_TIMEOUT" default:"15m" placeholder:"DURATION" help:"How long an order may stay unpaid (${default})."`
	PaymentSecret string         `env:"SECKILL_PAYMENT_SECRET" placeholder:"SECRET" help:"Signs the notices of payment providers. Empty: derived from the secret of the tokens."`
	Sandbox       payment.Faults `env:"SECKILL_SANDBOX" placeholder:"FAULTS" help:"What the sandbox for payments does wrong: delay=3s,repeat=2,lose=1,fail,refuse-refunds=2. Empty: nothing."`
	OpsAddr       string         `env:"SECKILL_OPS_ADDR" placeholder:"ADDR" help:"Private port for /metrics and /debug/pprof, such as 127.0.0.1:9090. Empty: none."`
	LogLevel      slog.Level     `env:"SECKILL_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug (each request), info, warn or error (${default})."`
}

// demoAdmin is the admin of a demo for which none was configured.
const DemoAdmin = "13800000000"

// Embedded says whether the database is the one in the data directory.
func (c Config) Embedded() bool { return c.MySQLDSN == "" }

// EmbeddedRedis says whether Redis runs inside the process.
func (c Config) EmbeddedRedis() bool { return len(c.RedisAddrs) == 0 }

// IsDemo says whether the demo mode is on.
func (c Config) IsDemo() bool {
	if c.Demo == nil {
		return c.Embedded()
	}
	return *c.Demo
}

// Finish checks the configuration, with one message per broken rule, and fills in what follows from the rest.
func (c Config) Finish() (Config, error) {
	for _, l := range []*[]string{&c.RedisAddrs, &c.LockNodes, &c.AdminPhones, &c.Proxies} {
		*l = withoutEmpty(*l)
	}
	var bad []error
	rule := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf("  "+format, args...))
		}
	}
	rule(isAddr(c.Addr), "SECKILL_ADDR: %q is not host:port", c.Addr)
	rule(c.OpsAddr == "" || isAddr(c.OpsAddr), "SECKILL_OPS_ADDR: %q is not host:port", c.OpsAddr)
	for _, a := range c.RedisAddrs {
		rule(isAddr(a), "SECKILL_REDIS_ADDRS: %q is not host:port", a)
	}
	for _, a := range c.LockNodes {
		rule(isAddr(a), "SECKILL_LOCK_NODES: %q is not host:port", a)
	}
	for _, p := range c.Proxies {
		rule(isNetwork(p), "SECKILL_TRUSTED_PROXIES: %q is neither an address nor a CIDR", p)
	}
	rule(c.JWTSecret == "" || len(c.JWTSecret) >= auth.MinSecret,
		"SECKILL_JWT_SECRET has %d bytes, it needs at least %d", len(c.JWTSecret), auth.MinSecret)
	rule(len(c.LockNodes) == 0 || len(c.LockNodes)%2 == 1,
		"SECKILL_LOCK_NODES: %d nodes; an even number survives no more failures than one less", len(c.LockNodes))
	rule(len(slices.Compact(slices.Sorted(slices.Values(c.LockNodes)))) == len(c.LockNodes),
		"SECKILL_LOCK_NODES: a node is named twice, so no lock could ever be had")
	_, err := time.LoadLocation(c.Timezone)
	rule(err == nil, "SECKILL_TIMEZONE: %q is not the name of a time zone, such as Asia/Shanghai", c.Timezone)
	rule(c.PayTimeout >= time.Second, "SECKILL_PAY_TIMEOUT: %s is shorter than a second", c.PayTimeout)
	rule(c.QueueBacklog >= 1, "SECKILL_QUEUE_BACKLOG: %d is less than 1", c.QueueBacklog)
	rule(c.DataDir != "", "SECKILL_DATA_DIR is empty")
	for i, p := range c.AdminPhones {
		phone, err := service.ParsePhone(p)
		rule(err == nil, "SECKILL_ADMIN_PHONES: %q is not a phone number", p)
		c.AdminPhones[i] = phone
	}
	if c.IsDemo() && len(c.AdminPhones) == 0 {
		c.AdminPhones = []string{DemoAdmin}
	}
	return c, errors.Join(bad...)
}

func withoutEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func isAddr(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func isNetwork(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}
