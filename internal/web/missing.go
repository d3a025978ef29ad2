package web

import "net/http"

// missingPage returns the handler of unknown addresses: the storefront with status 404, whose modules show that nothing is
// there.
func (s *site) missingPage() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := s.pages["/"]
		page.head(w.Header())

		// The address may exist later.
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNotFound)

		if r.Method != http.MethodHead {
			// The client is gone.
			_, _ = w.Write(page.plain)
		}
	})
}
