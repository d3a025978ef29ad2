package repo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// BenchmarkPlaceOrder places each order in its own durable transaction, with about as many concurrent buyers as
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
			v := domain.Voucher{
				ShopID: 1, Title: "b", Type: domain.VoucherSeckill, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now,
				Sale: &domain.Sale{InitialStock: 1e9, Stock: 1e9, BeginAt: now, EndAt: now, LimitPerUser: 1},
			}
			require.NoError(b, s.CreateVoucher(ctx, nil, &v, admin))
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

// BenchmarkKeys claims keys and stores their answers in batches of 100.
func BenchmarkKeys(b *testing.B) {
	s, err := OpenMySQL(testenv.MySQLDSN(b))
	require.NoError(b, err)
	defer s.Close()
	ctx := context.Background()
	_, err = s.MigrateUp(ctx)
	require.NoError(b, err)
	const batch = 100
	answer := domain.Answer{Status: 201, Location: "/api/v1/orders/3368803458027454465", ContentType: "application/json", Body: make([]byte, 230)}
	var claiming, keeping time.Duration
	for b.Loop() {
		claims := make([]*domain.Claim, batch)
		kept := make([]domain.KeptAnswer, batch)
		for i := range claims {
			claims[i] = newClaim(rand.Int64N(60000), fmt.Sprint("8e03978e-40d5-43e8-bc93-", rand.Int64()), "x")
			kept[i] = domain.KeptAnswer{Claim: claims[i], Answer: answer}
		}
		start := time.Now()
		for _, st := range s.ClaimKeys(ctx, claims) {
			require.NoError(b, st.Err)
		}
		claiming += time.Since(start)
		start = time.Now()
		for _, err := range s.KeepAnswers(ctx, kept) {
			require.NoError(b, err)
		}
		keeping += time.Since(start)
	}
	b.ReportMetric(float64(claiming.Microseconds())/float64(b.N*batch), "µs/claim")
	b.ReportMetric(float64(keeping.Microseconds())/float64(b.N*batch), "µs/keep")
}
