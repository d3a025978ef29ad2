package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/cache"
	"seckill/internal/service"
	"seckill/internal/web"
)

// newPages returns the HTML pages by path, including one per error code of the API, and the page for unknown addresses. It
// joins package web with the API and the store, which that package does not import.
func (w *wiring) newPages(vouchers *service.Vouchers) (map[string]http.Handler, http.Handler, error) {
	var problems []web.Problem
	for _, p := range handler.Problems() {
		problems = append(problems, web.Problem(p))
	}

	var accounts []web.Account
	if w.cfg.IsDemo() {
		accounts = demoAccounts(w.cfg.AdminPhones[0], w.cfg.SMSCountries)
	}

	return web.Routes(web.Config{
		Problems: problems,
		Sale:     salePreviews{vouchers, newShopNames(w.store), w.zone}.find,
		Accounts: accounts,
		Sandbox:  w.cfg.PaymentURL == "",
		Shop: web.Shop{
			Name:    w.cfg.ShopName,
			Logo:    w.cfg.ShopLogo,
			Color:   w.cfg.ShopColor,
			Imprint: w.cfg.ShopImprint,
			Privacy: w.cfg.ShopPrivacy,
		},
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
