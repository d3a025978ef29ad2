package web

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// Sale is what the preview of a sale's page shows.
type Sale struct {
	Title, SubTitle string
	// May be empty.
	Shop string
	// With the currency's code.
	Price, Value string
	Begin        time.Time
	// Path; empty: the icon.
	Image string
}

// preview contains the tags by which messengers and search engines show a link to a sale.
type preview struct {
	Title, Description, URL, Image string
}

// newPreview returns the preview of a sale for the language and the address of a request, whose URL has the scheme of the
// browser.
func newPreview(s Sale, r *http.Request) *preview {
	_, i := language.MatchStrings(languages, r.Header.Get("Accept-Language"))
	price := s.Price + " (value " + s.Value + ")"
	begins := "starts "
	if i == 1 {
		price = s.Price + "（面值 " + s.Value + "）"
		begins = "开抢时间 "
	}

	empty := func(text string) bool { return text == "" }
	title := slices.DeleteFunc([]string{s.Title, s.Shop}, empty)
	facts := slices.DeleteFunc([]string{s.SubTitle, price, begins + s.Begin.Format("2006-01-02 15:04 -07:00")}, empty)

	if s.Image == "" {
		s.Image = "/assets/current/icon-512.png"
	}

	origin := r.URL.Scheme + "://" + r.Host
	return &preview{
		Title:       strings.Join(title, " · "),
		Description: strings.Join(facts, " · "),
		URL:         origin + r.URL.Path,
		Image:       origin + s.Image,
	}
}

// salePage returns the handler of /sales/{id}: the storefront with the preview of the sale. While the sale cannot be read,
// it has no preview; the modules of the page show the error. With the query "preview", in which staff sees a sale before it
// is published, the page is the storefront without a preview, whether or not there is a sale.
func (s *site) salePage(find func(context.Context, int64) (Sale, bool, error), missing http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(path.Base(r.URL.Path), 10, 64)
		if err != nil || id <= 0 {
			missing.ServeHTTP(w, r)
			return
		}

		if r.URL.Query().Has("preview") {
			s.pages["/"].ServeHTTP(w, r)
			return
		}

		sale, ok, err := find(r.Context(), id)
		if err == nil && !ok {
			missing.ServeHTTP(w, r)
			return
		}

		page := s.pages["/"]
		if err == nil {
			if f, err := s.store(newPreview(sale, r)); err == nil {
				// A compressor costs more than the bytes that it saves here.
				f.zipped = func() []byte { return nil }
				page = f
			}
		}

		w.Header().Add("Vary", "Accept-Language")

		// A cache between a trusted proxy and the server sees these headers only.
		w.Header().Add("Vary", "X-Forwarded-Proto")
		w.Header().Add("Vary", "Forwarded")
		page.ServeHTTP(w, r)
	})
}
