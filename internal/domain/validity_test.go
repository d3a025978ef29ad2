package domain

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestValidityOfSale: what expires with the end of its sale can be sold. A change keeps the validity unless it removes it, and
// cannot move the end of the sale behind it.
func TestValidityOfSale(t *testing.T) {
	in := validSale()
	in.ValidFrom, in.ValidUntil = in.BeginAt, in.EndAt
	v, err := in.Voucher(testNow)
	require.NoError(t, err)
	require.Equal(t, Validity{in.BeginAt, in.EndAt}, v.Validity)

	longer := VoucherChange{VoucherFields: VoucherFields{EndAt: ptr(in.EndAt.Add(time.Hour))}}
	changed := v
	require.ErrorContains(t, longer.Apply(&changed, testNow), "valid_until")

	before := v
	longer.ValidUntil = &time.Time{}
	require.NoError(t, longer.Apply(&v, testNow))
	require.Equal(t, Validity{in.BeginAt, nil}, v.Validity)
	require.Contains(t, before.Changes(&v), "valid_until: 2026-11-11T13:00:00Z -> none")
}

// TestOfferIDHasValidity: offers that differ in their validity are different, and those without keep their ids.
func TestOfferIDHasValidity(t *testing.T) {
	ids := map[OfferID]bool{}
	for _, validity := range []Validity{{}, {&testNow, nil}, {nil, &testNow}, {&testNow, &testNow}} {
		ids[NewOffer(&Voucher{Title: "t", Validity: validity}, "shop").ID] = true
	}
	require.Len(t, ids, 4)
	require.Equal(t, "c6bd1a034c8d7fda38e69794b86ab1a6", fmt.Sprintf("%x", NewOffer(&Voucher{Title: "t"}, "shop").ID))
}
