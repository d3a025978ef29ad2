package payment

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// provide starts a provider that answers every call with a status and a body.
func provide(t *testing.T, status int, answer string) *HTTP {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	h := NewHTTP(HTTPConfig{URL: server.URL, Secrets: secrets, Now: time.Now})
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// answerWith returns the answer of a provider about aPayment, with a status and more fields.
func answerWith(status, more string) string {
	return fmt.Sprintf(`{"provider_ref":"pay_A","order_id":"3368803458027454465","amount":8000,"currency":"CNY","status":%q%s}`, status, more)
}

func TestHTTPCreate(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://pay.example/A": true, "http://127.0.0.1:9/A": true, "": true, "javascript:alert(1)": false, "//pay.example": false, "https:": false, "/A": false,
	} {
		p := aPayment
		err := provide(t, http.StatusOK, answerWith("pending", fmt.Sprintf(`,"checkout_url":%q`, url))).Create(t.Context(), &p)
		if ok {
			require.NoError(t, err, url)
			require.Equal(t, url, p.CheckoutURL)
		} else {
			require.ErrorContains(t, err, "checkout_url", url)
			require.Empty(t, p.CheckoutURL)
		}
	}
	for what, h := range map[string]*HTTP{
		"another payment": provide(t, http.StatusOK, `{"provider_ref":"pay_B","status":"pending"}`), "no JSON": provide(t, http.StatusOK, "ok"),
		"an outage": provide(t, http.StatusBadGateway, ""), "a redirect": provide(t, http.StatusFound, answerWith("pending", "")),
		"unknown": provide(t, http.StatusNotFound, ""),
	} {
		p := aPayment
		require.Error(t, h.Create(t.Context(), &p), what)
	}
}

// A refund is done when the provider says so, and requested again otherwise.
func TestHTTPRefund(t *testing.T) {
	require.NoError(t, provide(t, http.StatusOK, answerWith("refunded", "")).Refund(t.Context(), aPayment))
	for _, status := range []string{"refunding", "succeeded", "pending", ""} {
		require.Error(t, provide(t, http.StatusOK, answerWith(status, "")).Refund(t.Context(), aPayment), status)
	}
	require.Error(t, provide(t, http.StatusAccepted, "{}").Refund(t.Context(), aPayment))
	require.Error(t, provide(t, http.StatusNotFound, "").Refund(t.Context(), aPayment))
}

func TestHTTPQuery(t *testing.T) {
	for status, want := range map[string]*domain.PaymentNotice{
		"succeeded": {Ref: "pay_A", OrderID: aPayment.OrderID, Amount: 8000, Currency: "CNY", Result: domain.PaymentSucceeded},
		"failed":    {Ref: "pay_A", OrderID: aPayment.OrderID, Amount: 8000, Currency: "CNY", Result: domain.PaymentFailed},
		"refunded":  {Ref: "pay_A", OrderID: aPayment.OrderID, Amount: 8000, Currency: "CNY", Result: domain.PaymentRefunded},
		"DISPUTED":  {Ref: "pay_A", OrderID: aPayment.OrderID, Amount: 8000, Currency: "CNY", Result: domain.PaymentDisputed},
		"pending":   nil, "refunding": nil, "": nil,
	} {
		got, err := provide(t, http.StatusOK, answerWith(status, `,"checkout_url":"https://pay.example/A"`)).Query(t.Context(), aPayment)
		require.NoError(t, err)
		if want != nil {
			require.Contains(t, string(got.Body), status)
			want.Body = got.Body
			want.Queried = true
		}
		require.Equal(t, want, got, status)
	}
	got, err := provide(t, http.StatusNotFound, "").Query(t.Context(), aPayment)
	require.NoError(t, err)
	require.Nil(t, got, "the creation failed")
	got, err = provide(t, http.StatusInternalServerError, answerWith("succeeded", "")).Query(t.Context(), aPayment)
	require.Error(t, err)
	require.Nil(t, got)
	const unreadable = `{"provider_ref":"pay_A","status":"succeeded"}`
	got, err = provide(t, http.StatusOK, unreadable).Query(t.Context(), aPayment)
	require.Error(t, err)
	require.Equal(t, &domain.PaymentNotice{Ref: "pay_A", Body: []byte(unreadable), Queried: true}, got, "for an operator")
}

func TestInquiryPause(t *testing.T) {
	require.Greater(t, minInquiryPause, callTimeout, "the lease must outlast the query")
	for age, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, -time.Minute: 10 * time.Second, time.Minute: time.Minute, time.Hour: 10 * time.Minute, inquiryEnd - 1: 10 * time.Minute, inquiryEnd: 0,
	} {
		require.Equal(t, want, inquiryPause(age), age)
	}
}
