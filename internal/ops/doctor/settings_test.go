package doctor

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

	"seckill/internal/domain"
)

const (
	testSecret  = "a-secret-for-tests-only-0123456789"
	goodSecret  = "b4c1d09f3a6e57822c9e10fd7a45be386f0b92d1e85c37a49d216fe07b58c3a2"
	otherSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd"
)

func keyring(secrets ...string) domain.Keyring {
	return domain.ParseKeyring(strings.Join(secrets, ","))
}

func TestDoctorChecksConfiguration(t *testing.T) {
	t.Parallel()
	const dsn = "seckill:hunter2hunter2@tcp(127.0.0.1:1)/seckill"
	for name, tc := range map[string]struct {
		edit func(*Settings)
		want map[string]Status
	}{
		"good": {func(*Settings) {}, map[string]Status{
			"jwt_secret": OK, "payment_secret": OK, "database_password": OK, "demo": OK, "admins": OK, "rate_limit": OK,
			"proxies": OK, "ops_addr": OK, "pay_timeout": OK, "lane": OK, "codes": OK,
		}},
		"example secret":  {func(f *Settings) { f.Secrets = keyring(testSecret) }, map[string]Status{"jwt_secret": Fail}},
		"no secret":       {func(f *Settings) { f.Secrets, f.SecretErr = nil, errors.New("required") }, map[string]Status{"jwt_secret": Fail}},
		"no secret yet":   {func(f *Settings) { f.Secrets, f.SecretErr = nil, fs.ErrNotExist }, map[string]Status{"jwt_secret": OK}},
		"weak old secret": {func(f *Settings) { f.Secrets = keyring(goodSecret, testSecret) }, map[string]Status{"jwt_secret": Fail}},
		"two secrets":     {func(f *Settings) { f.Secrets = keyring(goodSecret, otherSecret) }, map[string]Status{"jwt_secret": OK}},
		"payment secret = old token secret": {func(f *Settings) {
			f.Secrets, f.PaymentSecrets = keyring(otherSecret, goodSecret), keyring(goodSecret)
		}, map[string]Status{"payment_secret": Fail}},
		"payment secret = token secret": {func(f *Settings) { f.PaymentSecrets = keyring(goodSecret) }, map[string]Status{"payment_secret": Fail}},
		"weak payment secret":           {func(f *Settings) { f.PaymentSecrets = keyring("shop") }, map[string]Status{"payment_secret": Fail}},
		"own payment secret":            {func(f *Settings) { f.PaymentSecrets = keyring(otherSecret) }, map[string]Status{"payment_secret": OK}},
		"no password":                   {func(f *Settings) { f.DSN = "seckill@tcp(db:3306)/seckill" }, map[string]Status{"database_password": Warn}},
		"example password":              {func(f *Settings) { f.DSN = "u:my-Password@tcp(db:3306)/seckill" }, map[string]Status{"database_password": Warn}},
		"short password":                {func(f *Settings) { f.DSN = "u:zq3k9xw@tcp(db:3306)/seckill" }, map[string]Status{"database_password": Warn}},
		"user as password":              {func(f *Settings) { f.DSN = "shopkeeper:shopkeeper@tcp(db:3306)/seckill" }, map[string]Status{"database_password": Warn}},
		"socket":                        {func(f *Settings) { f.DSN = "root@unix(/run/mysqld.sock)/seckill" }, map[string]Status{"database_password": OK}},
		"no DSN":                        {func(f *Settings) { f.DSN = "tcp" }, map[string]Status{"database_password": Skipped}},
		"demo":                          {func(f *Settings) { f.Demo = true }, map[string]Status{"demo": Fail}},
		"demo, embedded":                {func(f *Settings) { f.Demo, f.DSN = true, "" }, map[string]Status{"demo": Warn}},
		"demo of this machine":          {func(f *Settings) { f.Demo, f.DSN, f.Addr = true, "", "127.0.0.1:80" }, map[string]Status{"demo": OK}},
		"no admin":                      {func(f *Settings) { f.Admins = nil }, map[string]Status{"admins": Warn}},
		"demo admin":                    {func(f *Settings) { f.Admins = []string{"13800000000"} }, map[string]Status{"admins": Fail}},
		"demo admin in demo mode":       {func(f *Settings) { f.Admins, f.Demo = []string{"13800000000"}, true }, map[string]Status{"admins": OK}},
		"no rate limit":                 {func(f *Settings) { f.RateLimit = false }, map[string]Status{"rate_limit": Fail}},
		"no rate limit, embedded":       {func(f *Settings) { f.RateLimit, f.DSN = false, "" }, map[string]Status{"rate_limit": Fail}},
		"no rate limit, embedded demo":  {func(f *Settings) { f.RateLimit, f.DSN, f.Demo = false, "", true }, map[string]Status{"rate_limit": Warn}},
		"all addresses trusted":         {func(f *Settings) { f.Proxies = []string{"10.0.0.1", "0.0.0.0/0"} }, map[string]Status{"proxies": Fail}},
		"all IPv6 trusted":              {func(f *Settings) { f.Proxies = []string{"::/0"} }, map[string]Status{"proxies": Fail}},
		"wide network":                  {func(f *Settings) { f.Proxies = []string{"10.0.0.0/8"} }, map[string]Status{"proxies": Warn}},
		"wide IPv6 network":             {func(f *Settings) { f.Proxies = []string{"fd00::/8"} }, map[string]Status{"proxies": Warn}},
		"IPv4 in two halves":            {func(f *Settings) { f.Proxies = []string{"0.0.0.0/1", "128.0.0.0/1"} }, map[string]Status{"proxies": Fail}},
		"IPv6 in two halves":            {func(f *Settings) { f.Proxies = []string{"8000::/1", "::/1"} }, map[string]Status{"proxies": Fail}},
		"IPv4 in quarters":              {func(f *Settings) { f.Proxies = []string{"0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2"} }, map[string]Status{"proxies": Fail}},
		"all IPv4 as IPv6":              {func(f *Settings) { f.Proxies = []string{"::ffff:0.0.0.0/96"} }, map[string]Status{"proxies": Fail}},
		"all public IPv6":               {func(f *Settings) { f.Proxies = []string{"2000::/3"} }, map[string]Status{"proxies": Fail}},
		"all private networks": {func(f *Settings) {
			f.Proxies = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}
		}, map[string]Status{"proxies": Warn}},
		"the same network often":               {func(f *Settings) { f.Proxies = slices.Repeat([]string{"10.0.0.0/8", "10.1.0.0/9"}, 20) }, map[string]Status{"proxies": Warn}},
		"narrow networks":                      {func(f *Settings) { f.Proxies = []string{"172.18.0.0/16", "127.0.0.0/8", "::1"} }, map[string]Status{"proxies": OK}},
		"container":                            {func(f *Settings) { f.container = true }, map[string]Status{"proxies": Warn}},
		"container, loopback":                  {func(f *Settings) { f.container, f.Addr = true, "127.0.0.1:80" }, map[string]Status{"proxies": OK}},
		"ops on all addresses":                 {func(f *Settings) { f.OpsAddr = ":9090" }, map[string]Status{"ops_addr": Fail}},
		"ops on all IPv6 addresses":            {func(f *Settings) { f.OpsAddr = "[::]:9090" }, map[string]Status{"ops_addr": Fail}},
		"ops on public address":                {func(f *Settings) { f.OpsAddr = "203.0.113.5:9090" }, map[string]Status{"ops_addr": Fail}},
		"ops, embedded demo":                   {func(f *Settings) { f.OpsAddr, f.DSN, f.Demo = ":9090", "", true }, map[string]Status{"ops_addr": Warn}},
		"ops in a container":                   {func(f *Settings) { f.OpsAddr, f.container = "0.0.0.0:9090", true }, map[string]Status{"ops_addr": Warn}},
		"ops on public address in a container": {func(f *Settings) { f.OpsAddr, f.container = "203.0.113.5:9090", true }, map[string]Status{"ops_addr": Fail}},
		"ops in a container with a public address": {func(f *Settings) {
			f.OpsAddr, f.container, f.addresses = ":9090", true, append(f.addresses, netip.MustParseAddr("203.0.113.5"))
		}, map[string]Status{"ops_addr": Fail}},
		"ops in a container with unknown addresses": {func(f *Settings) { f.OpsAddr, f.container, f.addresses = ":9090", true, nil }, map[string]Status{"ops_addr": Fail}},
		"ops on a private name":                     {func(f *Settings) { f.OpsAddr = "ours:9090" }, map[string]Status{"ops_addr": OK}},
		"ops on a public name":                      {func(f *Settings) { f.OpsAddr = "public:9090" }, map[string]Status{"ops_addr": Fail}},
		"ops on a name of all addresses":            {func(f *Settings) { f.OpsAddr, f.container = "all:9090", false }, map[string]Status{"ops_addr": Fail}},
		"ops on an unknown name":                    {func(f *Settings) { f.OpsAddr = "unknown:9090" }, map[string]Status{"ops_addr": Fail}},
		"ops on private address":                    {func(f *Settings) { f.OpsAddr = "10.1.2.3:9090" }, map[string]Status{"ops_addr": OK}},
		"short pay timeout":                         {func(f *Settings) { f.PayTimeout = 59 * time.Second }, map[string]Status{"pay_timeout": Warn}},
		"long pay timeout":                          {func(f *Settings) { f.PayTimeout = 24 * time.Hour }, map[string]Status{"pay_timeout": Warn}},
		"faults":                                    {func(f *Settings) { f.Faults = true }, map[string]Status{"sandbox": Fail}},
		"sandbox":                                   {func(*Settings) {}, map[string]Status{"sandbox": Fail}},
		"sandbox, embedded":                         {func(f *Settings) { f.DSN = "" }, map[string]Status{"sandbox": Fail}},
		"sandbox, embedded demo":                    {func(f *Settings) { f.DSN, f.Demo = "", true }, map[string]Status{"sandbox": OK}},
		"faults, embedded demo":                     {func(f *Settings) { f.Faults, f.DSN, f.Demo = true, "", true }, map[string]Status{"sandbox": Warn}},
		"no sender of codes":                        {func(f *Settings) { f.CodeURL = "" }, map[string]Status{"codes": Fail}},
		"events": {func(f *Settings) {
			f.EventsURL, f.EventsSecrets = "https://erp.example", keyring("4be386f0b92d1e85c37a49d216fe07b58c3a2b4c1d09f3a6")
		}, map[string]Status{"events": OK}},
		"events, weak secret": {func(f *Settings) {
			f.CodeURL, f.EventsURL, f.EventsSecrets = "", "https://erp.example", keyring(strings.Repeat("e", 32))
		}, map[string]Status{"events": Fail, "codes": Fail}},
		"events, token secret": {func(f *Settings) { f.EventsURL, f.EventsSecrets = "https://erp.example", keyring(goodSecret) },
			map[string]Status{"events": Fail, "codes": Fail}},
		"payment provider":         {func(f *Settings) { f.PaymentURL = "https://pay.example" }, map[string]Status{"sandbox": OK}},
		"no sender of codes, demo": {func(f *Settings) { f.CodeURL, f.Demo = "", true }, map[string]Status{"codes": OK}},
		"accepted":                 {func(f *Settings) { f.Demo, f.Unsafe = true, []string{"demo"} }, map[string]Status{"demo": Warn, "sandbox": Fail}},
		"queue on embedded Redis":  {func(f *Settings) { f.Lane, f.EmbeddedRedis, f.DSN = "queue", true, "" }, map[string]Status{"lane": Warn}},
		"embedded Redis only":      {func(f *Settings) { f.EmbeddedRedis = true }, map[string]Status{"lane": Warn}},
		"unused lock nodes":        {func(f *Settings) { f.Lane, f.LockNodes = "batch", []string{"a:1"} }, map[string]Status{"lane": Warn}},
		"all embedded":             {func(f *Settings) { f.EmbeddedRedis, f.DSN = true, "" }, map[string]Status{"lane": OK, "database_password": OK}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Settings{
				Secrets: keyring(goodSecret), CodeURL: "https://sms.example/codes", addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")}, Addr: ":8080", DSN: dsn, Lane: "lock",
				DemoAdmin: "13800000000", Admins: []string{"13912345678"}, RateLimit: true, PayTimeout: 15 * time.Minute, OpsAddr: "127.0.0.1:9090",
			}
			f.lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) {
				ip, known := map[string]string{"ours": "::ffff:10.1.2.3", "public": "203.0.113.5", "all": "0.0.0.0"}[host]
				if !known && host == "unknown" {
					return nil, errors.New("no such host")
				}
				addr, err := netip.ParseAddr(cmp.Or(ip, host))
				return []netip.Addr{addr}, err
			}
			tc.edit(&f)
			found := map[string]Finding{}
			for _, finding := range Run(t.Context(), []Group{f.Group()}) {
				found[finding.Check] = finding
				require.Equal(t, finding.Status == Warn || finding.Status == Fail, finding.Change != "", finding.Check)
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
