package handler

import (
	"encoding/csv"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"golang.org/x/text/unicode/norm"

	"seckill/internal/domain"
)

// byteOrderMark makes Excel read the file as UTF-8.
const byteOrderMark = "\uFEFF"

// sheetFormat is how a file writes cells, for spreadsheet programs of different regions.
type sheetFormat struct {
	zone      *time.Location
	separator rune // between cells
	decimal   string
	// texts are those of columns and states; nil: the words of the API.
	texts map[string]string
	// exact means that texts that look like numbers stay texts.
	exact bool
}

// sheetFormatOf returns the format that a request asks for: by default UTC, commas, decimal points, and the words of the API.
// Error: *InvalidError.
func sheetFormatOf(c *gin.Context) (sheetFormat, error) {
	f := sheetFormat{
		zone:      time.UTC,
		separator: ',',
		decimal:   ".",
	}

	var bad domain.InvalidError
	choose := func(name, detail string, set func(value string) bool) {
		if value, present := c.GetQuery(name); present && !set(value) {
			bad.Add(name, "%s", detail)
		}
	}

	choose("tz", "must be the name of a time zone, such as Asia/Shanghai", func(name string) bool {
		var err error
		f.zone, err = time.LoadLocation(name)
		return err == nil && name != "" && name != "Local"
	})
	choose("separator", "must be a comma, a semicolon or a tab", func(separator string) bool {
		f.separator, _ = utf8.DecodeRuneInString(separator)
		return separator == "," || separator == ";" || separator == "\t"
	})
	choose("decimal", "must be a point or a comma", func(decimal string) bool {
		f.decimal = decimal
		return decimal == "." || decimal == ","
	})
	choose("lang", "must be en or zh", func(lang string) bool {
		f.texts = sheetTexts[lang]
		return f.texts != nil
	})
	choose("ids", "must be number or text", func(ids string) bool {
		f.exact = ids == "text"
		return f.exact || ids == "number"
	})

	return f, bad.Err()
}

// columns replaces the API's names of columns by those of the file. Those that end with _at or begin with valid_ are times.
func (f *sheetFormat) columns(names []string) []string {
	for i, name := range names {
		if text, ok := f.texts[name]; ok {
			names[i] = text
		}

		switch {
		case name != "at" && !strings.HasSuffix(name, "_at") && !strings.HasPrefix(name, "valid_"):
		case f.texts == nil && f.zone == time.UTC:
			names[i] += "_utc"
		default:
			names[i] += " (" + f.zone.String() + ")"
		}
	}

	return names
}

func (f *sheetFormat) state(of, word string) string {
	if text, ok := f.texts[of+"."+word]; ok {
		return text
	}
	return word
}

func (f *sheetFormat) id(n int64) string { return f.text(number(n)) }

// text returns a cell with a text. A tab behind it makes spreadsheet programs keep the digits of a long number and a
// title such as 11-11.
func (f *sheetFormat) text(s string) string {
	plain := norm.NFKC.String(s)
	if f.exact && valueLike.MatchString(plain) && (strings.ContainsFunc(plain, unicode.IsDigit) || truthLike.MatchString(plain)) {
		return s + "\t"
	}
	return s
}

// What spreadsheet programs of some region read as a number, an amount, a date, a time or a truth value, from full-width
// characters as well: 1.5, $5, 5 kr, 11月11日, 5 Mar, SEPT2. Month names of European languages differ in their ends.
var (
	valueLike = regexp.MustCompile(`(?i)^(?:[\p{Nd}\p{Sc}\s.,:/+%()'’⁄\x{2212}-]|[年月日号時时分秒上下午]|令和|[년월일시분초]|오[전후]|` +
		`e|am|pm|元|kr|zł|kč|chf|r\$|` +
		`(?:янв|фев|мар|апр|ма[йя]|ию[нл]|авг|сен|окт|ноя|дек)\pL{0,6}|` +
		`(?:jan|gen|ene|feb|fév|fev|mar|mär|apr|avr|abr|ma[iyj]|mag|jun|jui|giu|jul|lug|aug|aoû|ago|sep|set|o[ck]t|out|ott|nov|de[cz]|dic|déc)\pL{0,6}|` +
		`true|false)+$`)
	truthLike = regexp.MustCompile(`(?i)^\s*(?:true|false)\s*$`)
)

func (f *sheetFormat) time(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.In(f.zone).Format("2006-01-02 15:04:05")
}

func (f *sheetFormat) amount(amount int64, currency string) string {
	return strings.Replace(domain.FormatAmount(amount, currency), ".", f.decimal, 1)
}

// newCSV returns a file whose names of columns are not sent before more is written, or flushed.
func newCSV(w io.Writer, separator rune, columns []string) *csv.Writer {
	out := csv.NewWriter(w)
	out.Comma = separator
	out.UseCRLF = true

	// The name of the first column needs no quotes. Flush returns the error of a broken connection.
	columns[0] = byteOrderMark + columns[0]
	_ = out.Write(columns)
	return out
}

// inert makes texts of the cells that a spreadsheet program would run as a formula: an apostrophe goes before a cell that
// begins like one, in ASCII or in the full-width characters that Japanese and Chinese programs read as the same. See
// https://owasp.org/www-community/attacks/CSV_Injection.
func inert(cells []string) []string {
	for i, cell := range cells {
		// Some programs skip what shows nothing. The sign is read alone, because a mark behind it composes = to ≠.
		shown := strings.TrimLeftFunc(cell, func(r rune) bool { return domain.Pasted(string(r)) == "" })
		sign, _ := utf8.DecodeRuneInString(shown)
		if strings.IndexAny(norm.NFKC.String(string(sign)), "=+-@") == 0 || strings.IndexAny(cell, "\n\t\r") == 0 {
			cells[i] = "'" + cell
		}
	}
	return cells
}
