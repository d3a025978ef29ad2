package repo

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/env"
)

// onEachDisk runs a benchmark on databases on the disk.
func onEachDisk(b *testing.B, fn func(b *testing.B, s *Store)) {
	for name, open := range map[string]func() (*Store, error){
		"sqlite": func() (*Store, error) { return OpenSQLite(filepath.Join(b.TempDir(), "bench.db")) },
		"mysql":  func() (*Store, error) { return OpenMySQL(env.OneKind(b).DSN(b)) },
	} {
		b.Run(name, func(b *testing.B) {
			s := env.Must(open())(b)
			b.Cleanup(func() { require.NoError(b, s.Close()) })
			env.Must(s.MigrateUp(b.Context()))(b)
			fn(b, s)
		})
	}
}

// BenchmarkPlaceOrder places each order in its own durable transaction, with about as many concurrent buyers as
// connections.
func BenchmarkPlaceOrder(b *testing.B) {
	onEachDisk(b, func(b *testing.B, s *Store) {
		ctx := context.Background()
		v := newSale(b, s, 1e9, 1)
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

// BenchmarkCloseExpired closes overdue orders of 1 or of 100 sales, in batches of the size that the closer uses:
// go test -run NONE -bench CloseExpired -benchtime 100000x ./internal/repo
func BenchmarkCloseExpired(b *testing.B) {
	const batch = 500
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("sales=%d", n), func(b *testing.B) {
			onEachDisk(b, func(b *testing.B, s *Store) {
				sales := make([]int64, n)
				for i := range sales {
					sales[i] = newSale(b, s, 1e9, 1).ID
				}
				placeOverdue(b, s, 1, b.N, sales...)

				closed := 0
				b.ResetTimer()
				for {
					orders := env.Must(s.CloseExpired(b.Context(), batch))(b)
					closed += len(orders)
					if len(orders) == 0 {
						break
					}
				}
				require.Equal(b, b.N, closed)
				b.ReportMetric(float64(closed)/b.Elapsed().Seconds(), "orders/s")
			})
		})
	}
}
