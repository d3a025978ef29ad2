package repo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/dbtest"
)

// A voucher that is changed while it is read, between the reads of its two tables, is returned as it was before.
func TestReadsSeeWholeChanges(t *testing.T) {
	dbtest.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s, faults := newStore(db), dbtest.Inject(db)
		now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
		admin := domain.Actor{Kind: domain.ActorAdmin, ID: 1}
		v := domain.Voucher{
			ShopID: 1, Title: "t", PayValue: 1, ActualValue: 1000, Currency: "CNY", Type: domain.VoucherSeckill, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now,
			Sale: &domain.Sale{Stock: 9, BeginAt: now, EndAt: now.Add(time.Hour), LimitPerUser: 1, PayTimeout: time.Second},
		}
		require.NoError(t, s.CreateVoucher(t.Context(), nil, &v, admin))

		version := 1
		raise := func() {
			version++
			_, err := s.ChangeVoucher(t.Context(), v.ID, admin, func(v *domain.Voucher) (string, error) {
				v.PayValue, v.Sale.PayTimeout = int64(version), time.Duration(version)*time.Second
				return "", nil
			})
			require.NoError(t, err)
		}
		for name, read := range map[string]func() ([]domain.Voucher, error){
			"one": func() ([]domain.Voucher, error) {
				v, err := s.Voucher(t.Context(), v.ID)
				return []domain.Voucher{v}, err
			},
			"some":   func() ([]domain.Voucher, error) { return s.Vouchers(t.Context(), []int64{v.ID}) },
			"newest": func() ([]domain.Voucher, error) { return s.NewestVouchers(t.Context(), 1) },
			"a list": func() ([]domain.Voucher, error) {
				return s.ListVouchers(t.Context(), domain.VoucherFilter{Now: now, Page: domain.Page{Limit: 1}})
			},
		} {
			faults.Before(func(query string) error {
				if strings.Contains(query, "FROM `seckill_vouchers`") {
					faults.Before(nil)
					raise()
				}
				return nil
			})
			before := version
			got, err := read()
			require.NoError(t, err, name)
			require.Equal(t, before+1, version, "%s: nothing was changed meanwhile", name)
			require.Len(t, got, 1, name)
			require.EqualValues(t, before, got[0].PayValue, name)
			require.Equal(t, time.Duration(before)*time.Second, got[0].Sale.PayTimeout, name)
		}
	})
}

// TestVouchersByTitle: every database finds the same titles, the newest first. domain.Finder decides which, see TestFinder.
// Source: mozilla/addons-server#22767, Mininglamp-OSS/octo-server#636.
func TestVouchersByTitle(t *testing.T) {
	dbtest.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s := newStore(db)
		now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
		titles := map[int64]string{}
		add := func(titles map[int64]string, all ...string) {
			rows := make([]voucherRow, len(all))
			for i, title := range all {
				rows[i] = voucherRow{ShopID: 1, Title: title, Currency: "CNY", Status: int8(domain.VoucherOn), CreatedAt: now, UpdatedAt: now}
			}
			require.NoError(t, s.db.Writer(t.Context()).Create(&rows).Error)
			for _, r := range rows {
				titles[r.ID] = r.Title
			}
		}
		add(titles, "🍜 noodles", "🍣 sushi", "𠮷野家", "Straße", "Café", "cafe", "at 100%_! off", "がき")
		find := func(text string, most int) (found []string) {
			ids, err := s.VouchersByTitle(t.Context(), text, most)
			require.NoError(t, err)
			for _, id := range ids {
				found = append(found, titles[id])
			}
			return found
		}
		for text, want := range map[string][]string{
			"🍣": {"🍣 sushi"}, "𠮷": {"𠮷野家"}, "STRASSE": {"Straße"}, "CAFE": {"cafe", "Café"}, "É": {"Café"}, "%_!": {"at 100%_! off"}, "か": nil,
			"\u200b": nil,
		} {
			require.Equal(t, want, find(text, 9), "%q", text)
		}

		add(map[int64]string{}, slices.Repeat([]string{"another"}, titlesAtOnce)...)
		require.Equal(t, []string{"cafe"}, find("cafe", 1), "beyond the first query, and no more than allowed")
	})
}
