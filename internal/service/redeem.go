package service

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// RedeemCodes makes and reads the codes that buyers show to the merchant. A code is the order's id and a tag that
// only the server can make, so nothing is stored, and nobody can show a code of an order that is not his by counting
// on. That it is used once is the order's status.
type RedeemCodes struct{ key []byte }

// NewRedeemCodes takes a secret that all instances share.
func NewRedeemCodes(secret []byte) RedeemCodes {
	return RedeemCodes{key: DeriveSecret(secret, "redeem codes")}
}

// DeriveSecret makes the secret for one purpose out of another: who learns one learns none of the others.
func DeriveSecret(secret []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("seckill " + purpose))
	return mac.Sum(nil)
}

const (
	codeID    = 8 // bytes
	codeTag   = 7 // bytes; 15 in all are 24 characters without padding
	codeGroup = 4 // characters between two dashes
)

// crockford is Crockford's base 32, whose letters people do not take for one another.
// https://www.crockford.com/base32.html
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// Of returns the code of an order.
func (c RedeemCodes) Of(orderID int64) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(orderID)) //nolint:gosec // ids are positive
	text := crockford.EncodeToString(append(raw, c.tag(raw)...))
	var b strings.Builder
	for i := 0; i < len(text); i += codeGroup {
		if i > 0 {
			b.WriteByte('-')
		}
		b.WriteString(text[i : i+codeGroup])
	}
	return b.String()
}

func (c RedeemCodes) tag(id []byte) []byte {
	mac := hmac.New(sha256.New, c.key)
	mac.Write(id)
	return mac.Sum(nil)[:codeTag]
}

// misread maps what people type for what they see.
var misread = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1")

// Parse returns the order of a code, however it is typed. false: it is no code of ours.
func (c RedeemCodes) Parse(code string) (orderID int64, ok bool) {
	text := misread.Replace(strings.ToUpper(strings.TrimSpace(code))) // a scanner ends a line
	raw, err := crockford.DecodeString(text)
	if err != nil || len(raw) != codeID+codeTag || len(text) != crockford.EncodedLen(len(raw)) {
		return 0, false
	}
	id, tag := raw[:codeID], raw[codeID:]
	if !hmac.Equal(tag, c.tag(id)) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(id)), true //nolint:gosec // we made it of a positive one
}
