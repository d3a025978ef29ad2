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

// configFacts are a configuration, which finish found usable, and what it stands on.
type configFacts struct {
	app.Config
	secret    []byte // that signs the tokens; nil: the first start makes one
	secretErr error
	container bool // this process runs in one
	// addresses are those of this machine, lookup asks its resolver.
	addresses []netip.Addr
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
}

func newConfigFacts(cfg app.Config) configFacts {
	f := configFacts{Config: cfg, lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	f.secret, f.secretErr = []byte(cfg.JWTSecret), nil
	if cfg.JWTSecret == "" && !cfg.Embedded() {
		_, f.secretErr = app.SigningSecret(cfg) // says that it is required; makes nothing
	} else if cfg.JWTSecret == "" {
		f.secret, f.secretErr = app.ReadSecret(filepath.Join(cfg.DataDir, app.SecretFile))
	}
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			f.container = true
		}
	}
	f.container = f.container || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	addrs, _ := net.InterfaceAddrs() // none: no address is known to be ours, and none is complained of
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			f.addresses = append(f.addresses, p.Addr())
		}
	}
	return f
}

// real says that this is not for playing: others' money and orders are in the database.
func (f configFacts) real() bool { return !f.Embedded() }

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

// leastEntropy of a secret, in bits by its letters. That measure tells less than there is: a short text never shows all
// letters equally often, so that openssl rand -hex 16, which has 128 bits, shows about 116, and the worst
// of 200,000 showed 90.
const leastEntropy = 80

// phrase is a text of words as people write them; of leastWords, thrown with dice, nobody guesses it.
var phrase = regexp.MustCompile(`^[A-Za-z]?[a-z]*([ ._-]+[A-Za-z]?[a-z]*)+$`)

const leastWords = 10

// examples are words that random secrets practically never hold and those of people, documents and tests do.
var examples = []string{"secret", "password", "passwd", "changeme", "change-me", "example", "seckill", "123456", "abcdef", "qwerty"}

// weakness says why a secret can be guessed; empty if it looks random.
func weakness(secret string) string {
	lower := strings.ToLower(secret)
	for _, word := range examples {
		if strings.Contains(lower, word) {
			return fmt.Sprintf("it holds the word %q, as examples do", word)
		}
	}
	if words := len(strings.FieldsFunc(secret, func(r rune) bool { return !unicode.IsLetter(r) })); phrase.MatchString(secret) && words < leastWords {
		return fmt.Sprintf("it is a phrase of %d words", words)
	}
	if bits := entropy(secret); bits < leastEntropy {
		return fmt.Sprintf("it has about %.0f bits of entropy by its letters, at least %d are needed", bits, leastEntropy)
	}
	return ""
}

// entropy is that of independent letters with the frequencies of the text. Of a text that repeats itself, its beginning
// is all there is to guess.
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

// makeRandom makes one that is good, after the name of its setting.
const makeRandom = "=$(openssl rand -hex 32), the same on every server"

func (f configFacts) checkSecret(context.Context) doctor.Result {
	switch {
	case errors.Is(f.secretErr, fs.ErrNotExist):
		return doctor.Good("the first start makes one in %s", f.DataDir)
	case f.secretErr != nil:
		return doctor.Heard(doctor.Fail, "SECKILL_JWT_SECRET"+makeRandom, "", f.secretErr)
	}
	if why := weakness(string(f.secret)); why != "" {
		return doctor.Bad(doctor.Fail, "SECKILL_JWT_SECRET"+makeRandom, "the secret can be guessed, and with it everybody's token be made: %s", why)
	}
	return doctor.Good("%d bytes that look random", len(f.secret))
}

func (f configFacts) checkPaymentSecret(context.Context) doctor.Result {
	switch why := weakness(f.PaymentSecret); {
	case f.PaymentSecret == "":
		return doctor.Good("derived from the secret of the tokens")
	case f.PaymentSecret == string(f.secret):
		return doctor.Bad(doctor.Fail, "SECKILL_PAYMENT_SECRET"+makeRandom, "it is the secret of the tokens: whoever signs payments can log in as anybody")
	case why != "":
		return doctor.Bad(doctor.Fail, "SECKILL_PAYMENT_SECRET"+makeRandom, "the secret can be guessed, and with it payments be forged: %s", why)
	}
	return doctor.Good("%d bytes that look random", len(f.PaymentSecret))
}

// leastPassword is what a password of the database should have; the server slows guessing down.
const leastPassword = 8

func (f configFacts) checkDatabasePassword(context.Context) doctor.Result {
	if f.Embedded() {
		return doctor.Good("none is needed: the database is a file")
	}
	dsn, err := mysql.ParseDSN(f.MySQLDSN)
	switch {
	case err != nil:
		return doctor.Result{Status: doctor.Skipped, Found: "SECKILL_MYSQL_DSN cannot be read: see database.reachable"}
	case dsn.Net == "unix":
		return doctor.Good("a socket of this machine")
	}
	lower := strings.ToLower(dsn.Passwd)
	known := slices.ContainsFunc(examples, func(word string) bool { return strings.Contains(lower, word) })
	if len(dsn.Passwd) < leastPassword || known || dsn.Passwd == dsn.User {
		return doctor.Bad(doctor.Warn, "ALTER USER ... IDENTIFIED BY the output of openssl rand -hex 16, and SECKILL_MYSQL_DSN",
			"the password in SECKILL_MYSQL_DSN is none, short, the user's name, or that of an example")
	}
	return doctor.Good("%d bytes, of no example", len(dsn.Passwd))
}

func (f configFacts) checkDemo(context.Context) doctor.Result {
	switch {
	case f.IsDemo() && f.real():
		return doctor.Bad(doctor.Fail, "SECKILL_DEMO=false", "the demo is on with a real database: everybody is handed everybody's login code")
	case f.IsDemo():
		return doctor.Bad(doctor.Warn, "SECKILL_DEMO=false, and SECKILL_MYSQL_DSN for a real sale", "the demo is on: anybody who reaches the port may log in as anybody")
	}
	return doctor.Good("off; login codes go to the log, until a service.CodeSender is there")
}

func (f configFacts) checkAdmins(context.Context) doctor.Result {
	if len(f.AdminPhones) == 0 {
		return doctor.Bad(doctor.Warn, "SECKILL_ADMIN_PHONES=<your number>", "nobody is an admin: no sale can be published or changed")
	}
	for _, phone := range f.AdminPhones {
		if phone == app.DemoAdmin && !f.IsDemo() {
			return doctor.Bad(doctor.Fail, "SECKILL_ADMIN_PHONES=<your number>", "%s is the demo's admin, a number that somebody else owns", app.DemoAdmin)
		}
	}
	return doctor.Good("admins: %d", len(f.AdminPhones))
}

func (f configFacts) checkRateLimit(context.Context) doctor.Result {
	if f.RateLimit == "on" {
		return doctor.Good("on")
	}
	status := doctor.Fail
	if !f.real() {
		status = doctor.Warn
	}
	return doctor.Bad(status, "SECKILL_RATE_LIMIT=on", "off: login codes can be ordered and requests sent without end")
}

// Networks that are wider than this hold more than proxies. Docker makes /16.
const (
	widestV4 = 16
	widestV6 = 64
)

func (f configFacts) checkProxies(context.Context) doctor.Result {
	var wide []string
	for _, p := range f.Proxies {
		network, err := netip.ParsePrefix(p)
		if err != nil {
			continue // a single address
		}
		widest := widestV6
		if network.Addr().Is4() {
			widest = widestV4
		}
		switch {
		case network.Bits() == 0:
			return doctor.Bad(doctor.Fail, "SECKILL_TRUSTED_PROXIES=<the addresses of your proxies>",
				"%s is everybody: each buyer sets his own address, and no limit by address holds", p)
		case network.Bits() < widest && !network.Addr().IsLoopback():
			wide = append(wide, p)
		}
	}
	host, _, _ := net.SplitHostPort(f.Addr) // finish has looked
	switch {
	case len(wide) > 0:
		return doctor.Bad(doctor.Warn, "SECKILL_TRUSTED_PROXIES=<the addresses of your proxies>",
			"%s: every machine in it sets the address that limits and the log see", strings.Join(wide, ", "))
	case len(f.Proxies) == 0 && f.container && !isLoopbackHost(host):
		return doctor.Bad(doctor.Warn, "SECKILL_TRUSTED_PROXIES=<the network of the proxy or of docker>, or leave it if nothing is in front",
			"none, in a container: if a proxy is in front, all buyers have its address and share one limit")
	case len(f.Proxies) == 0:
		return doctor.Good("none: if a proxy is in front, name it, or all buyers share one limit")
	}
	return doctor.Good("%s", strings.Join(f.Proxies, ", "))
}

func isLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// checkAddr asks whether the server could listen, without listening: one may run.
func (f configFacts) checkAddr(ctx context.Context) doctor.Result {
	host, _, _ := net.SplitHostPort(f.Addr) // finish has looked
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
	return doctor.Bad(doctor.Warn, "SECKILL_ADDR=:8080", "%s is no address of this machine: a server could not listen here", f.Addr)
}

func (f configFacts) checkOpsAddr(context.Context) doctor.Result {
	host, _, _ := net.SplitHostPort(f.OpsAddr) // finish has looked
	ip, err := netip.ParseAddr(host)
	switch {
	case f.OpsAddr == "":
		return doctor.Good("no metrics, no profiles")
	case isLoopbackHost(host), err == nil && ip.IsPrivate():
		return doctor.Good("%s", f.OpsAddr)
	}
	return doctor.Bad(doctor.Warn, "SECKILL_OPS_ADDR=127.0.0.1:9090, or a firewall before it",
		"%s may be reached from outside: profiles (pprof) show memory, and take the processor", f.OpsAddr)
}

// Sane times to pay in.
const (
	payTimeoutLeast = time.Minute
	payTimeoutMost  = 2 * time.Hour
)

func (f configFacts) checkPayTimeout(context.Context) doctor.Result {
	switch {
	case f.PayTimeout < payTimeoutLeast:
		return doctor.Bad(doctor.Warn, "SECKILL_PAY_TIMEOUT=15m", "%s: buyers who pay are too late, and their money goes back", f.PayTimeout)
	case f.PayTimeout > payTimeoutMost:
		return doctor.Bad(doctor.Warn, "SECKILL_PAY_TIMEOUT=15m", "%s: units of buyers who never pay come back after the crowd has gone", f.PayTimeout)
	}
	return doctor.Good("%s", f.PayTimeout)
}

func (f configFacts) checkSandbox(context.Context) doctor.Result {
	if f.Sandbox == (payment.Faults{}) {
		return doctor.Good("no faults; the sandbox moves no money, until a service.PaymentProvider is there")
	}
	status := doctor.Fail
	if !f.real() {
		status = doctor.Warn
	}
	return doctor.Bad(status, "unset SECKILL_SANDBOX", "payments are told to be late, doubled, lost or failing")
}

func (f configFacts) checkLane(context.Context) doctor.Result {
	switch {
	case f.OrderLane == "queue" && f.EmbeddedRedis():
		return doctor.Bad(doctor.Warn, "SECKILL_REDIS_ADDRS of a Redis with appendonly yes, or SECKILL_ORDER_LANE=batch",
			"queue on the Redis inside the process: a restart forgets the orders that wait, whose buyers were answered 202")
	case f.real() && f.EmbeddedRedis():
		return doctor.Bad(doctor.Warn, "SECKILL_REDIS_ADDRS=host:6379", "a real database, but a Redis inside the process: a second server would not see its locks and messages")
	case f.OrderLane != "lock" && len(f.LockNodes) > 0:
		return doctor.Bad(doctor.Warn, "unset SECKILL_LOCK_NODES, or SECKILL_ORDER_LANE=lock",
			"the lane %s takes no user locks, but its server does not start while the lock nodes are away", f.OrderLane)
	}
	return doctor.Good("%s", f.OrderLane)
}
