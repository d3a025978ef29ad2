package domain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SetText sets dst to src, a text that a person typed and that others read, unless src is nil. It adds the field to bad if
// the text has fewer or more characters than allowed, has control characters, or shows nothing although it is not empty.
func SetText(dst, src *string, field string, least, most int, bad *InvalidError) {
	if src == nil {
		return
	}
	*dst = *src

	n := utf8.RuneCountInString(*src)
	if n < least || n > most {
		bad.Add(field, "must have %d to %d characters", least, most)
		return
	}
	if strings.ContainsFunc(*src, unprintable) || n > 0 && !strings.ContainsFunc(*src, visible) {
		bad.Add(field, "must be readable text, without control characters")
	}
}

// unprintable reports whether r is a control character other than a line break or a tab. Characters that reverse the
// direction of the text after them are control characters, too: with them a title can show another price.
func unprintable(r rune) bool {
	reverses := r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069'
	return reverses || unicode.IsControl(r) && r != '\n' && r != '\t'
}

// brailleBlank is a symbol without a dot.
const brailleBlank = '\u2800'

// visible reports whether r shows something by itself: a letter, a number, punctuation or a symbol. A few of these are
// fillers, which show nothing.
func visible(r rune) bool {
	if r == brailleBlank || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
		return false
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
}
