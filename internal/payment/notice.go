package payment

import (
	"encoding/json"
	"strconv"
	"strings"

	"seckill/internal/service"
)

// The ends of a payment as a notice has them.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

// notice is the body of a webhook. Fields that a provider adds are ignored.
type notice struct {
	Ref       string          `json:"provider_ref"`
	OrderID   json.RawMessage `json:"order_id"` // a string, or a number from a provider who can count that far
	Amount    *int64          `json:"amount"`
	Currency  string          `json:"currency"` // may be left out
	Status    string          `json:"status"`
	Timestamp json.RawMessage `json:"timestamp"` // for people; what counts is signed
}

// maxRef is the longest reference that the database holds.
const maxRef = 128

// isRef says whether s can be a reference: printable ASCII without spaces, which every database and every log takes
// for what it is.
func isRef(s string) bool {
	return s != "" && len(s) <= maxRef && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// parse reads a notice. Error: *service.InvalidError.
func parse(body []byte) (service.PaymentNotice, error) {
	var n notice
	if err := json.Unmarshal(body, &n); err != nil {
		return service.PaymentNotice{}, service.Invalid("body", "is not a payment notice in JSON")
	}
	text := string(n.OrderID)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	id, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !isRef(n.Ref):
		return service.PaymentNotice{}, service.Invalid("provider_ref", "must have 1 to %d printable ASCII characters", maxRef)
	case err != nil || id <= 0:
		return service.PaymentNotice{}, service.Invalid("order_id", "must be the id of an order")
	case n.Amount == nil:
		return service.PaymentNotice{}, service.Invalid("amount", "is required")
	case n.Status != succeeded && n.Status != failed:
		return service.PaymentNotice{}, service.Invalid("status", "must be succeeded or failed")
	}
	return service.PaymentNotice{
		Ref: n.Ref, OrderID: id, Amount: *n.Amount, Currency: n.Currency, Succeeded: n.Status == succeeded,
	}, nil
}
