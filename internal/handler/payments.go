package handler

import (
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/out/webhook"
	"seckill/internal/service"
)

type paymentHandler struct{ payments *service.Payments }

type paymentOut struct {
	Provider    string    `json:"provider"`
	ProviderRef string    `json:"provider_ref"`
	Amount      int64     `json:"amount"`
	Currency    string    `json:"currency"`
	Status      string    `json:"status"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	CheckoutURL string    `json:"checkout_url,omitempty"`
}

func newPaymentOut(p *domain.Payment) paymentOut {
	return paymentOut{
		Provider:    p.Provider,
		ProviderRef: p.Ref,
		Amount:      p.Amount,
		Currency:    p.Currency,
		Status:      p.Status.String(),
		CreatedAt:   p.CreatedAt,
		UpdatedAt:   p.UpdatedAt,
		CheckoutURL: p.CheckoutURL,
	}
}

type adminPaymentOut struct {
	paymentOut

	RefundTries int    `json:"refund_tries,omitempty"`
	RefundError string `json:"refund_error,omitempty"`
}

func newAdminPaymentOut(p *domain.Payment) adminPaymentOut {
	return adminPaymentOut{newPaymentOut(p), p.RefundTries, p.RefundError}
}

type paidOut struct {
	Order   orderOut   `json:"order"`
	Payment paymentOut `json:"payment"`
}

func (h *paymentHandler) pay(c *gin.Context, claim *domain.Claim) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}

	var in struct {
		Provider string `json:"provider"`
	}
	if err := bindOptional(c, &in); err != nil {
		return err
	}

	o, p, err := h.payments.Pay(c.Request.Context(), claim, caller(c).UserID, id, in.Provider)
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusOK, paidOut{newOrderOut(&o), newPaymentOut(&p)})
}

func (h *paymentHandler) refund(c *gin.Context, claim *domain.Claim) error {
	return writeResult(c, claim, h.payments.Refund)
}

func (h *paymentHandler) list(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}

	payments, err := h.payments.List(c.Request.Context(), caller(c).UserID, id)
	if err != nil {
		return err
	}

	out := list[paymentOut]{Items: make([]paymentOut, len(payments))}
	for i := range payments {
		out.Items[i] = newPaymentOut(&payments[i])
	}

	return writeJSON(c, http.StatusOK, out)
}

// webhook handles a notice of a payment provider. The signature covers the raw body.
func (h *paymentHandler) webhook(c *gin.Context) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if err != nil {
		return bindError(err)
	}

	settled, err := h.payments.Webhook(c.Request.Context(), c.Param("provider"), c.GetHeader(webhook.SignatureHeader), body)
	if err != nil {
		return err
	}

	// The provider gets no data of the order.
	return writeJSON(c, http.StatusOK, newPaymentOut(&settled.Payment))
}
