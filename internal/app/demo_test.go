package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func TestDemoHasOneSalePerState(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	shops, vouchers := demoData(now)
	states := map[domain.SaleState]int{}
	for _, v := range vouchers {
		require.LessOrEqual(t, v.ShopID, int64(len(shops)))
		if v.Sale != nil {
			states[v.State(now)]++
		}
	}
	require.Equal(t, map[domain.SaleState]int{domain.StateOnSale: 1, domain.StateUpcoming: 1, domain.StateEnded: 1}, states)
}
