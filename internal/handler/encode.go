package handler

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// Orders and problems are encoded by hand, because the reflection of encoding/json would dominate the CPU time of a sale.
// TestHandWrittenJSONMatchesEncodingJSON compares the output with encoding/json.

var (
	jsonType    = []string{"application/json; charset=utf-8"}
	problemType = []string{"application/problem+json"}
)

// writeBody writes an encoded body. A failed write means that the client has disconnected and is ignored.
func writeBody(c *gin.Context, status int, contentType []string, body []byte) {
	header := c.Writer.Header()
	header["Content-Type"] = contentType
	// The server sets the length of short bodies itself.
	if len(body) >= minCompressed {
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}

	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(body)
}

func appendOrder(b []byte, o *domain.Order) []byte {
	b = append(b, `{"id":"`...)
	b = strconv.AppendInt(b, o.ID, 10)
	b = append(b, `","user_id":"`...)
	b = strconv.AppendInt(b, o.UserID, 10)
	b = append(b, `","voucher_id":"`...)
	b = strconv.AppendInt(b, o.VoucherID, 10)
	b = append(b, '"')
	b = appendText(b, "status", o.Status.String())
	b = append(b, `,"amount":`...)
	b = strconv.AppendInt(b, o.Amount, 10)
	b = appendText(b, "currency", o.Currency)
	b = appendTime(b, "created_at", &o.CreatedAt)
	b = appendTime(b, "expires_at", &o.ExpiresAt)
	b = appendTime(b, "paid_at", o.PaidAt)
	b = appendTime(b, "redeemed_at", o.RedeemedAt)
	b = appendTime(b, "cancelled_at", o.CancelledAt)
	b = appendTime(b, "refunded_at", o.RefundedAt)

	if o.Disputed {
		b = append(b, `,"disputed":true`...)
	}

	b = appendOptional(b, "reason", o.Reason)
	b = appendOptional(b, "redeem_code", o.RedeemCode)
	if o.Ahead != nil {
		b = append(b, `,"ahead":`...)
		b = strconv.AppendInt(b, *o.Ahead, 10)
	}

	bought := o.Bought()
	b = appendText(b, "title", bought.Title)
	b = appendOptional(b, "sub_title", bought.SubTitle)
	b = appendOptional(b, "rules", bought.Rules)
	b = append(b, `,"shop_id":"`...)
	b = strconv.AppendInt(b, bought.ShopID, 10)
	b = append(b, '"')
	b = appendText(b, "shop_name", bought.ShopName)
	b = appendTime(b, "valid_from", bought.ValidFrom)
	b = appendTime(b, "valid_until", bought.ValidUntil)
	return append(b, '}')
}

func appendText(b []byte, name, s string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendString(b, s)
}

func appendOptional(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendText(b, name, s)
}

func appendTime(b []byte, name string, t *time.Time) []byte {
	if t == nil {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":"`...)
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// appendProblem appends the JSON form of p, preceded by its type. What only rare problems have is left to encoding/json.
func appendProblem(b []byte, p *problem) []byte {
	// A code needs no escaping.
	b = append(b, `{"type":"`+problemsPath...)
	b = append(b, p.Code...)
	b = append(b, '"')
	b = appendText(b, "code", p.Code)
	b = appendText(b, "title", p.Title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	b = appendOptional(b, "detail", p.Detail)
	b = appendText(b, "request_id", p.RequestID)

	if p.OrderID != nil {
		b = append(b, `,"order_id":"`...)
		b = strconv.AppendInt(b, int64(*p.OrderID), 10)
		b = append(b, '"')
	}

	if p.rareFacts != nil {
		// Texts, times and the JSON of a challenge always have a JSON form.
		rest, _ := json.Marshal(p.rareFacts)
		b = append(b, ',')
		return append(b, rest[1:]...)
	}

	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	if mustEscape(s) {
		// A string always has a JSON form.
		quoted, _ := json.Marshal(s)
		return append(b, quoted...)
	}

	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// mustEscape reports whether encoding/json changes a character of s: control characters, those with a meaning in JSON or
// HTML, the line separators U+2028 and U+2029, and bytes that are not UTF-8.
func mustEscape(s string) bool {
	ascii := true
	for i := range len(s) {
		c := s[i]
		switch {
		case c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			return true
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}

	return !ascii && (!utf8.ValidString(s) || strings.ContainsAny(s, "\u2028\u2029"))
}

func writeOrder(c *gin.Context, status int, o *domain.Order) error {
	writeBody(c, status, jsonType, appendOrder(make([]byte, 0, 512), o))
	return nil
}

// writeQueued writes the 202 answer for an order that is not committed yet. Clients read the id where they read that of an
// order, older ones in order_id.
func writeQueued(c *gin.Context, orderID int64) error {
	b := append(make([]byte, 0, 96), `{"id":"`...)
	b = strconv.AppendInt(b, orderID, 10)
	b = append(b, `","order_id":"`...)
	b = strconv.AppendInt(b, orderID, 10)
	writeBody(c, http.StatusAccepted, jsonType, append(b, `","status":"queued"}`...))
	return nil
}
