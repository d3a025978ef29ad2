package handler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/service"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	maxKey         = 255
)

// keyHandler lets requests with an Idempotency-Key through once, and repeats their answer. It belongs behind the
// caller's token and limits, before every POST that changes something, but that which places orders. Requests without a key pass at once.
type keyHandler struct{ keys *service.Idempotency }

// once is for every route but that which places orders, whose keys are stored with the orders.
func (h *keyHandler) once(c *gin.Context) error {
	name, print, body, err := requestKey(c)
	if err != nil || name == "" {
		return err
	}
	r := service.KeyedRequest{UserID: caller(c).UserID, Key: name, Fingerprint: print}
	answer, replayed, err := h.keys.Once(c.Request.Context(), r, func(ctx context.Context) service.Answer {
		return capture(ctx, c, body)
	})
	if err != nil {
		return err
	}
	if replayed {
		c.Abort()
		if !answer.Transient {
			c.Header(replayedHeader, "true")
		}
	}
	writeAnswer(c, &answer)
	return nil
}

// requestKey reads the Idempotency-Key and, if there is one, the body and the fingerprint of the request.
func requestKey(c *gin.Context) (name string, print [32]byte, body []byte, err error) {
	values := c.Request.Header[keyHeader]
	if values == nil {
		return "", print, nil, nil
	}
	if len(values) != 1 || !goodKey(values[0]) {
		return "", print, nil, service.Invalid(keyHeader, "must be one value of 1 to %d printable ASCII characters", maxKey)
	}
	if c.Request.ContentLength != 0 {
		if body, err = io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody)); err != nil {
			return "", print, nil, bindError(err)
		}
	}
	return values[0], fingerprint(c.Request.Method, c.Request.URL.Path, body), body, nil
}

// goodKey says whether a key is one that can be kept.
func goodKey(key string) bool {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= maxKey
}

// fingerprint tells requests apart. Each part has its length before it, so that nothing moves from one to the next.
func fingerprint(method, path string, body []byte) (sum [32]byte) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), body} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash does not fail
		_, _ = h.Write(part)
	}
	h.Sum(sum[:0])
	return sum
}

// capture runs the rest of the chain under ctx and returns what it answered, which the caller has not been sent yet.
func capture(ctx context.Context, c *gin.Context, body []byte) service.Answer {
	rec, req := &recorder{ResponseWriter: c.Writer, status: http.StatusOK}, c.Request
	c.Writer, c.Request = rec, req.WithContext(ctx)
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	defer func() { c.Writer, c.Request = rec.ResponseWriter, req }() // also when it panics: then nothing was written
	c.Next()
	h := rec.Header()
	a := service.Answer{
		Status: rec.status, Location: h.Get("Location"), ContentType: h.Get("Content-Type"), Body: rec.body,
		RetryAfter: h.Get("Retry-After"),
	}
	// What asks to wait, and what is our own fault, is not the answer to the request.
	a.Transient = a.RetryAfter != "" || a.Status >= http.StatusInternalServerError
	for _, name := range []string{"Location", "Content-Type", "Retry-After"} {
		h.Del(name) // another answer may have to be given
	}
	return a
}

// writeAnswer sends an answer as it was given first.
func writeAnswer(c *gin.Context, a *service.Answer) {
	for name, value := range map[string]string{"Location": a.Location, "Retry-After": a.RetryAfter} {
		if value != "" {
			c.Header(name, value)
		}
	}
	if a.ContentType == "" {
		c.Status(a.Status)
		return
	}
	writeBody(c, a.Status, []string{a.ContentType}, a.Body)
}

// recorder keeps an answer back. Headers go to the real one at once.
type recorder struct {
	gin.ResponseWriter
	status  int
	body    []byte
	written bool
}

// WriteHeader implements http.ResponseWriter. As in gin, the last status before the body counts.
func (r *recorder) WriteHeader(status int) {
	if !r.written {
		r.status = status
	}
}

// WriteHeaderNow implements gin.ResponseWriter.
func (r *recorder) WriteHeaderNow() { r.written = true }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.written = true
	r.body = append(r.body, b...)
	return len(b), nil
}

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

// Status implements gin.ResponseWriter.
func (r *recorder) Status() int { return r.status }

// Size implements gin.ResponseWriter.
func (r *recorder) Size() int { return len(r.body) }

// Written implements gin.ResponseWriter.
func (r *recorder) Written() bool { return r.written }
