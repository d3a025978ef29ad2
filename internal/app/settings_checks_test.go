package app

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
	"seckill/internal/ops/doctor"
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
	yes, no := true, false
	const dsn = "seckill:hunter2hunter2@tcp(127.0.0.1:1)/seckill"
	for name, tc := range map[string]struct {
		edit func(*settings)
		want string
	}{
		"good":                              {func(*settings) {}, "jwt_secret ok, payment_secret ok, database_password ok, demo ok, admins ok, rate_limit ok, proxies ok, ops_addr ok, pay_timeout ok, lane ok, codes ok"},
		"example secret":                    {func(f *settings) { f.secrets = keyring(testSecret) }, "jwt_secret fail"},
		"no secret":                         {func(f *settings) { f.secrets, f.secretErr = nil, errors.New("required") }, "jwt_secret fail"},
		"no secret yet":                     {func(f *settings) { f.secrets, f.secretErr = nil, fs.ErrNotExist }, "jwt_secret ok"},
		"weak old secret":                   {func(f *settings) { f.secrets = keyring(goodSecret, testSecret) }, "jwt_secret fail"},
		"two secrets":                       {func(f *settings) { f.secrets = keyring(goodSecret, otherSecret) }, "jwt_secret ok"},
		"payment secret = old token secret": {func(f *settings) { f.secrets, f.PaymentSecret = keyring(otherSecret, goodSecret), goodSecret }, "payment_secret fail"},
		"payment secret = token secret":     {func(f *settings) { f.PaymentSecret = goodSecret }, "payment_secret fail"},
		"weak payment secret":               {func(f *settings) { f.PaymentSecret = "shop" }, "payment_secret fail"},
		"own payment secret":                {func(f *settings) { f.PaymentSecret = otherSecret }, "payment_secret ok"},
		"no password":                       {func(f *settings) { f.MySQLDSN = "seckill@tcp(db:3306)/seckill" }, "database_password warn"},
		"example password":                  {func(f *settings) { f.MySQLDSN = "u:my-Password@tcp(db:3306)/seckill" }, "database_password warn"},
		"short password":                    {func(f *settings) { f.MySQLDSN = "u:zq3k9xw@tcp(db:3306)/seckill" }, "database_password warn"},
		"user as password":                  {func(f *settings) { f.MySQLDSN = "shopkeeper:shopkeeper@tcp(db:3306)/seckill" }, "database_password warn"},
		"socket":                            {func(f *settings) { f.MySQLDSN = "root@unix(/run/mysqld.sock)/seckill" }, "database_password ok"},
		"no DSN":                            {func(f *settings) { f.MySQLDSN = "tcp" }, "database_password skipped"},
		"demo":                              {func(f *settings) { f.Demo = &yes }, "demo fail"},
		"demo, embedded":                    {func(f *settings) { f.Demo, f.MySQLDSN = &yes, "" }, "demo warn"},
		"demo of this machine":              {func(f *settings) { f.Demo, f.MySQLDSN, f.Addr = &yes, "", "127.0.0.1:80" }, "demo ok"},
		"no admin":                          {func(f *settings) { f.AdminPhones = nil }, "admins warn"},
		"demo admin":                        {func(f *settings) { f.AdminPhones = []string{"13800000000"} }, "admins fail"},
		"demo admin in demo mode":           {func(f *settings) { f.AdminPhones, f.Demo = []string{"13800000000"}, &yes }, "admins ok"},
		"no rate limit":                     {func(f *settings) { f.RateLimit = "off" }, "rate_limit fail"},
		"no rate limit, embedded":           {func(f *settings) { f.RateLimit, f.MySQLDSN = "off", "" }, "rate_limit fail"},
		"no rate limit, embedded demo":      {func(f *settings) { f.RateLimit, f.MySQLDSN, f.Demo = "off", "", &yes }, "rate_limit warn"},
		"all addresses trusted":             {func(f *settings) { f.Proxies = []string{"10.0.0.1", "0.0.0.0/0"} }, "proxies fail"},
		"all IPv6 trusted":                  {func(f *settings) { f.Proxies = []string{"::/0"} }, "proxies fail"},
		"wide network":                      {func(f *settings) { f.Proxies = []string{"10.0.0.0/8"} }, "proxies warn"},
		"wide IPv6 network":                 {func(f *settings) { f.Proxies = []string{"fd00::/8"} }, "proxies warn"},
		"IPv4 in two halves":                {func(f *settings) { f.Proxies = []string{"0.0.0.0/1", "128.0.0.0/1"} }, "proxies fail"},
		"IPv6 in two halves":                {func(f *settings) { f.Proxies = []string{"8000::/1", "::/1"} }, "proxies fail"},
		"IPv4 in quarters":                  {func(f *settings) { f.Proxies = []string{"0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2"} }, "proxies fail"},
		"all IPv4 as IPv6":                  {func(f *settings) { f.Proxies = []string{"::ffff:0.0.0.0/96"} }, "proxies fail"},
		"all public IPv6":                   {func(f *settings) { f.Proxies = []string{"2000::/3"} }, "proxies fail"},
		"all private networks": {func(f *settings) {
			f.Proxies = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}
		}, "proxies warn"},
		"the same network often":               {func(f *settings) { f.Proxies = slices.Repeat([]string{"10.0.0.0/8", "10.1.0.0/9"}, 20) }, "proxies warn"},
		"narrow networks":                      {func(f *settings) { f.Proxies = []string{"172.18.0.0/16", "127.0.0.0/8", "::1"} }, "proxies ok"},
		"container":                            {func(f *settings) { f.container = true }, "proxies warn"},
		"container, loopback":                  {func(f *settings) { f.container, f.Addr = true, "127.0.0.1:80" }, "proxies ok"},
		"ops on all addresses":                 {func(f *settings) { f.OpsAddr = ":9090" }, "ops_addr fail"},
		"ops on all IPv6 addresses":            {func(f *settings) { f.OpsAddr = "[::]:9090" }, "ops_addr fail"},
		"ops on public address":                {func(f *settings) { f.OpsAddr = "203.0.113.5:9090" }, "ops_addr fail"},
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
		"ops on private address":                    {func(f *settings) { f.OpsAddr = "10.1.2.3:9090" }, "ops_addr ok"},
		"short pay timeout":                         {func(f *settings) { f.PayTimeout = 59 * time.Second }, "pay_timeout warn"},
		"long pay timeout":                          {func(f *settings) { f.PayTimeout = 24 * time.Hour }, "pay_timeout warn"},
		"faults":                                    {func(f *settings) { f.Sandbox.Fail = true }, "sandbox fail"},
		"sandbox":                                   {func(*settings) {}, "sandbox fail"},
		"sandbox, embedded":                         {func(f *settings) { f.MySQLDSN = "" }, "sandbox fail"},
		"sandbox, embedded demo":                    {func(f *settings) { f.MySQLDSN, f.Demo = "", &yes }, "sandbox ok"},
		"faults, embedded demo":                     {func(f *settings) { f.Sandbox.Fail, f.MySQLDSN, f.Demo = true, "", &yes }, "sandbox warn"},
		"no sender of codes":                        {func(f *settings) { f.CodeURL = "" }, "codes fail"},
		"events": {func(f *settings) {
			f.EventsURL, f.EventsSecret = "https://erp.example", "4be386f0b92d1e85c37a49d216fe07b58c3a2b4c1d09f3a6"
		}, "events ok"},
		"events, weak secret": {func(f *settings) {
			f.CodeURL, f.EventsURL, f.EventsSecret = "", "https://erp.example", strings.Repeat("e", 32)
		}, "events fail, codes fail"},
		"alerts, weak secret": {func(f *settings) {
			f.CodeURL, f.AlertURL, f.EventsSecret = "", "https://ops.example", strings.Repeat("e", 32)
		}, "events fail, codes fail"},
		"events, token secret":     {func(f *settings) { f.EventsURL, f.EventsSecret = "https://erp.example", goodSecret }, "events fail, codes fail"},
		"payment provider":         {func(f *settings) { f.PaymentURL = "https://pay.example" }, "sandbox ok"},
		"no sender of codes, demo": {func(f *settings) { f.CodeURL, f.Demo = "", &yes }, "codes ok"},
		"accepted":                 {func(f *settings) { f.Demo, f.Unsafe = &yes, []string{"demo"} }, "demo warn, sandbox fail"},
		"queue on embedded Redis":  {func(f *settings) { f.OrderLane, f.RedisAddrs, f.MySQLDSN = "queue", nil, "" }, "lane warn"},
		"embedded Redis only":      {func(f *settings) { f.RedisAddrs = nil }, "lane warn"},
		"unused lock nodes":        {func(f *settings) { f.OrderLane, f.LockNodes = "batch", []string{"a:1"} }, "lane warn"},
		"all embedded":             {func(f *settings) { f.RedisAddrs, f.MySQLDSN = nil, "" }, "lane ok, database_password ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := settings{
				Config: Config{
					CodeURL: "https://sms.example/codes", Addr: ":8080", MySQLDSN: dsn, RedisAddrs: []string{"10.1.2.3:6379"}, OrderLane: "lock",
					AdminPhones: []string{"13912345678"}, Demo: &no, RateLimit: "on", PayTimeout: 15 * time.Minute, OpsAddr: "127.0.0.1:9090",
				},
				secrets:   keyring(goodSecret),
				addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")},
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
			found := map[string]doctor.Finding{}
			for _, finding := range doctor.Run(t.Context(), []doctor.Group{f.checks()}) {
				found[finding.Check] = finding
				require.Equal(t, finding.Status == doctor.Warn || finding.Status == doctor.Fail, finding.Change != "", finding.Check)
				require.NotContains(t, finding.Found+finding.Change, goodSecret)
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
