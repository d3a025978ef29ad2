package domain

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// SetText sets dst to src, a text that a person typed and that others read, with the line breaks of Unix, unless src is nil.
// It adds the field to bad if the text has fewer or more characters than allowed, has control characters, or shows nothing
// although it is not empty.
func SetText(dst, src *string, field string, least, most int, bad *InvalidError) {
	if src == nil {
		return
	}

	text := strings.ReplaceAll(*src, "\r\n", "\n")
	*dst = text
	n := utf8.RuneCountInString(text)
	if n < least || n > most {
		bad.Add(field, "must have %d to %d characters", least, most)
		return
	}

	if strings.ContainsFunc(text, unprintable) || n > 0 && !strings.ContainsFunc(text, visible) {
		bad.Add(field, "must be readable text, without control characters")
	}
}

// CheckReason is SetText of a reason that staff give for an action. It returns an *InvalidError if that is missing, too long or
// not readable.
func CheckReason(reason *string) error {
	var bad InvalidError
	SetText(reason, reason, "reason", 1, maxTitle, &bad)
	return bad.Err()
}

// unprintable reports whether r is a control character other than a line break or a tab. Characters that reverse the
// direction of the text after them are control characters, too: with them a title can show another price. U+FFFD stands for
// what was lost, such as the half of an emoji that a program has cut in two.
func unprintable(r rune) bool {
	reverses := r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069'
	return reverses || r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\n' && r != '\t'
}

// blanks are characters without ink: a Braille cell without a dot, the place of a picture that was not pasted, a silent note,
// and blanks of hieroglyphs.
const blanks = "\u2800\uFFFC\U0001D159\U00013441\U00013442"

// visible reports whether r shows something by itself: a letter, a number, punctuation or a symbol. A few of these are
// fillers, which show nothing.
func visible(r rune) bool {
	if strings.ContainsRune(blanks, r) || ignorable(r) {
		return false
	}
	// The blocks of pictographs and of ideographs get new characters each year, which this program does not know yet.
	pictograph := r >= '\U0001F000' && r <= '\U0001FAFF'
	ideograph := r >= '\U00020000' && r < '\U0003FFFE'
	return pictograph || ideograph || unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
}

// ignorable reports whether r shows nothing wherever it stands: a mark of direction, a joiner, a filler.
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Finder returns a function that reports whether a text contains part, as people read both: the case, the width and the
// composition of characters, the script of digits, the kind of quotes and dashes, the kind and number of spaces, and characters
// that show nothing, make no difference. A letter without an accent is found with one as well, but not the reverse. Nothing
// contains a part that shows nothing. The storefront searches for words by the same rule (static/lib/find.js).
func Finder(part string) func(text string) bool {
	part = folded(part)
	if part == "" {
		return func(string) bool { return false }
	}
	return func(text string) bool {
		text = folded(text)
		return strings.Contains(text, part) || strings.Contains(withoutAccents(text), part)
	}
}

func folded(text string) string {
	text = cases.Fold().String(norm.NFKC.String(text))
	text = strings.Map(asciiDigit, norm.NFKC.String(without(text, ignorable)))
	return alike.Replace(strings.Join(strings.Fields(text), " "))
}

// alike makes one character of those that are typed for each other: of the two i of Turkish, whose capitals are İ and I, because
// another language reads the second as its own; of apostrophes and quotes, which phones make round; and of dashes.
var alike = strings.NewReplacer("i\u0307", "i", "ı", "i", "‘", "'", "’", "'", "ʼ", "'", "“", `"`, "”", `"`, "„", `"`, "⁄", "/",
	"‐", "-", "‒", "-", "–", "-", "—", "-", "―", "-", "−", "-")

// strokes maps letters with a stroke, or of two letters in one, which Unicode does not decompose.
var strokes = strings.NewReplacer("ø", "o", "ł", "l", "đ", "d", "ħ", "h", "ŧ", "t", "æ", "ae", "œ", "oe")

// withoutAccents removes the accents from letters. Only the common ones, because the marks of other scripts make another
// letter, as in Japanese.
func withoutAccents(text string) string {
	return strokes.Replace(norm.NFC.String(without(norm.NFD.String(text), isAccent)))
}

// isAccent reports whether r is a mark that readers leave out: an accent of an alphabet, a vowel of Hebrew or Arabic, or in Arabic
// the hamza of a letter and the line that stretches a word.
func isAccent(r rune) bool {
	hebrew := r >= '\u0591' && r <= '\u05C7' && unicode.Is(unicode.Mn, r)
	arabic := r >= '\u064B' && r <= '\u0655' || r == '\u0670' || r == '\u0640'
	return r >= '\u0300' && r <= '\u036F' || hebrew || arabic
}

// Typed returns what a person meant who typed or pasted a code or a number: the plain form of each character (NFKC, for
// full-width ones), and the ASCII digit for a digit of any script. It leaves out spaces, line breaks, dashes, the keys that
// a phone draws around digits, and characters that show nothing, such as the marks of direction that address books add.
func Typed(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), isDash(r), ignorable(r), unicode.Is(unicode.Me, r), strings.ContainsRune(blanks, r):
			return -1
		}
		return asciiDigit(r)
	}, norm.NFKC.String(text))
}

// maxTypedCode bounds what is read of a code, in bytes. A request may carry 64 KB, and normalization makes up to 18
// characters of one.
const maxTypedCode = 256

// TypedCode returns the letters and digits of a code that a person typed or pasted ([Typed]). What stands between and around
// them is of the message or the spreadsheet that the code was copied from: a full stop, quotes, brackets, a comma after
// thousands.
func TypedCode(text string) string {
	return without(Typed(text[:min(len(text), maxTypedCode)]), func(r rune) bool { return unicode.In(r, unicode.P, unicode.S, unicode.M) })
}

// Pasted returns a reference that was copied from a page of the bank or a message, without spaces, line breaks, and
// characters that show nothing, of which no reference has any.
func Pasted(text string) string {
	return without(text, func(r rune) bool { return unicode.IsSpace(r) || ignorable(r) })
}

func without(text string, drop func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if drop(r) {
			return -1
		}
		return r
	}, text)
}

// isDash reports whether r is a dash, or a character that is typed for one: a minus sign, a horizontal line, a wave, the sound
// mark of a Japanese keyboard, or a dot at half height.
func isDash(r rune) bool {
	return unicode.Is(unicode.Dash, r) || unicode.Is(unicode.Pd, r) || strings.ContainsRune("_~\u2500\u30FC\u00B7\u2022\u2027\u2219\u22C5\u30FB", r)
}

// asciiDigit returns the ASCII digit for a digit of any script, and other characters as they are. The digits of a script are
// ten characters in a row, from zero to nine.
func asciiDigit(r rune) rune {
	if !unicode.IsDigit(r) {
		return r
	}

	zero := r
	for unicode.IsDigit(zero-1) && r-zero < 9 {
		zero--
	}
	return '0' + r - zero
}
