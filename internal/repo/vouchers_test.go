package repo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/service"
	"seckill/test/env"
)

func change(t *testing.T, s *Store, id int64, change func(v *domain.Voucher)) domain.Voucher {
	t.Helper()
	return env.Must(s.ChangeVoucher(t.Context(), id, admin, func(v *domain.Voucher) (string, error) {
		change(v)
		return "", nil
	}))(t)
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
			env.Must(s.Pools()["write"].ExecContext(ctx, statement))(t)
		}
		stored := env.Must(s.Voucher(ctx, v.ID))(t)
		require.Equal(t, domain.DefaultEntry, stored.Sale.Entry)
		require.Zero(t, stored.Sale.PayTimeout)
		require.Nil(t, stored.Sale.UnpaidLimit)
		require.Equal(t, 1, stored.Sale.Segments)
		env.Fails(s.ChangeRoom(ctx, nil, v.ID, admin, now, domain.RoomChange{Revoke: true}))(t, domain.ErrInvalidState)
		env.Fails(s.ChangeRoom(ctx, nil, 999, admin, now, domain.RoomChange{Revoke: true}))(t, domain.ErrNotFound)

		want := domain.Entry{
			Mode: domain.EntryRoom, Challenge: true, PassTTL: time.Minute, OpensAt: now.Add(-time.Hour), Rate: 7,
		}
		change(t, s, v.ID, func(v *domain.Voucher) { v.Sale.Entry, v.Sale.Segments = want, 16 })
		later, message, paused := now.Add(time.Hour), "soon", true
		changed := env.Must(s.ChangeRoom(ctx, nil, v.ID, admin, later, domain.RoomChange{Revoke: true, Message: &message, Paused: &paused}))(t)
		want.Epoch, want.Message, want.Paused = 1, message, paused
		require.Equal(t, want, changed.Sale.Entry)
		stored = env.Must(s.Voucher(ctx, v.ID))(t)
		require.Equal(t, want, stored.Sale.Entry)
		require.Equal(t, 16, stored.Sale.Segments)
		require.Equal(t, later.UTC(), stored.UpdatedAt.UTC(), "readers tell the voucher from the one before the change")
	})
}

// Two reads of a sale show that a unit was returned and sold again in between, although the stock is the same.
func TestSaleChangesWithItsUnits(t *testing.T) {
	onEachSale(t, 1, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		seen := map[time.Time]bool{}
		read := func(stock int64) {
			sales := env.Must(s.Vouchers(t.Context(), []int64{v.ID}))(t)
			require.Equal(t, stock, sales[0].Sale.Stock)
			require.NotContains(t, seen, sales[0].Sale.ChangedAt)
			seen[sales[0].Sale.ChangedAt] = true
		}
		place := func(id, user int64, at time.Time) {
			o := newOrder(id, user, v.ID)
			o.CreatedAt = at
			env.Must(placeOrder(t.Context(), s, o, 1))(t)
		}

		read(1)
		place(1, 10, now.Add(time.Millisecond))
		read(0)
		env.Must(cancel(t.Context(), s, 10, 1, now.Add(time.Second)))(t)
		read(1)
		place(2, 11, now.Add(time.Second+time.Millisecond))
		read(0)
	})
}

// TestPictureByAnyText: MySQL compares a column in ASCII with no other text, and refuses the statement.
func TestPictureByAnyText(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		v := newSale(t, s, 1, 1)
		for _, id := range []string{"x", "图片", strings.Repeat("é", 32), strings.Repeat("0", 64)} {
			env.Fails(s.Picture(t.Context(), id))(t, domain.ErrNotFound)
			_, err := s.ChangeVoucher(t.Context(), v.ID, admin, func(v *domain.Voucher) (string, error) {
				v.ImageID = id
				return "", nil
			})
			require.Equal(t, domain.Invalid("image_id", "is not the id of an uploaded picture"), err)
		}
	})
}

// The conditions in SQL must agree with domain.VoucherFilter.Matches, which serves the newest vouchers from memory.
func TestListVouchers(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
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
					require.NoError(t, s.CreateVoucher(t.Context(), nil, &v, admin))
				}
			}
			v := domain.Voucher{ShopID: 2, Title: "n", Status: status, CreatedAt: now, UpdatedAt: now}
			require.NoError(t, s.CreateVoucher(t.Context(), nil, &v, admin))
		}
		all := env.Must(s.NewestVouchers(t.Context(), 100))(t)
		require.Len(t, all, 33)
		for _, f := range []domain.VoucherFilter{
			{}, {ShopID: 2}, {Lasts: true}, {Status: domain.VoucherOn}, {Status: domain.VoucherOff}, {Status: domain.VoucherExpired},
			{State: domain.StateUpcoming}, {State: domain.StateOnSale}, {State: domain.StateSoldOut}, {State: domain.StateEnded},
			{Lasts: true, Page: domain.Page{Before: all[5].ID}},
			{ShopID: 2, Lasts: true}, {ShopID: 1, State: domain.StateEnded},
		} {
			var want, pages []int64
			f.Now, f.Page.Limit = now, 100
			for i := range all {
				if f.Matches(&all[i], now) {
					want = append(want, all[i].ID)
				}
			}
			list := func() (ids []int64) {
				for _, v := range env.Must(s.ListVouchers(t.Context(), f))(t) {
					ids = append(ids, v.ID)
				}
				return ids
			}
			require.NotEmpty(t, want)
			require.Equal(t, want, list(), "%+v", f)

			for f.Page.Limit = 2; len(pages) < len(want); f.Page.Before = pages[len(pages)-1] {
				pages = append(pages, list()...)
			}
			require.Equal(t, want, pages, "%+v", f)
		}
	})
}

// A voucher that is changed while it is read, between the reads of its two tables, is returned as it was before.
func TestReadsSeeWholeChanges(t *testing.T) {
	onEachFaulty(t, func(t *testing.T, s *Store, faults *env.Faults) {
		v := newSale(t, s, 9, 1)
		version := 0
		raise := func() {
			version++
			change(t, s, v.ID, func(v *domain.Voucher) {
				v.PayValue, v.Sale.PayTimeout = int64(version), time.Duration(version)*time.Second
			})
		}
		raise()
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
			v := env.Only(t, got, name)
			require.EqualValues(t, before, v.PayValue, name)
			require.Equal(t, time.Duration(before)*time.Second, v.Sale.PayTimeout, name)
		}
	})
}

// TestVouchersByTitle: every database finds the same titles, the newest first. domain.Finder decides which, see TestFinder.
// Source: mozilla/addons-server#22767, Mininglamp-OSS/octo-server#636.
func TestVouchersByTitle(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		titles := map[int64]string{}
		add := func(titles map[int64]string, all ...string) {
			rows := make([]voucherRow, len(all))
			for i, title := range all {
				rows[i] = voucherRow{Voucher: domain.Voucher{ShopID: 1, Title: title, Currency: "CNY", Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now}}
			}
			require.NoError(t, s.db.Writer(t.Context()).Create(&rows).Error)
			for _, r := range rows {
				titles[r.ID] = r.Title
			}
		}
		add(titles, "🍜 noodles", "🍣 sushi", "𠮷野家", "Straße", "Café", "cafe", "at 100%_! off", "がき")
		find := func(text string, most int) (found []string) {
			ids := env.Must(s.VouchersByTitle(t.Context(), text, most))(t)
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

// TestOffers: an offer is stored once, whichever server stores it, and orders find it in the database.
func TestOffers(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		require.NoError(t, s.db.Writer(ctx).Exec("INSERT INTO shops (id, name, type_id, created_at, updated_at) VALUES (1, '桂花茶餐厅 🍜', 1, ?, ?)", now, now).Error)
		v := newSale(t, s, 9, 1)
		v.SubTitle, v.Rules, v.ActualValue = "  ", "Not on Sundays.\n𠮷", 300
		change(t, s, v.ID, func(stored *domain.Voucher) {
			v.Sale = stored.Sale
			*stored = v
		})
		loaded := env.Must(s.Vouchers(ctx, []int64{v.ID}))(t)
		offer := loaded[0].Offer
		require.Equal(t, domain.NewOffer(&v, "桂花茶餐厅 🍜"), offer)

		// Many servers begin to sell at once.
		servers := make([]*Store, 8)
		for i := range servers {
			servers[i] = newStore(s.DB)
		}
		allAtOnce(t, 4*len(servers), func(i int) error { return servers[i%len(servers)].KeepOffer(ctx, offer, time.Now().Add(time.Minute)) })
		o := newOrder(1, 10, v.ID)
		o.OfferID, o.Offer = offer.ID, offer
		require.Same(t, offer, env.Must(placeOrder(ctx, s, o, 1))(t).Offer)
		v.Title, v.Rules = "another", ""
		later := domain.NewOffer(&v, "")
		ended := env.Cancelled(ctx)
		require.ErrorIs(t, s.KeepOffer(ended, later, time.Now()), domain.ErrUnavailable, "no time is left")
		require.NoError(t, s.KeepOffer(ended, later, time.Now().Add(time.Minute)), "a client that has gone stops nothing")
		o = newOrder(2, 11, v.ID)
		o.OfferID = later.ID
		env.Must(placeOrder(ctx, s, o, 1))(t)
		env.Must(placeOrder(ctx, s, newOrder(3, 12, v.ID), 1))(t) // as an earlier release does

		reader := newStore(s.DB)
		orders := env.Must(reader.FindOrders(ctx, service.SearchQuery{Users: []int64{10}, Page: domain.Page{Limit: 9}}))(t)
		require.Equal(t, offer, orders[0].Offer)
		unstored := []domain.Order{
			{ID: 3, VoucherID: v.ID}, {ID: 2, VoucherID: v.ID, OfferID: later.ID}, {ID: 1, VoucherID: v.ID, OfferID: offer.ID},
			{ID: 4, VoucherID: v.ID, OfferID: domain.OfferID{7}}, {ID: 5, VoucherID: v.ID + 1},
		}
		require.NoError(t, reader.AddOffers(ctx, unstored))
		require.Equal(t, []*domain.Offer{offer, later, offer, offer, nil}, []*domain.Offer{
			unstored[0].Offer, unstored[1].Offer, unstored[2].Offer, unstored[3].Offer, unstored[4].Offer,
		}, "an order without an offer, or with one that is gone, shows the voucher as it is")

		env.Must(cancel(ctx, newStore(s.DB), 11, 2, now))(t)
		require.Equal(t, later, env.Must(newStore(s.DB).Order(ctx, 11, 2))(t).Offer)
	})
}

// The nearest shops are those with the shortest distance on the ground, where a degree of longitude is shorter than one
// of latitude.
func TestListShops(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		here := domain.Place{X: 120, Y: 60}
		newShop := func(name string, typ int64, x, y float64) domain.Shop {
			return domain.Shop{
				Name: name, TypeID: typ, X: x, Y: y, Images: "a.png,b.png", Area: "area", Address: "address", AvgPrice: 8000,
				Sold: 1, Comments: 2, Score: 47, OpenHours: "10:00-22:00", CreatedAt: now, UpdatedAt: now,
			}
		}
		shops := []domain.Shop{
			newShop("north", 1, 120, 60.06), newShop("east", 1, 120.1, 60), newShop("here", 1, 120, 60), newShop("other", 2, 120, 60),
			newShop("too", 1, 120, 60), newShop("west", 1, 119.87, 60),
		}
		require.NoError(t, s.db.Writer(t.Context()).Create(&shops).Error)
		list := func(f domain.ShopFilter) (names []string) {
			found := env.Must(s.ListShops(t.Context(), f))(t)
			for i, one := range found {
				names = append(names, one.Name)
				if i > 0 && f.Near != nil {
					require.GreaterOrEqual(t, one.Distance(here), found[i-1].Distance(here))
				}
			}
			return names
		}
		require.Equal(t, []string{"north", "east", "here", "too", "west"}, list(domain.ShopFilter{TypeID: 1, Limit: 9}))
		require.Equal(t, []string{"here", "too", "east", "north", "west"}, list(domain.ShopFilter{TypeID: 1, Limit: 9, Near: &here}))
		require.Equal(t, []string{"east", "north"}, list(domain.ShopFilter{TypeID: 1, Skip: 2, Limit: 2, Near: &here}))
		require.Empty(t, list(domain.ShopFilter{TypeID: 1, Skip: 5, Limit: 5}))
		require.Empty(t, list(domain.ShopFilter{TypeID: 3, Limit: 5}))

		require.Equal(t, shops[0], env.Must(s.Shop(t.Context(), shops[0].ID))(t))
		env.Fails(s.Shop(t.Context(), 999))(t, domain.ErrNotFound)
	})
}
