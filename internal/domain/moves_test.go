package domain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOrderAfterEvent: an event of an earlier move shows the order without the later moves.
func TestOrderAfterEvent(t *testing.T) {
	at := time.Now()
	for _, path := range [][]Move{
		{MovePay, MoveRedeem}, {MovePay, MoveRedeem, MoveUndoRedeem}, {MovePay, MoveRefund, MoveRefunded}, {MoveCancel}, {MoveExpire},
	} {
		o := Order{ID: 1, Status: OrderPendingPayment}
		states, types := []Order{o}, []EventType{EventCreated}
		for _, m := range path {
			m.Apply(&o, at)
			states, types = append(states, o), append(types, m.Event())
		}
		for i, typ := range types {
			if typ == MoveRedeem.Event() && o.RedeemedAt == nil { // the time went with the redemption
				states[i].RedeemedAt = nil
			}
			require.Equal(t, states[i], o.After(typ), "%v after %s", path, typ)
		}
	}
	require.Equal(t, []EventType{"paid", "cancelled", "expired", "redeemed", "refunding", "refunded", "unredeemed"}, []EventType{
		MovePay.Event(), MoveCancel.Event(), MoveExpire.Event(), MoveRedeem.Event(), MoveRefund.Event(), MoveRefunded.Event(), MoveUndoRedeem.Event(),
	})
}
