package handler_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/handler"
)

// othersPayments has many pages of payments of another sale, and reads each slowly.
type othersPayments struct {
	handler.Store
	pages int
}

func (p *othersPayments) ListPayments(_ context.Context, page domain.Page) ([]domain.SalePayment, error) {
	time.Sleep(20 * time.Millisecond)
	if p.pages--; p.pages < 0 {
		return nil, nil
	}
	return make([]domain.SalePayment, page.Limit), nil
}

// The payments of a sale are searched among those of all sales, which takes longer than an answer may. The file is complete
// nevertheless.
func TestPaymentsOfSaleAmongMany(t *testing.T) {
	e := start(t, configured(func(cfg *handler.Config) { cfg.Store = &othersPayments{cfg.Store, 50} }))
	srv := httptest.NewUnstartedServer(e.handler)
	srv.Config.WriteTimeout = 200 * time.Millisecond // of package app, in small
	srv.Start()
	t.Cleanup(srv.Close)
	admin := e.admin()
	e.url = srv.URL

	require.Empty(t, admin.get("/api/v1/admin/payments.csv?voucher_id=7").want(http.StatusOK).file())
}
