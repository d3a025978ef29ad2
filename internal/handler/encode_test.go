package handler

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
)

// TestHandWrittenJSONMatchesEncodingJSON compares the hand-written encoders with encoding/json on random values.
func TestHandWrittenJSONMatchesEncodingJSON(t *testing.T) {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).UTC()
	})
	text := rapid.OneOf(rapid.String(), rapid.StringMatching("[a-z_]*"), rapid.Just("a\"b\\c<d>&\x00\u2028é"))
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Int64()
		o := domain.Order{
			ID: id.Draw(t, "id"), UserID: id.Draw(t, "user"), VoucherID: id.Draw(t, "voucher"), Amount: id.Draw(t, "amount"),
			Status:    rapid.SampledFrom([]domain.OrderStatus{1, 2, 3, 4, 5, 6, domain.OrderQueued, domain.OrderFailed, 77}).Draw(t, "status"),
			CreatedAt: moment.Draw(t, "created"), ExpiresAt: moment.Draw(t, "expires"), Reason: text.Draw(t, "reason"),
			Currency: text.Draw(t, "currency"), RedeemCode: text.Draw(t, "code"),
			PaidAt: rapid.Ptr(moment, true).Draw(t, "paid"), RedeemedAt: rapid.Ptr(moment, true).Draw(t, "redeemed"),
			CancelledAt: rapid.Ptr(moment, true).Draw(t, "cancelled"), RefundedAt: rapid.Ptr(moment, true).Draw(t, "refunded"),
			Ahead: rapid.Ptr(id, true).Draw(t, "ahead"),
		}
		want, err := json.Marshal(newOrderOut(&o))
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendOrder(nil, &o)))

		v := domain.Voucher{
			ID: o.ID, ShopID: o.UserID, Title: text.Draw(t, "title"), ImageID: text.Draw(t, "image"), SubTitle: text.Draw(t, "sub title"), Rules: text.Draw(t, "rules"),
			PayValue: o.Amount, ActualValue: id.Draw(t, "worth"), Currency: o.Currency, CreatedAt: o.CreatedAt, UpdatedAt: o.ExpiresAt,
			Status: rapid.SampledFrom([]domain.VoucherStatus{1, 2, 3, 77}).Draw(t, "voucher status"),
		}
		if rapid.Bool().Draw(t, "sale") {
			v.Type = domain.VoucherSeckill
			v.Sale = &domain.Sale{
				InitialStock: id.Draw(t, "initial"), Added: rapid.Int64Range(-1, 1).Draw(t, "added"), Stock: id.Draw(t, "stock"), LimitPerUser: rapid.Int().Draw(t, "limit"),
				BeginAt: moment.Draw(t, "begin"), EndAt: moment.Draw(t, "end"),
				Entry: domain.Entry{
					Mode:    rapid.SampledFrom([]domain.EntryMode{domain.EntryOpen, domain.EntryPass, domain.EntryRoom, 77}).Draw(t, "entry"),
					Message: text.Draw(t, "message"), Rate: rapid.IntRange(1, 10_000).Draw(t, "rate"),
					PassTTL: time.Duration(rapid.Int64Range(1, 3600).Draw(t, "ttl")) * time.Second,
				},
				PayTimeout:  time.Duration(rapid.Int64Range(0, 2).Draw(t, "pay timeout")) * time.Second,
				UnpaidLimit: rapid.Ptr(rapid.IntRange(0, 2), true).Draw(t, "unpaid limit"),
				Segments:    rapid.IntRange(1, 16).Draw(t, "segments"),
			}
		}
		now := moment.Draw(t, "now")
		h := newVoucherHandler(nil, nil, func() time.Time { return now }, cursors{}, nil, nil)
		page := pageRequest{
			Page:    domain.Page{Limit: rapid.IntRange(1, 3).Draw(t, "limit of the page")},
			cursors: cursors{keys: domain.NewKeyring([]byte("a secret"))},
		}
		vouchers := []*domain.Voucher{&v, &v}[:rapid.IntRange(0, 2).Draw(t, "vouchers")]
		want, err = json.Marshal(newList(page, vouchers, func(v **domain.Voucher) voucherOut { return h.out(*v) },
			func(v **domain.Voucher) int64 { return (*v).ID }))
		require.NoError(t, err)
		require.Equal(t, string(want), string(h.page(page, vouchers, now).appendTo(nil, now)))

		p := problem{
			Code: rapid.StringMatching("[a-z_]*").Draw(t, "code"), Title: text.Draw(t, "title"), Status: http.StatusConflict, Detail: text.Draw(t, "detail"),
			RequestID: text.Draw(t, "request"),
		}
		if rapid.Bool().Draw(t, "with order") {
			order := ID(o.ID)
			p.OrderID = &order
		}
		if rapid.Bool().Draw(t, "with challenge") {
			p.Challenge = json.RawMessage(`{"parameters":{"cost":5000},"signature":"00"}`)
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
