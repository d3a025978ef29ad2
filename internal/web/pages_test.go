package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var someProblems = []Problem{
	{
		Code: "sold_out", Status: 409, Title: "Sold out", TitleZH: "已抢光", Means: "No `unit` is <left>.", Do: "Wait.",
		MeansZH: "没有 `unit` 了。", DoZH: "请等待。", Example: `{"code":"sold_out"}`, Routes: []string{"POST /api/v1/vouchers/{id}/orders"},
	},
	{Code: "overloaded", Status: 503, Title: "Too many", TitleZH: "人太多", RetryAfter: true},
}

// TestProblemPages requests a problem page and the list in the language of the browser and in the one chosen by ?lang=.
func TestProblemPages(t *testing.T) {
	english, chinese := "What it means", "含义"
	for _, tc := range []struct{ query, accept, want string }{
		{"", "", english}, {"", "de-DE, fr;q=0.5", english}, {"", "en-GB", english}, {"", "zh-CN,zh;q=0.9,en;q=0.8", chinese},
		{"", "zh-TW", chinese}, {"", "en, zh;q=0.5", english}, {"?lang=zh", "en", chinese}, {"?lang=en", "zh", english},
		{"?lang=<script>", "zh", chinese}, {"", "\x00;;", english},
	} {
		r := get(t, "/problems/sold_out"+tc.query, "Accept-Language", tc.accept)
		require.Equal(t, http.StatusOK, r.StatusCode)
		assert.ElementsMatch(t, []string{"Accept-Language", "Accept-Encoding"}, r.Header.Values("Vary"))
		text := body(t, r)
		assert.Contains(t, text, tc.want, "%+v", tc)
		assert.NotContains(t, text, map[string]string{english: chinese, chinese: english}[tc.want])
	}
	text := body(t, get(t, "/problems/sold_out"))
	for _, part := range []string{
		"409 <code>sold_out</code>", "<h1>Sold out</h1>", "No <code>unit</code> is &lt;left&gt;.", "{&#34;code&#34;:&#34;sold_out&#34;}",
		"<code>POST /api/v1/vouchers/{id}/orders</code>", `href="?lang=zh"`,
	} {
		assert.Contains(t, text, part)
	}
	assert.NotContains(t, text, "Retry-After")
	assert.Contains(t, body(t, get(t, "/problems/overloaded")), "Retry-After: 1")
	list := body(t, get(t, "/problems?lang=zh"))
	assert.Contains(t, list, `href="/problems/sold_out?lang=zh"`)
	assert.Contains(t, list, "人太多")
}

// TestProblemPagesHaveNoScript also loads everything that the pages refer to.
func TestProblemPagesHaveNoScript(t *testing.T) {
	for _, path := range []string{"/problems", "/problems/sold_out"} {
		page := get(t, path)
		assert.Equal(t, problemPolicy, page.Header.Get("Content-Security-Policy"))
		text := body(t, page)
		assert.NotRegexp(t, `<script|<style|\sstyle=|\son[a-z]+=`, text)
		names := refers.FindAllStringSubmatch(text, -1)
		require.Len(t, names, 3)
		for _, n := range names {
			assert.Equal(t, http.StatusOK, get(t, n[1]).StatusCode, n[1])
		}
	}
}
