package domain

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A text that people type shows something to those who read it. An optional text may be empty, but not invisible.
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
	} {
		assert.False(t, refused(text, required), name)
		assert.False(t, refused(text, optional), name)
	}
	for name, text := range map[string]string{
		"zero-width spaces": "\u200b\u200b", "a joiner": "\u200d", "a byte order mark": "\ufeff", "a soft hyphen": "\u00ad", "blanks": " \t\n", "an ideographic space": "\u3000",
		"a Hangul filler": "\u3164", "a narrow Hangul filler": "\uffa0", "a Braille blank": "\u2800", "a mark on nothing": "\u0301", "a tag": "\U000e0041", "a variation": "\ufe0f",
	} {
		assert.True(t, refused(text, required), name)
		assert.True(t, refused(text, optional), name)
	}
	assert.False(t, refused("", optional))
	assert.True(t, refused("", required))
}
