package payment

import (
	"encoding/json"
	"strconv"

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
	Status    string          `json:"status"`
	Timestamp json.RawMessage `json:"timestamp"` // for people; what counts is signed
}

// maxRef is the longest reference that the database holds.
const maxRef = 128

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
	case n.Ref == "" || len(n.Ref) > maxRef:
		return service.PaymentNotice{}, service.Invalid("provider_ref", "must have 1 to %d characters", maxRef)
	case err != nil || id <= 0:
		return service.PaymentNotice{}, service.Invalid("order_id", "must be the id of an order")
	case n.Amount == nil:
		return service.PaymentNotice{}, service.Invalid("amount", "is required")
	case n.Status != succeeded && n.Status != failed:
		return service.PaymentNotice{}, service.Invalid("status", "must be succeeded or failed")
	}
	return service.PaymentNotice{Ref: n.Ref, OrderID: id, Amount: *n.Amount, Succeeded: n.Status == succeeded}, nil
}
