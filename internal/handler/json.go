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
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"seckill/internal/service"
)

// maxBody bounds a request body. The largest honest one is a voucher with its rules.
const maxBody = 64 << 10

// ID is a 64-bit id in JSON: written as a string, because JavaScript's numbers end at 2^53; read from a string
// or from an integer.
type ID int64

// MarshalJSON implements json.Marshaler.
func (id ID) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(id), 10)), nil
}

// UnmarshalJSON implements json.Unmarshaler. Its error is the one to which encoding/json adds the field.
func (id *ID) UnmarshalJSON(b []byte) error {
	text := string(b)
	if b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	n, ok := parseID(text)
	if !ok {
		return &json.UnmarshalTypeError{Value: text, Type: reflect.TypeFor[ID]()}
	}
	*id = ID(n)
	return nil
}

// parseID reads a positive decimal id without sign or leading zeros.
func parseID(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0 && s[0] >= '1' && s[0] <= '9'
}

// Time is a moment in JSON: RFC 3339 with a zone.
type Time time.Time

// UnmarshalJSON implements json.Unmarshaler. Its error is the one to which encoding/json adds the field.
func (t *Time) UnmarshalJSON(b []byte) error {
	var (
		text   string
		parsed time.Time
	)
	err := json.Unmarshal(b, &text) // some encoders write the zone's + as an escape
	if err == nil {
		err = parsed.UnmarshalText([]byte(text))
	}
	if err != nil {
		return &json.UnmarshalTypeError{Value: text, Type: reflect.TypeFor[Time]()}
	}
	*t = Time(parsed)
	return nil
}

// wanted says in a client's words what a Go type accepts.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[ID]():
		return "must be an id: a positive 64-bit number, better written as a string"
	case reflect.TypeFor[Time]():
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

// maxFieldName is the longest name of an unknown field that is repeated to the caller.
const maxFieldName = 64

// unknownField finds the name in encoding/json's error for an unknown field, which has no type of its own.
var unknownField = regexp.MustCompile(`^json: unknown field (".*")$`)

// bind reads the JSON body, which must be one object, into dst. Unknown fields, wrong types, a second value and
// bodies over maxBody are refused with an error that names the field.
func bind(c *gin.Context, dst any) error {
	dec, err := objectDecoder(c)
	if err != nil {
		return err
	}
	dec.DisallowUnknownFields()
	return decodeOne(dec, dst)
}

// objectDecoder reads the body and makes a decoder for the object that it holds.
func objectDecoder(c *gin.Context) (*json.Decoder, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if err != nil {
		return nil, bindError(err)
	}
	if body = bytes.TrimSpace(body); len(body) == 0 || body[0] != '{' {
		return nil, service.Invalid("body", "must be a JSON object")
	}
	if !utf8.Valid(body) { // encoding/json would store something else than was sent
		return nil, service.Invalid("body", "is not valid UTF-8")
	}
	return json.NewDecoder(bytes.NewReader(body)), nil
}

// decodeOne decodes one value, and wants nothing after it.
func decodeOne(dec *json.Decoder, dst any) error {
	if err := dec.Decode(dst); err != nil {
		return bindError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return service.Invalid("body", "must be one JSON object and nothing after it")
	}
	return nil
}

// bindIfAny is bind for requests that may come without a body.
func bindIfAny(c *gin.Context, dst any) error {
	if c.Request.ContentLength == 0 {
		return nil
	}
	return bind(c, dst)
}

func bindError(err error) error {
	var (
		wrongType *json.UnmarshalTypeError
		tooLarge  *http.MaxBytesError
	)
	switch {
	case errors.As(err, &tooLarge):
		return service.Invalid("body", "must have at most %d bytes", maxBody)
	case errors.As(err, &wrongType):
		// Our bodies are flat: what comes before a dot is the Go name of an embedded struct.
		field := wrongType.Field[strings.LastIndexByte(wrongType.Field, '.')+1:]
		if field == "" {
			field = "body"
		}
		return service.Invalid(field, "%s", wanted(wrongType.Type))
	}
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		if name, err := strconv.Unquote(m[1]); err == nil && len(name) <= maxFieldName {
			return service.Invalid(name, "is not a field of this request")
		}
		return service.Invalid("body", "has a field that is not of this request")
	}
	return service.Invalid("body", "is not valid JSON")
}

// pathID reads the :id of the path.
func pathID(c *gin.Context) (int64, error) {
	id, ok := parseID(c.Param("id"))
	if !ok {
		return 0, service.Invalid("id", "%s", wanted(reflect.TypeFor[ID]()))
	}
	return id, nil
}

// queryID reads an id of the query; 0: it is not there.
func queryID(c *gin.Context, name string) (int64, error) {
	s := c.Query(name)
	if s == "" {
		return 0, nil
	}
	id, ok := parseID(s)
	if !ok {
		return 0, service.Invalid(name, "must be a positive 64-bit number")
	}
	return id, nil
}

// page reads cursor and limit of a list.
func page(c *gin.Context) (service.Page, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return service.Page{}, err
	}
	p := service.Page{Limit: limit}
	if s := c.Query("cursor"); s != "" {
		id, ok := parseID(s)
		if !ok {
			return p, service.Invalid("cursor", "must be a next_cursor of this list")
		}
		p.Before = id
	}
	return p, nil
}

func pageLimit(c *gin.Context) (int, error) {
	s := c.Query("limit")
	if s == "" {
		return service.DefaultPageSize, nil
	}
	n, ok := parseID(s)
	if !ok || n > service.MaxPageSize {
		return 0, service.Invalid("limit", "must be between 1 and %d", service.MaxPageSize)
	}
	return int(n), nil
}

// list is the form of every list.
type list[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"` // null at the end
}

// newList converts a page. next is the id of the last item; a page that is not full is the last.
func newList[S, T any](p service.Page, items []S, convert func(*S) T, id func(*S) int64) list[T] {
	l := list[T]{Items: make([]T, len(items))}
	for i := range items {
		l.Items[i] = convert(&items[i])
	}
	if n := len(items); n > 0 && n == p.Limit {
		next := fmt.Sprint(id(&items[n-1]))
		l.NextCursor = &next
	}
	return l
}

// writeJSON answers with v. A value that cannot be written is an internal error, not half an answer.
func writeJSON(c *gin.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	writeBody(c, status, jsonType, body)
	return nil
}
