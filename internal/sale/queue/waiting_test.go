package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/lane"
	"seckill/internal/service"
	"seckill/test/env"
)

// 5,000 buyers wait for their orders while no worker runs. All are answered within 5 s, even if Redis hangs. The time
// is that of a synctest bubble, which stands still while a goroutine computes or waits for Redis. It is the sum of the
// waits of the program, whatever the speed of the machine.
func TestWaitingBuyersAreAnswered(t *testing.T) {
	const buyers = 5000
	server := env.StartRedis(t).Client(t)
	for name, tc := range map[string]struct {
		hangs time.Duration // when Redis stops answering; negative: never
		want  error         // nil: the order is queued
	}{
		"without a worker":            {hangs: -1},
		"Redis hangs while they wait": {hangs: time.Second},
		"Redis hangs":                 {hangs: 0, want: domain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, server.FlushDB(t.Context()).Err())
			synctest.Test(t, func(t *testing.T) {
				var hangs atomic.Bool
				orders := newWaitingOrders(t, server, buyers, env.EachTrip(func(ctx context.Context, _ []redis.Cmder) error {
					if !hangs.Load() {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}))
				hangs.Store(tc.hangs == 0)
				if tc.hangs > 0 {
					time.AfterFunc(tc.hangs, func() { hangs.Store(true) })
				}
				start := time.Now()
				var waiting sync.WaitGroup
				for i := range int64(buyers) {
					waiting.Go(func() {
						o, err := orders.Place(context.Background(), 1+i, voucher, time.Minute)
						took := time.Since(start)
						answered := tc.want == nil && err == nil && o.Status == domain.OrderQueued && o.UserID == 1+i ||
							tc.want != nil && errors.Is(err, tc.want)
						if !answered || took > 5*time.Second {
							t.Error(o, err, took)
						}
					})
				}
				waiting.Wait()
				t.Log("the last answer came after", time.Since(start))
				time.Sleep(time.Second) // the batcher still waits for more buyers
			})
		})
	}
}

// newWaitingOrders returns the service in lane queue with units of one sale.
func newWaitingOrders(t *testing.T, server *redis.Client, units int64, hook redis.Hook) *service.Orders {
	t.Helper()
	rdb := redis.NewClient(server.Options())
	rdb.AddHook(hook)
	gate := admission.New(admission.Config{Redis: rdb, Instance: "test", Log: slog.New(slog.DiscardHandler)})
	sales := service.NewSales(service.SalesConfig{Loader: oneSale(units)})
	t.Cleanup(func() {
		gate.Close()
		sales.Close()
		require.NoError(t, rdb.Close())
	})
	require.NoError(t, gate.Load(t.Context(), voucher, &rig{units: units}))
	return service.NewOrders(service.OrdersConfig{
		Sales: sales, Lane: lane.NewQueue(laneGate{gate}, &counter{}, nil, nil), Queue: gate,
		Unpaid: noLimits{}, Now: func() time.Time { return saleTime }, PayTimeout: time.Minute, MaxInFlight: int(units),
	})
}

// laneGate adapts the gate to lane.Gate.
type laneGate struct{ *admission.Gate }

func (g laneGate) Expect(orderID int64) lane.OutcomeWaiter { return g.Gate.Expect(orderID) }

// The sale is open by the clock of the server and by that of a bubble.
var (
	saleBegins = time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC)
	saleTime   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	saleEnds   = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// oneSale is a service.SaleLoader of one sale, with a number of units.
type oneSale int64

func (s oneSale) Vouchers(context.Context, []int64) ([]domain.Voucher, error) {
	return []domain.Voucher{{
		ID: voucher, PayValue: 100, Type: domain.VoucherSeckill, Status: domain.VoucherOn,
		Sale: &domain.Sale{InitialStock: int64(s), Stock: int64(s), BeginAt: saleBegins, EndAt: saleEnds, LimitPerUser: 1},
	}}, nil
}

func (s oneSale) NewestVouchers(context.Context, int) ([]domain.Voucher, error) { return nil, nil }

// noLimits does not limit unpaid orders.
type noLimits struct{}

func (noLimits) MayOrder(*domain.Purchase, *domain.Voucher) error { return nil }

// counter generates order ids.
type counter struct{ last atomic.Int64 }

func (c *counter) NextN(_ context.Context, n int) ([]int64, error) {
	ids := make([]int64, n)
	for i, last := 0, c.last.Add(int64(n)); i < n; i++ {
		ids[i] = last - int64(i)
	}
	return ids, nil
}

func (c *counter) Skip(context.Context, int64) error { return nil }
