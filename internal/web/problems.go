package web

import (
	"bytes"
	"html/template"
	"io/fs"
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// Problem explains a code of the API, in English and in Chinese. What is between backquotes is code.
type Problem struct {
	Code          string
	Status        int
	Title         string
	TitleZH       string
	Means, Do     string
	MeansZH, DoZH string
	Example       string   // a body
	RetryAfter    bool     // the answer has the header
	Routes        []string // what answers it, as "POST /api/v1/vouchers/{id}/orders"
}

// problemPolicy is for pages without any script.
const problemPolicy = "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// languages are those of these pages; the first is for everybody else.
var languages = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// problemView is what the template sees. Problem is nil on the list of all.
type problemView struct {
	Assets  string
	ZH      bool
	Problem *Problem
	All     []Problem
}

// problemPages makes the list of all problems and the page of each, by the router's patterns.
func (s *site) problemPages(root fs.FS, problems []Problem) (map[string]http.Handler, error) {
	t, err := template.New("problems.html").Funcs(template.FuncMap{"code": codeIn}).ParseFS(root, "problems.html")
	if err != nil {
		return nil, err
	}
	routes := map[string]http.Handler{}
	add := func(pattern string, p *Problem) error {
		var inLanguage [2]*file
		for i := range inLanguage {
			var text bytes.Buffer
			if err := t.Execute(&text, problemView{Assets: "/assets/" + s.version, ZH: i == 1, Problem: p, All: problems}); err != nil {
				return err
			}
			if inLanguage[i], err = newFile("problems.html", text.Bytes(), problemPolicy); err != nil {
				return err
			}
		}
		routes[pattern] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, i := language.MatchStrings(languages, r.URL.Query().Get("lang"), r.Header.Get("Accept-Language"))
			w.Header().Add("Vary", "Accept-Language")
			inLanguage[i].serve(w, r, askEach)
		})
		return nil
	}
	if err := add("/problems", nil); err != nil {
		return nil, err
	}
	for i := range problems {
		if err := add("/problems/"+problems[i].Code, &problems[i]); err != nil {
			return nil, err
		}
	}
	return routes, nil
}

// codeIn puts what is between backquotes into code elements, and escapes everything.
func codeIn(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String()) //nolint:gosec // escaped part by part
}
