package repo

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/service"
	"seckill/internal/testenv"
)

// BenchmarkPlaceOrder is one order in one durable transaction, with as many buyers at once as there are
// connections.
func BenchmarkPlaceOrder(b *testing.B) {
	for name, open := range map[string]func() (*Store, error){
		"sqlite": func() (*Store, error) { return OpenSQLite(filepath.Join(b.TempDir(), "bench.db")) },
		"mysql":  func() (*Store, error) { return OpenMySQL(testenv.MySQLDSN(b)) },
	} {
		b.Run(name, func(b *testing.B) {
			s, err := open()
			require.NoError(b, err)
			defer s.Close()
			ctx := context.Background()
			_, err = s.MigrateUp(ctx)
			require.NoError(b, err)
			v := service.Voucher{
				ShopID: 1, Title: "b", Type: service.VoucherSeckill, Status: service.VoucherOn, CreatedAt: now, UpdatedAt: now,
				Sale: &service.Sale{InitialStock: 1e9, Stock: 1e9, BeginAt: now, EndAt: now, LimitPerUser: 1},
			}
			require.NoError(b, s.CreateVoucher(ctx, &v, admin))
			var n atomic.Int64
			b.SetParallelism(24)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					if _, err := placeOrder(ctx, s, newOrder(i, i, v.ID), 1); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
		})
	}
}
