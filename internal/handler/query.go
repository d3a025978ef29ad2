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
	err error // *domain.InvalidError or *domain.RateLimitedError
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

func (q *query) page(k cursors) pageRequest {
	p := pageRequest{list: q.c.FullPath(), cursors: k}
	p.Limit = domain.DefaultPageSize

	if s := q.c.Query("limit"); s != "" {
		n, ok := domain.ParseID(s)
		if !ok || n > domain.MaxPageSize {
			q.refuse("limit", "must be between 1 and %d", domain.MaxPageSize)
		}
		p.Limit = int(n)
	}

	cursor := q.c.Query("cursor")
	if cursor == "" || q.err != nil {
		return p
	}

	var ok bool
	if p.after, ok = k.open(p.list, cursor); !ok {
		if q.err = k.visit(q.c); q.err == nil {
			q.refuse("cursor", "must be a next_cursor of this list")
		}
		return p
	}

	// The cursor is authentic.
	p.Before, _ = strconv.ParseInt(p.after, 10, 64)
	return p
}

// cursors authenticates the cursors of lists: a made-up cursor, or that of another list, is refused without a query.
// They do not expire.
type cursors struct {
	keys domain.Keyring
	// Counts a refused cursor against the client's address.
	visit func(*gin.Context) error
}

// cursorTag is the number of bytes of a truncated HMAC. A forged cursor reveals nothing: it only costs a query.
const cursorTag = 10

// cursorText is strict, so that every position has exactly one cursor.
var cursorText = base64.RawURLEncoding.Strict()

func cursorMAC(secret []byte, list, position string) []byte {
	return domain.MAC(secret, []byte(list+"\n"+position))[:cursorTag]
}

func (k cursors) seal(list, position string) string {
	return cursorText.EncodeToString(append(cursorMAC(k.keys.Signer(), list, position), position...))
}

func (k cursors) open(list, cursor string) (string, bool) {
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(raw) <= cursorTag {
		return "", false
	}
	position := string(raw[cursorTag:])
	return position, k.keys.Any(func(secret []byte) bool { return hmac.Equal(raw[:cursorTag], cursorMAC(secret, list, position)) })
}

// pageRequest is the page that a request selects.
type pageRequest struct {
	// Before is 0 if the items of the list have no numbers.
	domain.Page

	// The position of the cursor; empty: the beginning.
	after string
	// The pattern of the route.
	list    string
	cursors cursors
}

func (p *pageRequest) next(n int, position string) *string {
	if n < p.Limit {
		return nil
	}
	cursor := p.cursors.seal(p.list, position)
	return &cursor
}
