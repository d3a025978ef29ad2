package domain

import (
	"slices"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestTyped: authenticator apps show codes in groups, and keyboards type full-width forms
// (devise-two-factor/devise-two-factor#195, alphagov/signon#2230, Automattic/wp-calypso#23042).
func TestTyped(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"123456":                         "123456",
		"123 456":                        "123456",
		" 123456\n":                      "123456",
		"123-456":                        "123456",
		"１２３４５６":                         "123456",
		"１２３　４５６":                        "123456",
		"123\u00a0456":                   "123456",
		"123\u202f456":                   "123456",
		"\u202d123456\u202c":             "123456",
		"\u2068123\u200b456\u2069":       "123456",
		"\ufeff123\u00ad456\ufe0f":       "123456",
		"123—456":                        "123456",
		"123–456":                        "123456",
		"123−456":                        "123456",
		"123ー456":                        "123456",
		"123·456":                        "123456",
		"123・456":                        "123456",
		"123‑456":                        "123456",
		"１２３－４５６":                        "123456",
		"١٢٣٤٥٦":                         "123456",
		"۱۲۳۴۵۶":                         "123456",
		"१२३४५६":                         "123456",
		"𝟏𝟐𝟑𝟒𝟓𝟔":                         "123456",
		"\U0001fbf1\U0001fbf2\U0001fbf3": "123",
		"ABCD—efgh\u3000Ｉ２":              "ABCDefghI2",
		"12a456":                         "12a456",
		"12\x00456":                      "12\x00456",
		"1.5":                            "1.5",
		"":                               "",
		" \u200b\u2800\u3164 ":           "",
	} {
		require.Equal(t, want, Typed(typed), "%q", typed)
	}

	// Unicode lists the digits of each script in a row, from zero to nine.
	for _, row := range digitRows() {
		require.Equal(t, "0123456789", Typed(row), "%q", row)
	}
}

// digitRows returns the digits of every script.
func digitRows() []string {
	var digits []rune
	for r := range rune(unicode.MaxRune) {
		if unicode.IsDigit(r) {
			digits = append(digits, r)
		}
	}

	var rows []string
	for row := range slices.Chunk(digits, 10) {
		rows = append(rows, string(row))
	}
	return rows
}
