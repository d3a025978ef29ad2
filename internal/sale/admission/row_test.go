package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func TestParseRowRejectsMalformedRows(t *testing.T) {
	for name, row := range map[string]string{
		"nothing":                   "",
		"too few words":             "1 10 7 1 100",
		"not a number":              "1 10 7 1 hundred 1000 ",
		"number out of range":       "9223372036854775808 10 7 1 100 1000 ",
		"seconds not a number":      "1 10 7 1 100 1000 EUR here~soon",
		"position not a number":     "1 10 7 1 100 1000 EUR here first",
		"an empty position":         "1 10 7 1 100 1000 EUR here ",
		"a short offer":             "1 10 7 1 100 1000 EUR here!AAAA",
		"an offer of no bytes":      "1 10 7 1 100 1000 EUR here!++++++++++++++++++++++",
		"a short request key":       "1 10 7 1 100 1000 EUR here#AAAA",
		"a request key of no bytes": "1 10 7 1 100 1000 EUR here#!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
	} {
		_, err := parseRow(row)
		require.Error(t, err, name)
	}
}

// formatRows of earlier releases have no currency and no queue position.
func TestParseRow(t *testing.T) {
	want := domain.Admission{
		OrderID: 1, UserID: -10, VoucherID: 7, Limit: 1, Amount: 100, Currency: "CNY", At: time.UnixMilli(1000).UTC(),
	}
	for _, c := range []struct{ row, currency, replyTo string }{
		{"1 -10 7 1 100 1000", "CNY", ""},
		{"1 -10 7 1 100 1000 here", "CNY", "here"},
		{"1 -10 7 1 100 1000 EUR here", "EUR", "here"},
	} {
		want.Currency, want.ReplyTo = c.currency, c.replyTo
		a, err := parseRow(c.row)
		require.NoError(t, err)
		require.Equal(t, want, a)
	}
}

func TestRowsRoundTrip(t *testing.T) {
	key := domain.NewRequestKey("k", [32]byte{7})
	key.Name = "" // is not stored
	at := time.UnixMilli(1000).UTC()
	offers := []domain.OfferID{{}, {1, 2, 3}}
	var as []domain.Admission
	for _, key := range []*domain.RequestKey{nil, key} {
		for _, timeToPay := range []time.Duration{0, 90 * time.Second} {
			for _, place := range []int64{0, 5} {
				for _, replyTo := range []string{"", "here"} {
					round := uint32(len(as)) * 9 // 0 in the first
					for _, trace := range []*domain.Trace{nil, {Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Since: at}} {
						as = append(as, domain.Admission{
							OrderID: 1 << 60, UserID: 10, VoucherID: 7, Limit: 2, Amount: 100, Currency: "EUR", At: at,
							PayTimeout: timeToPay, Round: round, ReplyTo: replyTo, Key: key, Place: place, Trace: trace,
							OfferID: offers[(len(as)+len(as)/2)%2],
						})
					}
				}
			}
		}
	}
	rows := formatRows(as)
	for i := range as {
		require.Equal(t, rows[i], formatRow(&as[i]))
		parsed, err := parseRows(rows[i] + rowSeparator + rows[0])
		require.NoError(t, err)
		require.Equal(t, []domain.Admission{as[i], as[0]}, parsed)
	}
}
