package domain

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A text that people type shows something to those who read it. An optional text may be empty, but not invisible.
// Source: XiovV/calich#251, Expensify/App#96468.
func TestText(t *testing.T) {
	const required, optional = 1, 0
	refused := func(text string, least int) bool {
		var bad InvalidError
		var dst string
		SetText(&dst, &text, "title", least, maxTitle, &bad)
		return bad.Err() != nil
	}
	for name, text := range map[string]string{
		"one letter": "a", "a digit": "0", "Chinese": "券", "Arabic": "ش", "an emoji of several characters": "👩‍👩‍👧", "a sign": "¥", "punctuation": "—",
		"a mark on a letter": "e\u0301", "lines": "a\n\tb", "invisible beside visible": "\u200bx",
		"lines of Windows": "a\r\nb", "an emoji of 2024": "\U0001FAE9", "an ideograph of 2025": "\U000323B0",
	} {
		assert.False(t, refused(text, required), name)
		assert.False(t, refused(text, optional), name)
	}
	for name, text := range map[string]string{
		"zero-width spaces": "\u200b\u200b", "a joiner": "\u200d", "a byte order mark": "\ufeff", "a soft hyphen": "\u00ad", "blanks": " \t\n", "an ideographic space": "\u3000",
		"a Hangul filler": "\u3164", "a narrow Hangul filler": "\uffa0", "a Braille blank": "\u2800", "a mark on nothing": "\u0301", "a tag": "\U000e0041", "a variation": "\ufe0f",
		"an Ogham space": "\u1680", "a Mongolian separator": "\u180e", "an invisible times": "\u2062", "the place of a picture": "\ufffc",
		"a silent note": "\U0001d159", "a blank of hieroglyphs": "\U00013441", "a private character": "\ue000", "a line separator": "\u2028",
		"a control character beside text": "a\x00", "half an emoji": "a\uFFFD", "a line of an old Mac": "a\rb",
	} {
		assert.True(t, refused(text, required), name)
		assert.True(t, refused(text, optional), name)
	}
	var text string
	SetText(&text, new("One\r\nTwo"), "rules", 0, 7, new(InvalidError))
	assert.Equal(t, "One\nTwo", text)
	change := StockChange{Delta: 1, Reason: strings.Repeat("\r\n", 250) + "found"}
	require.NoError(t, change.Validate())
	assert.Len(t, change.Reason, maxTitle, "as long as its column")
	assert.False(t, refused("", optional))
	assert.True(t, refused("", required))
}

// A search finds what contains its text as people read it, and nothing else.
// Source: mozilla/addons-server#22767, sudara/alonetone#732.
func TestFinder(t *testing.T) {
	for _, c := range []struct {
		part string
		in   []string
		not  []string
	}{
		{"🍣", []string{"🍣 sushi", "a🍣"}, []string{"🍜 noodles", "sushi", ""}},
		{"𠮷", []string{"𠮷野家"}, []string{"吉野家", "🍜"}},
		{"❤", []string{"with ❤\ufe0f"}, []string{"with 💙"}},
		{"❤\ufe0f", []string{"with ❤"}, []string{"with 💙"}},
		{"👩", []string{"👩\u200d👩\u200d👧"}, []string{"👨"}},
		{"STRASSE", []string{"Straße", "Hauptstraße 1", "strasse", "STRA\u1e9eE"}, []string{"Strase"}},
		{"straße", []string{"STRASSE", "Straße"}, []string{"strase"}},
		{"ΟΔΟΣ", []string{"οδος", "οδός"}, []string{"οδο"}},
		{"cafe", []string{"Cafe", "Café", "CAFE\u0301", "ｃａｆｅ", "ca\u00adfe", "c\u200bafe"}, []string{"caf", "kafe"}},
		{"Café", []string{"café", "CAFE\u0301", "CAFÉ"}, []string{"cafe"}},
		{"か", []string{"かき"}, []string{"がき"}},
		{"100%_!", []string{"at 100%_! off"}, []string{"100", "1000"}},
		{"１００", []string{"100 元", "١٠٠ ريال", "۱۰۰", "१००"}, []string{"10"}},
		{"٥٠", []string{"50% off"}, []string{"05"}},
		{"\u200b", nil, []string{"a", "", "\u200b"}},
		{" \n", nil, []string{"a b", " "}},
		{"sushi for two\n", []string{"sushi  for\u00a0two", "a sushi\nfor two", "sushi\u3000for two"}, []string{"sushifortwo"}},
		{"istanbul", []string{"İstanbul", "ISTANBUL"}, nil},
		{"İSTANBUL", []string{"istanbul", "İstanbul", "I\u0307stanbul", "ISTANBUL"}, []string{"stanbul"}},
		{"KIRMIZI", []string{"kırmızı", "Kırmızı", "kirmizi"}, []string{"kırmıza"}},
		{"ışık", []string{"IŞIK", "Işık"}, []string{"asik"}},
		{"isik", []string{"IŞIK", "Işık"}, nil},
		{"lodz", []string{"Łódź"}, nil},
		{"smorrebrod", []string{"Smørrebrød", "SMØRREBRØD"}, nil},
		{"pho dac biet", []string{"Phở đặc biệt"}, nil},
		{"oeuvre", []string{"Œuvre"}, nil},
		{"ø", []string{"Øl"}, []string{"ol"}},
		{"joe's", []string{"Joe’s", "JOE'S", "Joeʼs"}, []string{"joes"}},
		{"“two”", []string{`"two"`, "„two“"}, []string{"two"}},
		{"11-12", []string{"11–12", "11—12", "11‑12", "11−12"}, []string{"1112"}},
		{"\u0634\u0645\u0633", []string{"\u0634\u064e\u0645\u0652\u0633"}, []string{"\u0633"}}, // Arabic, with vowels
		{"\u0634\u0645\u0633", []string{"\u0634\u0645\u0640\u0640\u0633"}, nil},                // stretched
		{"\u0627\u062d\u0645\u062f", []string{"\u0623\u062d\u0645\u062f"}, nil},                // with a hamza
		{"1/2", []string{"½ price", "1⁄2"}, []string{"12"}},
		{"\u05e9\u05dc\u05d5\u05dd", []string{"\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\ufb2a\u05b8\u05dc\u05d5\u05b9\u05dd"}, nil}, // Hebrew, with points
		{"🇺🇸", []string{"🇺🇸 burger"}, []string{"🇨🇳", "🇺🇦"}},
		{"👍", []string{"👍🏽 deal"}, []string{"👎"}},
		{"ｶﾞﾑ", []string{"ガム"}, []string{"カム"}},
		{"한글", []string{"\u1112\u1161\u11ab\u1100\u1173\u11af"}, nil},
	} {
		contains := Finder(c.part)
		for _, text := range c.in {
			assert.True(t, contains(text), "%q contains %q", text, c.part)
		}
		for _, text := range c.not {
			assert.False(t, contains(text), "%q does not contain %q", text, c.part)
		}
	}
}

// TestTyped: authenticator apps show codes in groups, and keyboards type full-width forms.
// Source: devise-two-factor/devise-two-factor#195, alphagov/signon#2230, Automattic/wp-calypso#23042.
func TestTyped(t *testing.T) {
	for want, all := range map[string][]string{
		"123456": {
			"123456", "123 456", " 123456\n", "123-456", "123·456", "123・456", "123•456", "123∙456", "123⋅456", "123‧456", "123_456", "1\ufe0f\u20e323456", "１２３４５６", "１２３　４５６", "123\u00a0456", "123\u202f456",
			"\u202d123456\u202c", "\u2068123\u200b456\u2069", "\ufeff123\u00ad456\ufe0f", "123—456", "123–456", "123−456", "123ー456", "123～456", "123〜456",
			"123‑456", "１２３－４５６", "١٢٣٤٥٦", "۱۲۳۴۵۶", "१२३४५६", "𝟏𝟐𝟑𝟒𝟓𝟔",
		},
		"123":        {"\U0001fbf1\U0001fbf2\U0001fbf3"},
		"ABCDefghI2": {"ABCD—efgh\u3000Ｉ２"},
		"12a456":     {"12a456"},
		"12\x00456":  {"12\x00456"},
		"1.5":        {"1.5"},
		"":           {"", " \u200b\u2800\u3164 "},
	} {
		for _, typed := range all {
			require.Equal(t, want, Typed(typed), "%q", typed)
		}
	}

	// Unicode lists the digits of each script in a row, from zero to nine.
	var digits []rune
	for r := range rune(unicode.MaxRune) {
		if unicode.IsDigit(r) {
			digits = append(digits, r)
		}
	}
	require.Equal(t, strings.Repeat("0123456789", len(digits)/10), Typed(string(digits)))
}

// TestTypedCode: codes are copied with what stands around them in a message or a spreadsheet.
func TestTypedCode(t *testing.T) {
	for typed, want := range map[string]string{
		"123456.": "123456", "123456。": "123456", "【123456】": "123456", "\u201c123456\u201d": "123456", "'123456": "123456", "123,456": "123456", "123\u2019456": "123456",
		"123.456": "123456", "123_456": "123456", "(123) 456": "123456", "<123456>": "123456", "`123456`": "123456", "１２３，４５６": "123456",
		"ABCD_efgh/0123": "ABCDefgh0123", "12a456": "12a456", "12\x00456": "12\x00456", "12345": "12345", "...": "",
		"1\ufe0f\u20e32\ufe0f\u20e3": "12", "ABCD•efgh‧１２，": "ABCDefgh12", "“123 456”。": "123456",
	} {
		require.Equal(t, want, TypedCode(typed), "%q", typed)
	}
	require.Less(t, len(TypedCode(strings.Repeat("ﷺ", 20_000))), 10_000, "a login of a stranger costs little")
}

// TestFormatAmount: the decimals are those of ISO 4217, not those of CLDR, which differ (Rhymond/go-money#66, tc39/ecma402#134).
func TestFormatAmount(t *testing.T) {
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
	for _, code := range []string{"CNY", "EUR", "VES", "SLE", "ZWG", "XCG", "MRU", "STN", "BYN", "XOF", "CLF", "XXX"} {
		require.True(t, IsCurrency(code), code)
	}
	for _, code := range []string{"DEM", "HRK", "BGN", "VEF", "ZWL", "ANG", "CUC", "cny", "XAU", "XDR", "AAA", "", "CNY "} {
		require.False(t, IsCurrency(code), code)
	}
}

func TestWaitIsInWholeSeconds(t *testing.T) {
	err := &RateLimitedError{RetryAfter: 5*time.Hour + 54*time.Minute + 6481324937*time.Nanosecond, Reason: "too many codes"}
	require.EqualError(t, err, "too many codes, try again in 5h54m7s")
	require.EqualError(t, &RateLimitedError{RetryAfter: time.Second}, "too many requests, try again in 1s")
}

func TestParseKeyring(t *testing.T) {
	for text, want := range map[string][]string{
		"":                     {},
		" , \n":                {},
		"one":                  {"one"},
		"new,old":              {"new", "old"},
		"new\r\nold\n":         {"new", "old"},
		" a phrase , another ": {"a phrase", "another"},
	} {
		secrets := []string{}
		for _, k := range ParseKeyring(text) {
			secrets = append(secrets, string(k.Secret))
		}
		require.Equal(t, want, secrets, "%q", text)
	}
}

// TestKeyIDs: an id depends on the secret alone, so that every server computes the same one at any position.
func TestKeyIDs(t *testing.T) {
	ring := NewKeyring([]byte("new"), []byte("old"))
	require.NotEqual(t, ring[0].ID, ring[1].ID)
	require.Equal(t, ring[1], NewKeyring([]byte("old"))[0])
	derived := ring.Derive("purpose")
	require.Equal(t, DeriveSecret([]byte("new"), "purpose"), derived.Signer())
	require.NotEqual(t, ring[0].ID, derived[0].ID, "a key id reveals nothing about other keys")
}

// A code is accepted as people type it (TestTyped), in any case and with lookalikes. A change of any character makes it invalid.
func TestRedeemCodes(t *testing.T) {
	codes, others := NewRedeemCodes(NewKeyring([]byte("one"))), NewRedeemCodes(NewKeyring([]byte("two")))
	const id = 3368803458027454465
	code := codes.Of(id)
	require.Regexp(t, `^([0-9A-HJKMNP-TV-Z]{4}-){5}[0-9A-HJKMNP-TV-Z]{4}$`, code)
	require.NotEqual(t, code, codes.Of(id+1))
	for _, typed := range []string{
		code, strings.ToLower(code), " " + strings.ReplaceAll(code, "-", "\u00a0") + "\r\n", strings.NewReplacer("0", "o", "1", "l").Replace(code),
		strings.NewReplacer("0", "O", "1", "I").Replace(code),
	} {
		got, err := codes.Parse(typed)
		require.NoError(t, err, typed)
		require.EqualValues(t, id, got)
	}
	wrong := []string{
		"", "-", code[:len(code)-1], code + "0", others.Of(id), strings.Repeat("U", 24), strings.Repeat("0", 24), "\x00", strings.Repeat("0", 1<<20),
		strings.ToLower(code)[1:] + code[:1],
	}
	for i, c := range code {
		for _, other := range "0Z" {
			if c != '-' && c != other {
				wrong = append(wrong, code[:i]+string(other)+code[i+1:])
			}
		}
	}
	for _, w := range wrong {
		_, err := codes.Parse(w)
		require.ErrorIs(t, err, ErrUnknownCode, "%.50q", w)
	}
}

// TestRedeemCodesAfterChangeOfSecret: codes shown before the change stay valid while the old secret is listed.
func TestRedeemCodesAfterChangeOfSecret(t *testing.T) {
	before, during, after := NewRedeemCodes(ParseKeyring("old")), NewRedeemCodes(ParseKeyring("new,old")), NewRedeemCodes(ParseKeyring("new"))
	for _, code := range []string{before.Of(7), during.Of(7)} {
		id, err := during.Parse(code)
		require.NoError(t, err)
		require.Equal(t, int64(7), id)
	}
	require.Equal(t, after.Of(7), during.Of(7))
	_, err := after.Parse(before.Of(7))
	require.ErrorIs(t, err, ErrUnknownCode)
	_, err = before.Parse(during.Of(7))
	require.ErrorIs(t, err, ErrUnknownCode)
}

func TestCountHasSingularAndPlural(t *testing.T) {
	require.Equal(t, "0 violations", Count(0, "violation"))
	require.Equal(t, "1 violation", Count(1, "violation"))
	require.Equal(t, "2 violations", Count(2, "violation"))
}
