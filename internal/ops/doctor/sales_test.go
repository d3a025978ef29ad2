package doctor

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/test/env"
)

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
