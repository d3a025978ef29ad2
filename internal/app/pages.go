package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"seckill/internal/domain"
	"seckill/internal/handler"
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
		Sale:     salePreviews{vouchers, w.zone}.find,
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
		Shop:     v.Offer.ShopName,
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
