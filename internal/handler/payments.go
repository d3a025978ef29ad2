package handler

import (
	"io"
	"net/http"

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
	payments, err := a.Payments.List(c.Request.Context(), caller(c).UserID, id)
	return writeOK(c, list[domain.Payment]{Items: append([]domain.Payment{}, payments...)}, err)
}

// webhook handles a notice of a payment provider. The signature covers the raw body.
func (a *api) paymentNotice(c *gin.Context) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if err != nil {
		return bindError(err)
	}

	settled, err := a.Payments.Webhook(c.Request.Context(), c.Param("provider"), c.GetHeader(webhook.SignatureHeader), body)
	if err != nil {
		return err
	}

	// The provider gets no data of the order.
	return writeJSON(c, http.StatusOK, settled.Payment)
}
