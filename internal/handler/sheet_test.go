package handler

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// TestFileForSpreadsheets: records end with CRLF (RFC 4180), and cells that begin like a formula become texts.
func TestFileForSpreadsheets(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := newCSV(&b, ';', []string{"a", "b; c"})
	require.NoError(t, w.Write(inert([]string{"say \"hi\"", "two\nlines, 大关 😀"})))
	require.NoError(t, flush(w))
	require.Equal(t, "\uFEFFa;\"b; c\"\r\n\"say \"\"hi\"\"\";\"two\r\nlines, 大关 😀\"\r\n", b.String())

	for _, formula := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1", "\r=1", `=HYPERLINK("http://x","y")`, "＝1", "＠1", " =1", "\u3000=1", "\ufeff=1", "\u200b+1"} {
		require.Equal(t, []string{"'" + formula, "x"}, inert([]string{formula, "x"}))
	}
	texts := []string{"", " space ", "'", "1=1", "1-1"}
	require.Equal(t, slices.Clone(texts), inert(texts))
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

// TestExactCells: what a spreadsheet program would turn into another value stays the text that it is.
func TestExactCells(t *testing.T) {
	t.Parallel()
	exact := sheetFormat{exact: true}
	for _, text := range []string{
		"3375384729038782465", "2026112822001476591402836451", "00123", "11.11", "11-11", "1/2", "2E10", "+86 138 0000 0001", "50 %", "18:30",
		"１１－１１", "１２：３０", "11月11日", "2026年11月11日", "$5", "€ 12,50", "¥50", "￥50", "80元", "MAR1", "SEPT2", "5 Nov", "1. März 2026", "1 août",
		"7:30 pm", "(5)", "−5", "1½", "٣-٤", "TRUE", "false",
	} {
		require.Equal(t, text+"\t", exact.text(text))
		require.Equal(t, text, (&sheetFormat{}).text(text))
	}
	for _, text := range []string{"", "8 for 5", "tx_123", "大关 11", "E", "138****0001", "ch_3QK", "-", "March", "5 pm tea", "11月特惠", "Menu 1", "$", "truest 1"} {
		require.Equal(t, text, exact.text(text))
	}
	require.Equal(t, "77\t", exact.id(77))
	require.Empty(t, exact.id(0))
}

// TestSheetTexts: each column and state has a text in each language, and the states have those of the console.
func TestSheetTexts(t *testing.T) {
	t.Parallel()
	pages := map[string][]string{} // by key: in English and in Chinese
	for _, file := range []string{"console", "lib"} {
		text := env.Must(os.ReadFile("../web/static/" + file + "/texts.js"))(t)
		for _, m := range regexp.MustCompile(`"((?:status|payment)\.\w+)": "([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			if len(pages[m[1]]) < 2 { // the console's come first
				pages[m[1]] = append(pages[m[1]], m[2])
			}
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(sheetTexts["en"])), slices.Collect(maps.Keys(sheetTexts["zh"])))
	for key, text := range sheetTexts["en"] {
		if strings.Contains(key, ".") {
			require.Equal(t, pages[key], []string{text, sheetTexts["zh"][key]}, key)
		}
	}
	for s := domain.OrderStatus(0); s < 120; s++ {
		if word := s.String(); word != "unknown" {
			require.Contains(t, sheetTexts["en"], "status."+word)
		}
	}
	for s := domain.PaymentStatus(0); s < 100; s++ {
		if word := s.String(); word != "unknown" {
			require.Contains(t, sheetTexts["en"], "payment."+word)
		}
	}
}
