package handler

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/service"
)

// TestHandWrittenJSON holds what is written by hand against encoding/json.
func TestHandWrittenJSON(t *testing.T) {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).UTC()
	})
	text := rapid.OneOf(rapid.String(), rapid.StringMatching("[a-z_]*"), rapid.Just("a\"b\\c<d>&\x00\u2028é"))
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Int64()
		o := service.Order{
			ID: id.Draw(t, "id"), UserID: id.Draw(t, "user"), VoucherID: id.Draw(t, "voucher"), Amount: id.Draw(t, "amount"),
			Status:    rapid.SampledFrom([]service.OrderStatus{1, 2, 3, 4, 5, 6, service.OrderQueued, service.OrderFailed, 77}).Draw(t, "status"),
			CreatedAt: moment.Draw(t, "created"), ExpiresAt: moment.Draw(t, "expires"), Reason: text.Draw(t, "reason"),
			Currency: text.Draw(t, "currency"), RedeemCode: text.Draw(t, "code"),
			PaidAt: rapid.Ptr(moment, true).Draw(t, "paid"), RedeemedAt: rapid.Ptr(moment, true).Draw(t, "redeemed"),
			CancelledAt: rapid.Ptr(moment, true).Draw(t, "cancelled"), RefundedAt: rapid.Ptr(moment, true).Draw(t, "refunded"),
			Ahead: rapid.Ptr(id, true).Draw(t, "ahead"),
		}
		want, err := json.Marshal(newOrderOut(&o))
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendOrder(nil, &o)))

		p := problem{
			Code: rapid.StringMatching("[a-z_]*").Draw(t, "code"), Title: text.Draw(t, "title"), Status: http.StatusConflict, Detail: text.Draw(t, "detail"),
			RequestID: text.Draw(t, "request"),
		}
		if rapid.Bool().Draw(t, "with order") {
			order := ID(o.ID)
			p.OrderID = &order
		}
		for range rapid.IntRange(0, 3).Draw(t, "errors") {
			p.Errors = append(p.Errors, problemField{Field: text.Draw(t, "field"), Detail: text.Draw(t, "what")})
		}
		want, err = json.Marshal(struct {
			Type string `json:"type"`
			problem
		}{"/problems/" + p.Code, p})
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendProblem(nil, &p)))
	})
}
