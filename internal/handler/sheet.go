package handler

import (
	"encoding/csv"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// byteOrderMark makes Excel read the file as UTF-8.
const byteOrderMark = "\uFEFF"

// csvWriter writes the rows of a CSV file (RFC 4180) for spreadsheet programs. It is not safe for concurrent use.
type csvWriter struct {
	csv *csv.Writer
}

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

	// net/url leaves out a parameter with a semicolon that is not escaped.
	query, err := url.ParseQuery(strings.ReplaceAll(c.Request.URL.RawQuery, ";", "%3B"))
	if err != nil {
		return f, domain.Invalid("query", "is not valid")
	}

	if query.Has("tz") {
		name := query.Get("tz")
		zone, err := time.LoadLocation(name)
		if err != nil || name == "" || name == "Local" {
			bad.Add("tz", "must be the name of a time zone, such as Asia/Shanghai")
		} else {
			f.zone = zone
		}
	}

	if query.Has("separator") {
		switch separator := query.Get("separator"); separator {
		case ",", ";", "\t":
			f.separator = rune(separator[0])
		default:
			bad.Add("separator", "must be a comma, a semicolon or a tab")
		}
	}

	if query.Has("decimal") {
		switch decimal := query.Get("decimal"); decimal {
		case ".", ",":
			f.decimal = decimal
		default:
			bad.Add("decimal", "must be a point or a comma")
		}
	}

	if query.Has("lang") {
		texts, known := sheetTexts[query.Get("lang")]
		if !known {
			bad.Add("lang", "must be en or zh")
		}
		f.texts = texts
	}

	if query.Has("ids") {
		switch query.Get("ids") {
		case "text":
			f.exact = true
		case "number":
		default:
			bad.Add("ids", "must be number or text")
		}
	}

	return f, bad.Err()
}

// columns returns the names of columns. Those whose names end with _at or begin with valid_ are times.
func (f *sheetFormat) columns(names ...string) []string {
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

// state returns a cell with a state of an order or a payment.
func (f *sheetFormat) state(of, word string) string {
	if text, ok := f.texts[of+"."+word]; ok {
		return text
	}
	return word
}

// id returns a cell with an id, or an empty cell for 0, which stands for an absent one.
func (f *sheetFormat) id(n int64) string { return f.text(number(n)) }

// text returns a cell with a text. A tab behind it makes spreadsheet programs keep the digits of a long number and a
// title such as 11-11.
func (f *sheetFormat) text(s string) string {
	if f.exact && strings.ContainsAny(s, "0123456789") && strings.Trim(s, "0123456789 .,:/+-%eE") == "" {
		return s + "\t"
	}
	return s
}

// time returns a cell with a time in the form that spreadsheet programs read as one, or an empty cell without a time.
func (f *sheetFormat) time(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.In(f.zone).Format("2006-01-02 15:04:05")
}

func (f *sheetFormat) amount(amount int64, currency string) string {
	return strings.Replace(domain.FormatAmount(amount, currency), ".", f.decimal, 1)
}

// newCSV returns a csvWriter that has begun a file with the names of its columns.
func newCSV(w io.Writer, separator rune, columns ...string) *csvWriter {
	out := csv.NewWriter(w)
	out.Comma = separator
	out.UseCRLF = true

	// Flush returns the error of a broken connection.
	_, _ = io.WriteString(w, byteOrderMark)
	_ = out.Write(columns)
	return &csvWriter{out}
}

// Row writes a row. Cells that a spreadsheet program would run as a formula become text.
func (w *csvWriter) Row(cells []string) {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = inert(cell)
	}

	// Flush returns the error.
	_ = w.csv.Write(safe)
}

// Flush writes all rows, and returns the first error since newCSV.
func (w *csvWriter) Flush() error {
	w.csv.Flush()
	return w.csv.Error()
}

// inert prepends an apostrophe to a text that begins like a formula, in ASCII or in the full-width characters that
// Japanese and Chinese programs read as the same. See https://owasp.org/www-community/attacks/CSV_Injection.
func inert(cell string) string {
	if strings.HasPrefix(cell, "\n") || strings.IndexAny(cell, "=+-@\t\r＝＋－＠") == 0 {
		return "'" + cell
	}
	return cell
}
