package domain

import (
	"crypto/hmac"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// RedeemCodes makes and parses the codes that buyers show to the merchant. A code contains the order id and a truncated
// HMAC of it, so codes need no storage and cannot be guessed from other codes. The status of the order prevents a
// second use. After a change of the secret, both the new codes and those made with the previous secret are valid.
// RedeemCodes is safe for concurrent use.
type RedeemCodes struct{ keys Keyring }

// NewRedeemCodes derives the keys of the codes from the secrets that all instances share.
func NewRedeemCodes(secrets Keyring) RedeemCodes {
	return RedeemCodes{keys: secrets.Derive("redeem codes")}
}

const (
	codeID    = 8 // bytes
	codeTag   = 7 // bytes; the 15 bytes encode to 24 characters without padding
	codeGroup = 4 // characters between dashes
)

// crockford is Crockford's base 32, which leaves out letters that are easily confused.
// https://www.crockford.com/base32.html
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// Of returns the code of an order.
func (c RedeemCodes) Of(orderID int64) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(orderID)) //nolint:gosec // ids are positive
	text := crockford.EncodeToString(append(raw, MAC(c.keys.Signer(), raw)[:codeTag]...))
	var b strings.Builder
	for i := 0; i < len(text); i += codeGroup {
		if i > 0 {
			b.WriteByte('-')
		}
		b.WriteString(text[i : i+codeGroup])
	}

	return b.String()
}

// lookalikes maps letters to the digits that they are mistaken for.
var lookalikes = strings.NewReplacer("O", "0", "I", "1", "L", "1")

// ErrUnknownCode means that a redeem code was not issued, or not for the order of the request. The error that wraps it is
// an *InvalidError as well.
var ErrUnknownCode = errors.New("unknown redeem code")

// UnknownCode returns an ErrUnknownCode.
func UnknownCode(detail string) error {
	return fmt.Errorf("%w: %w", ErrUnknownCode, Invalid("code", "%s", detail))
}

// Parse returns the order id of a typed code ([TypedCode]), in upper or lower case. Error: ErrUnknownCode.
func (c RedeemCodes) Parse(code string) (int64, error) {
	unknown := UnknownCode("is not a code of this shop")

	text := lookalikes.Replace(strings.ToUpper(TypedCode(code)))
	raw, err := crockford.DecodeString(text)
	if err != nil || len(raw) != codeID+codeTag || len(text) != crockford.EncodedLen(len(raw)) {
		return 0, unknown
	}

	id := raw[:codeID]
	tag := raw[codeID:]
	if !c.keys.Any(func(secret []byte) bool { return hmac.Equal(tag, MAC(secret, id)[:codeTag]) }) {
		return 0, unknown
	}

	return int64(binary.BigEndian.Uint64(id)), nil //nolint:gosec // encoded from a positive id
}
