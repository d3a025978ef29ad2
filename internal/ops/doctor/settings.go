package doctor

import (
	"bytes"
	"cmp"
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
	"time"
	"unicode"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/domain"
)

// Settings are the validated settings of a server, and facts about this machine. Their checks are reported by seckill doctor,
// and a server refuses to start while one fails that SECKILL_UNSAFE does not name.
type Settings struct {
	// Sign access tokens.
	Secrets domain.Keyring
	// Why Secrets are not known; fs.ErrNotExist means that the first start creates one in DataDir.
	SecretErr error
	// Empty: derived from Secrets.
	PaymentSecrets domain.Keyring
	// The URL of the payment provider; empty: the sandbox.
	PaymentURL string
	// Sign the calls of CodeURL and EventsURL.
	EventsSecrets domain.Keyring
	// Receives login codes; empty: no sender.
	CodeURL string
	// Receives the events of orders; may be empty.
	EventsURL string
	// The DSN of MySQL; empty: the embedded database in DataDir.
	DSN     string
	DataDir string
	Demo    bool
	// The default admin of demo mode.
	DemoAdmin     string
	Admins        []string
	RateLimit     bool
	Proxies       []string
	Addr, OpsAddr string
	PayTimeout    time.Duration
	// Whether the payment sandbox has faults.
	Faults        bool
	Lane          string
	EmbeddedRedis bool
	LockNodes     []string
	// Names of checks whose failure is accepted, as Settings names them.
	Unsafe []string

	// This process runs in a container.
	container bool
	// The addresses of this machine; empty if unknown.
	addresses []netip.Addr
	lookup    func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Group returns the checks, without I/O but for facts about this machine and the resolution of a host name in OpsAddr. A
// server refuses to start while one fails whose name is not in c.Unsafe. An accepted failure becomes a warning with
// Result.Accepted.
func (c Settings) Group() Group {
	return c.onThisMachine().checks()
}

// UnsafeNames returns the names of the Checks, without the prefix "config.".
func UnsafeNames() []string {
	var names []string
	for _, check := range (Settings{}).checks().Checks {
		names = append(names, UnsafeName(check.Name))
	}
	return names
}

// UnsafeName returns the name of a check of the configuration without its prefix.
func UnsafeName(check string) string { return strings.TrimPrefix(check, "config.") }

// onThisMachine returns c with the facts about this machine.
func (c Settings) onThisMachine() Settings {
	// Tests have set the facts.
	if c.lookup != nil {
		return c
	}

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

// checks returns the checks without the facts about this machine.
func (c Settings) checks() Group {
	checks := []Check{
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
		{Name: "config.pay_timeout", Run: c.checkPayTimeout},
		{Name: "config.sandbox", Run: c.checkSandbox},
		{Name: "config.lane", Run: c.checkLane},
	}

	for i, check := range checks {
		if slices.Contains(c.Unsafe, UnsafeName(check.Name)) {
			checks[i].Run = accepted(check.Run)
		}
	}

	return Group{Checks: checks}
}

// accepted returns a check whose failure is a warning.
func accepted(run func(context.Context) Result) func(context.Context) Result {
	return func(ctx context.Context) Result {
		r := run(ctx)
		if r.Status == Fail {
			r.Status = Warn
			r.Accepted = true
		}
		return r
	}
}

// production reports whether to expect real orders: the server is not the embedded demo.
func (c Settings) production() bool { return c.DSN != "" || !c.Demo }

// unsafe is the status of a setting that only the embedded demo may have.
func (c Settings) unsafe() Status {
	if c.production() {
		return Fail
	}
	return Warn
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

func (c Settings) checkSecret(context.Context) Result {
	switch {
	case errors.Is(c.SecretErr, fs.ErrNotExist):
		return Good("the first start creates one in %s", c.DataDir)
	case c.SecretErr != nil:
		return FromError(Fail, "SECKILL_JWT_SECRET"+generateHex, "", c.SecretErr)
	}

	if why := weakest(c.Secrets); why != "" {
		return Bad(Fail, "SECKILL_JWT_SECRET"+generateHex, "the secret can be guessed, which allows forging any user's token: %s", why)
	}
	return strong(c.Secrets)
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

func strong(secrets domain.Keyring) Result {
	if len(secrets) == 1 {
		return Good("%d bytes that look random", len(secrets.Signer()))
	}
	return Good("%d secrets that look random; the first signs", len(secrets))
}

func (c Settings) checkPaymentSecret(context.Context) Result {
	if len(c.PaymentSecrets) == 0 {
		return Good("derived from the token secret")
	}
	return c.checkSharedSecret("SECKILL_PAYMENT_SECRET", c.PaymentSecrets, "a payment provider", "payments")
}

// checkSharedSecret checks the secrets of a setting that another party knows, too.
func (c Settings) checkSharedSecret(setting string, secrets domain.Keyring, party, forged string) Result {
	isTokenSecret := func(k domain.Key) bool {
		return c.Secrets.Any(func(s []byte) bool { return bytes.Equal(s, k.Secret) })
	}
	if slices.ContainsFunc(secrets, isTokenSecret) {
		return Bad(Fail, setting+generateHex, "it equals the token secret: %s could forge any user's token", party)
	}

	if why := weakest(secrets); why != "" {
		return Bad(Fail, setting+generateHex, "the secret can be guessed, which allows forging %s: %s", forged, why)
	}
	return strong(secrets)
}

// minPassword is the minimum length of the database password, in bytes. It is shorter than that of secrets, because the
// database slows down guessing.
const minPassword = 8

func (c Settings) checkDatabasePassword(context.Context) Result {
	if c.DSN == "" {
		return Good("not needed: the database is a file")
	}

	dsn, err := mysql.ParseDSN(c.DSN)
	switch {
	case err != nil:
		return Result{Status: Skipped, Found: "SECKILL_MYSQL_DSN is malformed: see database.reachable"}
	case dsn.Net == "unix":
		return Good("not needed: a socket of this machine")
	}

	lower := strings.ToLower(dsn.Passwd)
	known := slices.ContainsFunc(examples, func(word string) bool { return strings.Contains(lower, word) })
	if len(dsn.Passwd) < minPassword || known || dsn.Passwd == dsn.User {
		return Bad(Warn, "ALTER USER ... IDENTIFIED BY the output of openssl rand -hex 16, and SECKILL_MYSQL_DSN",
			"the password in SECKILL_MYSQL_DSN is missing, short, the user's name or an example")
	}

	return Good("%d bytes, not an example", len(dsn.Passwd))
}

func (c Settings) checkDemo(context.Context) Result {
	switch {
	case c.Demo && c.DSN != "":
		return Bad(Fail, "SECKILL_DEMO=false", "demo mode is on with a production database: every caller receives every user's login code")
	case c.Demo && !IsLoopback(c.Addr):
		return Bad(Warn, "SECKILL_DEMO=false, and SECKILL_MYSQL_DSN for a real sale", "demo mode is on: every client can log in as any user")
	case c.Demo:
		return Good("on, for this machine only")
	}
	return Good("off")
}

func (c Settings) checkCodes(context.Context) Result {
	switch {
	case c.CodeURL != "":
		if r := c.checkSharedSecret("SECKILL_EVENTS_SECRET", c.EventsSecrets, "the sender of login codes", "requests to send codes"); r.Status != OK {
			return r
		}
		return Good("login codes are sent to SECKILL_CODE_URL")
	case c.Demo:
		return Good("demo mode returns login codes to the caller")
	}

	return Bad(Fail, "SECKILL_CODE_URL=https://<your SMS service>, and SECKILL_EVENTS_SECRET",
		"there is no sender of login codes: no user can log in")
}

func (c Settings) checkEvents(context.Context) Result {
	if c.EventsURL == "" {
		return Good("off: SECKILL_EVENTS_URL is not set")
	}
	if r := c.checkSharedSecret("SECKILL_EVENTS_SECRET", c.EventsSecrets, "the receiver of events", "events of orders"); r.Status != OK {
		return r
	}
	return Good("events of orders are sent to SECKILL_EVENTS_URL")
}

func (c Settings) checkAdmins(context.Context) Result {
	if len(c.Admins) == 0 {
		return Bad(Warn, "SECKILL_ADMIN_PHONES=<your number>", "there is no admin: sales cannot be published or changed")
	}
	for _, phone := range c.Admins {
		if phone == c.DemoAdmin && !c.Demo {
			return Bad(Fail, "SECKILL_ADMIN_PHONES=<your number>", "%s is the admin of demo mode; the number may belong to a stranger", c.DemoAdmin)
		}
	}
	return Good("admins: %d", len(c.Admins))
}

func (c Settings) checkRateLimit(context.Context) Result {
	if c.RateLimit {
		return Good("on")
	}
	return Bad(c.unsafe(), "SECKILL_RATE_LIMIT=on", "off: login codes and requests are unlimited")
}

// Minimum prefix lengths of trusted networks. Wider networks contain more than proxies. Docker's networks are /16.
const (
	minPrefixV4 = 16
	minPrefixV6 = 64
)

// maxTrusted is the largest share of the IPv4 or IPv6 addresses that may be trusted in all. The public IPv6 addresses are
// an eighth of all; private networks are at most a 128th.
const maxTrusted = 1.0 / 16

func (c Settings) checkProxies(context.Context) Result {
	const change = "SECKILL_TRUSTED_PROXIES=<the addresses of your proxies>"
	networks := c.trustedNetworks()
	wide := slices.DeleteFunc(slices.Clone(networks), func(n netip.Prefix) bool {
		return n.Addr().IsLoopback() || n.Bits() >= minPrefixV6 || n.Addr().Is4() && n.Bits() >= minPrefixV4
	})

	switch {
	case trustedShare(networks) > maxTrusted:
		return Bad(Fail, change, "%s: these networks contain buyers, who choose their own address there, and limits per address have no effect",
			strings.Join(c.Proxies, ", "))
	case len(wide) > 0:
		return Bad(Warn, change, "%v: every machine in this network can choose the client address used by limits and log", wide)
	case len(c.Proxies) == 0 && c.container && !IsLoopback(c.Addr):
		return Bad(Warn, "SECKILL_TRUSTED_PROXIES=<the network of the proxy or of docker>; no change if there is no proxy",
			"none, in a container: behind a proxy all buyers have the proxy's address and share one limit")
	case len(c.Proxies) == 0:
		return Good("none (behind a proxy, set SECKILL_TRUSTED_PROXIES, or all buyers share one limit)")
	}

	return Good("%s", strings.Join(c.Proxies, ", "))
}

// trustedNetworks returns the networks in c.Proxies, the widest first. IPv4 networks in the form of IPv6 are IPv4.
func (c Settings) trustedNetworks() []netip.Prefix {
	var networks []netip.Prefix
	for _, p := range c.Proxies {
		n, err := netip.ParsePrefix(p)
		if err != nil {
			// A single address.
			continue
		}

		if a := n.Addr(); a.Is4In6() && n.Bits() >= 96 {
			n = netip.PrefixFrom(a.Unmap(), n.Bits()-96)
		}

		networks = append(networks, n.Masked())
	}

	slices.SortFunc(networks, func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) })
	return networks
}

// trustedShare returns the share of the IPv4 or of the IPv6 addresses, whichever is larger, that the networks contain
// together. The widest must come first.
func trustedShare(networks []netip.Prefix) float64 {
	// By whether the networks are IPv4.
	share := map[bool]float64{}
	for i, n := range networks {
		// A network that overlaps a wider one is part of it.
		if !slices.ContainsFunc(networks[:i], n.Overlaps) {
			share[n.Addr().Is4()] += math.Exp2(-float64(n.Bits()))
		}
	}
	return max(share[true], share[false])
}

// checkOpsAddr accepts the addresses from which only this machine and its private network can reach the ops port. In a
// container, all addresses only cause a warning if they are private, because the operator decides which ports to publish.
func (c Settings) checkOpsAddr(ctx context.Context) Result {
	const change = "SECKILL_OPS_ADDR=127.0.0.1:9090, or a private address"
	if c.OpsAddr == "" {
		return Good("no private port: neither metrics nor profiles")
	}

	// Valid: checked by Finish.
	host, _, _ := net.SplitHostPort(c.OpsAddr)
	ips := []netip.Addr{netip.IPv6Unspecified()}
	if host != "" {
		var err error
		if ips, err = c.lookup(ctx, "ip", host); err != nil {
			return FromError(c.unsafe(), change, fmt.Sprintf("%q cannot be resolved: ", host), err)
		}
	}

	status := c.unsafe()
	private := !slices.ContainsFunc(ips, isPublic)
	switch {
	case private:
		return Good("%s", c.OpsAddr)
	case c.container && slices.ContainsFunc(ips, netip.Addr.IsUnspecified) && len(c.addresses) > 0 && !slices.ContainsFunc(c.addresses, isPublic):
		status = Warn
	}

	return Bad(status, change, "%s may be reachable from outside: profiles (pprof) reveal memory contents and use CPU time", c.OpsAddr)
}

func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap()
	return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
}

// maxPayTimeout is the longest reasonable SECKILL_PAY_TIMEOUT.
const maxPayTimeout = 2 * time.Hour

func (c Settings) checkPayTimeout(context.Context) Result {
	switch {
	case c.PayTimeout < domain.MinPayTimeout:
		return Bad(Warn, "SECKILL_PAY_TIMEOUT=15m", "%s: payments arrive too late and are refunded", c.PayTimeout)
	case c.PayTimeout > maxPayTimeout:
		return Bad(Warn, "SECKILL_PAY_TIMEOUT=15m", "%s: unpaid units return after the buyers have left", c.PayTimeout)
	}
	return Good("%s", c.PayTimeout)
}

func (c Settings) checkSandbox(context.Context) Result {
	switch {
	case c.PaymentURL != "":
		return Good("not used: payments go to SECKILL_PAYMENT_URL")
	case c.Faults:
		return Bad(c.unsafe(), "unset SECKILL_SANDBOX", "payment faults are configured: delayed, repeated, lost or failed payments")
	case c.production():
		return Bad(Fail, "SECKILL_PAYMENT_URL=https://<your payment service>, and SECKILL_PAYMENT_SECRET: docs/integration.md",
			"the payment provider is the sandbox, which moves no money: every buyer's order becomes paid")
	}

	return Good("no faults; the sandbox moves no money")
}

func (c Settings) checkLane(context.Context) Result {
	switch {
	case c.Lane == "queue" && c.EmbeddedRedis:
		return Bad(Warn, "SECKILL_REDIS_ADDRS of a Redis with appendonly yes, or SECKILL_ORDER_LANE=batch",
			"lane queue with the embedded Redis: a restart loses the queued orders, which were answered 202")
	case c.DSN != "" && c.EmbeddedRedis:
		return Bad(Warn, "SECKILL_REDIS_ADDRS=host:6379", "a production database with the embedded Redis: a second server would not share its locks and messages")
	case c.Lane != "lock" && len(c.LockNodes) > 0:
		return Bad(Warn, "unset SECKILL_LOCK_NODES, or SECKILL_ORDER_LANE=lock",
			"lane %s uses no user locks, but its servers do not start while the lock nodes are down", c.Lane)
	}

	return Good("%s", c.Lane)
}
