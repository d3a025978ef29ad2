package payment

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"seckill/internal/domain"
	"seckill/internal/webhook"
)

// The values of status in a notice.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

// notice is the body of a webhook call. Other fields are ignored.
type notice struct {
	Ref       string          `json:"provider_ref"`
	OrderID   json.RawMessage `json:"order_id"` // a string, or a number from a provider with 64-bit numbers
	Amount    *int64          `json:"amount"`
	Currency  string          `json:"currency"` // optional
	Status    string          `json:"status"`
	Timestamp json.RawMessage `json:"timestamp"` // informational; the signature has its own time
}

// maxRef is the length of the longest reference that the database can store.
const maxRef = 128

// isRef reports whether s is a valid reference: 1 to maxRef characters of printable ASCII without spaces, which no
// database and no log changes.
func isRef(s string) bool {
	return s != "" && len(s) <= maxRef && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// readNotice verifies and parses a notice. Errors: domain.ErrUnauthenticated, *domain.InvalidError.
func readNotice(secrets domain.Keyring, signature string, body []byte, now time.Time) (domain.PaymentNotice, error) {
	if err := webhook.Verify(secrets, body, signature, now); err != nil {
		return domain.PaymentNotice{}, err
	}
	return parse(body)
}

// parse decodes and validates a notice. Error: *domain.InvalidError.
func parse(body []byte) (domain.PaymentNotice, error) {
	var n notice
	if err := json.Unmarshal(body, &n); err != nil {
		return domain.PaymentNotice{}, domain.Invalid("body", "is not a payment notice in JSON")
	}
	text := string(n.OrderID)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	id, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !isRef(n.Ref):
		return domain.PaymentNotice{}, domain.Invalid("provider_ref", "must have 1 to %d printable ASCII characters", maxRef)
	case err != nil || id <= 0:
		return domain.PaymentNotice{}, domain.Invalid("order_id", "must be the id of an order")
	case n.Amount == nil:
		return domain.PaymentNotice{}, domain.Invalid("amount", "is required")
	case n.Status != succeeded && n.Status != failed:
		return domain.PaymentNotice{}, domain.Invalid("status", "must be succeeded or failed")
	}
	return domain.PaymentNotice{
		Ref: n.Ref, OrderID: id, Amount: *n.Amount, Currency: n.Currency, Succeeded: n.Status == succeeded,
	}, nil
}
