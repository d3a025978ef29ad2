package domain

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
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

// CheckReason returns an *InvalidError if a reason that staff give for an action is missing, too long or not readable.
func CheckReason(reason string) error {
	var bad InvalidError
	SetText(new(string), &reason, "reason", 1, maxTitle, &bad)
	return bad.Err()
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

// Typed returns what a person meant who typed or pasted a code or a number: the plain form of each character (NFKC, for
// full-width ones), and the ASCII digit for a digit of any script. It leaves out spaces, line breaks, dashes, and
// characters that show nothing, such as the marks of direction that address books add.
func Typed(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), isDash(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r),
			unicode.Is(unicode.Variation_Selector, r), r == brailleBlank:
			return -1
		case unicode.IsDigit(r):
			return '0' + digitValue(r)
		}
		return r
	}, norm.NFKC.String(text))
}

// isDash reports whether r is a dash, or a character that is typed for one: a minus sign, a horizontal line, or the sound
// mark of a Japanese keyboard.
func isDash(r rune) bool {
	return unicode.Is(unicode.Dash, r) || unicode.Is(unicode.Pd, r) || r == '\u2500' || r == '\u30FC'
}

// digitValue returns the value of a decimal digit. The digits of a script are ten characters in a row, from zero to nine.
func digitValue(r rune) rune {
	zero := r
	for unicode.IsDigit(zero-1) && r-zero < 9 {
		zero--
	}
	return r - zero
}
