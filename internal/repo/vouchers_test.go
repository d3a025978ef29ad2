package repo

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func TestVoucher(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 5, 2)
		stored, err := s.Voucher(ctx, v.ID)
		require.NoError(t, err)
		require.Equal(t, v, stored)

		normal := domain.Voucher{
			ShopID: 1, Title: "n", PayValue: 1, ActualValue: 2, Type: domain.VoucherNormal, Status: domain.VoucherOn,
			CreatedAt: now, UpdatedAt: now,
		}
		require.NoError(t, s.CreateVoucher(ctx, nil, &normal, admin))
		stored, err = s.Voucher(ctx, normal.ID)
		require.NoError(t, err)
		require.Equal(t, normal, stored)
		require.Nil(t, stored.Sale)

		_, err = s.Voucher(ctx, 999)
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

// A sale that was inserted without the columns of migrations 00019 to 00027, by an earlier version or by another
// program, is open and has the defaults. Its entry can be changed, and a change keeps the epoch.
func TestEntryOfSale(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 5, 1)
		for _, statement := range []string{
			"DELETE FROM seckill_vouchers",
			`INSERT INTO seckill_vouchers (voucher_id, initial_stock, stock, begin_at, end_at, created_at, updated_at)
				SELECT id, 5, 5, created_at, '2099-01-01 00:00:00', created_at, created_at FROM vouchers`,
		} {
			_, err := s.Pools()["write"].ExecContext(ctx, statement)
			require.NoError(t, err)
		}
		stored, err := s.Voucher(ctx, v.ID)
		require.NoError(t, err)
		require.Equal(t, domain.DefaultEntry, stored.Sale.Entry)
		require.Zero(t, stored.Sale.PayTimeout)
		require.Nil(t, stored.Sale.UnpaidLimit)
		require.Equal(t, 1, stored.Sale.Segments)
		_, err = s.ChangeRoom(ctx, nil, v.ID, admin, now, domain.RoomChange{Revoke: true})
		require.ErrorIs(t, err, domain.ErrInvalidState)
		_, err = s.ChangeRoom(ctx, nil, 999, admin, now, domain.RoomChange{Revoke: true})
		require.ErrorIs(t, err, domain.ErrNotFound)

		want := domain.Entry{
			Mode: domain.EntryRoom, Challenge: true, PassTTL: time.Minute, OpensAt: now.Add(-time.Hour), Rate: 7,
		}
		_, err = s.ChangeVoucher(ctx, v.ID, admin, func(v *domain.Voucher) (string, error) {
			v.Sale.Entry, v.Sale.Segments = want, 16
			return "", nil
		})
		require.NoError(t, err)
		later, message, paused := now.Add(time.Hour), "soon", true
		changed, err := s.ChangeRoom(ctx, nil, v.ID, admin, later, domain.RoomChange{Revoke: true, Message: &message, Paused: &paused})
		require.NoError(t, err)
		want.Epoch, want.Message, want.Paused = 1, message, paused
		require.Equal(t, want, changed.Sale.Entry)
		stored, err = s.Voucher(ctx, v.ID)
		require.NoError(t, err)
		require.Equal(t, want, stored.Sale.Entry)
		require.Equal(t, 16, stored.Sale.Segments)
	})
}

// A change of a voucher does not overwrite the stock of a sale with orders.
func TestChangeVoucherKeepsStock(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 5, 1)
		_, err := placeOrder(ctx, s, newOrder(1, 10, v.ID), 1)
		require.NoError(t, err)
		later := now.Add(time.Minute)
		changed, err := s.ChangeVoucher(ctx, v.ID, admin, func(v *domain.Voucher) (string, error) {
			v.Title, v.Status, v.UpdatedAt = "new", domain.VoucherOff, later
			v.Sale.EndAt, v.Sale.LimitPerUser = later, 2
			v.Sale.Stock = 99 // not written
			return "", nil
		})
		require.NoError(t, err)
		require.Equal(t, "new", changed.Title)
		stored, err := s.Voucher(ctx, v.ID)
		require.NoError(t, err)
		require.Equal(t, int64(4), stored.Sale.Stock)
		changed.Sale.Stock = 4
		require.Equal(t, changed, stored)

		refuse := errors.New("refused")
		_, err = s.ChangeVoucher(ctx, v.ID, admin, func(v *domain.Voucher) (string, error) { v.Title = "x"; return "", refuse })
		require.ErrorIs(t, err, refuse)
		again, err := s.Voucher(ctx, v.ID)
		require.NoError(t, err)
		require.Equal(t, stored, again)
		_, err = s.ChangeVoucher(ctx, 999, admin, func(*domain.Voucher) (string, error) { return "", nil })
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

// Two reads of a sale show that a unit was returned and sold again in between, although the stock is the same.
func TestSaleChangesWithItsUnits(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v := newSale(t, s, 1, 1)
		seen := map[time.Time]bool{}
		read := func(stock int64) {
			t.Helper()
			sales, err := s.Vouchers(ctx, []int64{v.ID})
			require.NoError(t, err)
			require.Equal(t, stock, sales[0].Sale.Stock)
			require.NotContains(t, seen, sales[0].Sale.ChangedAt)
			seen[sales[0].Sale.ChangedAt] = true
		}
		place := func(id, user int64, at time.Time) {
			o := newOrder(id, user, v.ID)
			o.CreatedAt = at
			_, err := placeOrder(ctx, s, o, 1)
			require.NoError(t, err)
		}

		read(1)
		place(1, 10, now.Add(time.Millisecond))
		read(0)
		_, err := cancel(ctx, s, 10, 1, now.Add(time.Second))
		require.NoError(t, err)
		read(1)
		place(2, 11, now.Add(time.Second+time.Millisecond))
		read(0)
	})
}

// The SQL condition of each state must agree with domain.Voucher.State.
func TestListVouchersByState(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, status := range []domain.VoucherStatus{domain.VoucherOn, domain.VoucherOff, domain.VoucherExpired} {
			for _, window := range [][2]time.Duration{{-2, -1}, {-1, 0}, {-1, 1}, {0, 1}, {1, 2}} {
				for _, stock := range []int64{0, 3} {
					v := domain.Voucher{
						ShopID: 1, Title: "v", Type: domain.VoucherSeckill, Status: status, CreatedAt: now, UpdatedAt: now,
						Sale: &domain.Sale{
							InitialStock: 3, Stock: stock, LimitPerUser: 1,
							BeginAt: now.Add(window[0] * time.Hour), EndAt: now.Add(window[1] * time.Hour),
						},
					}
					require.NoError(t, s.CreateVoucher(ctx, nil, &v, admin))
				}
			}
			v := domain.Voucher{ShopID: 2, Title: "n", Status: status, CreatedAt: now, UpdatedAt: now}
			require.NoError(t, s.CreateVoucher(ctx, nil, &v, admin))
		}
		list := func(f domain.VoucherFilter) []domain.Voucher {
			f.Now, f.Page = now, domain.Page{Limit: 100}
			found, err := s.ListVouchers(ctx, f)
			require.NoError(t, err)
			return found
		}
		var all []domain.Voucher
		for _, status := range []domain.VoucherStatus{domain.VoucherOn, domain.VoucherOff, domain.VoucherExpired} {
			found := list(domain.VoucherFilter{Status: status})
			require.Len(t, found, 11)
			all = append(all, found...)
		}
		require.Len(t, list(domain.VoucherFilter{}), 11, "without a filter, only vouchers that are on")
		require.Len(t, list(domain.VoucherFilter{ShopID: 2}), 1)
		for _, state := range []domain.SaleState{domain.StateUpcoming, domain.StateOnSale, domain.StateSoldOut, domain.StateEnded} {
			want := map[int64]bool{}
			for i := range all {
				if all[i].State(now) == state && !all[i].Unpublished() {
					want[all[i].ID] = true
				}
			}
			got := map[int64]bool{}
			for _, v := range list(domain.VoucherFilter{State: state}) {
				got[v.ID] = true
			}
			require.Equal(t, want, got, state)
		}
	})
}

func TestListVouchersPages(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		var ids []int64
		for range 5 {
			ids = append(ids, newSale(t, s, 1, 1).ID)
		}
		page, err := s.ListVouchers(t.Context(), domain.VoucherFilter{Page: domain.Page{Limit: 2}})
		require.NoError(t, err)
		require.Equal(t, []int64{ids[4], ids[3]}, []int64{page[0].ID, page[1].ID})
		page, err = s.ListVouchers(t.Context(), domain.VoucherFilter{Page: domain.Page{Limit: 9, Before: ids[1]}})
		require.NoError(t, err)
		require.Len(t, page, 1)
		require.Equal(t, ids[0], page[0].ID)
	})
}

func TestListVouchersWithoutEndedSales(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		normal := domain.Voucher{
			ShopID: 1, Title: "n", Type: domain.VoucherNormal, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now,
		}
		require.NoError(t, s.CreateVoucher(t.Context(), nil, &normal, admin))
		sale := newSale(t, s, 5, 1)
		list := func(at time.Time, lasts bool) (ids []int64) {
			found, err := s.ListVouchers(t.Context(), domain.VoucherFilter{Lasts: lasts, Now: at, Page: domain.Page{Limit: 9}})
			require.NoError(t, err)
			for _, v := range found {
				ids = append(ids, v.ID)
			}
			return ids
		}
		require.Equal(t, []int64{sale.ID, normal.ID}, list(sale.Sale.BeginAt.Add(-time.Hour), true), "including a sale that has not begun")
		require.Equal(t, []int64{sale.ID, normal.ID}, list(sale.Sale.EndAt.Add(-time.Millisecond), true))
		require.Equal(t, []int64{normal.ID}, list(sale.Sale.EndAt, true))
		require.Equal(t, []int64{sale.ID, normal.ID}, list(sale.Sale.EndAt, false))
	})
}
