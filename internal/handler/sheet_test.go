package handler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parse reads a file strictly by RFC 4180: records end with CRLF, and quotes occur only around a field or doubled in it.
func parse(t *testing.T, file string) (records [][]string) {
	t.Helper()
	var record []string
	for file != "" {
		var field strings.Builder
		if rest, quoted := strings.CutPrefix(file, `"`); quoted {
			for {
				text, after, found := strings.Cut(rest, `"`)
				require.True(t, found, "a quote is not closed")
				field.WriteString(text)
				if rest = after; !strings.HasPrefix(rest, `"`) {
					break
				}
				field.WriteByte('"')
				rest = rest[1:]
			}
			file = rest
		} else {
			end := strings.IndexAny(file, ",\"\r\n")
			require.GreaterOrEqual(t, end, 0, "the last record does not end")
			field.WriteString(file[:end])
			file = file[end:]
		}
		record = append(record, field.String())
		if rest, more := strings.CutPrefix(file, ","); more {
			file = rest
			continue
		}
		rest, ended := strings.CutPrefix(file, "\r\n")
		require.True(t, ended, "a record does not end with CRLF: %q", file)
		records, record, file = append(records, record), nil, rest
	}
	require.Empty(t, record)
	return records
}

func TestFileIsReadBack(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := newCSV(&b, ',', "a", "b, c")
	rows := [][2]string{ // written, read
		{`say "hi"`, `say "hi"`}, {"a,b;c", "a,b;c"}, {"two\nlines", "two\r\nlines"}, {"", ""}, {" space ", " space "}, {"'", "'"}, {"大关 é 😀", "大关 é 😀"},
		{"=1+1", "'=1+1"}, {"+1", "'+1"}, {"-1", "'-1"}, {"@SUM(A1)", "'@SUM(A1)"}, {"\t=1", "'\t=1"}, {"\n=1", "'\r\n=1"},
		{`=HYPERLINK("http://x","y")`, `'=HYPERLINK("http://x","y")`}, {"＝1", "'＝1"}, {"＠1", "'＠1"}, {"1=1", "1=1"}, {"1-1", "1-1"},
	}
	want := [][]string{{"a", "b, c"}}
	for _, row := range rows {
		w.Row([]string{row[0], "x"})
		want = append(want, []string{row[1], "x"})
	}
	w.Row([]string{"\r=1", "x"})
	require.NoError(t, w.Flush())
	file, marked := strings.CutPrefix(b.String(), "\uFEFF")
	require.True(t, marked)
	got := parse(t, file)
	require.Equal(t, want, got[:len(want)])
	require.Equal(t, byte('\''), got[len(want)][0][0])
}

func TestCells(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 11, 20, 0, 0, 5e8, time.FixedZone("", 8*3600))
	utc := sheetFormat{zone: time.UTC, decimal: "."}
	require.Equal(t, "2026-11-11 12:00:00", utc.time(&at))
	require.Empty(t, utc.time(nil))
	require.Equal(t, "12.05", utc.amount(1205, "CNY"))
	local := sheetFormat{zone: time.FixedZone("Asia/Shanghai", 8*3600), decimal: ","}
	require.Equal(t, "2026-11-11 20:00:00", local.time(&at))
	require.Equal(t, "12,05", local.amount(1205, "CNY"))
	require.Equal(t, "1205", local.amount(1205, "JPY"))
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	w := newCSV(broken{gone}, ',', "a")
	w.Row([]string{"x"})
	require.ErrorIs(t, w.Flush(), gone)
}
