package cli

import (
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/doctor"
	"seckill/internal/domain"
	"seckill/internal/payment"
	"seckill/internal/repo"
)

// TestDoctorSkipsSlowTotals checks that a timeout of the totals is not reported as a database that hangs.
func TestDoctorSkipsSlowTotals(t *testing.T) {
	t.Parallel()
	store, err := repo.OpenSQLite(filepath.Join(t.TempDir(), app.DatabaseFile))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := newSalesDoctor(&examination{store: store})
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r := s.checkTotals(late)
	require.Equal(t, doctor.Skipped, r.Status, r.Found)
	require.False(t, r.Unasked)
	require.Contains(t, r.Found, "too many orders to check within 30s")
	require.Contains(t, r.Change, "seckill verify")
	r = s.checkTotals(t.Context()) // the tables do not exist
	require.Equal(t, doctor.Fail, r.Status, r.Found)
	require.True(t, r.Unasked)
}

func TestDoctorChecksSaleWindows(t *testing.T) {
	t.Parallel()
	begin := time.Now().Add(time.Hour)
	sale := func(edit func(*domain.Voucher)) domain.Voucher {
		v := domain.Voucher{ID: 7, Status: domain.VoucherOn, Sale: &domain.Sale{Stock: 5, BeginAt: begin, EndAt: begin.Add(time.Hour), LimitPerUser: 1}}
		edit(&v)
		return v
	}
	for found, tc := range map[string]struct {
		edit func(*domain.Voucher)
		want doctor.Status
	}{
		"1 sales have a valid window": {func(*domain.Voucher) {}, doctor.OK},
		"ends before it begins":       {func(v *domain.Voucher) { v.Sale.EndAt = begin }, doctor.Fail},
		"allows no orders":            {func(v *domain.Voucher) { v.Sale.LimitPerUser = 0 }, doctor.Fail},
		"is not published":            {func(v *domain.Voucher) { v.Status = domain.VoucherOff }, doctor.Warn},
		"has no units":                {func(v *domain.Voucher) { v.Sale.Stock = 0 }, doctor.Warn},
		"lasts 10m0s":                 {func(v *domain.Voucher) { v.Sale.EndAt = begin.Add(10 * time.Minute) }, doctor.Warn},
	} {
		r := windowsResult([]domain.Voucher{sale(tc.edit)}, 15*time.Minute)
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Contains(t, r.Found, found)
	}
	off := sale(func(v *domain.Voucher) { v.Status = domain.VoucherOff })
	require.Contains(t, windowsResult([]domain.Voucher{off, off, off, off, off}, time.Minute).Found, "and 2 more")
}

func TestDoctorChecksConfiguration(t *testing.T) {
	t.Parallel()
	const dsn = "seckill:hunter2hunter2@tcp(127.0.0.1:1)/seckill"
	yes, no := true, false
	for name, tc := range map[string]struct {
		edit func(*configFacts)
		want map[string]doctor.Status
	}{
		"good": {func(*configFacts) {}, map[string]doctor.Status{
			"jwt_secret": doctor.OK, "payment_secret": doctor.OK, "database_password": doctor.OK, "demo": doctor.OK, "admins": doctor.OK, "rate_limit": doctor.OK,
			"proxies": doctor.OK, "addr": doctor.OK, "ops_addr": doctor.OK, "pay_timeout": doctor.OK, "sandbox": doctor.OK, "lane": doctor.OK,
		}},
		"example secret":                {func(f *configFacts) { f.secret = []byte(testSecret) }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"no secret":                     {func(f *configFacts) { f.secret, f.secretErr = nil, errors.New("required") }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"no secret yet":                 {func(f *configFacts) { f.secret, f.secretErr = nil, fs.ErrNotExist }, map[string]doctor.Status{"jwt_secret": doctor.OK}},
		"payment secret = token secret": {func(f *configFacts) { f.PaymentSecret = goodSecret }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"weak payment secret":           {func(f *configFacts) { f.PaymentSecret = "shop" }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"own payment secret":            {func(f *configFacts) { f.PaymentSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd" }, map[string]doctor.Status{"payment_secret": doctor.OK}},
		"no password":                   {func(f *configFacts) { f.MySQLDSN = "seckill@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"example password":              {func(f *configFacts) { f.MySQLDSN = "u:my-Password@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"short password":                {func(f *configFacts) { f.MySQLDSN = "u:zq3k9xw@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"user as password":              {func(f *configFacts) { f.MySQLDSN = "shopkeeper:shopkeeper@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"socket":                        {func(f *configFacts) { f.MySQLDSN = "root@unix(/run/mysqld.sock)/seckill" }, map[string]doctor.Status{"database_password": doctor.OK}},
		"no DSN":                        {func(f *configFacts) { f.MySQLDSN = "tcp" }, map[string]doctor.Status{"database_password": doctor.Skipped}},
		"demo":                          {func(f *configFacts) { f.Demo = &yes }, map[string]doctor.Status{"demo": doctor.Fail}},
		"demo, embedded":                {func(f *configFacts) { f.Demo, f.MySQLDSN = &yes, "" }, map[string]doctor.Status{"demo": doctor.Warn}},
		"no admin":                      {func(f *configFacts) { f.AdminPhones = nil }, map[string]doctor.Status{"admins": doctor.Warn}},
		"demo admin":                    {func(f *configFacts) { f.AdminPhones = []string{app.DemoAdmin} }, map[string]doctor.Status{"admins": doctor.Fail}},
		"demo admin in demo mode":       {func(f *configFacts) { f.AdminPhones, f.Demo = []string{app.DemoAdmin}, &yes }, map[string]doctor.Status{"admins": doctor.OK}},
		"no rate limit":                 {func(f *configFacts) { f.RateLimit = "off" }, map[string]doctor.Status{"rate_limit": doctor.Fail}},
		"no rate limit, embedded":       {func(f *configFacts) { f.RateLimit, f.MySQLDSN = "off", "" }, map[string]doctor.Status{"rate_limit": doctor.Warn}},
		"all addresses trusted":         {func(f *configFacts) { f.Proxies = []string{"10.0.0.1", "0.0.0.0/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all IPv6 trusted":              {func(f *configFacts) { f.Proxies = []string{"::/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"wide network":                  {func(f *configFacts) { f.Proxies = []string{"10.0.0.0/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"wide IPv6 network":             {func(f *configFacts) { f.Proxies = []string{"fd00::/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"narrow networks":               {func(f *configFacts) { f.Proxies = []string{"172.18.0.0/16", "127.0.0.0/8", "::1"} }, map[string]doctor.Status{"proxies": doctor.OK}},
		"container":                     {func(f *configFacts) { f.container = true }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"container, loopback":           {func(f *configFacts) { f.container, f.Addr = true, "127.0.0.1:80" }, map[string]doctor.Status{"proxies": doctor.OK, "addr": doctor.OK}},
		"own address":                   {func(f *configFacts) { f.Addr = "ours:80" }, map[string]doctor.Status{"addr": doctor.OK}},
		"foreign address":               {func(f *configFacts) { f.Addr = "other:80" }, map[string]doctor.Status{"addr": doctor.Warn}},
		"unknown host":                  {func(f *configFacts) { f.Addr = "unknown:80" }, map[string]doctor.Status{"addr": doctor.Fail}},
		"ops on all addresses":          {func(f *configFacts) { f.OpsAddr = ":9090" }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"ops on public address":         {func(f *configFacts) { f.OpsAddr = "203.0.113.5:9090" }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"ops on private address":        {func(f *configFacts) { f.OpsAddr = "10.1.2.3:9090" }, map[string]doctor.Status{"ops_addr": doctor.OK}},
		"short pay timeout":             {func(f *configFacts) { f.PayTimeout = 59 * time.Second }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"long pay timeout":              {func(f *configFacts) { f.PayTimeout = 24 * time.Hour }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"faults":                        {func(f *configFacts) { f.Sandbox = payment.Faults{Lose: 1} }, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"faults, embedded":              {func(f *configFacts) { f.Sandbox, f.MySQLDSN = payment.Faults{Fail: true}, "" }, map[string]doctor.Status{"sandbox": doctor.Warn}},
		"queue on embedded Redis":       {func(f *configFacts) { f.OrderLane, f.RedisAddrs, f.MySQLDSN = "queue", nil, "" }, map[string]doctor.Status{"lane": doctor.Warn}},
		"embedded Redis only":           {func(f *configFacts) { f.RedisAddrs = nil }, map[string]doctor.Status{"lane": doctor.Warn}},
		"unused lock nodes":             {func(f *configFacts) { f.OrderLane, f.LockNodes = "batch", []string{"a:1"} }, map[string]doctor.Status{"lane": doctor.Warn}},
		"all embedded":                  {func(f *configFacts) { f.RedisAddrs, f.MySQLDSN = nil, "" }, map[string]doctor.Status{"lane": doctor.OK, "database_password": doctor.OK}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := configFacts{secret: []byte(goodSecret), addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")}, Config: app.Config{
				Addr: ":8080", MySQLDSN: dsn, RedisAddrs: []string{"r:1"}, OrderLane: "lock", Demo: &no, AdminPhones: []string{"13912345678"},
				RateLimit: "on", PayTimeout: 15 * time.Minute, OpsAddr: "127.0.0.1:9090",
			}}
			f.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
				ip, known := map[string]string{"ours": "::ffff:10.1.2.3", "other": "10.9.9.9", "127.0.0.1": "127.0.0.1"}[host]
				if !known {
					return nil, errors.New("no such host")
				}
				return []netip.Addr{netip.MustParseAddr(ip)}, nil
			}
			tc.edit(&f)
			found := map[string]doctor.Finding{}
			for _, finding := range doctor.Run(t.Context(), []doctor.Group{f.group()}) {
				found[finding.Check] = finding
				require.Equal(t, finding.Status == doctor.Warn || finding.Status == doctor.Fail, finding.Change != "", finding.Check)
				require.NotContains(t, finding.Found+finding.Change, goodSecret)
			}
			for check, want := range tc.want {
				requireStatus(t, found, want, "config."+check)
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

// TestDoctorMasksSecrets checks that secrets are masked in the texts of drivers and servers only. Masking them in the
// program's own texts would reveal a password that is one of their words.
func TestDoctorMasksSecrets(t *testing.T) {
	t.Parallel()
	secrets := secretsOf(app.Config{MySQLDSN: "u:dsnpassword@tcp(h:1)/d", RedisPassword: "redispassword", JWTSecret: "tokensecret", PaymentSecret: "paymentsecret"})
	require.Len(t, secrets, 4)
	var findings []doctor.Finding
	for _, s := range secrets {
		findings = append(findings, doctor.Finding{Check: "c", Result: doctor.Heard(doctor.Fail, "change it", "the server said ", errors.New(s))})
	}
	var out strings.Builder
	require.NoError(t, newDoctorReport(findings, secrets).print(&out))
	for _, s := range secrets {
		require.NotContains(t, out.String(), s)
	}
	require.Contains(t, out.String(), "the server said ***")

	own := doctor.Bad(doctor.Warn, "set redis", "redis is old")
	report := newDoctorReport([]doctor.Finding{{Result: own}}, []string{"redis"})
	require.Equal(t, own, report.Findings[0].Result)
}

// TestDoctorChecksAreDocumented compares the checks with docs/doctor.md, in both directions.
func TestDoctorChecksAreDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	for _, cfg := range []app.Config{
		{Addr: ":0", DataDir: t.TempDir()},
		{Addr: ":0", DataDir: t.TempDir(), MySQLDSN: "u@tcp(127.0.0.1:1)/d", RedisAddrs: []string{"127.0.0.1:1"}},
	} {
		x := newExamination(&app.Env{Ctx: t.Context(), Config: cfg}, 1)
		for _, name := range doctor.Names(x.groups(t.Context())) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		x.close()
	}
	text, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	require.ElementsMatch(t, names, documented, fmt.Sprintf("%d checks", len(names)))
}
