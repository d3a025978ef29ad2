package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/redisconn"
	"seckill/internal/ops/doctor"
	"seckill/internal/out/payment"
	"seckill/internal/repo/sqldb"
)

// Config is the configuration. Each field is set by a flag or by an environment variable. Empty lists and empty strings
// mean "not set".
type Config struct {
	Addr          string         `env:"SECKILL_ADDR" placeholder:"ADDR" help:"Address of the public port. Empty: 127.0.0.1:8080 in the embedded demo, :8080 otherwise."`
	MySQLDSN      string         `name:"mysql-dsn" file:"" env:"SECKILL_MYSQL_DSN" placeholder:"DSN" help:"MySQL 8 or MariaDB 10.6+: user:password@tcp(host:3306)/seckill. Empty: SQLite in the data directory."`
	DataDir       string         `env:"SECKILL_DATA_DIR" default:"./data" placeholder:"DIR" help:"Directory of the embedded database and the secrets (${default})."`
	RedisAddrs    []string       `env:"SECKILL_REDIS_ADDRS" placeholder:"ADDR" help:"Redis 6.2+: host:port, or redis:// or rediss:// (TLS) URLs with user, password and database; several addresses mean a cluster. Empty: an embedded Redis inside the process."`
	RedisUsername string         `env:"SECKILL_REDIS_USERNAME" placeholder:"USER" help:"ACL user of Redis and of the lock nodes. Empty: the default user."`
	RedisPassword string         `file:"" env:"SECKILL_REDIS_PASSWORD" placeholder:"PASSWORD" help:"Password of Redis and of the lock nodes."`
	RedisSentinel string         `env:"SECKILL_REDIS_SENTINEL" placeholder:"NAME" help:"Name of the master that Redis Sentinel watches. The Redis addresses are then those of Sentinels."`
	RedisCA       string         `name:"redis-ca" env:"SECKILL_REDIS_CA" placeholder:"FILE" help:"PEM file with the certificates that sign those of Redis (rediss://). Empty: the system's."`
	LockNodes     []string       `env:"SECKILL_LOCK_NODES" placeholder:"ADDR" help:"Servers for the user lock: independent Redis servers (Redlock, an odd number), or zk://host:2181,... for ZooKeeper. Empty: the main Redis."`
	OrderLane     string         `env:"SECKILL_ORDER_LANE" default:"lock" enum:"lock,batch,queue" help:"Order mode, how orders reach the database: ${enum} (${default})."`
	QueueBacklog  int            `env:"SECKILL_QUEUE_BACKLOG" default:"100000" placeholder:"N" help:"Lane queue: maximum number of users with waiting orders in each of the 16 streams; further purchases are refused (${default})."`
	JWTSecret     string         `file:"" env:"SECKILL_JWT_SECRET" placeholder:"SECRET" help:"Secret of tokens, passes and redeem codes, at least 32 bytes. Several, newest first, separated by commas or line breaks: the first signs, all verify. Required with MySQL; otherwise generated in the data directory."`
	AdminPhones   []string       `env:"SECKILL_ADMIN_PHONES" placeholder:"PHONE" help:"Phone numbers of the admins. Default in demo mode: 13800000000."`
	SMSCountries  []string       `name:"sms-countries" env:"SECKILL_SMS_COUNTRIES" default:"CN" placeholder:"COUNTRY" help:"Countries whose mobile numbers can log in, as ISO codes such as CN,DE (${default})."`
	Demo          *bool          `env:"SECKILL_DEMO" negatable:"" help:"Demo mode: login codes in a response header, sample shops and vouchers. Default: on with the embedded database, off otherwise."`
	RateLimit     string         `env:"SECKILL_RATE_LIMIT" default:"on" enum:"on,off" help:"Rate limits per address, session and user, and the quotas of login codes: ${enum} (${default}). Off is for load tests."`
	Proxies       []string       `name:"trusted-proxies" env:"SECKILL_TRUSTED_PROXIES" placeholder:"CIDR" help:"Proxies whose X-Forwarded-For and X-Forwarded-Proto, or else Forwarded, are trusted. Empty: none."`
	Timezone      string         `env:"SECKILL_TIMEZONE" default:"Asia/Shanghai" placeholder:"ZONE" help:"Time zone of the hm-dianping pages, whose times have none, and of times in previews of links (${default})."`
	PayTimeout    time.Duration  `env:"SECKILL_PAY_TIMEOUT" default:"15m" placeholder:"DURATION" help:"Time after which an unpaid order is closed (${default})."`
	Retention     time.Duration  `env:"SECKILL_RETENTION" default:"26280h" placeholder:"DURATION" help:"Time after which an account without a login, a session and an order is erased (${default}); 0: never."`
	PaymentSecret string         `file:"" env:"SECKILL_PAYMENT_SECRET" placeholder:"SECRET" help:"Secret that signs the calls of SECKILL_PAYMENT_URL and payment notices, or several as in SECKILL_JWT_SECRET. Empty: derived from SECKILL_JWT_SECRET."`
	PaymentURL    string         `name:"payment-url" env:"SECKILL_PAYMENT_URL" placeholder:"URL" help:"Payment provider with the API of docs/payment-provider.json: https, or http on this machine. Requires SECKILL_PAYMENT_SECRET. Empty: the sandbox, which moves no money."`
	CodeURL       string         `name:"code-url" env:"SECKILL_CODE_URL" placeholder:"URL" help:"Receiver of login codes, which sends them to the phones: https, or http on this machine. Requires SECKILL_EVENTS_SECRET."`
	EventsURL     string         `name:"events-url" env:"SECKILL_EVENTS_URL" placeholder:"URL" help:"Receiver of the events of orders: https, or http on this machine. Requires SECKILL_EVENTS_SECRET. Empty: no events are recorded."`
	AlertURL      string         `name:"alert-url" env:"SECKILL_ALERT_URL" placeholder:"URL" help:"Receiver of the alerts of the console, when they begin and end: https, or http on this machine. Requires SECKILL_EVENTS_SECRET."`
	EventsSecret  string         `file:"" env:"SECKILL_EVENTS_SECRET" placeholder:"SECRET" help:"Secret that signs the calls of SECKILL_CODE_URL, SECKILL_EVENTS_URL and SECKILL_ALERT_URL."`
	Unsafe        []string       `env:"SECKILL_UNSAFE" placeholder:"NAME" help:"Unsafe settings to accept outside the embedded demo, such as demo,sandbox: the names of checks of the doctor, or all. Without it the server refuses to start and names them."`
	Sandbox       payment.Faults `env:"SECKILL_SANDBOX" placeholder:"FAULTS" help:"Faults of the payment sandbox: delay=3s,repeat=2,lose=1,fail,refuse-refunds=2. Empty: none."`
	OpsAddr       string         `env:"SECKILL_OPS_ADDR" placeholder:"ADDR" help:"Address of the private port for /metrics and /debug/pprof, such as 127.0.0.1:9090. Empty: no private port."`
	Drain         *time.Duration `env:"SECKILL_DRAIN" placeholder:"DURATION" help:"Time between a red /readyz and closing the port after SIGTERM. Default: 0 with the embedded database, 5s otherwise."`
	Contact       string         `name:"security-contact" env:"SECKILL_SECURITY_CONTACT" placeholder:"URI" help:"Contact for reports of vulnerabilities, such as mailto:security@example.com, served as /.well-known/security.txt. Empty: no such file."`
	ShopName      string         `env:"SECKILL_SHOP_NAME" placeholder:"NAME" help:"Name of the shop in pages, their titles, previews of links and authenticator apps. Empty: Seckill."`
	ShopLogo      string         `env:"SECKILL_SHOP_LOGO" placeholder:"URL" help:"Picture in the header of the pages."`
	ShopColor     string         `env:"SECKILL_SHOP_COLOR" placeholder:"COLOR" help:"Main colour of the pages, such as #c8340a."`
	ShopImprint   string         `env:"SECKILL_SHOP_IMPRINT" placeholder:"URL" help:"Page about the operator of the shop, linked in the footer."`
	ShopPrivacy   string         `env:"SECKILL_SHOP_PRIVACY" placeholder:"URL" help:"Page about personal data, linked in the footer."`
	LogLevel      slog.Level     `env:"SECKILL_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug (each request), info, warn or error (${default})."`
}

// minRetention refuses settings that would erase the accounts of people who come back, such as 90 for 90 days.
const minRetention = 24 * time.Hour

// defaultDrain is enough for a load balancer that probes every 2 s and drops a server after two failures.
const defaultDrain = 5 * time.Second

// DemoAdmin is the phone number of the admin in demo mode if none is configured.
const DemoAdmin = "13800000000"

// DefaultCountry is the country whose numbers can log in if none is configured.
const DefaultCountry = "CN"

// Embedded reports whether the database is SQLite in the data directory.
func (c Config) Embedded() bool { return c.MySQLDSN == "" }

// EmbeddedRedis reports whether Redis runs inside the process.
func (c Config) EmbeddedRedis() bool { return len(c.RedisAddrs) == 0 }

// IsDemo reports whether demo mode is on.
func (c Config) IsDemo() bool {
	if c.Demo == nil {
		return c.Embedded()
	}
	return *c.Demo
}

// embeddedDemo reports whether the server is a demo on the embedded database, the only one that needs no safe settings.
func (c Config) embeddedDemo() bool { return c.Embedded() && c.IsDemo() }

// OnlyLocal reports whether the server is a demo that listens on a loopback address.
func (c Config) OnlyLocal() bool { return c.IsDemo() && doctor.IsLoopback(c.Addr) }

// zooKeeperScheme begins LockNodes that are ZooKeeper servers.
const zooKeeperScheme = "zk://"

// ZooKeeperServers returns the addresses of the ZooKeeper servers of the user locks, none if Redis has the locks.
func (c Config) ZooKeeperServers() []string {
	if len(c.LockNodes) == 0 || !strings.HasPrefix(c.LockNodes[0], zooKeeperScheme) {
		return nil
	}
	servers := slices.Clone(c.LockNodes)
	servers[0] = strings.TrimPrefix(servers[0], zooKeeperScheme)
	return servers
}

// Finish validates the configuration and returns it with empty list elements removed, phone numbers normalized, and the
// default address and the demo's admin filled in. Its error has one line per broken rule, which names the flag.
func (c Config) Finish() (Config, error) {
	for _, l := range []*[]string{&c.RedisAddrs, &c.LockNodes, &c.AdminPhones, &c.SMSCountries, &c.Proxies, &c.Unsafe} {
		*l = withoutEmpty(*l)
	}

	if c.Addr == "" {
		c.Addr = ":8080"
		if c.embeddedDemo() {
			// Any client can log in as any user.
			c.Addr = "127.0.0.1:8080"
		}
	}

	if c.IsDemo() && len(c.AdminPhones) == 0 {
		c.AdminPhones = []string{DemoAdmin}
	}

	if c.Drain == nil {
		c.Drain = new(time.Duration)
		if !c.Embedded() {
			*c.Drain = defaultDrain
		}
	}

	if len(c.SMSCountries) == 0 {
		c.SMSCountries = []string{DefaultCountry}
	}

	var problems []error
	rule := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("  "+format, args...))
		}
	}

	rule(isAddr(c.Addr), "--addr: %q is not host:port, such as 127.0.0.1:8080", c.Addr)
	rule(c.OpsAddr == "" || isAddr(c.OpsAddr), "--ops-addr: %q is not host:port, such as 127.0.0.1:9090", c.OpsAddr)

	if !c.Embedded() {
		err := sqldb.CheckDSN(c.MySQLDSN)
		rule(err == nil, "--mysql-dsn: %w", err)
	}

	// The errors of the CA are reported below.
	addrsOnly := c
	addrsOnly.RedisCA = ""
	if !c.EmbeddedRedis() {
		_, err := addrsOnly.SharedRedisOptions()
		rule(err == nil, "--redis-addrs: %w", err)
	}

	rule(c.RedisSentinel == "" || !c.EmbeddedRedis(), "--redis-sentinel requires --redis-addrs with the addresses of the Sentinels")
	_, err := redisconn.Roots(c.RedisCA)
	rule(err == nil, "--redis-ca: %w", err)
	rule(c.RedisCA == "" || slices.ContainsFunc(slices.Concat(c.RedisAddrs, c.LockNodes), isTLSAddr),
		"--redis-ca requires a rediss:// URL in --redis-addrs or --lock-nodes")

	zooKeeper := c.ZooKeeperServers()
	nodes := slices.Clone(zooKeeper)
	for _, a := range zooKeeper {
		rule(isAddr(a), "--lock-nodes: %q is not host:port", a)
	}

	for i := 0; len(zooKeeper) == 0 && i < len(c.LockNodes); i++ {
		node, err := parseRedisAddr(c.LockNodes[i])
		rule(err == nil, "--lock-nodes: node %d is %w", i+1, err)
		if err == nil {
			nodes = append(nodes, node.Addr)
		}
	}

	for _, p := range c.Proxies {
		rule(len(handler.ParseProxies([]string{p})) == 1, "--trusted-proxies: %q is neither an address nor a CIDR", p)
	}

	if c.JWTSecret != "" {
		err := auth.CheckSecrets(domain.ParseKeyring(c.JWTSecret))
		rule(err == nil, "--jwt-secret: %w", err)
	}

	rule(c.PaymentSecret == "" || len(domain.ParseKeyring(c.PaymentSecret)) > 0, "--payment-secret has no secret")

	receiver := func(flag, url, secretFlag, secret string) {
		rule(url == "" || isReceiver(url), "--%s is neither an https URL nor an http URL on this machine", flag)
		rule(url == "" || auth.CheckSecrets(domain.ParseKeyring(secret)) == nil,
			"--%s requires --%s with at least %d bytes, which the receiver knows, too: it verifies the signature with it", flag, secretFlag, auth.MinSecret)
	}

	receiver("code-url", c.CodeURL, "events-secret", c.EventsSecret)
	receiver("payment-url", c.PaymentURL, "payment-secret", c.PaymentSecret)
	rule(c.PaymentURL == "" || c.Sandbox == (payment.Faults{}), "--sandbox has no effect with --payment-url")
	receiver("events-url", c.EventsURL, "events-secret", c.EventsSecret)
	receiver("alert-url", c.AlertURL, "events-secret", c.EventsSecret)

	c.Unsafe, err = parseUnsafe(c.Unsafe)
	if err != nil {
		problems = append(problems, err)
	}

	rule(len(zooKeeper) > 0 || len(c.LockNodes) == 0 || len(c.LockNodes)%2 == 1,
		"--lock-nodes: %d nodes; the number must be odd, because an even number tolerates no more failures than one node less", len(c.LockNodes))

	rule(len(slices.Compact(slices.Sorted(slices.Values(nodes)))) == len(nodes),
		"--lock-nodes: a node is listed twice")

	_, err = time.LoadLocation(c.Timezone)
	rule(err == nil, "--timezone: %q is not a time zone name such as Asia/Shanghai", c.Timezone)

	rule(c.PayTimeout >= time.Second && c.PayTimeout <= domain.MaxPayTimeout*time.Second,
		"--pay-timeout: %s is not between a second and a day", c.PayTimeout)
	rule(c.Retention == 0 || c.Retention >= minRetention, "--retention: %s is shorter than %s; 0 erases no account", c.Retention, minRetention)
	rule(*c.Drain >= 0, "--drain: %s is negative", *c.Drain)
	rule(c.Contact == "" || isContact(c.Contact), "--security-contact: %q is not a mailto:, https: or tel: URI", c.Contact)
	rule(utf8.RuneCountInString(c.ShopName) <= maxShopName, "--shop-name: %q is longer than %d characters", c.ShopName, maxShopName)
	rule(c.ShopColor == "" || isColor.MatchString(c.ShopColor), "--shop-color: %q is not a colour such as #c8340a", c.ShopColor)
	page := func(flag, url string) {
		rule(url == "" || isPage(url), "--%s: %q is not an http or https URL", flag, url)
	}

	page("shop-logo", c.ShopLogo)
	page("shop-imprint", c.ShopImprint)
	page("shop-privacy", c.ShopPrivacy)

	rule(c.QueueBacklog >= 1, "--queue-backlog: %d is less than 1", c.QueueBacklog)
	rule(c.DataDir != "", "--data-dir is empty")

	numbers, err := auth.NewPhones(c.SMSCountries)
	rule(err == nil, "--sms-countries: %w", err)
	for i := 0; numbers != nil && i < len(c.AdminPhones); i++ {
		number, _, err := numbers.Parse(c.AdminPhones[i])
		rule(err == nil, "--admin-phones: %q: %w", c.AdminPhones[i], err)
		c.AdminPhones[i] = number
	}

	return c, errors.Join(problems...)
}

func withoutEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		s = strings.TrimSpace(s)
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func isContact(s string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains([]string{"mailto", "https", "tel"}, u.Scheme) && u.Host+u.Opaque != ""
}

// isPage reports whether s is a URL that a browser can open and whose host can be in a Content-Security-Policy.
func isPage(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Hostname() != "" && !strings.ContainsAny(u.Host, ";,") && (u.Scheme == "https" || u.Scheme == "http")
}

var isColor = regexp.MustCompile(`^#[0-9A-Fa-f]{6}$`)

// maxShopName is what a title and the header of a phone can show, in characters.
const maxShopName = 40

func isAddr(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isReceiver reports whether a URL may receive secrets: its scheme is https, or http on a loopback address.
func isReceiver(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return false
	}
	local := doctor.IsLoopback(net.JoinHostPort(u.Hostname(), u.Port()))
	return u.Scheme == "https" || u.Scheme == "http" && local
}
