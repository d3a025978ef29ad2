package app

import (
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
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

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/doctor"
	"seckill/internal/payment"
	"seckill/internal/repo"
	"seckill/internal/service"
	"seckill/internal/testenv"
)

const goodSecret = "b4c1d09f3a6e57822c9e10fd7a45be386f0b92d1e85c37a49d216fe07b58c3a2"

// diagnose runs the doctor and returns its findings by "check" or "check on server".
func (s *stack) diagnose(t *testing.T, wantCode int, args ...string) map[string]doctor.Finding {
	t.Helper()
	cmd := s.command(t, append([]string{"doctor", "--json"}, args...)...)
	out, err := cmd.Output() // the verdict is on the other stream
	require.Equal(t, wantCode, cmd.ProcessState.ExitCode(), "%s\n%v", out, err)
	var report doctorReport
	require.NoError(t, json.Unmarshal(out, &report), string(out))
	require.Len(t, report.Findings, report.OK+report.Warnings+report.Failed+report.Skipped)
	found := map[string]doctor.Finding{}
	for _, f := range report.Findings {
		name := f.Check
		if f.On != "" {
			name += " " + f.On
		}
		require.NotContains(t, found, name, "asked twice")
		require.NotEmpty(t, f.Found)
		if f.Status == doctor.Warn || f.Status == doctor.Fail {
			require.NotEmpty(t, f.Change, name)
		}
		found[name] = f
	}
	return found
}

func requireStatus(t *testing.T, found map[string]doctor.Finding, want doctor.Status, names ...string) {
	t.Helper()
	for _, name := range names {
		require.Contains(t, found, name)
		require.Equal(t, want, found[name].Status, "%s: %s", name, found[name].Found)
	}
}

// TestDoctorOfAGoodStack has a user of his own, a durable Redis and random secrets: nothing has to be changed.
func TestDoctorOfAGoodStack(t *testing.T) {
	s, dsn := sellersStack(t)
	p := s.serve(t, "")
	found := s.diagnose(t, 0, "--instances", "3")
	for name, f := range found {
		if !strings.Contains(name, "latency") && f.Check != "machine.files" && f.Check != "config.proxies" && f.Check != "machine.memory" {
			require.Contains(t, []doctor.Status{doctor.OK, doctor.Skipped}, f.Status, "%s: %s", name, f.Found)
		}
	}
	requireStatus(t, found, doctor.OK, "database.privileges", "database.schema", "database.checks", "database.isolation",
		"database.sql_mode", "database.charset", "redis.persistence redis "+s.redis.Addr, "sales.upcoming", "sales.gates")
	require.Zero(t, p.stop(t))

	code, out := s.run(t, "doctor")
	require.Zero(t, code, out)
	require.Contains(t, out, "database.commit")
	require.Regexp(t, `\d+ checks: \d+ ok, \d+ warnings, 0 failed, \d+ skipped`, out)
	for _, secret := range []string{dsn.Passwd, goodSecret} {
		require.NotContains(t, out, secret)
	}
}

// sellersStack has the database of a user who may do what is needed.
func sellersStack(t *testing.T) (*stack, *mysql.Config) {
	t.Helper()
	db, rds := testenv.StartMariaDB(t), testenv.StartRedis(t, "--appendonly", "yes")
	dsn, err := mysql.ParseDSN(db.DSN(t))
	require.NoError(t, err)
	s := &stack{mariadb: db, redis: rds, env: []string{"SECKILL_MYSQL_DSN=" + dsn.FormatDSN()}}
	s.exec(t, "CREATE USER seller@'127.0.0.1' IDENTIFIED BY 'hunter2hunter2'")
	s.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `"+dsn.DBName+"`.* TO seller@'127.0.0.1'")
	dsn.User, dsn.Passwd = "seller", "hunter2hunter2"
	s.env = []string{
		"SECKILL_MYSQL_DSN=" + dsn.FormatDSN(), "SECKILL_REDIS_ADDRS=" + rds.Addr, "SECKILL_DATA_DIR=" + t.TempDir(),
		"SECKILL_JWT_SECRET=" + goodSecret, "SECKILL_ADMIN_PHONES=13912345678", "SECKILL_ORDER_LANE=queue", "SECKILL_ADDR=127.0.0.1:0",
	}
	return s, dsn
}

// TestDoctorExitCodes: 0 with warnings, 1 with --strict, 1 on a failure, 2 when something did not answer or the
// configuration is not usable.
func TestDoctorExitCodes(t *testing.T) {
	s := embeddedStack(t).with("SECKILL_RATE_LIMIT=on", "SECKILL_JWT_SECRET="+goodSecret)
	requireStatus(t, s.diagnose(t, 0), doctor.Warn, "config.demo")
	s.diagnose(t, 1, "--strict")
	requireStatus(t, s.with("SECKILL_JWT_SECRET="+testSecret).diagnose(t, 1), doctor.Fail, "config.jwt_secret")
	nowhere := freeAddr(t)
	found := s.with("SECKILL_REDIS_ADDRS="+nowhere, "SECKILL_JWT_SECRET="+testSecret).diagnose(t, 2)
	requireStatus(t, found, doctor.Fail, "redis.reachable redis "+nowhere)
	requireStatus(t, found, doctor.Skipped, "sales.queue")
	for _, args := range [][]string{{"--instances", "0"}, {"--no-such-flag"}, {"--pay-timeout", "1ms"}} {
		code, out := s.run(t, append([]string{"doctor"}, args...)...)
		require.Equal(t, 2, code, out)
	}
	code, out := s.with("SECKILL_MYSQL_DSN=root:hunter2hunter2@tcp").run(t, "doctor")
	require.Equal(t, 2, code, out)
	require.NotContains(t, out, "hunter2")
}

// TestDoctorOfFrozenServers: database, Redis and a lock node accept connections and never answer.
func TestDoctorOfFrozenServers(t *testing.T) {
	s, _ := sellersStack(t)
	node := testenv.StartRedis(t)
	s = s.with("SECKILL_LOCK_NODES="+node.Addr, "SECKILL_REDIS_PASSWORD=hunter2hunter2")
	for _, pause := range []func() error{s.mariadb.Pause, s.redis.Pause, node.Pause} {
		require.NoError(t, pause())
	}
	found := s.diagnose(t, 2)
	for _, name := range []string{"database.reachable", "redis.reachable redis " + s.redis.Addr, "redis.reachable lock node " + node.Addr} {
		requireStatus(t, found, doctor.Fail, name)
		require.True(t, found[name].Unasked)
		require.Contains(t, found[name].Found, "hangs")
	}
	requireStatus(t, found, doctor.Skipped, "database.commit", "sales.upcoming", "sales.books", "redis.eviction redis "+s.redis.Addr)
	requireStatus(t, found, doctor.Fail, "locks.independent")
}

// TestDoctorOfACluster looks at all masters, also at those that the configuration does not name.
func TestDoctorOfACluster(t *testing.T) {
	c := testenv.StartRedisCluster(t)
	s := embeddedStack(t).with("SECKILL_REDIS_ADDRS=" + c.Nodes[0].Addr + "," + c.Nodes[1].Addr)
	found := s.diagnose(t, 1)
	for _, n := range c.Nodes {
		requireStatus(t, found, doctor.OK, "redis.cluster redis "+n.Addr)
	}
	requireStatus(t, s.with("SECKILL_REDIS_ADDRS="+c.Nodes[2].Addr).diagnose(t, 1), doctor.Fail, "redis.cluster redis "+c.Nodes[2].Addr)
}

// TestDoctorBesideARunningServer finds the Redis inside it, and leaves everything as it was.
func TestDoctorBesideARunningServer(t *testing.T) {
	s := embeddedStack(t)
	dir := s.setting("SECKILL_DATA_DIR")
	before := files(t, dir)
	requireStatus(t, s.diagnose(t, 1), doctor.Skipped, "database.reachable", "redis.reachable", "sales.upcoming")
	require.Equal(t, before, files(t, dir), "it makes no database")
	missing := filepath.Join(dir, "none")
	s.with("SECKILL_DATA_DIR="+missing).diagnose(t, 1)
	require.NoDirExists(t, missing)

	require.NoError(t, os.Chmod(dir, 0o700))
	p := s.serve(t, "")
	found := s.diagnose(t, 1)
	requireStatus(t, found, doctor.OK, "database.reachable", "database.schema", "database.journal", "data.permissions",
		"redis.reachable", "sales.upcoming", "sales.schema", "sales.windows", "sales.books", "sales.queue")
	require.Contains(t, found["sales.upcoming"].Found, "1 sales begin within 24h0m0s, the first is voucher")
	requireStatus(t, found, doctor.Skipped, "sales.gates")
	requireReady(t, p)
	require.Zero(t, p.stop(t))
	before = files(t, dir)
	requireStatus(t, s.diagnose(t, 1), doctor.Skipped, "redis.reachable", "sales.queue")
	require.Equal(t, before, files(t, dir))
}

// files lists a folder with what is in each file.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

// TestDoctorOfSales damages the books, the windows and the gates of sales by hand, on both databases.
func TestDoctorOfSales(t *testing.T) {
	each(t, true, func(t *testing.T, s *stack) {
		s = s.in("queue")
		p := s.serve(t, "")
		sale := p.sale(t, 5)
		tokens := s.tokens(t, 1)
		order, err := p.Place(t.Context(), tokens[0], sale)
		require.NoError(t, err)
		requireOrdered(t, p, tokens[0], order.ID)
		require.Zero(t, p.stop(t)) // else it would repair what is done here
		found := s.diagnose(t, 1)
		requireStatus(t, found, doctor.OK, "sales.upcoming", "sales.schema", "sales.windows", "sales.books", "sales.gates", "sales.queue")
		require.Contains(t, found["sales.gates"].Found, "0 of 1 gates")
		upcoming := strings.Fields(regexp.MustCompile(`voucher \d+`).FindString(found["sales.upcoming"].Found))[1]

		for _, tc := range []struct {
			damage, repair, check string
			want                  doctor.Status
			says                  string
		}{
			{"UPDATE seckill_vouchers SET stock = stock + 1", "UPDATE seckill_vouchers SET stock = stock - 1", "sales.books", doctor.Fail, "I3"},
			{"UPDATE seckill_vouchers SET limit_per_user = 0", "UPDATE seckill_vouchers SET limit_per_user = 1", "sales.windows", doctor.Fail, "allows nobody"},
			{"UPDATE seckill_vouchers SET end_at = begin_at", "", "sales.windows", doctor.Fail, "ends before it begins"},
		} {
			where := " WHERE voucher_id = " + upcoming
			s.exec(t, tc.damage+where)
			f := s.diagnose(t, 1)[tc.check]
			require.Equal(t, tc.want, f.Status, f.Found)
			require.Contains(t, f.Found, tc.says)
			if tc.repair != "" {
				s.exec(t, tc.repair+where)
			}
		}

		// A gate of a sale that has not begun, as a server leaves it, and then with another number.
		prefix := "seckill:{s" + upcoming + "}:" + upcoming + ":"
		rdb := s.client(t)
		stock := s.count(t, "SELECT stock FROM seckill_vouchers WHERE voucher_id = "+upcoming)
		require.NoError(t, rdb.Set(t.Context(), prefix+"stock", stock, 0).Err())
		require.NoError(t, rdb.HSet(t.Context(), prefix+"meta", "held", 0, "queued", 0, "version", 1, "sum", 0).Err())
		require.Contains(t, s.diagnose(t, 1)["sales.gates"].Found, "1 of 1 gates are loaded and right")
		require.NoError(t, rdb.Set(t.Context(), prefix+"stock", stock-3, 0).Err())
		f := s.diagnose(t, 1)["sales.gates"]
		require.Equal(t, doctor.Warn, f.Status, f.Found)
		require.Contains(t, f.Found, "3 units that nobody holds are not offered")
		require.NoError(t, rdb.Del(t.Context(), prefix+"meta").Err())
		require.NoError(t, rdb.Set(t.Context(), prefix+"meta", "no hash", 0).Err())
		require.Contains(t, s.diagnose(t, 1)["sales.gates"].Found, "somebody else's")
		require.NoError(t, rdb.Del(t.Context(), prefix+"meta", prefix+"stock").Err())

		// The newest migration is taken back by hand, in the list alone.
		s.exec(t, "DELETE FROM goose_db_version WHERE version_id = 15")
		found = s.diagnose(t, 1)
		requireStatus(t, found, doctor.Warn, "sales.schema", "database.schema")
		require.Contains(t, found["sales.schema"].Found, "voucher "+upcoming+" begins in")
		require.Contains(t, found["sales.schema"].Found, "migration 15 is pending")

		// Orders that wait, for a lane that stores none, and letters that nobody answered.
		require.NoError(t, rdb.HSet(t.Context(), admission.QueuedTickets()[3], "1", "row").Err())
		requireStatus(t, s.diagnose(t, 1), doctor.OK, "sales.queue")
		requireStatus(t, s.with("SECKILL_ORDER_LANE=lock").diagnose(t, 1), doctor.Warn, "sales.queue")
		require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: admission.DeadStreams()[3], Values: []string{"row", "row"}}).Err())
		requireStatus(t, s.diagnose(t, 1), doctor.Warn, "sales.queue")
	})
}

// TestDoctorOfManyOrders: books that take too long are no sign of a database that hangs.
func TestDoctorOfManyOrders(t *testing.T) {
	t.Parallel()
	store, err := repo.OpenSQLite(filepath.Join(t.TempDir(), databaseFile))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := newSalesDoctor(&examination{store: store})
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r := s.checkBooks(late)
	require.Equal(t, doctor.Skipped, r.Status, r.Found)
	require.False(t, r.Unasked)
	require.Contains(t, r.Found, "too many orders for 30s")
	require.Contains(t, r.Change, "seckill verify")
	r = s.checkBooks(t.Context()) // there are no tables
	require.Equal(t, doctor.Fail, r.Status, r.Found)
	require.True(t, r.Unasked)
}

func TestDoctorOfWindows(t *testing.T) {
	t.Parallel()
	begin := time.Now().Add(time.Hour)
	sale := func(edit func(*service.Voucher)) service.Voucher {
		v := service.Voucher{ID: 7, Status: service.VoucherOn, Sale: &service.Sale{Stock: 5, BeginAt: begin, EndAt: begin.Add(time.Hour), LimitPerUser: 1}}
		edit(&v)
		return v
	}
	for found, tc := range map[string]struct {
		edit func(*service.Voucher)
		want doctor.Status
	}{
		"1 sales begin":         {func(*service.Voucher) {}, doctor.OK},
		"ends before it begins": {func(v *service.Voucher) { v.Sale.EndAt = begin }, doctor.Fail},
		"allows nobody":         {func(v *service.Voucher) { v.Sale.LimitPerUser = 0 }, doctor.Fail},
		"is off the shelf":      {func(v *service.Voucher) { v.Status = service.VoucherOff }, doctor.Warn},
		"has no units":          {func(v *service.Voucher) { v.Sale.Stock = 0 }, doctor.Warn},
		"lasts 10m0s":           {func(v *service.Voucher) { v.Sale.EndAt = begin.Add(10 * time.Minute) }, doctor.Warn},
	} {
		r := windowsResult([]service.Voucher{sale(tc.edit)}, 15*time.Minute)
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Contains(t, r.Found, found)
	}
	off := sale(func(v *service.Voucher) { v.Status = service.VoucherOff })
	require.Contains(t, windowsResult([]service.Voucher{off, off, off, off, off}, time.Minute).Found, "and 2 more")
}

func TestDoctorOfConfiguration(t *testing.T) {
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
		"example secret":       {func(f *configFacts) { f.secret = []byte(testSecret) }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"no secret":            {func(f *configFacts) { f.secret, f.secretErr = nil, errors.New("required") }, map[string]doctor.Status{"jwt_secret": doctor.Fail}},
		"secret to be made":    {func(f *configFacts) { f.secret, f.secretErr = nil, fs.ErrNotExist }, map[string]doctor.Status{"jwt_secret": doctor.OK}},
		"payments like tokens": {func(f *configFacts) { f.PaymentSecret = goodSecret }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"payments guessed":     {func(f *configFacts) { f.PaymentSecret = "shop" }, map[string]doctor.Status{"payment_secret": doctor.Fail}},
		"payments of its own":  {func(f *configFacts) { f.PaymentSecret = "9d216fe07b58c3a2b4c1d09f3a6e57822c9e10fd" }, map[string]doctor.Status{"payment_secret": doctor.OK}},
		"no password":          {func(f *configFacts) { f.MySQLDSN = "seckill@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"example password":     {func(f *configFacts) { f.MySQLDSN = "u:my-Password@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"short password":       {func(f *configFacts) { f.MySQLDSN = "u:zq3k9xw@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"user as password":     {func(f *configFacts) { f.MySQLDSN = "shopkeeper:shopkeeper@tcp(db:3306)/seckill" }, map[string]doctor.Status{"database_password": doctor.Warn}},
		"socket":               {func(f *configFacts) { f.MySQLDSN = "root@unix(/run/mysqld.sock)/seckill" }, map[string]doctor.Status{"database_password": doctor.OK}},
		"no DSN":               {func(f *configFacts) { f.MySQLDSN = "tcp" }, map[string]doctor.Status{"database_password": doctor.Skipped}},
		"demo":                 {func(f *configFacts) { f.Demo = &yes }, map[string]doctor.Status{"demo": doctor.Fail}},
		"demo, embedded":       {func(f *configFacts) { f.Demo, f.MySQLDSN = &yes, "" }, map[string]doctor.Status{"demo": doctor.Warn}},
		"no admin":             {func(f *configFacts) { f.AdminPhones = nil }, map[string]doctor.Status{"admins": doctor.Warn}},
		"the demo's admin":     {func(f *configFacts) { f.AdminPhones = []string{demoAdmin} }, map[string]doctor.Status{"admins": doctor.Fail}},
		"admin of a demo":      {func(f *configFacts) { f.AdminPhones, f.Demo = []string{demoAdmin}, &yes }, map[string]doctor.Status{"admins": doctor.OK}},
		"no limits":            {func(f *configFacts) { f.RateLimit = "off" }, map[string]doctor.Status{"rate_limit": doctor.Fail}},
		"no limits, embedded":  {func(f *configFacts) { f.RateLimit, f.MySQLDSN = "off", "" }, map[string]doctor.Status{"rate_limit": doctor.Warn}},
		"all are proxies":      {func(f *configFacts) { f.Proxies = []string{"10.0.0.1", "0.0.0.0/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"all of IPv6":          {func(f *configFacts) { f.Proxies = []string{"::/0"} }, map[string]doctor.Status{"proxies": doctor.Fail}},
		"wide":                 {func(f *configFacts) { f.Proxies = []string{"10.0.0.0/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"wide IPv6":            {func(f *configFacts) { f.Proxies = []string{"fd00::/8"} }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"own network":          {func(f *configFacts) { f.Proxies = []string{"172.18.0.0/16", "127.0.0.0/8", "::1"} }, map[string]doctor.Status{"proxies": doctor.OK}},
		"container":            {func(f *configFacts) { f.container = true }, map[string]doctor.Status{"proxies": doctor.Warn}},
		"container, loopback":  {func(f *configFacts) { f.container, f.Addr = true, "127.0.0.1:80" }, map[string]doctor.Status{"proxies": doctor.OK, "addr": doctor.OK}},
		"address of ours":      {func(f *configFacts) { f.Addr = "ours:80" }, map[string]doctor.Status{"addr": doctor.OK}},
		"address of another":   {func(f *configFacts) { f.Addr = "other:80" }, map[string]doctor.Status{"addr": doctor.Warn}},
		"address of nobody":    {func(f *configFacts) { f.Addr = "nobody:80" }, map[string]doctor.Status{"addr": doctor.Fail}},
		"profiles for all":     {func(f *configFacts) { f.OpsAddr = ":9090" }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"profiles, public":     {func(f *configFacts) { f.OpsAddr = "203.0.113.5:9090" }, map[string]doctor.Status{"ops_addr": doctor.Warn}},
		"profiles, private":    {func(f *configFacts) { f.OpsAddr = "10.1.2.3:9090" }, map[string]doctor.Status{"ops_addr": doctor.OK}},
		"hardly time to pay":   {func(f *configFacts) { f.PayTimeout = 59 * time.Second }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"a day to pay":         {func(f *configFacts) { f.PayTimeout = 24 * time.Hour }, map[string]doctor.Status{"pay_timeout": doctor.Warn}},
		"faults":               {func(f *configFacts) { f.Sandbox = payment.Faults{Lose: 1} }, map[string]doctor.Status{"sandbox": doctor.Fail}},
		"faults, embedded":     {func(f *configFacts) { f.Sandbox, f.MySQLDSN = payment.Faults{Fail: true}, "" }, map[string]doctor.Status{"sandbox": doctor.Warn}},
		"queue that forgets":   {func(f *configFacts) { f.OrderLane, f.RedisAddrs, f.MySQLDSN = "queue", nil, "" }, map[string]doctor.Status{"lane": doctor.Warn}},
		"half embedded":        {func(f *configFacts) { f.RedisAddrs = nil }, map[string]doctor.Status{"lane": doctor.Warn}},
		"unused lock nodes":    {func(f *configFacts) { f.OrderLane, f.LockNodes = "batch", []string{"a:1"} }, map[string]doctor.Status{"lane": doctor.Warn}},
		"all embedded":         {func(f *configFacts) { f.RedisAddrs, f.MySQLDSN = nil, "" }, map[string]doctor.Status{"lane": doctor.OK, "database_password": doctor.OK}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := configFacts{secret: []byte(goodSecret), addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")}, Config: Config{
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

func TestWeakness(t *testing.T) {
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

// TestRandomSecretsAreStrong: whatever a good generator makes of 32 letters and more is believed. The seed is fixed: one
// secret in 100,000 holds a word such as abcdef by chance.
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

// TestSecretsAreTakenOut of whatever a driver may say, and of nothing that we say: a password that is one of our words
// would be told by the gaps.
func TestSecretsAreTakenOut(t *testing.T) {
	t.Parallel()
	secrets := secretsOf(Config{MySQLDSN: "u:dsnpassword@tcp(h:1)/d", RedisPassword: "redispassword", JWTSecret: "tokensecret", PaymentSecret: "paymentsecret"})
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

	ours := doctor.Bad(doctor.Warn, "set redis", "redis is old")
	report := newDoctorReport([]doctor.Finding{{Result: ours}}, []string{"redis"})
	require.Equal(t, ours, report.Findings[0].Result)
}

// TestDoctorIsDocumented holds docs/doctor.md against the checks, in both directions.
func TestDoctorIsDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	for _, cfg := range []Config{
		{Addr: ":0", DataDir: t.TempDir()},
		{Addr: ":0", DataDir: t.TempDir(), MySQLDSN: "u@tcp(127.0.0.1:1)/d", RedisAddrs: []string{"127.0.0.1:1"}},
	} {
		x := newExamination(&Env{Ctx: t.Context(), Config: cfg}, 1)
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
