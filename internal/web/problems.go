package web

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// Problem documents an error code of the API, in English and in Chinese. Text between backquotes is code.
type Problem struct {
	Code          string
	Status        int
	Title         string
	TitleZH       string
	Means, Do     string
	MeansZH, DoZH string
	// A response body.
	Example string
	// Whether the response has a Retry-After header.
	RetryAfter bool
}

// problemPolicy is the policy of the problem pages, which have no scripts.
const problemPolicy = "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// languages of the problem pages. The first one is the default.
var languages = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// problemView is the data of the templates that exist in each language. Problem is nil but on the page of a problem.
type problemView struct {
	Assets  string
	ZH      bool
	Problem *Problem
	All     []Problem
}

// problemPages returns the handlers of the API's documentation, of the list of problems and of the page of each problem, by
// router pattern.
func (s *site) problemPages(problems []Problem) (map[string]http.Handler, error) {
	t, err := template.New("").Funcs(template.FuncMap{"code": codeIn}).ParseFS(s.root, "docs.html", "problems.html")
	if err != nil {
		return nil, err
	}

	routes := map[string]http.Handler{}
	add := func(pattern, frame, policy string, p *Problem) error {
		var err error
		routes[pattern], err = s.inLanguages(t.Lookup(frame), policy, problemView{Problem: p, All: problems})
		return err
	}

	if err := add("/docs", "docs.html", docsPolicy, nil); err != nil {
		return nil, err
	}
	if err := add("/problems", "problems.html", problemPolicy, nil); err != nil {
		return nil, err
	}

	for i := range problems {
		if err := add("/problems/"+problems[i].Code, "problems.html", problemPolicy, &problems[i]); err != nil {
			return nil, err
		}
	}

	return routes, nil
}

// inLanguages returns the handler of a page that is rendered in each language. The query parameter lang selects one, and
// the browser's preference otherwise.
func (s *site) inLanguages(t *template.Template, policy string, view problemView) (http.Handler, error) {
	view.Assets = "/assets/" + s.version

	var inLanguage [2]*file
	for i := range inLanguage {
		view.ZH = i == 1
		var text bytes.Buffer
		if err := t.Execute(&text, view); err != nil {
			return nil, err
		}
		inLanguage[i] = newFile(t.Name(), text.Bytes(), policy)
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, i := language.MatchStrings(languages, r.URL.Query().Get("lang"), r.Header.Get("Accept-Language"))
		w.Header().Add("Vary", "Accept-Language")
		inLanguage[i].serve(w, r, revalidate)
	}), nil
}

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
