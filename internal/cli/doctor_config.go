package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/app"
	"seckill/internal/doctor"
	"seckill/internal/payment"
)

// configFacts is a configuration validated by Config.Finish, with the facts about this machine that its checks need.
type configFacts struct {
	app.Config
	secret    []byte // signs access tokens; nil: the first start creates one
	secretErr error
	container bool         // this process runs in a container
	addresses []netip.Addr // of this machine; empty if unknown
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
}

func newConfigFacts(cfg app.Config) configFacts {
	f := configFacts{Config: cfg, lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	f.secret, f.secretErr = []byte(cfg.JWTSecret), nil
	if cfg.JWTSecret == "" && !cfg.Embedded() {
		_, f.secretErr = app.SigningSecret(cfg) // returns the error for a missing secret; creates nothing
	} else if cfg.JWTSecret == "" {
		f.secret, f.secretErr = app.ReadSecret(filepath.Join(cfg.DataDir, app.SecretFile))
	}
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			f.container = true
		}
	}
	f.container = f.container || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	addrs, _ := net.InterfaceAddrs() // without them checkAddr warns about any address but loopback
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			f.addresses = append(f.addresses, p.Addr())
		}
	}
	return f
}

// production reports whether to expect real orders: the database is not the embedded one.
func (f configFacts) production() bool { return !f.Embedded() }

func (f configFacts) group() doctor.Group {
	var g doctor.Group
	for _, c := range []struct {
		name string
		run  func(configFacts, context.Context) doctor.Result
	}{
		{"config.jwt_secret", configFacts.checkSecret},
		{"config.payment_secret", configFacts.checkPaymentSecret},
		{"config.database_password", configFacts.checkDatabasePassword},
		{"config.demo", configFacts.checkDemo},
		{"config.admins", configFacts.checkAdmins},
		{"config.rate_limit", configFacts.checkRateLimit},
		{"config.proxies", configFacts.checkProxies},
		{"config.addr", configFacts.checkAddr},
		{"config.ops_addr", configFacts.checkOpsAddr},
		{"config.pay_timeout", configFacts.checkPayTimeout},
		{"config.sandbox", configFacts.checkSandbox},
		{"config.lane", configFacts.checkLane},
	} {
		g.Checks = append(g.Checks, doctor.Check{Name: c.name, Run: func(ctx context.Context) doctor.Result { return c.run(f, ctx) }})
	}
	return g
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

// weakness returns why a secret can be guessed, or "" if it looks random.
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

func (f configFacts) checkSecret(context.Context) doctor.Result {
	switch {
	case errors.Is(f.secretErr, fs.ErrNotExist):
		return doctor.Good("the first start creates one in %s", f.DataDir)
	case f.secretErr != nil:
		return doctor.Heard(doctor.Fail, "SECKILL_JWT_SECRET"+generateHex, "", f.secretErr)
	}
	if why := weakness(string(f.secret)); why != "" {
		return doctor.Bad(doctor.Fail, "SECKILL_JWT_SECRET"+generateHex, "the secret can be guessed, which allows forging any user's token: %s", why)
	}
	return doctor.Good("%d bytes that look random", len(f.secret))
}

func (f configFacts) checkPaymentSecret(context.Context) doctor.Result {
	switch why := weakness(f.PaymentSecret); {
	case f.PaymentSecret == "":
		return doctor.Good("derived from the token secret")
	case f.PaymentSecret == string(f.secret):
		return doctor.Bad(doctor.Fail, "SECKILL_PAYMENT_SECRET"+generateHex, "it equals the token secret: a payment provider could forge any user's token")
	case why != "":
		return doctor.Bad(doctor.Fail, "SECKILL_PAYMENT_SECRET"+generateHex, "the secret can be guessed, which allows forging payments: %s", why)
	}
	return doctor.Good("%d bytes that look random", len(f.PaymentSecret))
}

// minPassword is the minimum length of the database password, in bytes. It is shorter than that of secrets, because the
// database slows down guessing.
const minPassword = 8

func (f configFacts) checkDatabasePassword(context.Context) doctor.Result {
	if f.Embedded() {
		return doctor.Good("not needed: the database is a file")
	}
	dsn, err := mysql.ParseDSN(f.MySQLDSN)
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

func (f configFacts) checkDemo(context.Context) doctor.Result {
	switch {
	case f.IsDemo() && f.production():
		return doctor.Bad(doctor.Fail, "SECKILL_DEMO=false", "demo mode is on with a production database: every caller receives every user's login code")
	case f.IsDemo():
		return doctor.Bad(doctor.Warn, "SECKILL_DEMO=false, and SECKILL_MYSQL_DSN for a real sale", "demo mode is on: every client can log in as any user")
	}
	return doctor.Good("off; login codes are written to the log until an auth.CodeSender is supplied")
}

func (f configFacts) checkAdmins(context.Context) doctor.Result {
	if len(f.AdminPhones) == 0 {
		return doctor.Bad(doctor.Warn, "SECKILL_ADMIN_PHONES=<your number>", "there is no admin: sales cannot be published or changed")
	}
	for _, phone := range f.AdminPhones {
		if phone == app.DemoAdmin && !f.IsDemo() {
			return doctor.Bad(doctor.Fail, "SECKILL_ADMIN_PHONES=<your number>", "%s is the admin of demo mode; the number may belong to a stranger", app.DemoAdmin)
		}
	}
	return doctor.Good("admins: %d", len(f.AdminPhones))
}

func (f configFacts) checkRateLimit(context.Context) doctor.Result {
	if f.RateLimit == "on" {
		return doctor.Good("on")
	}
	status := doctor.Fail
	if !f.production() {
		status = doctor.Warn
	}
	return doctor.Bad(status, "SECKILL_RATE_LIMIT=on", "off: login codes and requests are unlimited")
}

// Minimum prefix lengths of trusted networks. Wider networks contain more than proxies. Docker's networks are /16.
const (
	minPrefixV4 = 16
	minPrefixV6 = 64
)

func (f configFacts) checkProxies(context.Context) doctor.Result {
	var wide []string
	for _, p := range f.Proxies {
		network, err := netip.ParsePrefix(p)
		if err != nil {
			continue // a single address
		}
		minPrefix := minPrefixV6
		if network.Addr().Is4() {
			minPrefix = minPrefixV4
		}
		switch {
		case network.Bits() == 0:
			return doctor.Bad(doctor.Fail, "SECKILL_TRUSTED_PROXIES=<the addresses of your proxies>",
				"%s contains every client: buyers choose their own address, and limits per address have no effect", p)
		case network.Bits() < minPrefix && !network.Addr().IsLoopback():
			wide = append(wide, p)
		}
	}
	host, _, _ := net.SplitHostPort(f.Addr) // valid: checked by Finish
	switch {
	case len(wide) > 0:
		return doctor.Bad(doctor.Warn, "SECKILL_TRUSTED_PROXIES=<the addresses of your proxies>",
			"%s: every machine in this network can choose the client address used by limits and log", strings.Join(wide, ", "))
	case len(f.Proxies) == 0 && f.container && !isLoopbackHost(host):
		return doctor.Bad(doctor.Warn, "SECKILL_TRUSTED_PROXIES=<the network of the proxy or of docker>; no change if there is no proxy",
			"none, in a container: behind a proxy all buyers have the proxy's address and share one limit")
	case len(f.Proxies) == 0:
		return doctor.Good("none: behind a proxy all buyers would share one limit")
	}
	return doctor.Good("%s", strings.Join(f.Proxies, ", "))
}

func isLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// checkAddr checks whether the server could listen on its address. It does not listen, because a server may be running.
func (f configFacts) checkAddr(ctx context.Context) doctor.Result {
	host, _, _ := net.SplitHostPort(f.Addr) // valid: checked by Finish
	if host == "" {
		return doctor.Good("%s, on all addresses", f.Addr)
	}
	ips, err := f.lookup(ctx, host)
	if err != nil {
		return doctor.Heard(doctor.Fail, "SECKILL_ADDR=:8080, or a name that this machine can resolve", fmt.Sprintf("%q cannot be resolved: ", host), err)
	}
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsLoopback() {
			return doctor.Good("%s", f.Addr)
		}
		for _, ours := range f.addresses {
			if ours.Unmap() == ip.WithZone("") {
				return doctor.Good("%s", f.Addr)
			}
		}
	}
	return doctor.Bad(doctor.Warn, "SECKILL_ADDR=:8080", "%s is not an address of this machine: a server cannot listen on it here", f.Addr)
}

func (f configFacts) checkOpsAddr(context.Context) doctor.Result {
	host, _, _ := net.SplitHostPort(f.OpsAddr) // valid: checked by Finish
	ip, err := netip.ParseAddr(host)
	switch {
	case f.OpsAddr == "":
		return doctor.Good("no private port: neither metrics nor profiles")
	case isLoopbackHost(host), err == nil && ip.IsPrivate():
		return doctor.Good("%s", f.OpsAddr)
	}
	return doctor.Bad(doctor.Warn, "SECKILL_OPS_ADDR=127.0.0.1:9090, or a firewall",
		"%s may be reachable from outside: profiles (pprof) reveal memory contents and use CPU time", f.OpsAddr)
}

// Bounds of a reasonable SECKILL_PAY_TIMEOUT.
const (
	minPayTimeout = time.Minute
	maxPayTimeout = 2 * time.Hour
)

func (f configFacts) checkPayTimeout(context.Context) doctor.Result {
	switch {
	case f.PayTimeout < minPayTimeout:
		return doctor.Bad(doctor.Warn, "SECKILL_PAY_TIMEOUT=15m", "%s: payments arrive too late and are refunded", f.PayTimeout)
	case f.PayTimeout > maxPayTimeout:
		return doctor.Bad(doctor.Warn, "SECKILL_PAY_TIMEOUT=15m", "%s: unpaid units return after the buyers have left", f.PayTimeout)
	}
	return doctor.Good("%s", f.PayTimeout)
}

func (f configFacts) checkSandbox(context.Context) doctor.Result {
	if f.Sandbox == (payment.Faults{}) {
		return doctor.Good("no faults; the sandbox moves no money until a domain.PaymentProvider is supplied")
	}
	status := doctor.Fail
	if !f.production() {
		status = doctor.Warn
	}
	return doctor.Bad(status, "unset SECKILL_SANDBOX", "payment faults are configured: delayed, repeated, lost or failed payments")
}

func (f configFacts) checkLane(context.Context) doctor.Result {
	switch {
	case f.OrderLane == "queue" && f.EmbeddedRedis():
		return doctor.Bad(doctor.Warn, "SECKILL_REDIS_ADDRS of a Redis with appendonly yes, or SECKILL_ORDER_LANE=batch",
			"lane queue with the embedded Redis: a restart loses the queued orders, which were answered 202")
	case f.production() && f.EmbeddedRedis():
		return doctor.Bad(doctor.Warn, "SECKILL_REDIS_ADDRS=host:6379", "a production database with the embedded Redis: a second server would not share its locks and messages")
	case f.OrderLane != "lock" && len(f.LockNodes) > 0:
		return doctor.Bad(doctor.Warn, "unset SECKILL_LOCK_NODES, or SECKILL_ORDER_LANE=lock",
			"lane %s uses no user locks, but its servers do not start while the lock nodes are down", f.OrderLane)
	}
	return doctor.Good("%s", f.OrderLane)
}
