package handler

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/handler/hmdp"
	"seckill/test/env"
)

// TestCompressedSnapshot: a compressed answer is the plain one of the moment that it names, serves the next 20 ms, and for ever if
// it names none. What exceeds the limit of this process is not compressed: an answer that is serves 200 ms then.
func TestCompressedSnapshot(t *testing.T) {
	saved := compressible
	t.Cleanup(func() { compressible = saved })

	text := []byte(strings.Repeat("大关美食 ", 500))
	timed := newSnapshot(part{"{", text}, part{lead: "between"}, part{json: text})
	timeless := newSnapshot(part{json: text})
	compressible = rate.NewLimiter(0, 2*timed.size+timeless.size)
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	check := func(snap *snapshot, at, want time.Time) {
		plain := env.Must(io.ReadAll(env.Must(gzip.NewReader(bytes.NewReader(snap.compress(at))))(t)))(t)
		require.Equal(t, string(snap.appendTo(nil, want)), string(plain))
	}

	check(timed, now, now)
	check(timed, now.Add(compressedTTL), now)
	check(timed, now.Add(time.Second), now.Add(time.Second))
	check(timeless, now, now)
	check(timed, now.Add(time.Second+compressedLate), now.Add(time.Second)) // the limit is reached
	for _, at := range []time.Time{now, now.Add(2 * time.Second)} {         // a clock may be set back
		answer := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(answer)
		c.Request = httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		c.Request.Header.Set("Accept-Encoding", "gzip")
		timed.write(c, at)
		require.Empty(t, answer.Header().Get("Content-Encoding"))
		require.Equal(t, string(timed.appendTo(nil, at)), answer.Body.String())
		check(timeless, at, now)
	}
}

// The lists of hm-dianping are encoded for each read of the vouchers, and stay compressed until one changes.
func TestUnchangedListStaysCompressed(t *testing.T) {
	lists := newSnapshots()
	encoded := func(text string) *snapshot {
		snap := env.Must(encodeSnapshot(map[string]string{"rules": text}))(t)
		return lists.put(1, cachedSnapshot{snap: snap, source: new(int), until: domain.MaxTime})
	}

	first := encoded("some")
	assert.Same(t, first, encoded("some"))
	assert.NotSame(t, first, encoded("others"))
}

// drawn draws the fields of a value. Words and texts are also those that the encoders must escape, and times have milliseconds.
func drawn[T any](t *rapid.T, label string) T {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching("[a-z_]*"),
		rapid.SampledFrom([]string{"a\"b\\c<d>&\x00\u2028é", "午市套餐\u007f 🍜", "\u2029", "\xe5\x8d"}))
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).UTC()
	})
	seconds := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, 3600).Draw(t, "s")) * time.Second
	})
	orderStatus := rapid.SampledFrom([]domain.OrderStatus{1, 2, 3, 4, 5, 6, domain.OrderQueued, domain.OrderFailed, 77})
	return rapid.MakeCustom[T](rapid.MakeConfig{
		Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: text.AsAny()},
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[time.Time]():            moment.AsAny(),
			reflect.TypeFor[time.Duration]():        seconds.AsAny(),
			reflect.TypeFor[domain.OrderStatus]():   orderStatus.AsAny(),
			reflect.TypeFor[domain.VoucherStatus](): rapid.SampledFrom([]domain.VoucherStatus{1, 2, 3, 77}).AsAny(),
			reflect.TypeFor[domain.EntryMode]():     rapid.SampledFrom([]domain.EntryMode{0, 1, 2, 77}).AsAny(),
		},
		Fields: map[reflect.Type]map[string]*rapid.Generator[any]{
			reflect.TypeFor[problem](): {"Code": rapid.StringMatching("[a-z_]*").AsAny()},
		},
	}).Draw(t, label)
}

// TestCapturedAnswerLeavesNoHeaders: the answer that is sent may be another one.
func TestCapturedAnswerLeavesNoHeaders(t *testing.T) {
	sent := httptest.NewRecorder()
	c, _ := gin.CreateTestContext(sent)
	c.Request = httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	long := make([]byte, 2*minCompressed)
	captured := capture(t.Context(), c, nil, func(c *gin.Context) {
		c.Header("Location", "/x")
		writeBody(c, http.StatusCreated, jsonType, long)
	})
	require.Equal(t, long, captured.Body)
	require.Empty(t, sent.Header())
}

// TestHandWrittenJSONMatchesEncodingJSON compares the hand-written encoders with encoding/json on random values.
func TestHandWrittenJSONMatchesEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawn[domain.Order](t, "order")
		want, err := json.Marshal(newOrderOut(&o))
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendOrder(nil, &o)))

		v := drawn[domain.Voucher](t, "voucher")
		now := drawn[time.Time](t, "now")
		a := &api{Config: Config{Now: func() time.Time { return now }}, shown: newSnapshots()}
		page := pageRequest{
			Page: domain.Page{Limit: rapid.IntRange(1, 3).Draw(t, "limit of the page")},
			keys: domain.NewKeyring([]byte("a secret")),
		}
		vouchers := []*domain.Voucher{&v, &v}[:rapid.IntRange(0, 2).Draw(t, "vouchers")]
		want, err = json.Marshal(newList(page, vouchers, func(v **domain.Voucher) voucherOut { return a.voucher(*v) },
			func(v **domain.Voucher) int64 { return (*v).ID }))
		require.NoError(t, err)
		require.Equal(t, string(want), string(a.voucherPage(page, vouchers, now).appendTo(nil, now)))

		p := drawn[problem](t, "problem")
		facts := drawn[rareFacts](t, "facts")
		p.rareFacts = rapid.SampledFrom([]*rareFacts{
			nil,
			{ShopName: "x" + facts.ShopName},
			{RedeemedAt: &o.CreatedAt},
			{Challenge: json.RawMessage(`{"parameters":{"cost":5000},"signature":"00"}`)},
			{Errors: append(facts.Errors, domain.FieldError{})},
		}).Draw(t, "kind of facts")
		want, err = json.Marshal(struct {
			Type string `json:"type"`
			problem
		}{"/problems/" + p.Code, p})
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendProblem(nil, &p)))
	})
}

// TestFileForSpreadsheets: records end with CRLF (RFC 4180), and cells that begin like a formula become texts.
func TestFileForSpreadsheets(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := newCSV(&b, ';', []string{"a", "b; c"})
	require.NoError(t, w.Write(inert([]string{"say \"hi\"", "two\nlines, 大关 😀"})))
	w.Flush()
	require.NoError(t, w.Error())
	require.Equal(t, "\uFEFFa;\"b; c\"\r\n\"say \"\"hi\"\"\";\"two\r\nlines, 大关 😀\"\r\n", b.String())

	for _, formula := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1", "\r=1", `=HYPERLINK("http://x","y")`, "＝1", "＠1", " =1", "\u3000=1", "\ufeff=1", "\u200b+1",
		"\u2003=1", "\u202f=1", "\u200e=1", "\u2060=1", "\u00ad=1", "\u3164=1", "\ufe661", "\tx", "=\u0338HYPERLINK(1)",
	} {
		require.Equal(t, []string{"'" + formula, "x"}, inert([]string{formula, "x"}))
	}
	texts := []string{"", " space ", "'", "1=1", "1-1"}
	require.Equal(t, slices.Clone(texts), inert(texts))
}

// TestExactCells: what a spreadsheet program would turn into another value stays the text that it is.
func TestExactCells(t *testing.T) {
	t.Parallel()
	exact := sheetFormat{exact: true}
	for _, text := range []string{
		"3375384729038782465", "2026112822001476591402836451", "00123", "11.11", "11-11", "1/2", "2E10", "+86 138 0000 0001", "50 %", "18:30",
		"１１－１１", "１２：３０", "11月11日", "2026年11月11日", "$5", "€ 12,50", "¥50", "￥50", "80元", "MAR1", "SEPT2", "5 Nov", "1. März 2026", "1 août",
		"2026년 11월 11일", "오후 3:30", "令和8年11月11日", "5 ноября", "5 kr", "CHF 5", "R$5", "5 zł",
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
	for s := range 120 {
		for _, key := range []string{"status." + domain.OrderStatus(s).String(), "payment." + domain.PaymentStatus(s).String()} {
			if !strings.HasSuffix(key, ".unknown") {
				require.Contains(t, sheetTexts["en"], key)
			}
		}
	}
}

// TestEveryCodeHasAPage: the table of errors, the document and the pages have the same codes, and every page has its texts in
// both languages.
func TestEveryCodeHasAPage(t *testing.T) {
	t.Parallel()
	isHan := func(r rune) bool { return unicode.Is(unicode.Han, r) }
	paged := map[string]int{}
	for _, p := range Problems() {
		assert.NotContains(t, paged, p.Code, "two pages for one code")
		paged[p.Code] = p.Status
		assert.Contains(t, p.Example, `"type": "/problems/`+p.Code+`"`)
		for _, en := range []string{p.Title, p.Means, p.Do} {
			assert.NotEmpty(t, en, p.Code)
			assert.False(t, strings.ContainsFunc(en, isHan), p.Code)
		}
		for _, zh := range []string{p.TitleZH, p.MeansZH, p.DoZH} {
			assert.True(t, strings.ContainsFunc(zh, isHan), p.Code)
		}
		for _, text := range []string{p.Means, p.Do, p.MeansZH, p.DoZH} {
			assert.Zero(t, strings.Count(text, "`")%2, "%s: unbalanced backquotes", p.Code)
		}
	}
	for _, o := range outcomes {
		assert.Equal(t, o.status, paged[o.code], o.code)
	}

	documented := map[string]bool{}
	for _, m := range regexp.MustCompile(`"type": "`+problemsPath+`([a-z_]+)", *\s*"code": "([a-z_]+)"`).FindAllStringSubmatch(string(openAPI), -1) {
		assert.Equal(t, m[1], m[2], "an example's type is the page of its code")
		documented[m[1]] = true
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(paged)), slices.Collect(maps.Keys(documented)))
}

// Every error in the table, even a new one without its own message, yields a message that is not empty.
func TestEveryOutcomeHasHmdpMessage(t *testing.T) {
	for _, o := range append([]outcome{internalError, {code: "new", title: "Something new"}}, outcomes...) {
		require.NotEmpty(t, hmdp.Failure{Code: o.code, Title: o.title}.Message(), o.code)
	}
}

// Gateways write ports (goauthentik/authentik#25679, un33k/django-ipware#87, rack/rack#1227), brackets, quotes, several lines
// and RFC 7239's header. What a client itself sends stands in front, whatever it is. 127.0.0.1 and 10.0.0.0/8 are trusted.
func TestForwardedAddresses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		peer   string
		header http.Header
		want   string
		warns  bool
	}{
		"brackets":                   {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"[2001:db8::1]"}}, "2001:db8::1", false},
		"quotes":                     {"127.0.0.1:9", http.Header{"X-Forwarded-For": {`"[2001:db8::1]:443"`}}, "2001:db8::1", false},
		"zone":                       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"fe80::1%eth0"}}, "fe80::1", false},
		"trusted hops":               {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9, 203.0.113.7:80 ,10.1.2.3:4711"}}, "203.0.113.7", false},
		"several lines":              {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9", "203.0.113.7:80", "10.1.2.3"}}, "203.0.113.7", false},
		"Forwarded, IPv6":            {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9, for="[2001:db8::1]:443";proto=https, for=10.1.1.1`}}, "2001:db8::1", false},
		"X-Forwarded-For goes first": {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9`}, "X-Forwarded-For": {"203.0.113.7:1"}}, "203.0.113.7", false},
		"X-Forwarded-For is empty":   {"127.0.0.1:9", http.Header{"Forwarded": {`for=203.0.113.7`}, "X-Forwarded-For": {"", " ,"}}, "203.0.113.7", false},
		"Forwarded, hidden port":     {"127.0.0.1:9", http.Header{"Forwarded": {`FOR="[2001:db8::17]:_port"`}}, "2001:db8::17", false},
		"Forwarded, more in quotes":  {"127.0.0.1:9", http.Header{"Forwarded": {`for="203.0.113.7:_x";host="a,for=198.51.100.9;"`}}, "203.0.113.7", false},
		"Forwarded, escapes":         {"127.0.0.1:9", http.Header{"Forwarded": {`for="\[2001:db8::17\]\:443"`}}, "2001:db8::17", false},
		"Forwarded, several lines":   {"127.0.0.1:9", http.Header{"Forwarded": {"for=203.0.113.7:1", "for=10.1.1.1"}}, "203.0.113.7", false},
		"IPv4 in IPv6 and port":      {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"[::ffff:203.0.113.7]:51234"}}, "203.0.113.7", false},
		"empty items":                {"127.0.0.1:9", http.Header{"X-Forwarded-For": {", 203.0.113.7,"}}, "203.0.113.7", false},
		"a word of the client":       {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"<script>, unknown, 203.0.113.7:80, 10.1.2.3"}}, "203.0.113.7", false},
		"a word of a trusted proxy":  {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"203.0.113.7, unknown, 10.1.2.3"}}, "10.1.2.3", true},
		"neither":                    {"127.0.0.1:9", http.Header{}, "127.0.0.1", false},
		"a word":                     {"127.0.0.1:9", http.Header{"X-Forwarded-For": {"unknown"}}, "127.0.0.1", true},
		"a client's open quote":      {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9;x=", for="203.0.113.7:80"`}}, "127.0.0.1", true},
		"open until the end":         {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9;x=", for=203.0.113.7`}}, "127.0.0.1", true},
		"open on another line":       {"127.0.0.1:9", http.Header{"Forwarded": {`for=198.51.100.9;x="`, `for="203.0.113.7:80";proto=https;`}}, "203.0.113.7", false},
		"Forwarded, empty items":     {"127.0.0.1:9", http.Header{"Forwarded": {`, for=198.51.100.9;;by = x , ,for="203.0.113.7" ;`}}, "203.0.113.7", false},
		"Forwarded, no quotes":       {"127.0.0.1:9", http.Header{"Forwarded": {`for=[2001:db8::1]:443;proto=https`}}, "2001:db8::1", false},
		"another client":             {"203.0.113.1:9", http.Header{"X-Forwarded-For": {"198.51.100.9:1"}, "Forwarded": {"for=198.51.100.9"}}, "203.0.113.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			var logs strings.Builder
			h := identifyClient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = address(r).String() }),
				ParseProxies([]string{"127.0.0.1", "::ffff:10.0.0.0/104"}), slog.New(slog.NewTextHandler(&logs, nil)))

			for range 2 {
				r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				r.RemoteAddr = test.peer
				r.Header = test.header.Clone()
				h.ServeHTTP(httptest.NewRecorder(), r)
				require.Equal(t, test.want, got)
			}
			require.Equal(t, test.warns, strings.Count(logs.String(), "names no address") == 1, logs.String())
		})
	}
}

// TestPreferredWait: Prefer is parsed by RFC 7240, and invalid values are ignored.
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		headers []string
		want    time.Duration
	}{
		{nil, 0},
		{[]string{"wait=2"}, 2 * time.Second},
		{[]string{`Wait = "2"; why=because`}, 2 * time.Second},
		{[]string{"respond-async, wait=3"}, 3 * time.Second},
		{[]string{"respond-async", "wait=4", "wait=1"}, 4 * time.Second},
		{[]string{"wait=100000"}, time.Minute},
		{[]string{"wait=99999999999999999999"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"awaits=2"}, 0},
		{[]string{",;=,", ""}, 0},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header["Prefer"] = tc.headers
		assert.Equal(t, tc.want, preferredWait(&gin.Context{Request: r}), "%q", tc.headers)
	}
}

// Routes returns the routes of New.
func Routes(cfg Config) gin.RoutesInfo {
	cfg.Metrics = prometheus.NewRegistry()
	return newRouter(cfg).Routes()
}
