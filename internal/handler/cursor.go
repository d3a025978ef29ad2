package handler

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

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
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(list + "\n" + position))
	return mac.Sum(nil)[:cursorTag]
}

// seal returns the cursor of a position, which is the id of the last item before it.
func (k cursors) seal(list, position string) string {
	return cursorText.EncodeToString(append(cursorMAC(k.keys.Signer(), list, position), position...))
}

// open returns the position of a cursor of the list.
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

// next returns the cursor after an item, or nil if a page with n items is the last one.
func (p *pageRequest) next(n int, position string) *string {
	if n < p.Limit {
		return nil
	}
	cursor := p.cursors.seal(p.list, position)
	return &cursor
}
