package handler

import (
	"io"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/out/webhook"
)

type adminPaymentOut struct {
	domain.Payment

	RefundTries int    `json:"refund_tries,omitempty"`
	RefundError string `json:"refund_error,omitempty"`
}

func newAdminPaymentOut(p *domain.Payment) adminPaymentOut {
	return adminPaymentOut{*p, p.RefundTries, p.RefundError}
}

type paidOut struct {
	Order   orderOut       `json:"order"`
	Payment domain.Payment `json:"payment"`
}

func (a *api) pay(c *gin.Context, claim *domain.Claim, id int64) error {
	var in struct {
		Provider string `json:"provider"`
	}
	if err := bindOptional(c, &in); err != nil {
		return err
	}

	o, p, err := a.Payments.Pay(c.Request.Context(), claim, caller(c).UserID, id, in.Provider)
	return writeOK(c, paidOut{newOrderOut(&o), p}, err)
}

func (a *api) listPayments(c *gin.Context, id int64) error {
	payments, err := a.Payments.Store.Payments(c.Request.Context(), caller(c).UserID, id)
	return writeOK(c, list[domain.Payment]{Items: append([]domain.Payment{}, payments...)}, err)
}

// maxNotice bounds the body of a notice, in bytes. One that exceeds it cannot be kept either, so it is far more than any needs.
const maxNotice = 256 << 10

// paymentNotice handles a notice of a payment provider. The signature covers the raw body.
func (a *api) paymentNotice(c *gin.Context) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxNotice))
	if err != nil {
		return bindError(err)
	}

	// Several lines of a header are one list (RFC 9110, 5.3).
	signature := strings.Join(c.Request.Header.Values(webhook.SignatureHeader), ",")
	settled, err := a.Payments.Webhook(c.Request.Context(), c.Param("provider"), signature, body)
	if err != nil {
		return err
	}

	// The provider gets no data of the order.
	return writeJSON(c, http.StatusOK, settled.Payment)
}
