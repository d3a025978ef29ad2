package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/app"
	"seckill/internal/ops/doctor"
	"seckill/test/env"
)

// runMain makes the test binary run the program.
const runMain = "SECKILL_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		os.Exit(Run(UntilSignal(), os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// Each invalid value is refused with a message that names the flag and the variable.
func TestInvalidConfigurationIsRefused(t *testing.T) {
	mysql := "--mysql-dsn=root@tcp(127.0.0.1:1)/seckill"
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"address":                {[]string{"--addr", "nonsense"}, []string{"--addr (SECKILL_ADDR)", "127.0.0.1:8080"}},
		"address elsewhere":      {[]string{"--addr", "192.0.2.1:8080"}, []string{"--addr (SECKILL_ADDR): cannot listen at 192.0.2.1:8080; name an address of this machine"}},
		"folder is a file":       {[]string{"--addr", "127.0.0.1:0", "--data-dir", "cli_test.go/data"}, []string{"--data-dir (SECKILL_DATA_DIR): cannot create the folder cli_test.go/data"}},
		"port":                   {[]string{"--addr", ":99999"}, []string{"--addr (SECKILL_ADDR)"}},
		"redis address":          {[]string{"--redis-addrs", "localhost"}, []string{"--redis-addrs (SECKILL_REDIS_ADDRS)"}},
		"redis URL parameter":    {[]string{"--redis-addrs", "redis://a:1?max_retries=3"}, []string{"--redis-addrs (SECKILL_REDIS_ADDRS)", "address 1"}},
		"redis users differ":     {[]string{"--redis-addrs", "redis://u:p@a:1,redis://v:p@b:1"}, []string{"--redis-addrs (SECKILL_REDIS_ADDRS)", "address 2 differs"}},
		"cluster database":       {[]string{"--redis-addrs", "redis://a:1/3,b:1"}, []string{"--redis-addrs (SECKILL_REDIS_ADDRS)", "no database but 0"}},
		"sentinel alone":         {[]string{"--redis-sentinel", "mymaster"}, []string{"--redis-sentinel (SECKILL_REDIS_SENTINEL)", "--redis-addrs (SECKILL_REDIS_ADDRS)"}},
		"redis CA missing":       {[]string{"--redis-addrs", "rediss://a:1", "--redis-ca", "/nowhere/ca.pem"}, []string{"--redis-ca (SECKILL_REDIS_CA)", "/nowhere/ca.pem"}},
		"redis CA without TLS":   {[]string{"--redis-addrs", "a:1", "--redis-ca", "cli_test.go"}, []string{"--redis-ca (SECKILL_REDIS_CA)", "no certificate", "requires a rediss:// URL"}},
		"lock node":              {[]string{"--lock-nodes", "a:1,b"}, []string{"--lock-nodes (SECKILL_LOCK_NODES)", "node 2"}},
		"node twice":             {[]string{"--lock-nodes", "a:1,b:1,a:1"}, []string{"--lock-nodes (SECKILL_LOCK_NODES)", "twice"}},
		"ZooKeeper server":       {[]string{"--lock-nodes", "zk://a:1,b"}, []string{"--lock-nodes (SECKILL_LOCK_NODES)", `"b"`}},
		"ZooKeeper twice":        {[]string{"--lock-nodes", "zk://a:1,a:1"}, []string{"--lock-nodes (SECKILL_LOCK_NODES)", "twice"}},
		"Redis and ZooKeeper":    {[]string{"--lock-nodes", "a:1,zk://b:1,c:1"}, []string{"--lock-nodes (SECKILL_LOCK_NODES)", "node 2"}},
		"even nodes":             {[]string{"--lock-nodes", "a:1,b:1"}, []string{"--lock-nodes (SECKILL_LOCK_NODES)", "even"}},
		"no secret":              {[]string{mysql}, []string{"--jwt-secret (SECKILL_JWT_SECRET) is required"}},
		"lane":                   {[]string{"--order-lane", "fast"}, []string{"--order-lane (SECKILL_ORDER_LANE)"}},
		"rate limit":             {[]string{"--rate-limit", "maybe"}, []string{"--rate-limit (SECKILL_RATE_LIMIT)"}},
		"proxies":                {[]string{"--trusted-proxies", "10.0.0.0/33"}, []string{"--trusted-proxies (SECKILL_TRUSTED_PROXIES)"}},
		"admin phone":            {[]string{"--admin-phones", "12"}, []string{"--admin-phones (SECKILL_ADMIN_PHONES)"}},
		"admin phone abroad":     {[]string{"--admin-phones", "+4915112345678"}, []string{"--admin-phones (SECKILL_ADMIN_PHONES)", "mobile number of CN"}},
		"country":                {[]string{"--sms-countries", "CN,Germany"}, []string{"--sms-countries (SECKILL_SMS_COUNTRIES)", `"GERMANY"`}},
		"demo admin abroad":      {[]string{"--sms-countries", "DE"}, []string{"--admin-phones (SECKILL_ADMIN_PHONES)", app.DemoAdmin, "of DE"}},
		"pay timeout":            {[]string{"--pay-timeout", "0s"}, []string{"--pay-timeout (SECKILL_PAY_TIMEOUT)"}},
		"long pay timeout":       {[]string{"--pay-timeout", "72h"}, []string{"--pay-timeout (SECKILL_PAY_TIMEOUT): 72h0m0s is not between a second and a day"}},
		"drain":                  {[]string{"--drain", "-1s"}, []string{"--drain (SECKILL_DRAIN)"}},
		"retention":              {[]string{"--retention", "90s"}, []string{"--retention (SECKILL_RETENTION)"}},
		"security contact":       {[]string{"--security-contact", "security@example.com"}, []string{"--security-contact (SECKILL_SECURITY_CONTACT)"}},
		"shop name":              {[]string{"--shop-name", strings.Repeat("n", 41)}, []string{"--shop-name (SECKILL_SHOP_NAME)"}},
		"shop logo":              {[]string{"--shop-logo", "logo.png"}, []string{"--shop-logo (SECKILL_SHOP_LOGO)"}},
		"shop color":             {[]string{"--shop-color", "red"}, []string{"--shop-color (SECKILL_SHOP_COLOR)"}},
		"shop imprint":           {[]string{"--shop-imprint", "javascript:x"}, []string{"--shop-imprint (SECKILL_SHOP_IMPRINT)"}},
		"shop privacy":           {[]string{"--shop-privacy", "https://"}, []string{"--shop-privacy (SECKILL_SHOP_PRIVACY)"}},
		"time zone":              {[]string{"--timezone", "Asia/Atlantis"}, []string{"--timezone (SECKILL_TIMEZONE)", `"Asia/Atlantis"`}},
		"duration":               {[]string{"--pay-timeout", "15"}, []string{"--pay-timeout (SECKILL_PAY_TIMEOUT)", "missing unit"}},
		"log level":              {[]string{"--log-level", "loud"}, []string{"--log-level (SECKILL_LOG_LEVEL)", `"loud"`}},
		"short second secret":    {[]string{"--jwt-secret", strings.Repeat("s", 32) + ",short"}, []string{"--jwt-secret (SECKILL_JWT_SECRET)", "32"}},
		"only separators":        {[]string{"--payment-secret", " , "}, []string{"--payment-secret (SECKILL_PAYMENT_SECRET)"}},
		"unsafe name":            {[]string{"--unsafe", "demo,sandbx"}, []string{"--unsafe (SECKILL_UNSAFE)", `"sandbx"`, "sandbox"}},
		"code URL":               {[]string{"--code-url", "http://sms.example"}, []string{"--code-url (SECKILL_CODE_URL) is neither", "--events-secret (SECKILL_EVENTS_SECRET) with at least 32"}},
		"events URL":             {[]string{"--events-url", "http://erp.example"}, []string{"--events-url (SECKILL_EVENTS_URL) is neither", "requires --events-secret"}},
		"alert URL":              {[]string{"--alert-url", "http://chat.example"}, []string{"--alert-url (SECKILL_ALERT_URL) is neither", "requires --events-secret"}},
		"payment URL":            {[]string{"--payment-url", "ftp://pay.example"}, []string{"--payment-url (SECKILL_PAYMENT_URL) is neither", "requires --payment-secret (SECKILL_PAYMENT_SECRET)"}},
		"payment URL and faults": {[]string{"--payment-url", "https://pay.example", "--payment-secret", strings.Repeat("p", 32), "--sandbox", "fail"}, []string{"--sandbox (SECKILL_SANDBOX)"}},
		"unsafe settings":        {[]string{"--no-demo", "--rate-limit=off"}, []string{"\n  codes: ", "\n  rate_limit: ", "\n  sandbox: ", "SECKILL_UNSAFE=codes,rate_limit,sandbox\n"}},
		"demo on a database":     {[]string{mysql, "--demo", "--jwt-secret", strings.Repeat("s", 32)}, []string{"\n  demo: ", "SECKILL_UNSAFE=jwt_secret,demo,sandbox\n"}},
		"several at once":        {[]string{"--addr", "x", "--ops-addr", "9090"}, []string{"--addr (SECKILL_ADDR)", "--ops-addr (SECKILL_OPS_ADDR)"}},
		"malformed DSN":          {[]string{"--mysql-dsn=root:hidden@localhost/db"}, []string{"--mysql-dsn (SECKILL_MYSQL_DSN)", "network 'localhost'", "tcp(host:3306)"}},
		"DSN without @":          {[]string{"--mysql-dsn=root:hidden/seckill"}, []string{"no @ after user and password", "tcp(host:3306)"}},
		"DSN without a database": {[]string{"--mysql-dsn=root@tcp(127.0.0.1:1)/", "--unsafe=all", "--jwt-secret=" + strings.Repeat("s", 32)}, []string{"name of the database"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"serve", "--data-dir", t.TempDir()}, tc.args...)...)
			require.Equal(t, 1, code)
			for _, want := range tc.want {
				require.Contains(t, stderr, want)
			}
			require.Empty(t, stdout)
			require.NotContains(t, stderr, "waiting for", "it is refused before the server connects")
			require.NotContains(t, stderr, strings.Repeat("s", 32))
		})
	}
}

// Sizes that no command can serve are refused before the command does anything.
func TestSizesAreBounded(t *testing.T) {
	for text, want := range map[string]string{
		"doctor --instances 0":                  "--instances must be between 1 and 10000",
		"doctor --instances 400000000000000000": "--instances must be between 1 and 10000",
		"seed --tokens - --users 10000001":      "--users must be between 1 and 10000000",
		"rush --buyers 1000001":                 "--buyers must be between 1 and 1000000",
		"rush --parallel 10001":                 "--parallel between 1 and 10000",
		"dead-letters list --limit 501":         "--limit must be between 1 and 500",
	} {
		code, _, stderr := run(t, append(strings.Fields(text), "--data-dir", t.TempDir())...)
		require.NotZero(t, code, text)
		require.Contains(t, stderr, want, text)
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	code, stdout, _ := run(t, "--help")
	require.Zero(t, code)
	fields := reflect.TypeFor[app.Config]()
	for i := range fields.NumField() {
		require.Contains(t, stdout, "$"+fields.Field(i).Tag.Get("env"))
	}
	for _, command := range []string{"serve", "migrate", "seed", "verify", "rush"} {
		require.Contains(t, stdout, "  "+command)
	}
}

func TestInvalidVariableIsNamed(t *testing.T) {
	t.Setenv("SECKILL_DEMO", "maybe")
	code, _, stderr := run(t)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `seckill: --demo (SECKILL_DEMO): bool value must be true, 1, yes, false, 0 or no but got "maybe"`)
}

// TestUnusablePortChangesNothing starts a server on a port in use. It must not create the data directory.
func TestUnusablePortChangesNothing(t *testing.T) {
	other := env.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer other.Close()
	dir := filepath.Join(t.TempDir(), "data")
	for _, flag := range []string{"--addr", "--ops-addr"} {
		code, _, stderr := run(t, "serve", "--addr", "127.0.0.1:0", flag, other.Addr().String(), "--data-dir", dir)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, flag+" (SECKILL_"+strings.ToUpper(strings.ReplaceAll(flag[2:], "-", "_"))+"): cannot listen at "+other.Addr().String()+"; another program")
		require.NoDirExists(t, dir)
	}
}

func TestHelpBeginsWithOwnFlags(t *testing.T) {
	for command, own := range map[string]string{
		"rush": "--buyers", "seed": "--users", "doctor": "--instances", "reconcile": "--apply", "room verify": "--number", "admin enroll": "--phone",
	} {
		code, stdout, _ := run(t, append(strings.Fields(command), "--help")...)
		require.Zero(t, code)
		flags, settings, ok := strings.Cut(stdout, "Settings of the server:")
		require.True(t, ok, command)
		require.Contains(t, flags, own)
		require.NotContains(t, flags, "($SECKILL_", command)
		require.Contains(t, settings, "--addr")
		require.Equal(t, command == "rush", !strings.Contains(settings, "--jwt-secret"), command)
	}
}

// A configuration without a value has its default, which depends on the database and on demo mode. Lists have no empty elements.
func TestDefaults(t *testing.T) {
	second, no := time.Second, false
	const dsn = "user:password@tcp(host:3306)/db"
	for name, tc := range map[string]struct {
		cfg    app.Config
		demo   bool
		admins []string
		drain  time.Duration
	}{
		"embedded":       {app.Config{}, true, []string{app.DemoAdmin}, 0},
		"MySQL":          {app.Config{MySQLDSN: dsn}, false, nil, 5 * time.Second},
		"no demo":        {app.Config{Demo: &no}, false, nil, 0},
		"own drain":      {app.Config{MySQLDSN: dsn, Drain: &second}, false, nil, second},
		"empty elements": {app.Config{AdminPhones: []string{"", " +8613800000001 "}, RedisAddrs: []string{" "}}, true, []string{"13800000001"}, 0},
	} {
		tc.cfg.DataDir, tc.cfg.PayTimeout, tc.cfg.QueueBacklog = "d", time.Second, 1
		cfg, err := tc.cfg.Finish()
		require.NoError(t, err, name)
		require.Equal(t, tc.demo, cfg.IsDemo(), name)
		require.Equal(t, tc.admins, cfg.AdminPhones, name)
		require.Equal(t, tc.drain, *cfg.Drain, name)
		require.True(t, cfg.EmbeddedRedis(), name)
	}
}

// TestVerifyReportsOnlyViolationsWithCode1 checks that verify exits with ExitUnchecked for any other failure.
func TestVerifyReportsOnlyViolationsWithCode1(t *testing.T) {
	for _, args := range [][]string{{"verify", "--bogus"}, {"verify", "--addr", "x"}, {"verify", "--data-dir", t.TempDir()}} {
		code, _, stderr := run(t, args...)
		require.Equal(t, ExitUnchecked, code, stderr)
	}
}

// Shops may have a database each in one Redis, whose channels are common to all.
func TestQueueServerOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	r := env.StartRedis(t)
	inDatabase := func(db int) redis.UniversalClient {
		rdb := redis.NewClient(&redis.Options{Addr: r.Addr, DB: db})
		t.Cleanup(func() { require.NoError(t, rdb.Close()) })
		return rdb
	}

	for _, db := range []int{0, 3} {
		rdb := inDatabase(db)
		sub := rdb.Subscribe(t.Context(), app.QueueChannel(rdb))
		env.Must(sub.Receive(t.Context()))(t)
		require.True(t, env.Must(queueServerRuns(t.Context(), inDatabase(db)))(t), db)
		require.False(t, env.Must(queueServerRuns(t.Context(), inDatabase(4)))(t), db)
		require.NoError(t, sub.Close())
	}
}

func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"JWT_SECRET", "PAYMENT_SECRET", "EVENTS_SECRET", "MYSQL_DSN", "REDIS_PASSWORD"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("value of "+name+"\n"), 0o600))
		t.Setenv("SECKILL_"+name+"_FILE", path)
	}
	parse := func(args ...string) app.Config {
		var c cli
		parser := env.Must(kong.New(&c, kong.Resolvers(kong.ResolverFunc(secretFile))))(t)
		env.Must(parser.Parse(args))(t)
		return c.Config
	}
	c := parse("serve")
	require.Equal(t, []string{"value of JWT_SECRET", "value of PAYMENT_SECRET", "value of EVENTS_SECRET", "value of MYSQL_DSN", "value of REDIS_PASSWORD"},
		[]string{c.JWTSecret, c.PaymentSecret, c.EventsSecret, c.MySQLDSN, c.RedisPassword})
	require.Equal(t, "flag", parse("serve", "--redis-password=flag").RedisPassword)
}

func TestUnusableSecretFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	empty, missing := filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	t.Setenv("SECKILL_REDIS_PASSWORD", "x")
	for variable, tc := range map[string]struct{ path, want string }{
		"SECKILL_JWT_SECRET_FILE":     {missing, missing},
		"SECKILL_MYSQL_DSN_FILE":      {empty, empty},
		"SECKILL_REDIS_PASSWORD_FILE": {empty, "SECKILL_REDIS_PASSWORD and SECKILL_REDIS_PASSWORD_FILE are both set"},
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, tc.path)
			code, _, stderr := run(t, "serve", "--data-dir", dir)
			require.Equal(t, 1, code)
			text := strings.Join(strings.Fields(stderr), " ")
			require.Contains(t, text, variable)
			require.Contains(t, text, tc.want)
		})
	}
}

func TestVersionNeedsNoValidConfiguration(t *testing.T) {
	t.Setenv("SECKILL_ORDER_LANE", "nonsense")
	for _, arg := range []string{"version", "--version"} {
		code, stdout, stderr := run(t, arg)
		require.Equal(t, []any{0, app.VersionDetails() + "\n", ""}, []any{code, stdout, stderr})
	}
}

// TestDoctorCreatesNothing: before the first start there is neither a data directory nor a secret.
func TestDoctorCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	_, stdout, _ := run(t, "doctor", "--data-dir", dir)
	require.Contains(t, stdout, dir+" does not exist yet")
	require.NoDirExists(t, dir)
}

// TestDoctorMasksSecrets checks that every secret is masked. Package doctor has the texts in which.
func TestDoctorMasksSecrets(t *testing.T) {
	t.Parallel()
	secrets := secretsOf(app.Config{MySQLDSN: "u:dsnpassword@tcp(h:1)/d", RedisPassword: "redispassword", JWTSecret: "tokensecret", PaymentSecret: "paymentsecret"})
	require.Len(t, secrets, 4)
	var findings []doctor.Finding
	for _, s := range secrets {
		findings = append(findings, doctor.Finding{Check: "c", Result: doctor.FromError(doctor.Fail, "change it", "the server said ", errors.New(s))})
	}
	var out strings.Builder
	require.NoError(t, newDoctorReport(findings, secrets).print(&out))
	for _, s := range secrets {
		require.NotContains(t, out.String(), s)
	}
	require.Contains(t, out.String(), "the server said ***")
}

// TestDoctorChecksAreDocumented compares the checks with docs/operations.md, in both directions.
func TestDoctorChecksAreDocumented(t *testing.T) {
	t.Parallel()
	checks := map[string]bool{}
	for _, cfg := range []app.Config{
		{Addr: ":0", DataDir: t.TempDir()},
		{Addr: ":0", DataDir: t.TempDir(), MySQLDSN: "u@tcp(127.0.0.1:1)/d", RedisAddrs: []string{"127.0.0.1:1"}},
		{Addr: ":0", DataDir: t.TempDir(), LockNodes: []string{"zk://127.0.0.1:1"}},
		{Addr: ":0", DataDir: t.TempDir(), RedisAddrs: []string{"127.0.0.1:1"}, RedisSentinel: "mymaster"},
	} {
		x := newExamination(&app.Env{Ctx: t.Context(), Config: cfg}, 1)
		for _, g := range x.groups(t.Context()) {
			for _, c := range append(g.Checks, g.Reach) {
				checks[c.Name] = true
			}
		}
		x.close()
	}

	text := env.Must(os.ReadFile("../../docs/operations.md"))(t)
	_, section, found := strings.Cut(string(text), "\n## Before a sale: seckill doctor\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")

	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	delete(checks, "") // of a group without Reach
	require.ElementsMatch(t, slices.Collect(maps.Keys(checks)), documented)
}

func TestProgressEstimatesRest(t *testing.T) {
	var out bytes.Buffer
	printProgress(&out, 0, 400, 0, time.Second)
	printProgress(&out, 100, 400, 20, 2*time.Second)
	printProgress(&out, 400, 400, 80, 8*time.Second)
	require.Equal(t, "  0 of 400 answered, 0 orders\n  100 of 400 answered, 20 orders, about 6s left\n  400 of 400 answered, 80 orders\n", out.String())
}

// The largest lobby that --size allows has an order of 16 GiB, which the command must not compute for one position.
func TestPositionInLargestLobby(t *testing.T) {
	code, stdout, stderr := run(t, "room", "verify", "--seed", strings.Repeat("7", 64), "--size", "4294967295", "--number", "4")
	require.Zero(t, code, stderr)
	require.Equal(t, "position 212924937 of 4294967295\n", stdout)
}

// A log that stands still delays only the line that finds it so. When it goes on, it has the number of the lost lines.
func TestLogThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		log := slog.New(slog.NewTextHandler(&patientWriter{out: writer}, nil))

		begun := time.Now()
		for _, line := range []string{"first", "second", "third"} {
			log.Info(line)
		}
		require.Equal(t, logPatience, time.Since(begun))

		lines := bufio.NewScanner(reader)
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), "first")

		synctest.Wait()
		go log.Info("fourth")
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), "lost_lines=2")
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), "fourth")
	})
}

// Lines that cannot be written, as on a full disk, are counted for the first one that can.
func TestLogOnFullDisk(t *testing.T) {
	reader, full := io.Pipe()
	require.NoError(t, reader.Close())
	var file bytes.Buffer
	out := &patientWriter{out: full}
	log := slog.New(slog.NewTextHandler(out, nil))
	log.Info("lost")
	out.out = &file
	log.Info("next")
	require.Regexp(t, `^time=\S+ level=WARN msg="the log stood still" lost_lines=1\n.*msg=next\n$`, file.String())
}

// A server outlives the program that reads its log, and shuts down when its terminal closes.
func TestServeWithoutReaderOfLog(t *testing.T) {
	t.Parallel()
	reader, log, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--log-level", "debug")
	cmd.Env = append(os.Environ(), runMain+"=1")
	cmd.Stderr = log
	stdout := env.Must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	require.NoError(t, log.Close())

	require.Contains(t, env.Must(bufio.NewReader(stdout).ReadString('\n'))(t), "seckill listens on")
	signals := endSignals()
	require.NoError(t, cmd.Process.Signal(signals[len(signals)-1]))
	require.NoError(t, cmd.Wait())
}
