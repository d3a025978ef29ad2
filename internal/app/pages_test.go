package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrice: a currency has its own number of decimals, and its code tells yuan from yen.
func TestPrice(t *testing.T) {
	for want, c := range map[string]struct {
		amount int64
		code   string
	}{
		"CNY 80.00": {8000, "CNY"}, "CNY 0.05": {5, "CNY"}, "JPY 111": {111, "JPY"}, "KWD 1.005": {1005, "KWD"},
	} {
		require.Equal(t, want, price(c.amount, c.code))
	}
}
