package handler

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
)

type headKey struct{}

// answerHead answers HEAD like GET (RFC 9110, 9.3.2). net/http leaves out the body. Handlers whose body costs much, or does
// not end, ask isHead.
func answerHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// isHead reports whether the client wants the header of an answer only.
func isHead(c *gin.Context) bool {
	return c.Request.Context().Value(headKey{}) != nil
}
