package settings

import (
	"cmp"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/doctor"
	"seckill/internal/domain"
	"seckill/test/testenv"
)

const (
	testSecret  = "a-secret-for-tests-only-0123456789"
	goodSecret  = "b4c1d09f3a6e57822c9e10fd7a45be386f0b92d1e85c37a49d216fe07b58c3a2"
	otherSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func keyring(secrets ...string) domain.Keyring {
	return domain.ParseKeyring(strings.Join(secrets, ","))
}

func TestDoctorChecksConfiguration(t *testing.T) {
	t.Parallel()
	const dsn = "seckill:hunter2hunter2@tcp(127.0.0.1:1)/seckill"
	for name, tc := range map[string]struct {
		edit func(*Config)
		want map[string]doctor.Status
	}{
		"good": {func(*Config) {}, map[string]doctor.Status{
			"jwt_secret": doctor.OK, "payment_secret": doctor.OK, "database_password": doctor.OK, "demo": doctor.OK, "admins": doctor.OK, "rate_limit": doctor.OK,
			"proxies": doctor.OK, "addr": doctor.OK, "ops_addr": doctor.OK, "pay_timeout": doctor.OK, "lane": doctor.OK, "codes": doctor.OK,
		}},
		"example secret":  {func(f *Config) { f.Secrets = keyring(testSecret) }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"no secret":       {func(f *Config) { f.Secrets, f.SecretErr = nil, errors.New("required") }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"no secret yet":   {func(f *Config) { f.Secrets, f.SecretErr = nil, fs.ErrNotExist }, map[string]doctor.Status{"jwt_secret": doctor.OK}},
		"weak old secret": {func(f *Config) { f.Secrets = keyring(goodSecret, testSecret) }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"two secrets":     {func(f *Config) { f.Secrets = keyring(goodSecret, otherSecret) }, map[string]doctor.Status{"jwt_secret": doctor.OK}},
		"payment secret = old token secret": {func(f *Config) {
			f.Secrets, f.PaymentSecrets = keyring(otherSecret, goodSecret), keyring(goodSecret)
		}, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"payment secret = token secret": {func(f *Config) { f.PaymentSecrets = keyring(goodSecret) }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"weak payment secret":           {func(f *Config) { f.PaymentSecrets = keyring("shop") }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"own payment secret":            {func(f *Config) { f.PaymentSecrets = keyring(otherSecret) }, map[string]doctor.Status{"payment_secret": doctor.OK}},
		"no password":                   {func(f *Config) { f.DSN = "seckill@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"example password":              {func(f *Config) { f.DSN = "u:my-Password@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"short password":                {func(f *Config) { f.DSN = "u:zq3k9xw@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"user as password":              {func(f *Config) { f.DSN = "shopkeeper:shopkeeper@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"socket":                        {func(f *Config) { f.DSN = "root@unix(/run/mysqld.sock)/seckill" }, map[string]doctor.Status{"database_password": doctor.OK}},
		"no DSN":                        {func(f *Config) { f.DSN = "tcp" }, map[string]doctor.Status{"database_password": doctor.Skipped}},
		"demo":                          {func(f *Config) { f.Demo = true }, map[string]doctor.Status{"demo": doctor.Fail}},
		"demo, embedded":                {func(f *Config) { f.Demo, f.DSN = true, "" }, map[string]doctor.Status{"demo": doctor.Warn}},
		"no admin":                      {func(f *Config) { f.Admins = nil }, map[string]doctor.Status{"admins": doctor.Warn}},
		"demo admin":                    {func(f *Config) { f.Admins = []string{"13800000000"} }, map[string]doctor.Status{"admins": doctor.Fail}},
		"demo admin in demo mode":       {func(f *Config) { f.Admins, f.Demo = []string{"13800000000"}, true }, map[string]doctor.Status{"admins": doctor.OK}},
		"no rate limit":                 {func(f *Config) { f.RateLimit = false }, map[string]doctor.Status{"rate_limit": doctor.Fail}},
		"no rate limit, embedded":       {func(f *Config) { f.RateLimit, f.DSN = false, "" }, map[string]doctor.Status{"rate_limit": doctor.Fail}},
		"no rate limit, embedded demo":  {func(f *Config) { f.RateLimit, f.DSN, f.Demo = false, "", true }, map[string]doctor.Status{"rate_limit": doctor.Warn}},
		"all addresses trusted":         {func(f *Config) { f.Proxies = []string{"10.0.0.1", "0.0.0.0/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all IPv6 trusted":              {func(f *Config) { f.Proxies = []string{"::/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"wide network":                  {func(f *Config) { f.Proxies = []string{"10.0.0.0/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"wide IPv6 network":             {func(f *Config) { f.Proxies = []string{"fd00::/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"IPv4 in two halves":            {func(f *Config) { f.Proxies = []string{"0.0.0.0/1", "128.0.0.0/1"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"IPv6 in two halves":            {func(f *Config) { f.Proxies = []string{"8000::/1", "::/1"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"IPv4 in quarters":              {func(f *Config) { f.Proxies = []string{"0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all IPv4 as IPv6":              {func(f *Config) { f.Proxies = []string{"::ffff:0.0.0.0/96"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all public IPv6":               {func(f *Config) { f.Proxies = []string{"2000::/3"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all private networks": {func(f *Config) {
			f.Proxies = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}
		}, map[string]doctor.Status{"proxies": doctor.Warn}},
		"the same network often":               {func(f *Config) { f.Proxies = slices.Repeat([]string{"10.0.0.0/8", "10.1.0.0/9"}, 20) }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"narrow networks":                      {func(f *Config) { f.Proxies = []string{"172.18.0.0/16", "127.0.0.0/8", "::1"} }, map[string]doctor.Status{"proxies": doctor.OK}},
		"container":                            {func(f *Config) { f.container = true }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"container, loopback":                  {func(f *Config) { f.container, f.Addr = true, "127.0.0.1:80" }, map[string]doctor.Status{"proxies": doctor.OK, "addr": doctor.OK}},
		"own address":                          {func(f *Config) { f.Addr = "ours:80" }, map[string]doctor.Status{"addr": doctor.OK}},
		"foreign address":                      {func(f *Config) { f.Addr = "other:80" }, map[string]doctor.Status{"addr": doctor.Warn}},
		"unknown host":                         {func(f *Config) { f.Addr = "unknown:80" }, map[string]doctor.Status{"addr": doctor.Fail}},
		"ops on all addresses":                 {func(f *Config) { f.OpsAddr = ":9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on all IPv6 addresses":            {func(f *Config) { f.OpsAddr = "[::]:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on public address":                {func(f *Config) { f.OpsAddr = "203.0.113.5:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops, embedded demo":                   {func(f *Config) { f.OpsAddr, f.DSN, f.Demo = ":9090", "", true }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"ops in a container":                   {func(f *Config) { f.OpsAddr, f.container = "0.0.0.0:9090", true }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"ops on public address in a container": {func(f *Config) { f.OpsAddr, f.container = "203.0.113.5:9090", true }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops in a container with a public address": {func(f *Config) {
			f.OpsAddr, f.container, f.addresses = ":9090", true, append(f.addresses, netip.MustParseAddr("203.0.113.5"))
		}, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops in a container with unknown addresses": {func(f *Config) { f.OpsAddr, f.container, f.addresses = ":9090", true, nil }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on a private name":                     {func(f *Config) { f.OpsAddr = "ours:9090" }, map[string]doctor.Status{"ops_addr": doctor.OK}},
		"ops on a public name":                      {func(f *Config) { f.OpsAddr = "public:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on a name of all addresses":            {func(f *Config) { f.OpsAddr, f.container = "all:9090", false }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on an unknown name":                    {func(f *Config) { f.OpsAddr = "unknown:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on private address":                    {func(f *Config) { f.OpsAddr = "10.1.2.3:9090" }, map[string]doctor.Status{"ops_addr": doctor.OK}},
		"short pay timeout":                         {func(f *Config) { f.PayTimeout = 59 * time.Second }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"long pay timeout":                          {func(f *Config) { f.PayTimeout = 24 * time.Hour }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"faults":                                    {func(f *Config) { f.Faults = true }, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"sandbox":                                   {func(*Config) {}, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"sandbox, embedded":                         {func(f *Config) { f.DSN = "" }, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"sandbox, embedded demo":                    {func(f *Config) { f.DSN, f.Demo = "", true }, map[string]doctor.Status{"sandbox": doctor.OK}},
		"faults, embedded demo":                     {func(f *Config) { f.Faults, f.DSN, f.Demo = true, "", true }, map[string]doctor.Status{"sandbox": doctor.Warn}},
		"no sender of codes":                        {func(f *Config) { f.CodeURL = "" }, map[string]doctor.Status{"codes": doctor.Fail}},
		"events": {func(f *Config) {
			f.EventsURL, f.EventsSecrets = "https://erp.example", keyring("4be386f0b92d1e85c37a49d216fe07b58c3a2b4c1d09f3a6")
		}, map[string]doctor.Status{"events": doctor.OK}},
		"events, weak secret": {func(f *Config) {
			f.CodeURL, f.EventsURL, f.EventsSecrets = "", "https://erp.example", keyring(strings.Repeat("e", 32))
		}, map[string]doctor.Status{"events": doctor.Fail, "codes": doctor.Fail}},
		"events, token secret": {func(f *Config) { f.EventsURL, f.EventsSecrets = "https://erp.example", keyring(goodSecret) },
			map[string]doctor.Status{"events": doctor.Fail, "codes": doctor.Fail}},
		"payment provider":         {func(f *Config) { f.PaymentURL = "https://pay.example" }, map[string]doctor.Status{"sandbox": doctor.OK}},
		"no sender of codes, demo": {func(f *Config) { f.CodeURL, f.Demo = "", true }, map[string]doctor.Status{"codes": doctor.OK}},
		"accepted":                 {func(f *Config) { f.Demo, f.Unsafe = true, []string{"demo"} }, map[string]doctor.Status{"demo": doctor.Warn, "sandbox": doctor.Fail}},
		"queue on embedded Redis":  {func(f *Config) { f.Lane, f.EmbeddedRedis, f.DSN = "queue", true, "" }, map[string]doctor.Status{"lane": doctor.Warn}},
		"embedded Redis only":      {func(f *Config) { f.EmbeddedRedis = true }, map[string]doctor.Status{"lane": doctor.Warn}},
		"unused lock nodes":        {func(f *Config) { f.Lane, f.LockNodes = "batch", []string{"a:1"} }, map[string]doctor.Status{"lane": doctor.Warn}},
		"all embedded":             {func(f *Config) { f.EmbeddedRedis, f.DSN = true, "" }, map[string]doctor.Status{"lane": doctor.OK, "database_password": doctor.OK}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Config{
				Secrets: keyring(goodSecret), CodeURL: "https://sms.example/codes", addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")}, Addr: ":8080", DSN: dsn, Lane: "lock",
				DemoAdmin: "13800000000", Admins: []string{"13912345678"}, RateLimit: true, PayTimeout: 15 * time.Minute, OpsAddr: "127.0.0.1:9090",
			}
			f.lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) {
				ip, known := map[string]string{"ours": "::ffff:10.1.2.3", "other": "10.9.9.9", "public": "203.0.113.5", "all": "0.0.0.0"}[host]
				if !known && host == "unknown" {
					return nil, errors.New("no such host")
				}
				addr, err := netip.ParseAddr(cmp.Or(ip, host))
				return []netip.Addr{addr}, err
			}
			tc.edit(&f)
			found := map[string]doctor.Finding{}
			for _, finding := range doctor.Run(t.Context(), []doctor.Group{f.Group()}) {
				found[finding.Check] = finding
				require.Equal(t, finding.Status == doctor.Warn || finding.Status == doctor.Fail, finding.Change != "", finding.Check)
				require.NotContains(t, finding.Found+finding.Change, goodSecret)
			}
			for check, status := range tc.want {
				assert.Equal(t, status, found["config."+check].Status, "%s: %s", check, found["config."+check].Found)
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
	for _, strong := range []string{goodSecret, "TPQ3XK7V5JZB2WMDY6RNLAGE4CHUOFS3QK7V5JZB2WMDY6RNLAGE", "q8Zr1tVfX0mJp3LwYc5NbH7dKs2GuEa9TzRk4oQ6v",
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
		"hex 17":    func() string { return hex.EncodeToString(bytes(17)) },
		"hex 32":    func() string { return hex.EncodeToString(bytes(32)) },
		"base64 24": func() string { return base64.StdEncoding.EncodeToString(bytes(24)) },
		"base64 32": func() string { return base64.URLEncoding.EncodeToString(bytes(32)) },
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
