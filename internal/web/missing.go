package web

import (
	"bytes"
	"html/template"
	"io/fs"
	"net/http"

	"golang.org/x/text/language"
)

// missingPage returns the handler of unknown addresses: status 404 and links to the pages there are, in the language of
// the browser.
func (s *site) missingPage(root fs.FS) (http.Handler, error) {
	t, err := template.ParseFS(root, "missing.html")
	if err != nil {
		return nil, err
	}

	var inLanguage [2][]byte
	for i := range inLanguage {
		var text bytes.Buffer
		if err := t.Execute(&text, problemView{Assets: "/assets/" + s.version, ZH: i == 1}); err != nil {
			return nil, err
		}
		inLanguage[i] = text.Bytes()
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, i := language.MatchStrings(languages, r.URL.Query().Get("lang"), r.Header.Get("Accept-Language"))
		h := w.Header()
		h.Set("Content-Type", kinds[".html"])

		// The address may exist later.
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", problemPolicy)
		w.WriteHeader(http.StatusNotFound)

		if r.Method != http.MethodHead {
			// The client is gone.
			_, _ = w.Write(inLanguage[i])
		}
	}), nil
}
