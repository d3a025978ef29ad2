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
		want map[string]doctor.Status
	}{
		"good": {func(*settings) {}, map[string]doctor.Status{
			"jwt_secret": doctor.OK, "payment_secret": doctor.OK, "database_password": doctor.OK, "demo": doctor.OK, "admins": doctor.OK, "rate_limit": doctor.OK,
			"proxies": doctor.OK, "ops_addr": doctor.OK, "pay_timeout": doctor.OK, "lane": doctor.OK, "codes": doctor.OK,
		}},
		"example secret":  {func(f *settings) { f.secrets = keyring(testSecret) }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"no secret":       {func(f *settings) { f.secrets, f.secretErr = nil, errors.New("required") }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"no secret yet":   {func(f *settings) { f.secrets, f.secretErr = nil, fs.ErrNotExist }, map[string]doctor.Status{"jwt_secret": doctor.OK}},
		"weak old secret": {func(f *settings) { f.secrets = keyring(goodSecret, testSecret) }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"two secrets":     {func(f *settings) { f.secrets = keyring(goodSecret, otherSecret) }, map[string]doctor.Status{"jwt_secret": doctor.OK}},
		"payment secret = old token secret": {func(f *settings) {
			f.secrets, f.PaymentSecret = keyring(otherSecret, goodSecret), goodSecret
		}, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"payment secret = token secret": {func(f *settings) { f.PaymentSecret = goodSecret }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"weak payment secret":           {func(f *settings) { f.PaymentSecret = "shop" }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"own payment secret":            {func(f *settings) { f.PaymentSecret = otherSecret }, map[string]doctor.Status{"payment_secret": doctor.OK}},
		"no password":                   {func(f *settings) { f.MySQLDSN = "seckill@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"example password":              {func(f *settings) { f.MySQLDSN = "u:my-Password@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"short password":                {func(f *settings) { f.MySQLDSN = "u:zq3k9xw@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"user as password":              {func(f *settings) { f.MySQLDSN = "shopkeeper:shopkeeper@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"socket":                        {func(f *settings) { f.MySQLDSN = "root@unix(/run/mysqld.sock)/seckill" }, map[string]doctor.Status{"database_password": doctor.OK}},
		"no DSN":                        {func(f *settings) { f.MySQLDSN = "tcp" }, map[string]doctor.Status{"database_password": doctor.Skipped}},
		"demo":                          {func(f *settings) { f.Demo = &yes }, map[string]doctor.Status{"demo": doctor.Fail}},
		"demo, embedded":                {func(f *settings) { f.Demo, f.MySQLDSN = &yes, "" }, map[string]doctor.Status{"demo": doctor.Warn}},
		"demo of this machine":          {func(f *settings) { f.Demo, f.MySQLDSN, f.Addr = &yes, "", "127.0.0.1:80" }, map[string]doctor.Status{"demo": doctor.OK}},
		"no admin":                      {func(f *settings) { f.AdminPhones = nil }, map[string]doctor.Status{"admins": doctor.Warn}},
		"demo admin":                    {func(f *settings) { f.AdminPhones = []string{"13800000000"} }, map[string]doctor.Status{"admins": doctor.Fail}},
		"demo admin in demo mode":       {func(f *settings) { f.AdminPhones, f.Demo = []string{"13800000000"}, &yes }, map[string]doctor.Status{"admins": doctor.OK}},
		"no rate limit":                 {func(f *settings) { f.RateLimit = "off" }, map[string]doctor.Status{"rate_limit": doctor.Fail}},
		"no rate limit, embedded":       {func(f *settings) { f.RateLimit, f.MySQLDSN = "off", "" }, map[string]doctor.Status{"rate_limit": doctor.Fail}},
		"no rate limit, embedded demo":  {func(f *settings) { f.RateLimit, f.MySQLDSN, f.Demo = "off", "", &yes }, map[string]doctor.Status{"rate_limit": doctor.Warn}},
		"all addresses trusted":         {func(f *settings) { f.Proxies = []string{"10.0.0.1", "0.0.0.0/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all IPv6 trusted":              {func(f *settings) { f.Proxies = []string{"::/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"wide network":                  {func(f *settings) { f.Proxies = []string{"10.0.0.0/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"wide IPv6 network":             {func(f *settings) { f.Proxies = []string{"fd00::/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"IPv4 in two halves":            {func(f *settings) { f.Proxies = []string{"0.0.0.0/1", "128.0.0.0/1"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"IPv6 in two halves":            {func(f *settings) { f.Proxies = []string{"8000::/1", "::/1"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"IPv4 in quarters":              {func(f *settings) { f.Proxies = []string{"0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all IPv4 as IPv6":              {func(f *settings) { f.Proxies = []string{"::ffff:0.0.0.0/96"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all public IPv6":               {func(f *settings) { f.Proxies = []string{"2000::/3"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all private networks": {func(f *settings) {
			f.Proxies = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}
		}, map[string]doctor.Status{"proxies": doctor.Warn}},
		"the same network often":               {func(f *settings) { f.Proxies = slices.Repeat([]string{"10.0.0.0/8", "10.1.0.0/9"}, 20) }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"narrow networks":                      {func(f *settings) { f.Proxies = []string{"172.18.0.0/16", "127.0.0.0/8", "::1"} }, map[string]doctor.Status{"proxies": doctor.OK}},
		"container":                            {func(f *settings) { f.container = true }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"container, loopback":                  {func(f *settings) { f.container, f.Addr = true, "127.0.0.1:80" }, map[string]doctor.Status{"proxies": doctor.OK}},
		"ops on all addresses":                 {func(f *settings) { f.OpsAddr = ":9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on all IPv6 addresses":            {func(f *settings) { f.OpsAddr = "[::]:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on public address":                {func(f *settings) { f.OpsAddr = "203.0.113.5:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops, embedded demo":                   {func(f *settings) { f.OpsAddr, f.MySQLDSN, f.Demo = ":9090", "", &yes }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"ops in a container":                   {func(f *settings) { f.OpsAddr, f.container = "0.0.0.0:9090", true }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"ops on public address in a container": {func(f *settings) { f.OpsAddr, f.container = "203.0.113.5:9090", true }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops in a container with a public address": {func(f *settings) {
			f.OpsAddr, f.container, f.addresses = ":9090", true, append(f.addresses, netip.MustParseAddr("203.0.113.5"))
		}, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops in a container with unknown addresses": {func(f *settings) { f.OpsAddr, f.container, f.addresses = ":9090", true, nil }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on a private name":                     {func(f *settings) { f.OpsAddr = "ours:9090" }, map[string]doctor.Status{"ops_addr": doctor.OK}},
		"ops on a public name":                      {func(f *settings) { f.OpsAddr = "public:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on a name of all addresses":            {func(f *settings) { f.OpsAddr, f.container = "all:9090", false }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on an unknown name":                    {func(f *settings) { f.OpsAddr = "unknown:9090" }, map[string]doctor.Status{"ops_addr": doctor.Fail}},
		"ops on private address":                    {func(f *settings) { f.OpsAddr = "10.1.2.3:9090" }, map[string]doctor.Status{"ops_addr": doctor.OK}},
		"short pay timeout":                         {func(f *settings) { f.PayTimeout = 59 * time.Second }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"long pay timeout":                          {func(f *settings) { f.PayTimeout = 24 * time.Hour }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"faults":                                    {func(f *settings) { f.Sandbox.Fail = true }, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"sandbox":                                   {func(*settings) {}, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"sandbox, embedded":                         {func(f *settings) { f.MySQLDSN = "" }, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"sandbox, embedded demo":                    {func(f *settings) { f.MySQLDSN, f.Demo = "", &yes }, map[string]doctor.Status{"sandbox": doctor.OK}},
		"faults, embedded demo":                     {func(f *settings) { f.Sandbox.Fail, f.MySQLDSN, f.Demo = true, "", &yes }, map[string]doctor.Status{"sandbox": doctor.Warn}},
		"no sender of codes":                        {func(f *settings) { f.CodeURL = "" }, map[string]doctor.Status{"codes": doctor.Fail}},
		"events": {func(f *settings) {
			f.EventsURL, f.EventsSecret = "https://erp.example", "4be386f0b92d1e85c37a49d216fe07b58c3a2b4c1d09f3a6"
		}, map[string]doctor.Status{"events": doctor.OK}},
		"events, weak secret": {func(f *settings) {
			f.CodeURL, f.EventsURL, f.EventsSecret = "", "https://erp.example", strings.Repeat("e", 32)
		}, map[string]doctor.Status{"events": doctor.Fail, "codes": doctor.Fail}},
		"alerts, weak secret": {func(f *settings) {
			f.CodeURL, f.AlertURL, f.EventsSecret = "", "https://ops.example", strings.Repeat("e", 32)
		}, map[string]doctor.Status{"events": doctor.Fail, "codes": doctor.Fail}},
		"events, token secret": {func(f *settings) { f.EventsURL, f.EventsSecret = "https://erp.example", goodSecret },
			map[string]doctor.Status{"events": doctor.Fail, "codes": doctor.Fail}},
		"payment provider":         {func(f *settings) { f.PaymentURL = "https://pay.example" }, map[string]doctor.Status{"sandbox": doctor.OK}},
		"no sender of codes, demo": {func(f *settings) { f.CodeURL, f.Demo = "", &yes }, map[string]doctor.Status{"codes": doctor.OK}},
		"accepted":                 {func(f *settings) { f.Demo, f.Unsafe = &yes, []string{"demo"} }, map[string]doctor.Status{"demo": doctor.Warn, "sandbox": doctor.Fail}},
		"queue on embedded Redis":  {func(f *settings) { f.OrderLane, f.RedisAddrs, f.MySQLDSN = "queue", nil, "" }, map[string]doctor.Status{"lane": doctor.Warn}},
		"embedded Redis only":      {func(f *settings) { f.RedisAddrs = nil }, map[string]doctor.Status{"lane": doctor.Warn}},
		"unused lock nodes":        {func(f *settings) { f.OrderLane, f.LockNodes = "batch", []string{"a:1"} }, map[string]doctor.Status{"lane": doctor.Warn}},
		"all embedded":             {func(f *settings) { f.RedisAddrs, f.MySQLDSN = nil, "" }, map[string]doctor.Status{"lane": doctor.OK, "database_password": doctor.OK}},
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
