package handler

import (
	"crypto/hmac"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// query reads the parameters of a request for a list. An absent parameter is the zero value. After the first bad one, which
// is the err, the values mean nothing.
type query struct {
	c   *gin.Context
	err error // *domain.InvalidError
}

func (q *query) refuse(name, format string, args ...any) {
	if q.err == nil {
		q.err = domain.Invalid(name, format, args...)
	}
}

func (q *query) id(name string) int64 {
	s := q.c.Query(name)
	if s == "" {
		return 0
	}

	id, ok := domain.ParseID(s)
	if !ok {
		q.refuse(name, "must be a positive 64-bit number")
	}
	return id
}

func (q *query) time(name string) time.Time {
	s := q.c.Query(name)
	if s == "" {
		return time.Time{}
	}

	// A + that is not escaped in a URL stands for a space.
	t, err := time.Parse(time.RFC3339, strings.ToUpper(strings.Replace(s, " ", "+", 1)))
	if err != nil || t.Year() < 2002 || t.Year() > 9998 {
		q.refuse(name, "must be a time of RFC 3339 from 2002 to 9998")
	}
	return t.UTC()
}

// maxSearchText bounds a text to search for, in characters.
const maxSearchText = 255

func (q *query) text(name string) string {
	s := q.c.Query(name)
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxSearchText {
		q.refuse(name, "must be at most %d characters", maxSearchText)
	}
	return s
}

func word[T any](q *query, name string, parse func(string) (T, bool), detail string) T {
	var none T
	s := q.c.Query(name)
	if s == "" {
		return none
	}

	value, ok := parse(s)
	if !ok {
		q.refuse(name, "%s", detail)
	}
	return value
}

func oneOf[T ~string](values ...T) func(string) (T, bool) {
	return func(s string) (T, bool) {
		i := slices.Index(values, T(s))
		if i < 0 {
			return "", false
		}
		return values[i], true
	}
}

func (q *query) orderStatus() domain.OrderStatus {
	return word(q, "status", domain.ParseOrderStatus, "is not a status of an order")
}

func (q *query) page(keys domain.Keyring) pageRequest {
	p := pageRequest{list: q.c.FullPath(), keys: keys}
	p.Limit = domain.DefaultPageSize

	if s := q.c.Query("limit"); s != "" {
		n, ok := domain.ParseID(s)
		if !ok || n > domain.MaxPageSize {
			q.refuse("limit", "must be between 1 and %d", domain.MaxPageSize)
		}
		p.Limit = int(n)
	}

	if cursor := q.c.Query("cursor"); cursor != "" && !p.open(cursor) {
		q.refuse("cursor", "must be a next_cursor of this list")
	}
	return p
}

// cursorTag is the number of bytes of a truncated HMAC. A forged cursor reveals nothing: it only costs a query.
const cursorTag = 10

// cursorText is strict, so that every position has exactly one cursor.
var cursorText = base64.RawURLEncoding.Strict()

func cursorMAC(secret []byte, list, position string) []byte {
	return domain.MAC(secret, []byte(list+"\n"+position))[:cursorTag]
}

// pageRequest is the page that a request selects. Cursors are authenticated: a made-up one, or that of another list, is refused
// without a query. They do not expire.
type pageRequest struct {
	// Before is 0 if the items of the list have no numbers.
	domain.Page

	// The position of the cursor; empty: the beginning.
	after string
	// The pattern of the route.
	list string
	keys domain.Keyring
}

// open moves the page behind a cursor. It returns false if that is not one of the list.
func (p *pageRequest) open(cursor string) bool {
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(raw) <= cursorTag {
		return false
	}

	p.after = string(raw[cursorTag:])
	// Authentic, if it is one.
	p.Before, _ = strconv.ParseInt(p.after, 10, 64)
	return p.keys.Any(func(secret []byte) bool { return hmac.Equal(raw[:cursorTag], cursorMAC(secret, p.list, p.after)) })
}

func (p *pageRequest) next(n int, position string) *string {
	if n < p.Limit {
		return nil
	}
	cursor := cursorText.EncodeToString(append(cursorMAC(p.keys.Signer(), p.list, position), position...))
	return &cursor
}
