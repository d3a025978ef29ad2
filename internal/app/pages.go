package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"seckill/internal/app/demo"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/cache"
	"seckill/internal/service"
	"seckill/internal/web"
)

type pagesConfig struct {
	Vouchers *service.Vouchers
	Shops    domain.ShopStore
	// The zone of times in previews.
	Zone *time.Location
	// Offered by the login dialog; none outside demo mode.
	DemoAccounts []demo.Account
	// Whether payments move no money.
	Sandbox bool
	Shop    web.Shop
}

// newPages returns the HTML pages by path, including one per error code of the API, and the page for unknown addresses. It
// joins package web with the API and the store, which that package does not import.
func newPages(cfg pagesConfig) (map[string]http.Handler, http.Handler, error) {
	problems, err := handler.Problems()
	if err != nil {
		return nil, nil, err
	}

	all := make([]web.Problem, len(problems))
	for i, p := range problems {
		all[i] = web.Problem(p)
	}

	accounts := make([]web.Account, len(cfg.DemoAccounts))
	for i, a := range cfg.DemoAccounts {
		accounts[i] = web.Account{Role: string(a.Role), Phone: a.Phone}
	}

	find := salePreviews{cfg.Vouchers, newShopNames(cfg.Shops), cfg.Zone}.find

	return web.Routes(web.Config{
		Problems: all,
		Sale:     find,
		Accounts: accounts,
		Sandbox:  cfg.Sandbox,
		Shop:     cfg.Shop,
	})
}

type salePreviews struct {
	vouchers *service.Vouchers
	shops    func(ctx context.Context, id int64) string
	zone     *time.Location
}

func (p salePreviews) find(ctx context.Context, id int64) (web.Sale, bool, error) {
	v, err := p.vouchers.Get(ctx, id)
	if errors.Is(err, domain.ErrNotFound) || err == nil && (v.Unpublished() || v.Sale == nil) {
		return web.Sale{}, false, nil
	}
	if err != nil {
		return web.Sale{}, false, err
	}

	s := web.Sale{
		Title:    v.Title,
		SubTitle: v.SubTitle,
		Shop:     p.shops(ctx, v.ShopID),
		Begin:    v.Sale.BeginAt.In(p.zone),
		Price:    price(v.PayValue, v.Currency),
		Value:    price(v.ActualValue, v.Currency),
	}

	if v.ImageID != "" {
		s.Image = handler.ImageURL(v.ImageID)
	}

	return s, true, nil
}

func price(amount int64, code string) string {
	return code + " " + domain.FormatAmount(amount, code)
}

const (
	shopNameTTL     = 10 * time.Second // of a cached name
	shopNameTimeout = 2 * time.Second  // of a read
	maxShopNames    = 1000             // in the cache
)

// newShopNames returns a function that returns the name of a shop, or "" if it cannot be read.
func newShopNames(shops domain.ShopStore) func(ctx context.Context, id int64) string {
	names := cache.New[int64](cache.Options[string]{MaxEntries: maxShopNames, TTL: shopNameTTL})

	return func(ctx context.Context, id int64) string {
		name, err := names.Load(ctx, id, func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shopNameTimeout)
			defer cancel()

			s, err := shops.Shop(ctx, id)
			if errors.Is(err, domain.ErrNotFound) {
				return "", nil
			}

			return s.Name, err
		})
		if err != nil {
			return ""
		}

		return name
	}
}
