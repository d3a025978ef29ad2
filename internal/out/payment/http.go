package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/domain"
	"seckill/internal/out/webhook"
)

// The names of the providers, in requests and in the paths of their webhooks.
const (
	SandboxName = "sandbox"
	HTTPName    = "http"
)

// CallTimeout bounds one call of an HTTP provider. A payment has answerTimeout of package handler in all.
const CallTimeout = 3 * time.Second

// HTTP is a payment provider behind an HTTP API, which docs/payment-provider.json specifies. It is safe for concurrent
// use.
type HTTP struct {
	// Its URL has no path of docs/payment-provider.json. The secrets sign the calls and the notices.
	API webhook.Client
}

type remotePayment struct {
	Status      string `json:"status"`
	CheckoutURL string `json:"checkout_url"`
	// The whole answer, which has the fields of a notice.
	notice []byte
	// Why a field above could not be read, or nil.
	unread error
}

var (
	errUnknownPayment = errors.New("the provider does not know the payment")
	errOtherPayment   = errors.New("the answer is not about this payment")
)

// call sends a payment to one of the provider's paths. The error is errUnknownPayment after status 404, and errOtherPayment, with
// the answer, if that has another reference or none.
func (h *HTTP) call(ctx context.Context, path string, p domain.Payment) (remotePayment, error) {
	body, err := json.Marshal(map[string]any{
		"provider_ref": p.Ref,
		"order_id":     strconv.FormatInt(p.OrderID, 10),
		"amount":       p.Amount,
		"currency":     p.Currency,
	})
	if err != nil {
		return remotePayment{}, err
	}

	// The URL may have a query, such as a token, which no error shows.
	api := h.API
	if api.URL, err = url.JoinPath(api.URL, path); err != nil {
		return remotePayment{}, errors.New("the URL is not valid")
	}

	answer, err := api.Post(ctx, body)
	switch {
	case err != nil:
		return remotePayment{}, err
	case answer.Status == http.StatusNotFound:
		return remotePayment{}, errUnknownPayment
	case answer.Err() != nil:
		return remotePayment{}, answer.Err()
	}

	got := struct {
		remotePayment
		Ref string `json:"provider_ref"`
	}{}

	// A field of another type does not keep the others from being read.
	got.unread = decode(answer.Body, &got)
	got.notice = answer.Body
	if strings.TrimSpace(got.Ref) != p.Ref {
		return got.remotePayment, errOtherPayment
	}

	return got.remotePayment, nil
}

// Create implements domain.PaymentProvider.
func (h *HTTP) Create(ctx context.Context, p *domain.Payment) error {
	got, err := h.call(ctx, "/payments", *p)
	if err != nil {
		return err
	}
	if got.unread != nil {
		return fmt.Errorf("the answer cannot be read: %w", got.unread)
	}
	if got.CheckoutURL != "" && !isWebPage(got.CheckoutURL) {
		return errors.New("checkout_url is not an http or https URL")
	}
	p.CheckoutURL = got.CheckoutURL
	return nil
}

// isWebPage reports whether a browser may be sent to a URL: it cannot contain a script.
func isWebPage(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// Query returns the result of a payment as a notice, or nil if there is none: the payment is pending, or unknown to the
// provider because its creation failed. With an *InvalidError it returns what could be read.
func (h *HTTP) Query(ctx context.Context, p domain.Payment) (*domain.PaymentNotice, error) {
	got, err := h.call(ctx, "/payments/query", p)
	if errors.Is(err, errUnknownPayment) {
		return nil, nil
	}

	status := word(got.Status)
	pending := status != "" && slices.Contains(unfinished, status)
	isJSON := !errors.As(got.unread, new(*json.SyntaxError))

	// The answer may be the only word of the money, so an operator has to read it.
	if errors.Is(err, errOtherPayment) && isJSON && !pending {
		kept := &domain.PaymentNotice{
			Source: domain.SourceQuery,
			Ref:    p.Ref,
			Body:   got.notice,
		}
		return kept, domain.Invalid("provider_ref", "must be that of the query")
	}
	if err != nil {
		return nil, err
	}

	if got.unread == nil && slices.Contains(unfinished, status) {
		return nil, nil
	}

	n, err := parse(got.notice)
	n.Ref = p.Ref
	n.Source = domain.SourceQuery
	return &n, err
}

// Refund implements domain.PaymentProvider. An answer with another status than refunded or disputed, such as refunding, or about
// a part of the money, is an error: the refund is requested again later.
func (h *HTTP) Refund(ctx context.Context, p domain.Payment) error {
	got, err := h.call(ctx, "/payments/refund", p)
	if err != nil {
		return err
	}
	if result, _ := resultOf(got.Status); !result.Returned() {
		return fmt.Errorf("the refund is not complete: status %q", got.Status)
	}

	// Amount and currency count even if another field is missing or cannot be read.
	var n notice
	_ = decode(got.notice, &n)
	if !n.isWhole(p) {
		return fmt.Errorf("the refund is not complete: %s %s of %d %s", n.Amount, n.Currency, p.Amount, p.Currency)
	}

	return nil
}

// isWhole reports whether the answer to a refund names all of the money of p. A field that it leaves out says so too.
func (n *notice) isWhole(p domain.Payment) bool {
	currency := strings.TrimSpace(n.Currency)
	if currency != "" && !strings.EqualFold(currency, p.Currency) {
		return false
	}
	if len(n.Amount) == 0 || string(n.Amount) == "null" {
		return true
	}

	// Some providers write money that goes back with a minus.
	amount, readable := wholeNumber(unquoted(n.Amount))
	return readable && max(amount, -amount) == p.Amount
}

// Notice implements domain.PaymentProvider.
func (h *HTTP) Notice(signature string, body []byte) (domain.PaymentNotice, error) {
	return readNotice(h.API, signature, body)
}
