package domain

import (
	"fmt"
	"time"
)

// Validity is when a voucher can be redeemed after its purchase: [ValidFrom, ValidUntil). A nil bound is none.
type Validity struct {
	ValidFrom  *time.Time `json:"valid_from,omitempty"`
	ValidUntil *time.Time `json:"valid_until,omitempty"`
}

// checkValidity adds what is wrong with the validity of v. Even the last buyer of a sale can use what was bought.
func (v *Voucher) checkValidity(bad *InvalidError) {
	if v.ValidUntil == nil {
		return
	}
	bad.AddIf(v.ValidFrom != nil && !v.ValidUntil.After(*v.ValidFrom), "valid_until", "must be after valid_from")
	bad.AddIf(v.Sale != nil && v.ValidUntil.Before(v.Sale.EndAt), "valid_until", "must not be before end_at")
}

// CheckRedeem returns a *NotRedeemableError if the order cannot be redeemed at a time: it is not paid, or not valid then.
func (o *Order) CheckRedeem(at time.Time) error {
	bought := o.Bought()
	refused := &NotRedeemableError{Order: *o}
	switch {
	case o.Status != OrderPaid:
	case bought.ValidFrom != nil && at.Before(*bought.ValidFrom):
		refused.Validity = fmt.Sprintf("valid only from %s", bought.ValidFrom.Format(time.RFC3339))
	case bought.ValidUntil != nil && !at.Before(*bought.ValidUntil):
		refused.Validity = fmt.Sprintf("no longer valid: it was until %s", bought.ValidUntil.Format(time.RFC3339))
	default:
		return nil
	}

	return refused
}
