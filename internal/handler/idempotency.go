package handler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	maxKey         = 255
)

// once adapts a handler of requests that may have an Idempotency-Key: a request with a key runs once, and its answer is
// replayed to repetitions. The handler gets the claim of the run, or nil without a key. It is for every POST that changes
// something, except the one that places orders, whose keys are stored with the orders.
func (a *api) once(handle func(*gin.Context, *domain.Claim) error) gin.HandlerFunc {
	return a.errors.wrap(func(c *gin.Context) error {
		key, sum, body, err := requestKey(c)
		switch {
		case err != nil:
			return err
		case key == "":
			return handle(c, nil)
		}

		r := domain.KeyedRequest{
			UserID:      caller(c).UserID,
			Key:         key,
			Fingerprint: sum,
		}

		answer, replayed, err := a.Keys.Do(c.Request.Context(), r, func(ctx context.Context, claim *domain.Claim) domain.Answer {
			return capture(ctx, c, body, a.errors.wrap(func(c *gin.Context) error { return handle(c, claim) }))
		})
		if err != nil {
			return err
		}

		if replayed && !answer.Transient {
			c.Header(replayedHeader, "true")
		}

		writeAnswer(c, &answer)
		return nil
	})
}

// requestKey returns the Idempotency-Key, or "" if there is none. With a key, it also reads the body and returns it
// with the fingerprint of the request.
func requestKey(c *gin.Context) (string, [32]byte, []byte, error) {
	var none [32]byte
	values := c.Request.Header[keyHeader]
	if values == nil {
		return "", none, nil, nil
	}
	if len(values) != 1 || !validKey(values[0]) {
		return "", none, nil, domain.Invalid(keyHeader, "must be one value of 1 to %d printable ASCII characters", maxKey)
	}

	var body []byte
	var err error
	if c.Request.ContentLength != 0 {
		if body, err = io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody)); err != nil {
			return "", none, nil, bindError(err)
		}
	}

	return values[0], fingerprint(c.Request.Method, c.Request.URL.Path, body), body, nil
}

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= maxKey
}

// fingerprint returns a hash of a request. Each part is preceded by its length, so that different requests never hash
// the same bytes.
func fingerprint(method, path string, body []byte) [32]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), body} {
		// A hash never fails.
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = h.Write(part)
	}
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

func capture(ctx context.Context, c *gin.Context, body []byte, handle gin.HandlerFunc) domain.Answer {
	rec := &recorder{ResponseWriter: c.Writer, status: http.StatusOK}
	req := c.Request
	c.Writer = rec
	c.Request = req.WithContext(ctx)
	c.Request.Body = io.NopCloser(bytes.NewReader(body))

	// Even after a panic: recovery writes the answer.
	defer func() {
		c.Writer = rec.ResponseWriter
		c.Request = req
	}()

	handle(c)

	h := rec.Header()
	a := domain.Answer{
		Status:      rec.status,
		Location:    h.Get("Location"),
		ContentType: h.Get("Content-Type"),
		Body:        rec.body,
		RetryAfter:  h.Get("Retry-After"),
	}

	// A request to retry and a server error are not stored as the answer.
	a.Transient = a.RetryAfter != "" || a.Status >= http.StatusInternalServerError

	for _, name := range []string{"Location", "Content-Type", "Content-Length", "Retry-After"} {
		// The answer that is sent may be a different one.
		h.Del(name)
	}

	return a
}

func writeAnswer(c *gin.Context, a *domain.Answer) {
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

// recorder buffers the status and the body of an answer. Headers are written through.
type recorder struct {
	gin.ResponseWriter
	status int
	body   []byte
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// WriteHeaderNow implements gin.ResponseWriter.
func (r *recorder) WriteHeaderNow() {}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

// Status implements gin.ResponseWriter.
func (r *recorder) Status() int { return r.status }
