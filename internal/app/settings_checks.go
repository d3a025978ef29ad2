package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/ops/doctor"
	"seckill/internal/out/payment"
)

// settings are a configuration that Config.Finish has validated, and facts about this machine.
type settings struct {
	Config

	// Sign access tokens.
	secrets domain.Keyring
	// Why they are not known; fs.ErrNotExist means that the first start creates one in DataDir.
	secretErr error
	// This process runs in a container.
	container bool
	// The addresses of this machine; empty if unknown.
	addresses []netip.Addr
	lookup    func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// SettingsChecks returns the checks of a configuration that Config.Finish has validated, which need no server but for the
// resolution of a host name in OpsAddr. A server refuses to start while one fails whose name is not in cfg.Unsafe. An accepted
// failure becomes a warning with Result.Accepted.
func SettingsChecks(cfg Config) doctor.Group {
	c := settings{Config: cfg}
	c.secrets, c.secretErr = ExistingSecrets(cfg)
	return c.onThisMachine().checks()
}

// settingPrefix begins the names of these checks, and is left out where they are accepted.
const settingPrefix = "config."

func unsafeName(check string) string { return strings.TrimPrefix(check, settingPrefix) }

func unsafeNames() []string {
	var names []string
	for _, check := range (settings{}).checks().Checks {
		names = append(names, unsafeName(check.Name))
	}
	return names
}

func (c settings) onThisMachine() settings {
	c.lookup = net.DefaultResolver.LookupNetIP

	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		_, err := os.Stat(mark)
		c.container = c.container || err == nil
	}

	c.container = c.container || os.Getenv("KUBERNETES_SERVICE_HOST") != ""

	// Without them the address of a container counts as public.
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			c.addresses = append(c.addresses, p.Addr())
		}
	}

	return c
}

func (c settings) checks() doctor.Group {
	checks := []doctor.Check{
		{Name: "config.jwt_secret", Run: c.checkSecret},
		{Name: "config.payment_secret", Run: c.checkPaymentSecret},
		{Name: "config.database_password", Run: c.checkDatabasePassword},
		{Name: "config.demo", Run: c.checkDemo},
		{Name: "config.codes", Run: c.checkCodes},
		{Name: "config.events", Run: c.checkEvents},
		{Name: "config.admins", Run: c.checkAdmins},
		{Name: "config.rate_limit", Run: c.checkRateLimit},
		{Name: "config.proxies", Run: c.checkProxies},
		{Name: "config.ops_addr", Run: c.checkOpsAddr},
		{Name: "config.sandbox", Run: c.checkSandbox},
		{Name: "config.lane", Run: c.checkLane},
	}

	for i, check := range checks {
		if slices.Contains(c.Unsafe, unsafeName(check.Name)) {
			checks[i].Run = accepted(check.Run)
		}
	}

	return doctor.Group{Checks: checks}
}

func accepted(run func(context.Context) doctor.Result) func(context.Context) doctor.Result {
	return func(ctx context.Context) doctor.Result {
		r := run(ctx)
		if r.Status == doctor.Fail {
			r.Status = doctor.Warn
			r.Accepted = true
		}
		return r
	}
}

func (c settings) unsafe() doctor.Status {
	if !c.embeddedDemo() {
		return doctor.Fail
	}
	return doctor.Warn
}

// minEntropy is the minimum of entropy(secret), in bits. The estimate is low for short texts, in which the letters are
// unevenly frequent by chance: the output of openssl rand -hex 16 has 128 bits and an estimate of about 116. The lowest
// of 200,000 samples was 90.
const minEntropy = 80

// phrase matches words separated by spaces or punctuation. A phrase of minWords random words is strong enough.
var phrase = regexp.MustCompile(`^[A-Za-z]?[a-z]*([ ._-]+[A-Za-z]?[a-z]*)+$`)

const minWords = 10

// examples are words that appear in invented and example secrets, and practically never in random ones.
var examples = []string{"secret", "password", "passwd", "changeme", "change-me", "example", "seckill", "123456", "abcdef", "qwerty"}

func weakness(secret string) string {
	lower := strings.ToLower(secret)
	for _, word := range examples {
		if strings.Contains(lower, word) {
			return fmt.Sprintf("it contains the word %q", word)
		}
	}

	if words := len(strings.FieldsFunc(secret, func(r rune) bool { return !unicode.IsLetter(r) })); phrase.MatchString(secret) && words < minWords {
		return fmt.Sprintf("it is a phrase of %d words", words)
	}
	if bits := entropy(secret); bits < minEntropy {
		return fmt.Sprintf("it has about %.0f bits of entropy by its letters; at least %d are required", bits, minEntropy)
	}

	return ""
}

// entropy estimates the entropy of a text, in bits, as that of independent letters with the frequencies in the text. Of
// a text that repeats a prefix, only the prefix counts.
func entropy(text string) float64 {
	for period := 1; period < len(text); period++ {
		if strings.HasPrefix(text, text[period:]) {
			text = text[:period]
			break
		}
	}

	counts := map[rune]float64{}
	n := 0.0
	for _, r := range text {
		counts[r]++
		n++
	}

	bits := 0.0
	for _, c := range counts {
		bits -= c * math.Log2(c/n)
	}

	return bits
}

// generateHex follows the name of a setting in the change that a check proposes.
const generateHex = "=$(openssl rand -hex 32), the same on every server"

func (c settings) checkSecret(context.Context) doctor.Result {
	switch {
	case errors.Is(c.secretErr, fs.ErrNotExist):
		return doctor.Good("the first start creates one in %s", c.DataDir)
	case c.secretErr != nil:
		return doctor.FromError(doctor.Fail, "SECKILL_JWT_SECRET"+generateHex, "", c.secretErr)
	}

	if why := weakest(c.secrets); why != "" {
		return doctor.Bad(doctor.Fail, "SECKILL_JWT_SECRET"+generateHex, "the secret can be guessed, which allows forging any user's token: %s", why)
	}
	return strong(c.secrets)
}

// weakest returns why one of the secrets can be guessed, or "" if all look random. The old ones count as well, because
// what they sign is accepted.
func weakest(secrets domain.Keyring) string {
	for _, k := range secrets {
		if why := weakness(string(k.Secret)); why != "" {
			return why
		}
	}
	return ""
}

func strong(secrets domain.Keyring) doctor.Result {
	if len(secrets) == 1 {
		return doctor.Good("%d bytes that look random", len(secrets.Signer()))
	}
	return doctor.Good("%d secrets that look random; the first signs", len(secrets))
}

func (c settings) checkPaymentSecret(context.Context) doctor.Result {
	if c.PaymentSecret == "" {
		return doctor.Good("derived from the token secret")
	}

	const setting = "SECKILL_PAYMENT_SECRET"
	secrets := domain.ParseKeyring(c.PaymentSecret)
	r := c.checkSharedSecret(setting, secrets, "a payment provider", "payments")
	if r.Status == doctor.OK && haveCommonSecret(secrets, domain.ParseKeyring(c.EventsSecret)) {
		return doctor.Bad(doctor.Warn, setting+generateHex, "it equals SECKILL_EVENTS_SECRET: the receivers of codes, events and alerts could forge payments")
	}
	return r
}

func haveCommonSecret(a, b domain.Keyring) bool {
	return slices.ContainsFunc(a, func(k domain.Key) bool {
		return b.Any(func(secret []byte) bool { return bytes.Equal(secret, k.Secret) })
	})
}

func (c settings) checkSharedSecret(setting string, secrets domain.Keyring, party, forged string) doctor.Result {
	if haveCommonSecret(secrets, c.secrets) {
		return doctor.Bad(doctor.Fail, setting+generateHex, "it equals the token secret: %s could forge any user's token", party)
	}

	if why := weakest(secrets); why != "" {
		return doctor.Bad(doctor.Fail, setting+generateHex, "the secret can be guessed, which allows forging %s: %s", forged, why)
	}
	return strong(secrets)
}

// minPassword is the minimum length of the database password, in bytes. It is shorter than that of secrets, because the
// database slows down guessing.
const minPassword = 8

func (c settings) checkDatabasePassword(context.Context) doctor.Result {
	if c.MySQLDSN == "" {
		return doctor.Good("not needed: the database is a file")
	}

	dsn, err := mysql.ParseDSN(c.MySQLDSN)
	switch {
	case err != nil:
		return doctor.Result{Status: doctor.Skipped, Found: "SECKILL_MYSQL_DSN is malformed: see database.reachable"}
	case dsn.Net == "unix":
		return doctor.Good("not needed: a socket of this machine")
	}

	lower := strings.ToLower(dsn.Passwd)
	known := slices.ContainsFunc(examples, func(word string) bool { return strings.Contains(lower, word) })
	if len(dsn.Passwd) < minPassword || known || dsn.Passwd == dsn.User {
		return doctor.Bad(doctor.Warn, "ALTER USER ... IDENTIFIED BY the output of openssl rand -hex 16, and SECKILL_MYSQL_DSN",
			"the password in SECKILL_MYSQL_DSN is missing, short, the user's name or an example")
	}

	return doctor.Good("%d bytes, not an example", len(dsn.Passwd))
}

func (c settings) checkDemo(context.Context) doctor.Result {
	switch {
	case c.IsDemo() && c.MySQLDSN != "":
		return doctor.Bad(doctor.Fail, "SECKILL_DEMO=false", "demo mode is on with a production database: every caller receives every user's login code")
	case c.IsDemo() && !doctor.IsLoopback(c.Addr):
		return doctor.Bad(doctor.Warn, "SECKILL_DEMO=false, and SECKILL_MYSQL_DSN for a real sale", "demo mode is on: every client can log in as any user")
	case c.IsDemo():
		return doctor.Good("on, for this machine only")
	}
	return doctor.Good("off")
}

func (c settings) checkCodes(context.Context) doctor.Result {
	switch {
	case c.CodeURL != "":
		if r := c.checkSharedSecret("SECKILL_EVENTS_SECRET", domain.ParseKeyring(c.EventsSecret), "the sender of login codes", "requests to send codes"); r.Status != doctor.OK {
			return r
		}
		return doctor.Good("login codes are sent to SECKILL_CODE_URL")
	case c.IsDemo():
		return doctor.Good("demo mode returns login codes to the caller")
	}

	return doctor.Bad(doctor.Fail, "SECKILL_CODE_URL=https://<your SMS service>, and SECKILL_EVENTS_SECRET",
		"there is no sender of login codes: no user can log in")
}

func (c settings) checkEvents(context.Context) doctor.Result {
	if c.EventsURL == "" && c.AlertURL == "" {
		return doctor.Good("off: neither SECKILL_EVENTS_URL nor SECKILL_ALERT_URL is set")
	}
	if r := c.checkSharedSecret("SECKILL_EVENTS_SECRET", domain.ParseKeyring(c.EventsSecret), "the receiver", "events of orders, and alerts"); r.Status != doctor.OK {
		return r
	}

	switch {
	case c.AlertURL == "":
		return doctor.Good("events of orders are sent to SECKILL_EVENTS_URL")
	case c.EventsURL == "":
		return doctor.Good("alerts are sent to SECKILL_ALERT_URL")
	}
	return doctor.Good("events of orders are sent to SECKILL_EVENTS_URL, alerts to SECKILL_ALERT_URL")
}

func (c settings) checkAdmins(context.Context) doctor.Result {
	if len(c.AdminPhones) == 0 {
		return doctor.Bad(doctor.Warn, "SECKILL_ADMIN_PHONES=<your number>", "there is no admin: sales cannot be published or changed")
	}
	if slices.Contains(c.AdminPhones, DemoAdmin) && !c.IsDemo() {
		return doctor.Bad(doctor.Fail, "SECKILL_ADMIN_PHONES=<your number>", "%s is the admin of demo mode; the number may belong to a stranger", DemoAdmin)
	}
	return doctor.Good("admins: %d", len(c.AdminPhones))
}

func (c settings) checkRateLimit(context.Context) doctor.Result {
	if c.RateLimit == "on" {
		return doctor.Good("on")
	}
	return doctor.Bad(c.unsafe(), "SECKILL_RATE_LIMIT=on", "off: login codes and requests are unlimited")
}

// Prefix lengths of trusted networks. Networks below the shortest, that of the widest private networks, contain buyers;
// those below the usual contain more than proxies. Docker's networks are /16.
const (
	shortestV4, usualV4 = 8, 16
	shortestV6, usualV6 = 7, 64
)

func (c settings) checkProxies(context.Context) doctor.Result {
	const change = "SECKILL_TRUSTED_PROXIES=<the addresses of your proxies>"
	networks := handler.ParseProxies(c.Proxies)
	public := slices.ContainsFunc(networks, func(n netip.Prefix) bool {
		return n.Bits() < shortestV6 || n.Addr().Is4() && n.Bits() < shortestV4
	})

	wide := slices.DeleteFunc(networks, func(n netip.Prefix) bool {
		return n.Addr().IsLoopback() || n.Bits() >= usualV6 || n.Addr().Is4() && n.Bits() >= usualV4
	})

	switch {
	case public:
		return doctor.Bad(doctor.Fail, change, "%s: these networks contain buyers, who choose their own address there, and limits per address have no effect",
			strings.Join(c.Proxies, ", "))
	case len(wide) > 0:
		return doctor.Bad(doctor.Warn, change, "%v: every machine in this network can choose the client address used by limits and log", wide)
	case len(c.Proxies) == 0 && c.container && !doctor.IsLoopback(c.Addr):
		return doctor.Bad(doctor.Warn, "SECKILL_TRUSTED_PROXIES=<the network of the proxy or of docker>; no change if there is no proxy",
			"none, in a container: behind a proxy all buyers have the proxy's address and share one limit")
	case len(c.Proxies) == 0:
		return doctor.Good("none (behind a proxy, set SECKILL_TRUSTED_PROXIES, or all buyers share one limit)")
	}

	return doctor.Good("%s", strings.Join(c.Proxies, ", "))
}

// checkOpsAddr accepts the addresses from which only this machine and its private network can reach the ops port. In a
// container, all addresses only cause a warning if they are private, because the operator decides which ports to publish.
func (c settings) checkOpsAddr(ctx context.Context) doctor.Result {
	const change = "SECKILL_OPS_ADDR=127.0.0.1:9090, or a private address"
	if c.OpsAddr == "" {
		return doctor.Good("no private port: neither metrics nor profiles")
	}

	// Valid: checked by Finish.
	host, _, _ := net.SplitHostPort(c.OpsAddr)
	ips := []netip.Addr{netip.IPv6Unspecified()}
	if host != "" {
		var err error
		if ips, err = c.lookup(ctx, "ip", host); err != nil {
			return doctor.FromError(c.unsafe(), change, fmt.Sprintf("%q cannot be resolved: ", host), err)
		}
	}

	status := c.unsafe()
	private := !slices.ContainsFunc(ips, isPublic)
	switch {
	case private:
		return doctor.Good("%s", c.OpsAddr)
	case c.container && slices.ContainsFunc(ips, netip.Addr.IsUnspecified) && len(c.addresses) > 0 && !slices.ContainsFunc(c.addresses, isPublic):
		status = doctor.Warn
	}

	return doctor.Bad(status, change, "%s may be reachable from outside: profiles (pprof) reveal memory contents and use CPU time", c.OpsAddr)
}

func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap()
	return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
}

func (c settings) checkSandbox(context.Context) doctor.Result {
	switch {
	case c.PaymentURL != "":
		return doctor.Good("not used: payments go to SECKILL_PAYMENT_URL")
	case c.Sandbox != (payment.Faults{}):
		return doctor.Bad(c.unsafe(), "unset SECKILL_SANDBOX", "payment faults are configured: delayed, repeated, lost or failed payments")
	case !c.embeddedDemo():
		return doctor.Bad(doctor.Fail, "SECKILL_PAYMENT_URL=https://<your payment service>, and SECKILL_PAYMENT_SECRET: docs/integration.md",
			"the payment provider is the sandbox, which moves no money: every buyer's order becomes paid")
	}

	return doctor.Good("no faults; the sandbox moves no money")
}

func (c settings) checkLane(context.Context) doctor.Result {
	switch {
	case c.OrderLane == "queue" && c.EmbeddedRedis():
		return doctor.Bad(doctor.Warn, "SECKILL_REDIS_ADDRS of a Redis with appendonly yes, or SECKILL_ORDER_LANE=batch",
			"lane queue with the embedded Redis: a restart loses the queued orders, which were answered 202")
	case c.MySQLDSN != "" && c.EmbeddedRedis():
		return doctor.Bad(doctor.Warn, "SECKILL_REDIS_ADDRS=host:6379", "a production database with the embedded Redis: a second server would not share its locks and messages")
	}

	return doctor.Good("%s", c.OrderLane)
}
