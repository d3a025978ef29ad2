package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/ops/doctor"
	"seckill/test/env"
)

func TestReceiverMustBeConfidential(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://sms.example/codes": true, "http://127.0.0.1:9": true, "http://localhost/x": true, "http://[::1]:9": true,
		"http://sms.example": false, "http://10.0.0.1": false, "ftp://127.0.0.1": false, "sms.example": false, "https://": false, "http://127.0.0.1.evil.example": false,
	} {
		require.Equal(t, ok, isReceiver(url), url)
	}
}

func TestUnknownSettings(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"SECKILL_MYSQL_DNS", "SECKILL_PORT", "SECKILL_REDIS_ADDR", "SECKILL_TIMEZONE_FILE"}, unknownSettings([]string{
		"PATH=/bin", "SECKILL_ADDR=:8080", "SECKILL_MYSQL_DSN=x", "SECKILL_MYSQL_DSN_FILE=/x", "SECKILL_JWT_SECRET_FILE=/y", "SECKILL_TEST=full",
		"SECKILL_REDIS_ADDR=localhost", "SECKILL_MYSQL_DNS=x", "SECKILL_PORT=8080", "SECKILL_TIMEZONE_FILE=/z", "OTHER_SECKILL_X=1",
	}))
	require.Empty(t, unknownSettings([]string{
		"SECKILL_PORT=tcp://10.0.0.1:80", "SECKILL_SERVICE_HOST=10.0.0.1", "SECKILL_PORT_80_TCP_ADDR=10.0.0.1", "SECKILL_SERVICE_PORT_HTTP=80",
		"SECKILL_REDIS_PORT_6379_TCP=tcp://[fd00::1]:6379", "SECKILL_REDIS_SERVICE_PORT=6379", "SECKILL_PORT_53_UDP_PROTO=udp",
	}))

	// Most settings that are misspelt have a URL as their value.
	misspelt := []string{
		"SECKILL_EVENT_URL=https://a.example", "SECKILL_LOCK_NODE=zk://a:2181", "SECKILL_PAYMENTS_URL=https://a.example", "SECKILL_REDIS_PORT=6379",
		"SECKILL_REDIS_URL=redis://a:6379", "SECKILL_SERVICE_URL=https://a.example", "seckill_order_lane=queue",
	}
	for _, variable := range misspelt {
		name, _, _ := strings.Cut(variable, "=")
		require.Equal(t, []string{name}, unknownSettings([]string{variable}))
	}
}

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	c := Config{RedisAddrs: []string{"rediss://ann:p%40ss@a:1/7"}, RedisUsername: "bob", RedisPassword: "other"}
	opts := env.Must(c.SharedRedisOptions())(t)
	assert.Equal(t, []string{"a:1"}, opts.Addrs)
	assert.Equal(t, []any{"ann", "p@ss", 7}, []any{opts.Username, opts.Password, opts.DB})
	require.NotNil(t, opts.TLSConfig)
	assert.Empty(t, opts.TLSConfig.ServerName, "each server is verified by its own name")
	assert.Equal(t, []string{"other", "p@ss"}, c.RedisSecrets())

	c.RedisAddrs = []string{"redis://:p@a", "b:2", "redis://:p@c:3"}
	opts = env.Must(c.SharedRedisOptions())(t)
	assert.Equal(t, []string{"a:6379", "b:2", "c:3"}, opts.Addrs)
	assert.Equal(t, []string{"bob", "p"}, []string{opts.Username, opts.Password})
	assert.Nil(t, opts.TLSConfig)

	c.RedisAddrs, c.RedisSentinel = []string{"redis://eve:s@a:1/7", "b:2"}, "mymaster"
	opts = env.Must(c.SharedRedisOptions())(t)
	assert.Equal(t, []string{"mymaster", "eve", "s", "bob", "other"},
		[]string{opts.MasterName, opts.SentinelUsername, opts.SentinelPassword, opts.Username, opts.Password})
	assert.Equal(t, 7, opts.DB)

	for _, c := range []Config{
		{RedisAddrs: []string{"a:1"}, RedisUsername: "bob"},
		{RedisAddrs: []string{"redis://bob@a:1"}},
		{RedisAddrs: []string{"redis://eve:s@a:1"}, RedisUsername: "bob", RedisSentinel: "mymaster"},
	} {
		env.Fails(c.SharedRedisOptions())(t, errNoPassword)
	}
	env.Must(Config{RedisAddrs: []string{"redis://default@a:1"}}.SharedRedisOptions())(t)
}

func TestRedisAddressErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"redis://u:hunter2@", "redis://u:hunter2/x@a:1", "redis://:hunter2", "redis://u:12/hunter2@a", "redis://u:hunter2%zz@a:1",
		"redis://u:p#hunter2@a:1", "redis://u:p?hunter2@a:1", "u:hunter2@a:1", "valkey://u:hunter2@a:1", "unix://u:hunter2@/sock",
		"redis://u:hunter2@a:1/x", "redis://u:hunter2@a:1/-1", "redis://u:hunter2@a:99999",
	} {
		_, err := Config{RedisAddrs: []string{addr}}.SharedRedisOptions()
		require.Error(t, err, addr)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = Config{LockNodes: []string{addr}, DataDir: "d", PayTimeout: 1e9, QueueBacklog: 1}.Finish()
		require.ErrorContains(t, err, "node 1", addr)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

const safeSecret = "b4c1d09f3a6e57822c9e10fd7a45be386f0b92d1e85c37a49d216fe07b58c3a2"

// safeConfig is a server with a real database whose only unsafe setting is the sandbox, as there is no other provider.
func safeConfig() Config {
	return Config{
		MySQLDSN: "seckill:9d216fe07b58c3a2@tcp(127.0.0.1:1)/seckill", DataDir: "d", JWTSecret: safeSecret, RateLimit: "on", OrderLane: "lock",
		AdminPhones: []string{"13912345678"}, CodeURL: "https://sms.example/codes", EventsSecret: "7a45be386f0b92d1e85c37a49d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd",
		RedisAddrs: []string{"127.0.0.1:1"}, PayTimeout: 15 * 60e9, QueueBacklog: 1, Unsafe: []string{"sandbox"},
	}
}

func refusal(t *testing.T, cfg Config) (log string, _ error) {
	t.Helper()
	cfg = env.Must(cfg.Finish())(t)
	var lines bytes.Buffer
	err := refuseUnsafe(&Env{Ctx: t.Context(), Config: cfg, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	return lines.String(), err
}

func TestUnsafeSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	env.Must(refusal(t, safeConfig()))(t)
	no := false
	for name, edit := range map[string]func(*Config){ // TestDoctorChecksConfiguration has the cases of each setting
		"sandbox":    func(c *Config) { c.MySQLDSN, c.Demo, c.Unsafe = "", &no, nil },
		"jwt_secret": func(c *Config) { c.JWTSecret += "," + strings.Repeat("a", 32) },
		"proxies":    func(c *Config) { c.Proxies = []string{"10.0.0.1", "::/0"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := safeConfig()
			edit(&cfg)
			log, err := refusal(t, cfg)
			require.ErrorContains(t, err, "\n  "+name+": ")
			require.ErrorContains(t, err, "\n    -> ")
			require.Regexp(t, `SECKILL_UNSAFE=`+name+`$`, err.Error())
			require.NotContains(t, err.Error(), safeSecret)
			require.NotContains(t, log, "name="+name)
			for _, accept := range []string{name, "config." + name, "all"} {
				accepting := cfg
				accepting.Unsafe = append([]string{accept}, cfg.Unsafe...)
				log := env.Must(refusal(t, accepting))(t)
				require.Equal(t, 1, strings.Count(log, "level=WARN msg=\"unsafe setting, accepted by SECKILL_UNSAFE\" name="+name+" "), log)
			}
		})
	}
}

func TestEmbeddedDemoAcceptsEverySetting(t *testing.T) {
	t.Parallel()
	cfg := safeConfig()
	cfg.MySQLDSN, cfg.RedisAddrs, cfg.Unsafe, cfg.CodeURL = "", nil, nil, ""
	cfg.RateLimit, cfg.PaymentSecret, cfg.Proxies, cfg.OpsAddr, cfg.AdminPhones = "off", "x", []string{"0.0.0.0/0"}, ":9090", nil
	require.Empty(t, env.Must(refusal(t, cfg))(t))
}

// TestSigningSecretIsPersisted: the secret is generated once, and a stored secret that is too short is an error, as is a folder
// that cannot be created.
func TestSigningSecretIsPersisted(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: t.TempDir()}
	first := env.Must(SigningSecrets(cfg))(t)
	require.GreaterOrEqual(t, len(first.Signer()), auth.MinSecret)

	require.Equal(t, first, env.Must(SigningSecrets(cfg))(t))

	require.NoError(t, os.WriteFile(filepath.Join(cfg.DataDir, SecretFile), []byte("short"), 0o600))
	_, err := SigningSecrets(cfg)
	require.ErrorContains(t, err, "at least 32")

	cfg.DataDir = strings.Repeat("x", 300)
	env.Fails(SigningSecrets(cfg))(t, "cannot create the folder")
}

const (
	testSecret  = "a-secret-for-tests-only-0123456789"
	otherSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd"
)

func keyring(secrets ...string) domain.Keyring {
	return domain.ParseKeyring(strings.Join(secrets, ","))
}

func TestDoctorChecksConfiguration(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	const dsn = "seckill:hunter2hunter2@tcp(127.0.0.1:1)/seckill"
	for name, tc := range map[string]struct {
		edit func(*settings)
		want string
	}{
		"good":                                 {func(*settings) {}, "jwt_secret ok, payment_secret ok, database_password ok, demo ok, admins ok, rate_limit ok, proxies ok, ops_addr ok, lane ok, codes ok"},
		"example secret":                       {func(f *settings) { f.secrets = keyring(testSecret) }, "jwt_secret fail"},
		"no secret":                            {func(f *settings) { f.secrets, f.secretErr = nil, errors.New("required") }, "jwt_secret fail"},
		"no secret yet":                        {func(f *settings) { f.secrets, f.secretErr = nil, fs.ErrNotExist }, "jwt_secret ok"},
		"two secrets":                          {func(f *settings) { f.secrets = keyring(safeSecret, otherSecret) }, "jwt_secret ok"},
		"payment secret = old token secret":    {func(f *settings) { f.secrets, f.PaymentSecret = keyring(otherSecret, safeSecret), safeSecret }, "payment_secret fail"},
		"weak payment secret":                  {func(f *settings) { f.PaymentSecret = "shop" }, "payment_secret fail"},
		"own payment secret":                   {func(f *settings) { f.PaymentSecret = otherSecret }, "payment_secret ok"},
		"payment secret = events secret":       {func(f *settings) { f.PaymentSecret, f.EventsSecret = otherSecret, "old,"+otherSecret }, "payment_secret warn"},
		"example password":                     {func(f *settings) { f.MySQLDSN = "u:my-Password@tcp(db:3306)/seckill" }, "database_password warn"},
		"short password":                       {func(f *settings) { f.MySQLDSN = "u:zq3k9xw@tcp(db:3306)/seckill" }, "database_password warn"},
		"user as password":                     {func(f *settings) { f.MySQLDSN = "shopkeeper:shopkeeper@tcp(db:3306)/seckill" }, "database_password warn"},
		"socket":                               {func(f *settings) { f.MySQLDSN = "root@unix(/run/mysqld.sock)/seckill" }, "database_password ok"},
		"no DSN":                               {func(f *settings) { f.MySQLDSN = "tcp" }, "database_password skipped"},
		"demo":                                 {func(f *settings) { f.Demo = &yes }, "demo fail"},
		"demo, embedded":                       {func(f *settings) { f.Demo, f.MySQLDSN = &yes, "" }, "demo warn"},
		"demo of this machine":                 {func(f *settings) { f.Demo, f.MySQLDSN, f.Addr = &yes, "", "127.0.0.1:80" }, "demo ok"},
		"no admin":                             {func(f *settings) { f.AdminPhones = nil }, "admins warn"},
		"demo admin":                           {func(f *settings) { f.AdminPhones = []string{"13800000000"} }, "admins fail"},
		"demo admin in demo mode":              {func(f *settings) { f.AdminPhones, f.Demo = []string{"13800000000"}, &yes }, "admins ok"},
		"no rate limit":                        {func(f *settings) { f.RateLimit, f.MySQLDSN = "off", "" }, "rate_limit fail"},
		"no rate limit, embedded demo":         {func(f *settings) { f.RateLimit, f.MySQLDSN, f.Demo = "off", "", &yes }, "rate_limit warn"},
		"wide network":                         {func(f *settings) { f.Proxies = []string{"10.0.0.0/8"} }, "proxies warn"},
		"wide IPv6 network":                    {func(f *settings) { f.Proxies = []string{"fc00::/7"} }, "proxies warn"},
		"wider than a private network":         {func(f *settings) { f.Proxies = []string{"10.0.0.1", "10.0.0.0/8", "8.0.0.0/7"} }, "proxies fail"},
		"all IPv4 as IPv6":                     {func(f *settings) { f.Proxies = []string{"::ffff:0.0.0.0/96"} }, "proxies fail"},
		"all public IPv6":                      {func(f *settings) { f.Proxies = []string{"2000::/3"} }, "proxies fail"},
		"narrow networks":                      {func(f *settings) { f.Proxies = []string{"172.18.0.0/16", "127.0.0.0/8", "::1"} }, "proxies ok"},
		"container":                            {func(f *settings) { f.container = true }, "proxies warn"},
		"container, loopback":                  {func(f *settings) { f.container, f.Addr = true, "127.0.0.1:80" }, "proxies ok"},
		"ops on all addresses":                 {func(f *settings) { f.OpsAddr = ":9090" }, "ops_addr fail"},
		"ops, embedded demo":                   {func(f *settings) { f.OpsAddr, f.MySQLDSN, f.Demo = ":9090", "", &yes }, "ops_addr warn"},
		"ops in a container":                   {func(f *settings) { f.OpsAddr, f.container = "0.0.0.0:9090", true }, "ops_addr warn"},
		"ops on public address in a container": {func(f *settings) { f.OpsAddr, f.container = "203.0.113.5:9090", true }, "ops_addr fail"},
		"ops in a container with a public address": {func(f *settings) {
			f.OpsAddr, f.container, f.addresses = ":9090", true, append(f.addresses, netip.MustParseAddr("203.0.113.5"))
		}, "ops_addr fail"},
		"ops in a container with unknown addresses": {func(f *settings) { f.OpsAddr, f.container, f.addresses = ":9090", true, nil }, "ops_addr fail"},
		"ops on a private name":                     {func(f *settings) { f.OpsAddr = "ours:9090" }, "ops_addr ok"},
		"ops on a public name":                      {func(f *settings) { f.OpsAddr = "public:9090" }, "ops_addr fail"},
		"ops on a name of all addresses":            {func(f *settings) { f.OpsAddr, f.container = "all:9090", false }, "ops_addr fail"},
		"ops on an unknown name":                    {func(f *settings) { f.OpsAddr = "unknown:9090" }, "ops_addr fail"},
		"faults":                                    {func(f *settings) { f.Sandbox.Fail = true }, "sandbox fail"},
		"sandbox, embedded demo":                    {func(f *settings) { f.MySQLDSN, f.Demo = "", &yes }, "sandbox ok"},
		"faults, embedded demo":                     {func(f *settings) { f.Sandbox.Fail, f.MySQLDSN, f.Demo = true, "", &yes }, "sandbox warn"},
		"no sender of codes":                        {func(f *settings) { f.CodeURL = "" }, "codes fail"},
		"events": {func(f *settings) {
			f.EventsURL, f.EventsSecret = "https://erp.example", "4be386f0b92d1e85c37a49d216fe07b58c3a2b4c1d09f3a6"
		}, "events ok"},
		"alerts, weak secret": {func(f *settings) {
			f.CodeURL, f.AlertURL, f.EventsSecret = "", "https://ops.example", strings.Repeat("e", 32)
		}, "events fail, codes fail"},
		"events, token secret":     {func(f *settings) { f.EventsURL, f.EventsSecret = "https://erp.example", safeSecret }, "events fail, codes fail"},
		"payment provider":         {func(f *settings) { f.PaymentURL = "https://pay.example" }, "sandbox ok"},
		"no sender of codes, demo": {func(f *settings) { f.CodeURL, f.Demo = "", &yes }, "codes ok"},
		"accepted":                 {func(f *settings) { f.Demo, f.Unsafe = &yes, []string{"demo"} }, "demo warn, sandbox fail"},
		"queue on embedded Redis":  {func(f *settings) { f.OrderLane, f.RedisAddrs, f.MySQLDSN = "queue", nil, "" }, "lane warn"},
		"embedded Redis only":      {func(f *settings) { f.RedisAddrs = nil }, "lane warn"},
		"all embedded":             {func(f *settings) { f.RedisAddrs, f.MySQLDSN = nil, "" }, "lane ok, database_password ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := settings{
				Config: Config{
					CodeURL: "https://sms.example/codes", Addr: ":8080", MySQLDSN: dsn, RedisAddrs: []string{"10.1.2.3:6379"}, OrderLane: "lock",
					AdminPhones: []string{"13912345678"}, Demo: &no, RateLimit: "on", PayTimeout: 15 * time.Minute, OpsAddr: "127.0.0.1:9090",
				},
				secrets:   keyring(safeSecret),
				addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")},
			}
			f.lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) {
				ip := map[string]string{"ours": "::ffff:10.1.2.3", "public": "203.0.113.5", "all": "0.0.0.0"}[host]
				addr, err := netip.ParseAddr(cmp.Or(ip, host))
				return []netip.Addr{addr}, err
			}
			tc.edit(&f)
			found := map[string]doctor.Finding{}
			for _, finding := range doctor.Run(t.Context(), []doctor.Group{f.checks()}) {
				found[finding.Check] = finding
				require.Equal(t, finding.Status == doctor.Warn || finding.Status == doctor.Fail, finding.Change != "", finding.Check)
				require.NotContains(t, finding.Found+finding.Change, safeSecret)
			}
			for _, want := range strings.Split(tc.want, ", ") {
				check, status, _ := strings.Cut(want, " ")
				assert.EqualValues(t, status, found["config."+check].Status, "%s: %s", check, found["config."+check].Found)
			}
		})
	}
}

func TestWeaknessFindsGuessableSecrets(t *testing.T) {
	t.Parallel()
	for _, weak := range []string{
		testSecret, "change-me-change-me-change-me-change", strings.Repeat("a", 64), strings.Repeat("deadbeef", 8),
		"0123456789abcdef0123456789abcdef", "MySuperSecretKeyMySuperSecretKey!", "this is what a person may think up",
		"Correct-Horse-Battery-Staple-Again", strings.Repeat("ab", 32), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabcd", strings.Repeat("0", 32) + "12", "",
	} {
		require.NotEmpty(t, weakness(weak), weak)
	}
	for _, strong := range []string{safeSecret, "TPQ3XK7V5JZB2WMDY6RNLAGE4CHUOFS3QK7V5JZB2WMDY6RNLAGE", "q8Zr1tVfX0mJp3LwYc5NbH7dKs2GuEa9TzRk4oQ6v",
		"cleft cam synod lacy yr wok tilt brig doze gust"} {
		require.Empty(t, weakness(strong), strong)
	}
}

// TestRandomSecretsAreStrong checks that random secrets of 32 characters and more pass. The seed is fixed, because one
// random secret in 100,000 contains a word such as abcdef.
func TestRandomSecretsAreStrong(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{1})
	bytes := func(n int) []byte {
		b := make([]byte, n)
		_, _ = random.Read(b) // never fails
		return b
	}
	for name, generate := range map[string]func() string{
		"hex 16":    func() string { return hex.EncodeToString(bytes(16)) },
		"base64 24": func() string { return base64.StdEncoding.EncodeToString(bytes(24)) },
		"base32 20": func() string { return base32.StdEncoding.EncodeToString(bytes(20)) },
		"UUID": func() string {
			b := bytes(16)
			return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		},
	} {
		for range 5000 {
			secret := generate()
			require.Empty(t, weakness(secret), "%s: %s", name, secret)
		}
	}
}
