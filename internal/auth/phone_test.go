package auth

import (
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

func numbers(t *testing.T, countries ...string) *Phones {
	t.Helper()
	n := env.Must(NewPhones(countries))(t)
	return n
}

// Every way to write a number leads to one account.
func TestParseReturnsOneFormPerNumber(t *testing.T) {
	for want, tc := range map[string]struct {
		countries []string
		country   string
		written   []string
	}{
		"13800000001": {[]string{"CN"}, "CN", []string{
			"13800000001", "+8613800000001", "008613800000001", "0086 138 0000 0001", "+86 138-0000-0001", "8613800000001",
			"１３８０００００００１", "＋86 13800000001", " 138 0000 0001 ", "(+86) 138.0000.0001", "０13800000001",
			// Address books and messengers add marks and links (woocommerce/woocommerce#58000, glific/glific#4815).
			"\u202d138 0000 0001\u202c", "\u200e+86 138 0000 0001", "+86\u202f138\u202f0000\u202f0001", "\ufeff138\u00ad0000\u20600001",
			"\u2068+86 138\u20090000\u20090001\u2069", "138−0000−0001", "tel:+86-138-0000-0001", "TEL:13800000001", "13800000001\n", "١٣٨٠٠٠٠٠٠٠١",
			"+86\u2011138\u20110000\u20110001", "（＋86）138\u061c00000001", "138·0000·0001", "tel://13800000001", "138/0000/0001",
		}},
		"19412345678": {[]string{"CN"}, "CN", []string{"+86 194 1234 5678", "19412345678"}}, // a prefix that the library does not know
		"+491711234567": {[]string{"CN", "de"}, "DE", []string{
			"0171 1234567", "0171/1234567", "+49 171 1234567", "+49 (0)171 1234567", "0049 171 1234567", "0171-123 45 67",
		}},
		"+447400123456": {[]string{"GB"}, "GB", []string{"07400 123456", "+447400123456", "+4407400123456", "00447400123456"}},
		"+447911123456": {[]string{"GG"}, "GG", []string{"+447911123456", "+4407911123456"}},
		"+819012345678": {[]string{"JP"}, "JP", []string{"090-1234-5678", "+81 (0)90 1234 5678", "０９０ー１２３４ー５６７８", "+81 90・1234・5678"}},
		"+33612345678":  {[]string{"FR"}, "FR", []string{"06.12.34.56.78", "06 12 34 56 78", "+33\u202f6\u202f12\u202f34\u202f56\u202f78"}},
		// The former prefix of mobile numbers: https://en.wikipedia.org/wiki/Telephone_numbers_in_Mexico
		"+525512345678": {[]string{"MX"}, "MX", []string{"+52 55 1234 5678", "+52 1 55 1234 5678", "0052 1 55 1234 5678", "55 1234 5678"}},
		"+12015550123":  {[]string{"US", "CA"}, "US", []string{"(201) 555-0123", "1-201-555-0123", "+1 201 555 0123"}},
	} {
		for _, in := range tc.written {
			got, country, err := numbers(t, tc.countries...).Parse(in)
			require.NoError(t, err, in)
			require.Equal(t, want, got, in)
			require.Equal(t, tc.country, country, in)
		}
	}
}

func TestParseRefusesOtherNumbers(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "short": "1", "landline": "021-62345678", "landline abroad": "+49 30 123456",
		"unassigned": "12800000001", "load-test user": "10000000001", "too long": "138000000011", "letter": "1380000000a",
		"text": "call 13800000001", "NUL": "13800000001\x00", "extension": "13800000001;ext=5",
		"URI": "tel:+8613800000001;phone-context=+86", "another URI": "sms:+8613800000001", "vanity": "+1-800-FLOWERS", "two pluses": "+86+8613800000001",
		"other country": "+4915112345678", "other country, national": "0171 1234567", "US": "+1 201 555 0123",
		"satellite": "+88216123456789", "premium": "+97912345678", "premium US": "+19005551234", "spaces": "   ",
		"long": "1380000000" + string(make([]byte, 1000)),
	} {
		_, _, err := numbers(t, "CN").Parse(in)
		var invalid *domain.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, []domain.FieldError{{
			Field: "phone", Detail: "must be a mobile number of CN, such as 131 2345 6789 or +86 131 2345 6789",
		}}, invalid.Fields, name)
	}
	for _, in := range []string{"+88216123456789", "+97912345678", "+19005551234", "+18005551234", "+122222222222222", "+16715551234"} {
		_, _, err := numbers(t, "US", "CN", "DE").Parse(in)
		require.Error(t, err, in)
	}
}

// Accounts of a country that is no longer accepted can still be found.
func TestCanonicalOfAnyNumber(t *testing.T) {
	for in, want := range map[string]string{
		"+49 (0)151 12345678": "+4915112345678", "0086 138 0000 0001": "13800000001", "14912345678": "14912345678",
	} {
		got := env.Must(numbers(t, "CN").Canonical(in))(t)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"x", "", "12", "+1234567890123456789"} {
		_, err := numbers(t, "CN").Canonical(in)
		require.ErrorContains(t, err, "such as 131 2345 6789", in)
	}
}

func TestNewRefusesUnknownCountries(t *testing.T) {
	for _, bad := range [][]string{{"XX"}, {"CN", "China"}, {"86"}, {"001"}, {""}, {}} {
		_, err := NewPhones(bad)
		require.Error(t, err, bad)
	}
}
