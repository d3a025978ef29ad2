package domain

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
		"an emoji of 2024": "\U0001FAE9", "an ideograph of 2025": "\U000323B0",
	} {
		assert.False(t, refused(text, required), name)
		assert.False(t, refused(text, optional), name)
	}
	for name, text := range map[string]string{
		"zero-width spaces": "\u200b\u200b", "a joiner": "\u200d", "a byte order mark": "\ufeff", "a soft hyphen": "\u00ad", "blanks": " \t\n", "an ideographic space": "\u3000",
		"a Hangul filler": "\u3164", "a narrow Hangul filler": "\uffa0", "a Braille blank": "\u2800", "a mark on nothing": "\u0301", "a tag": "\U000e0041", "a variation": "\ufe0f",
		"an Ogham space": "\u1680", "a Mongolian separator": "\u180e", "an invisible times": "\u2062", "the place of a picture": "\ufffc",
		"a silent note": "\U0001d159", "a private character": "\ue000", "a line separator": "\u2028",
	} {
		assert.True(t, refused(text, required), name)
		assert.True(t, refused(text, optional), name)
	}
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
		{"１００", []string{"100 元"}, []string{"10"}},
		{"\u200b", nil, []string{"a", "", "\u200b"}},
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
