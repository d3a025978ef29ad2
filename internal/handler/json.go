package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// maxBody bounds a request body, in bytes. The largest regular body is a voucher with its rules.
const maxBody = 64 << 10

func typeDetail(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[domain.ID]():
		return "must be an id: a positive 64-bit number, better written as a string"
	case reflect.TypeFor[domain.Time]():
		return "must be an RFC 3339 time with a zone, such as 2026-11-11T20:00:00+08:00"
	}

	switch t.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Int, reflect.Int64:
		return "must be a 64-bit integer"
	case reflect.Struct:
		return "must be an object"
	}

	return "has the wrong type"
}

// maxFieldName is the length in bytes of the longest unknown field name that an error repeats.
const maxFieldName = 64

// unknownField matches the error of encoding/json for an unknown field, which has no type.
var unknownField = regexp.MustCompile(`^json: unknown field (".*")$`)

// embedded matches the Go names of embedded structs in the path of a field.
var embedded = regexp.MustCompile(`\b[a-z]*[A-Z]\w*\.`)

// bind decodes the body, which must be one JSON object, into dst. Error: *domain.InvalidError, which names the field,
// for unknown fields, wrong types, a second value and bodies over maxBody.
func bind(c *gin.Context, dst any) error {
	return decode(c, dst, (*json.Decoder).DisallowUnknownFields)
}

func bindLenient(c *gin.Context, dst any) error { return decode(c, dst, func(*json.Decoder) {}) }

// bindOptional is bind for a body that may be absent. Proxies send an absent one in chunks, of which there are none.
func bindOptional(c *gin.Context, dst any) error {
	if c.Request.ContentLength == 0 {
		return nil
	}

	err := bind(c, dst)
	if errors.Is(err, errNoBody) {
		return nil
	}
	return err
}

var errNoBody error = domain.Invalid("body", "must be a JSON object")

func decode(c *gin.Context, dst any, option func(*json.Decoder)) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if err != nil {
		return bindError(err)
	}

	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return errNoBody
	case body[0] != '{':
		return domain.Invalid("body", "must be a JSON object")
	}

	// The decoder would replace the invalid bytes.
	if !utf8.Valid(body) {
		return domain.Invalid("body", "is not valid UTF-8")
	}

	dec := json.NewDecoder(bytes.NewReader(body))
	option(dec)
	if err := dec.Decode(dst); err != nil {
		return bindError(err)
	}

	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return domain.Invalid("body", "must be a single JSON object")
	}
	return nil
}

func bindError(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return domain.Invalid("body", "must have at most %d bytes", tooLarge.Limit)
	}

	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := embedded.ReplaceAllString(wrongType.Field, "")
		if field == "" {
			field = "body"
		}
		return domain.Invalid(field, "%s", typeDetail(wrongType.Type))
	}

	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		if name, err := strconv.Unquote(m[1]); err == nil && len(name) <= maxFieldName {
			return domain.Invalid(name, "is not a field of this request")
		}
		return domain.Invalid("body", "has an unknown field")
	}

	return domain.Invalid("body", "is not valid JSON")
}

func pathID(c *gin.Context) (int64, error) {
	id, ok := domain.ParseID(c.Param("id"))
	if !ok {
		return 0, domain.Invalid("id", "%s", typeDetail(reflect.TypeFor[domain.ID]()))
	}
	return id, nil
}

func byID(handle func(c *gin.Context, id int64) error) func(*gin.Context) error {
	return func(c *gin.Context) error {
		id, err := pathID(c)
		if err != nil {
			return err
		}
		return handle(c, id)
	}
}

func keyedByID(handle func(c *gin.Context, claim *domain.Claim, id int64) error) func(*gin.Context, *domain.Claim) error {
	return func(c *gin.Context, claim *domain.Claim) error {
		return byID(func(c *gin.Context, id int64) error { return handle(c, claim, id) })(c)
	}
}

type list[T any] struct {
	Items []T `json:"items"`
	// Null on the last page.
	NextCursor *string `json:"next_cursor"`
}

func itself[T any](item *T) T { return *item }

// newList converts a page of items. A full page gets the cursor after its last item as next_cursor; any other page is
// the last.
func newList[S, T any, K int64 | string](p pageRequest, items []S, convert func(*S) T, id func(*S) K) list[T] {
	l := list[T]{Items: make([]T, len(items))}
	for i := range items {
		l.Items[i] = convert(&items[i])
	}
	if n := len(items); n > 0 {
		l.NextCursor = p.next(n, fmt.Sprint(id(&items[n-1])))
	}
	return l
}

func writeOK(c *gin.Context, v any, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, v)
}

func writeNoContent(c *gin.Context, err error) error {
	if err == nil {
		c.Status(http.StatusNoContent)
	}
	return err
}

// writeJSON encodes v completely before it writes the answer. It returns an error if v cannot be encoded.
func writeJSON(c *gin.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	writeBody(c, status, jsonType, body)
	return nil
}
