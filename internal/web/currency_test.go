package web

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// TestPagesHaveDecimalsOfCurrencies: pages and files show the same amounts, in every browser (Automattic/jetpack#48967).
func TestPagesHaveDecimalsOfCurrencies(t *testing.T) {
	t.Parallel()
	script, err := embedded.ReadFile("static/lib/currency.js")
	require.NoError(t, err)
	pages := map[string]int{}
	for _, m := range regexp.MustCompile(`([A-Z]{3}): (\d)`).FindAllStringSubmatch(string(script), -1) {
		pages[m[1]], err = strconv.Atoi(m[2])
		require.NoError(t, err)
	}

	letters := "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range letters {
		for _, b := range letters {
			for _, c := range letters {
				code := string(a) + string(b) + string(c)
				places, ok := pages[code]
				if !ok {
					places = 2
				}
				require.Equal(t, domain.Decimals(code), places, code)
			}
		}
	}
}
