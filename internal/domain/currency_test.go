package domain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFormatAmount: the decimals are those of ISO 4217, not those of CLDR, which differ (Rhymond/go-money#66, tc39/ecma402#134).
func TestFormatAmount(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		amount int64
		code   string
	}{
		"80.00": {8000, "CNY"}, "0.05": {5, "CNY"}, "0.00": {0, "CNY"}, "1500.00": {150000, "MUR"}, "19.90": {1990, "HUF"},
		"19.91": {1991, "IDR"}, "19.92": {1992, "PKR"}, "19.93": {1993, "COP"}, "111": {111, "JPY"}, "112": {112, "KRW"},
		"1.005": {1005, "KWD"}, "0.500": {500, "TND"}, "1.0005": {10005, "CLF"}, "7.00": {700, "DEM"},
	} {
		require.Equal(t, want, FormatAmount(c.amount, c.code), c.code)
	}
}

// TestIsCurrency: currencies come and go (Rhymond/go-money#138).
func TestIsCurrency(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"CNY", "EUR", "VES", "SLE", "ZWG", "XCG", "MRU", "STN", "BYN", "XOF", "CLF", "XXX"} {
		require.True(t, IsCurrency(code), code)
	}
	for _, code := range []string{"DEM", "HRK", "BGN", "VEF", "ZWL", "ANG", "CUC", "cny", "XAU", "XDR", "AAA", "", "CNY "} {
		require.False(t, IsCurrency(code), code)
	}
}
