package app

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/web"
)

// demoStart is when the demo of the tests starts for the first time.
var demoStart = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// TestContentIsInOneLanguage: that of the environment.
func TestContentIsInOneLanguage(t *testing.T) {
	for language, want := range map[string]string{"zh_CN.UTF-8": `\p{Han}`, "C.UTF-8": `^[^\p{Han}]*$`, "": `^[^\p{Han}]*$`} {
		t.Setenv("LC_ALL", "")
		t.Setenv("LC_MESSAGES", "")
		t.Setenv("LANG", language)
		shops, _, vouchers, err := demoContent(demoStart)
		require.NoError(t, err)
		for _, v := range vouchers {
			shop := shops[v.ShopID-1]
			for _, text := range []string{v.Title, v.SubTitle, v.Rules, shop.Name, shop.Area, shop.Address} {
				require.Regexp(t, want, text, language)
			}
		}
	}
	t.Setenv("LC_ALL", "zh")
	require.Regexp(t, `\p{Han}`, RushTitle(7), "LC_ALL comes first")
}

func TestContentHasOneSalePerState(t *testing.T) {
	shops, images, vouchers, err := demoContent(demoStart)
	require.NoError(t, err)

	states := map[domain.SaleState]int{}
	for _, v := range vouchers {
		require.LessOrEqual(t, v.ShopID, int64(len(shops)))
		require.NotEmpty(t, v.ImageID)
		if v.Sale != nil {
			states[v.State(demoStart)]++
			require.LessOrEqual(t, v.Sale.EndAt.Sub(v.Sale.BeginAt), 24*time.Hour, "a flash sale")
			require.True(t, v.Sale.EndAt.After(v.CreatedAt), "doctor reports it")
		}
	}

	require.Equal(t, map[domain.SaleState]int{domain.StateOnSale: 1, domain.StateUpcoming: 1, domain.StateEnded: 1}, states)
	for _, p := range images {
		require.Less(t, len(p.JPEG), 60<<10)
	}
}

type shelf struct{ vouchers []domain.Voucher }

func (s *shelf) ListVouchers(_ context.Context, f domain.VoucherFilter) (page []domain.Voucher, _ error) {
	for i := len(s.vouchers) - 1; i >= 0 && len(page) < f.Page.Limit; i-- {
		if v := s.vouchers[i]; f.Page.Before == 0 || v.ID < f.Page.Before {
			page = append(page, v)
		}
	}
	return page, nil
}

func (s *shelf) Voucher(_ context.Context, id int64) (domain.Voucher, error) {
	return s.vouchers[id-1], nil
}

func (s *shelf) ChangeVoucher(
	_ context.Context, id int64, _ domain.Actor, change func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	_, err := change(&s.vouchers[id-1])
	return s.vouchers[id-1], err
}

// newShelf returns a demo with many newer vouchers.
func newShelf(t *testing.T) *shelf {
	t.Helper()
	_, _, vouchers, err := demoContent(demoStart)
	require.NoError(t, err)
	for range 2*domain.MaxPageSize + 1 {
		vouchers = append(vouchers, domain.Voucher{Title: "a merchant's", Status: domain.VoucherOn})
	}
	for i := range vouchers {
		vouchers[i].ID = int64(i + 1)
	}
	return &shelf{vouchers}
}

// TestOneSaleIsAlwaysRunning looks at the demo every 20 minutes for a week, and once more after a month without a server.
func TestOneSaleIsAlwaysRunning(t *testing.T) {
	s, now, moved := newShelf(t), demoStart, 0
	r := demoRenewal{store: s, changed: func(int64) { moved++ }, now: func() time.Time { return now }}

	look := func() {
		require.NoError(t, r.run(t.Context()))
		states := map[domain.SaleState]int{}
		for _, v := range s.vouchers {
			if v.Sale != nil {
				states[v.State(now)]++
			}
		}
		require.Equal(t, map[domain.SaleState]int{domain.StateOnSale: 1, domain.StateUpcoming: 1, domain.StateEnded: 1}, states, now)
	}

	for ; now.Before(demoStart.AddDate(0, 0, 7)); now = now.Add(20 * time.Minute) {
		look()
	}
	// As an earlier release has set it up.
	s.vouchers[1].Title = "双人早茶 · Dim sum for two"
	s.vouchers[2].Title = "双人火锅 · Hot pot for two"

	window := s.vouchers[1].Sale.EndAt.Sub(s.vouchers[1].Sale.BeginAt)
	require.InDelta(t, 7*24*time.Hour/window, moved, 1, "one begins when the other ends")

	now = now.AddDate(0, 1, 0)
	look()
}

func TestRenamedAndUnpublishedSalesStay(t *testing.T) {
	s, now := newShelf(t), demoStart
	r := demoRenewal{store: s, changed: func(int64) {}, now: func() time.Time { return now }}
	require.NoError(t, r.run(t.Context()))
	s.vouchers[1].Title, s.vouchers[2].Status = "Breakfast", domain.VoucherOff
	before := []time.Time{s.vouchers[1].Sale.EndAt, s.vouchers[2].Sale.EndAt}
	now = now.AddDate(0, 0, 1)
	require.NoError(t, r.run(t.Context()))
	require.Equal(t, before, []time.Time{s.vouchers[1].Sale.EndAt, s.vouchers[2].Sale.EndAt})
}

func TestAccountsAreOfServedCountries(t *testing.T) {
	all := demoAccounts("13800000000", []string{"DE", "CN"})
	require.Len(t, all, 5)
	require.Equal(t, web.Account{Role: string(domain.RoleAdmin), Phone: "13800000000"}, all[4])
	require.Equal(t, []web.Account{{Role: string(domain.RoleAdmin), Phone: "+4915112345678"}}, demoAccounts("+4915112345678", []string{"DE"}))
	require.Equal(t, domain.RoleViewer, demoRoles["13800000011"])
}
