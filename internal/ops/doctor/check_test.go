package doctor

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

func result(r Result) Check {
	return Check{Name: string(r.Status), Run: func(context.Context) Result { return r }}
}

func TestChecksOfUnreachedServerAreSkipped(t *testing.T) {
	t.Parallel()
	never := Check{Name: "never", Run: func(context.Context) Result { panic("the check ran") }}
	found := Run(t.Context(), []Group{
		{On: "a", Reach: result(Unanswered(errors.New("gone"), "start it")), Checks: []Check{never}},
		{Reach: result(Result{Status: Skipped, Found: "there is none"}), Checks: []Check{never}},
		{Reach: result(Bad(Warn, "", "old")), Checks: []Check{result(Good("well"))}},
		{Checks: []Check{result(Good("alone"))}},
	})
	assert.Equal(t, []Finding{
		{Check: "fail", On: "a", Result: Result{Status: Fail, Found: "gone", Change: "start it", Unasked: true, ErrorText: "gone"}},
		{Check: "never", On: "a", Result: Result{Status: Skipped, Found: "the server was not reached: see fail"}},
		{Check: "skipped", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "never", Result: Result{Status: Skipped, Found: "there is none"}},
		{Check: "warn", Result: Result{Status: Warn, Found: "old"}},
		{Check: "ok", Result: Good("well")},
		{Check: "ok", Result: Good("alone")},
	}, found)
}

func TestMaskedRemovesSecretsOfErrorsOnly(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redis error: no ***", FromError(Fail, "", "redis error: ", errors.New("no redis")).Masked([]string{"redis"}))
	assert.Equal(t, "use redis", Good("use redis").Masked([]string{"redis"}))
	assert.Equal(t, "no *** to ***", Unanswered(errors.New("no\nway to go"), "").Masked([]string{"way", "go"}))
	found := Run(t.Context(), []Group{{Reach: result(FromError(Skipped, "", "", errors.New("my password"))), Checks: []Check{result(Good(""))}}})
	assert.Equal(t, "my ***", found[1].Masked([]string{"password"}))
}

// Each check waits until the other one runs.
func TestChecksRunConcurrently(t *testing.T) {
	t.Parallel()
	meet := make(chan struct{})
	wait := func(ctx context.Context) Result {
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-ctx.Done():
			return Unanswered(ctx.Err(), "")
		}
		return Good("met")
	}
	pair := []Check{{Name: "a", Run: wait, Deadline: time.Minute}, {Name: "b", Run: wait, Deadline: time.Minute}}
	for _, groups := range [][]Group{{{Checks: pair}}, {{Checks: pair[:1]}, {Checks: pair[1:]}}} {
		for _, f := range Run(t.Context(), groups) {
			require.Equal(t, OK, f.Status)
		}
	}
}

func TestHangingCheckEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) Result { <-ctx.Done(); return Unanswered(ctx.Err(), "") }
	for _, tc := range []struct{ own, want time.Duration }{{time.Millisecond, time.Millisecond}, {0, deadline}} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			f := Run(t.Context(), []Group{{Checks: []Check{{Deadline: tc.own, Run: hang}}}})[0]
			require.Equal(t, Fail, f.Status)
			require.True(t, f.Unasked)
			require.Contains(t, f.Found, "hangs")
			require.Equal(t, tc.want, time.Since(begin))
		})
	}
}

func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ahead, uncertain time.Duration
		want             Status
		found            string
	}{
		{0, time.Millisecond, OK, "0s ahead of the local clock (± 1ms)"},
		{500 * time.Millisecond, 0, OK, "500ms ahead"},
		{600 * time.Millisecond, 0, Warn, "600ms ahead"},
		{-600 * time.Millisecond, 0, Warn, "600ms behind"},
		{600 * time.Millisecond, 200 * time.Millisecond, OK, "± 200ms"}, // within the error of the measurement
		{-3 * time.Second, time.Millisecond, Fail, "3s behind"},
	} {
		r := skew{tc.ahead, tc.uncertain}.result(500*time.Millisecond, 2*time.Second, "cost")
		assert.Equal(t, tc.want, r.Status, tc)
		assert.Contains(t, r.Found, tc.found)
		assert.Equal(t, tc.want != OK, r.Change != "")
	}
}

// The server is 3 s ahead, and its first answer takes a second.
func TestMeasureSkewUsesTheFastestAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s, err := measureSkew(t.Context(), time.Now, func(context.Context) (time.Time, error) {
			if calls++; calls == 1 {
				defer time.Sleep(time.Second)
			}
			time.Sleep(time.Millisecond)
			return time.Now().Add(3 * time.Second), nil
		})
		require.NoError(t, err)
		require.Equal(t, skew{3*time.Second + time.Millisecond/2, time.Millisecond / 2}, s)
	})
}

// embedded creates a data directory with a database that is opened with the given pragmas.
func embedded(t *testing.T, pragmas string) SQLite {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "seckill.db")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	pool := env.Must(sql.Open("sqlite", "file:"+file+"?"+pragmas))(t)
	pool.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = pool.Close() })
	execute(t, pool, "CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id INTEGER, is_applied INTEGER)",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1), (2, 1), (3, 0)")
	return SQLite{Pool: pool, Dir: dir, Database: "seckill.db", Secrets: []string{"jwt-secret"}, Migrations: []int64{1, 2}}
}

const programPragmas = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

func TestSQLite(t *testing.T) {
	t.Parallel()
	s := embedded(t, programPragmas)
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "jwt-secret"), nil, 0o600))
	want(t, examine(t, s.Groups()...), map[string]Status{
		"database.reachable": OK, "database.schema": OK, "database.journal": OK, "data.permissions": OK,
	})
	s.Migrations = []int64{1, 2, 3}
	want(t, examine(t, s.Groups()...), map[string]Status{"database.schema": Warn})
	s.Migrations = []int64{1}
	want(t, examine(t, s.Groups()...), map[string]Status{"database.schema": Fail})

	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "jwt-secret"), 0o640))
	found := examine(t, s.Groups()...)
	want(t, found, map[string]Status{"data.permissions": Fail})
	assert.Equal(t, "chmod 600 "+filepath.Join(s.Dir, "jwt-secret"), found["data.permissions"].Change)
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "jwt-secret"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "seckill.db"), 0o644))
	want(t, examine(t, s.Groups()...), map[string]Status{"data.permissions": Fail})
	require.NoError(t, os.Chmod(filepath.Join(s.Dir, "seckill.db"), 0o600))
	require.NoError(t, os.Chmod(s.Dir, 0o755))
	want(t, examine(t, s.Groups()...), map[string]Status{"data.permissions": Warn})
}

func TestSQLiteWithoutDurableCommits(t *testing.T) {
	t.Parallel()
	found := examine(t, embedded(t, "_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)").Groups()...)
	want(t, found, map[string]Status{"database.journal": Fail})
	assert.Contains(t, found["database.journal"].Found, "synchronous 1")
	found = examine(t, embedded(t, "_pragma=journal_mode(DELETE)").Groups()...)
	want(t, found, map[string]Status{"database.journal": Fail})
	assert.Contains(t, found["database.journal"].Found, "journal_mode delete")
}

func TestUnreachableSQLite(t *testing.T) {
	t.Parallel()
	s := SQLite{Err: fs.ErrNotExist, Dir: filepath.Join(t.TempDir(), "data"), Database: "seckill.db"}
	want(t, examine(t, s.Groups()...), map[string]Status{
		"database.reachable": Skipped, "database.schema": Skipped, "data.permissions": Skipped,
	})
	require.NoDirExists(t, s.Dir)
	s.Err = errors.New("file is not a database")
	found := examine(t, s.Groups()...)
	want(t, found, map[string]Status{"database.reachable": Fail, "database.journal": Skipped})
	assert.True(t, found["database.reachable"].Unasked)
}

// TestDoctorSkipsSlowTotals checks that a timeout of the totals is not reported as a database that hangs.
func TestDoctorSkipsSlowTotals(t *testing.T) {
	t.Parallel()
	store := env.Must(repo.OpenSQLite(filepath.Join(t.TempDir(), "seckill.db")))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := &Sales{Store: store}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r := s.checkTotals(late)
	require.Equal(t, Skipped, r.Status, r.Found)
	require.False(t, r.Unasked)
	require.Contains(t, r.Found, "too many orders to check within 30s")
	require.Contains(t, r.Change, "seckill verify")
	r = s.checkTotals(t.Context()) // the tables do not exist
	require.Equal(t, Fail, r.Status, r.Found)
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
		want Status
	}{
		"valid window and units: 1": {func(*domain.Voucher) {}, OK},
		"ends before it begins":     {func(v *domain.Voucher) { v.Sale.EndAt = begin }, Fail},
		"allows no orders":          {func(v *domain.Voucher) { v.Sale.LimitPerUser = 0 }, Fail},
		"is not published":          {func(v *domain.Voucher) { v.Status = domain.VoucherOff }, Warn},
		"has no units":              {func(v *domain.Voucher) { v.Sale.Stock = 0 }, Warn},
		"lasts 1h0m0s, so units":    {func(v *domain.Voucher) { v.Sale.PayTimeout = time.Hour }, Warn},
		"has a pay_timeout of 30s":  {func(v *domain.Voucher) { v.Sale.PayTimeout = 30 * time.Second }, Warn},
		"lasts 10m0s":               {func(v *domain.Voucher) { v.Sale.EndAt = begin.Add(10 * time.Minute) }, Warn},
	} {
		r := (&Sales{upcoming: []domain.Voucher{sale(tc.edit)}, PayTimeout: 15 * time.Minute}).checkWindows(t.Context())
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Contains(t, r.Found, found)
	}
	off := sale(func(v *domain.Voucher) { v.Status = domain.VoucherOff })
	many := &Sales{upcoming: []domain.Voucher{off, off, off, off, off}, PayTimeout: time.Minute}
	require.Contains(t, many.checkWindows(t.Context()).Found, "and 2 more")
}

// adminList is the part of a SalesStore that checkAdmins reads.
type adminList struct {
	SalesStore
	admins []domain.Admin
}

func (l adminList) Admins(context.Context, []string) ([]domain.Admin, error) { return l.admins, nil }

func TestDoctorChecksSecondFactors(t *testing.T) {
	t.Parallel()
	enrolled := domain.Admin{User: domain.User{ID: 1, Phone: "1", Role: domain.RoleOperator}, EnrolledAt: time.Now()}
	missing := domain.Admin{User: domain.User{ID: 2, Phone: "2", Role: domain.RoleOperator}}
	configured := domain.Admin{User: domain.User{ID: 3, Phone: "3", Role: domain.RoleBuyer}}
	lost := domain.Admin{User: enrolled.User, EnrolledAt: enrolled.EnrolledAt, Factor: []byte("of an old secret")}
	viewer := domain.Admin{User: domain.User{ID: 4, Phone: "4", Role: domain.RoleViewer}}
	opens := func(_ int64, factor []byte) bool { return factor == nil }
	for found, tc := range map[string]struct {
		admins []domain.Admin
		demo   bool
		want   Status
	}{
		"2 users with a role":                 {[]domain.Admin{enrolled, viewer}, false, OK},
		"no secret decrypts cannot log in: 1": {[]domain.Admin{lost, viewer}, false, Warn},
		"buyers: 2, 3":                        {[]domain.Admin{enrolled, missing, configured}, false, Warn},
		"no user has a role":                  {nil, false, Warn},
		"demo mode":                           {[]domain.Admin{missing}, true, OK},
	} {
		r := (&Sales{Store: adminList{admins: tc.admins}, Admins: []string{"3"}, Demo: tc.demo, Opens: opens}).checkAdmins(t.Context())
		require.Equal(t, tc.want, r.Status, r.Found)
		require.Contains(t, r.Found, found)
	}
}
