package handler

import (
	"encoding/csv"
	"io"
	"strings"
	"time"
)

// byteOrderMark makes Excel read the file as UTF-8.
const byteOrderMark = "\uFEFF"

// csvWriter writes the rows of a CSV file (RFC 4180) for spreadsheet programs. It is not safe for concurrent use.
type csvWriter struct {
	csv *csv.Writer
}

// newCSV returns a csvWriter that has begun a file with the names of its columns.
func newCSV(w io.Writer, columns ...string) *csvWriter {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_, _ = io.WriteString(w, byteOrderMark) // Flush returns the error of a broken connection
	_ = out.Write(columns)                  // likewise
	return &csvWriter{out}
}

// Row writes a row. Cells that a spreadsheet program would run as a formula become text.
func (w *csvWriter) Row(cells []string) {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = inert(cell)
	}
	_ = w.csv.Write(safe) // Flush returns the error
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

// csvTime returns a cell with a time in UTC, in the form that spreadsheet programs read as one, or an empty cell without a
// time.
func csvTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}
