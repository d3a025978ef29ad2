package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestReturnedUnitIsSoldElsewhere: the only unit of a sale is bought on one of two servers, and again on the other one after a
// refund, after a cancellation, and after the deadline for the payment, before which the order is not closed.
func TestReturnedUnitIsSoldElsewhere(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded", "queue/mariadb").Full("lock/mariadb").Shared().Each(t, func(t *testing.T, s *rig.Stack) {
		a, b := s.Serve(t), s.Serve(t)
		tokens := s.Tokens(t, 4)
		sale := a.Sale(t, 1)
		paid := a.Buy(t, tokens[0], sale).ID
		b.RequireSoldOut(t, tokens[1], sale)

		a.Must(t, rig.Pay(paid, tokens[0]))
		a.WaitFor(t, tokens[0], paid, "paid")
		rig.RequireProblem(t, http.StatusConflict, "invalid_state", b.Do(t, rig.Post("/orders/"+paid+"/cancel", tokens[0], nil)))
		a.Must(t, rig.Post("/orders/"+paid+"/refund", tokens[0], nil))
		a.WaitFor(t, tokens[0], paid, "refunded")
		cancelled := b.BuyReturned(t, rig.Purchase(sale, tokens[1]))
		_, statuses := b.Payments(t, tokens[0], paid)
		require.Equal(t, []string{"refunded"}, statuses)

		b.MustCancel(t, tokens[1], cancelled)
		unpaid := a.BuyReturned(t, rig.Purchase(sale, tokens[2]))

		deadline := time.Now().Add(time.Second)
		s.Expire(t, unpaid, deadline)
		seen := a.WaitFor(t, tokens[2], unpaid, "cancelled")
		require.False(t, seen.Before(deadline), "it was closed %s before its deadline", deadline.Sub(seen))
		rig.RequireProblem(t, http.StatusConflict, "invalid_state", b.Do(t, rig.Pay(unpaid, tokens[2])))
		b.BuyReturned(t, rig.Purchase(sale, tokens[3]))
		s.Verify(t)
	})
}

const httpSecret = "3f7a0c91d25be8846a1b9c07e5d2f4386b90ae17"

// startProvider builds and starts the example of a payment provider, which sends its notices to shop.
func startProvider(t *testing.T, shop string) (url string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "payment-provider")
	out, err := exec.Command("go", "build", "-o", binary, "../../docs/examples/payment-provider").CombinedOutput()
	require.NoError(t, err, string(out))
	addr := rig.FreeAddr(t)
	cmd := exec.Command(binary, "-addr", addr, "-shop", shop)
	cmd.Env = append(os.Environ(), "SECKILL_PAYMENT_SECRET="+httpSecret)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	rig.Eventually(t, "the provider listens", func() bool {
		_, err := rig.Send(t.Context(), "http://"+addr, rig.Request{Method: http.MethodGet, Path: "/checkout/none"})
		return err == nil
	})
	return "http://" + addr
}

// checkOut pays on a page of the provider, as a browser would, and is sent back to the order.
func checkOut(t *testing.T, page, order string) {
	t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := rig.SendBy(t.Context(), browser, page, rig.Request{Method: http.MethodPost})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, a.Status)
	require.True(t, strings.HasSuffix(a.Header.Get("Location"), "/orders/"+order))
}

// TestPaymentsOverHTTP pays and refunds orders at the example of a payment provider, one of them after its cancellation. The money
// moves once. TestOrderIsNotClosedOverPayment and TestEveryNotice of package handler lose and double notices.
func TestPaymentsOverHTTP(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	addr := rig.FreeAddr(t)
	s = s.With("SECKILL_PAYMENT_URL="+startProvider(t, "http://"+addr), "SECKILL_PAYMENT_SECRET="+httpSecret)
	p := s.Spawn(t, addr)
	tokens := s.Tokens(t, 3)
	sale := p.Sale(t, 3)
	orders, pages := make([]string, len(tokens)), make([]string, len(tokens))
	for i, token := range tokens {
		orders[i] = p.Buy(t, token, sale).ID
		payment := p.Must(t, rig.Pay(orders[i], token))["payment"].(map[string]any)
		require.Equal(t, "http", payment["provider"])
		pages[i] = payment["checkout_url"].(string)
	}
	p.Must(t, rig.Post("/orders/"+orders[2]+"/cancel", tokens[2], nil))
	for i := range orders {
		checkOut(t, pages[i], orders[i])
		checkOut(t, pages[i], orders[i]) // the buyer's second press
	}
	p.WaitFor(t, tokens[0], orders[0], "paid")
	p.WaitFor(t, tokens[1], orders[1], "paid")
	p.Must(t, rig.Post("/orders/"+orders[1]+"/refund", tokens[1], nil))
	p.WaitFor(t, tokens[1], orders[1], "refunded")
	for i, want := range []string{"succeeded", "refunded", "refunded"} { // the third arrived after the cancellation
		rig.Eventually(t, "the payment of order "+orders[i]+" is "+want, func() bool {
			_, statuses := p.Payments(t, tokens[i], orders[i])
			return slices.Equal(statuses, []string{want})
		})
		require.Contains(t, rig.Fetch(t, pages[i]).Text, want, "what the provider has")
	}
	s.Verify(t)
}

// TestLostNoticesAreQueried: the notices of the provider go to another address, and the order is paid nevertheless.
// TestOrderIsNotClosedOverPayment of package handler shows how; this is about the server that has to ask.
func TestLostNoticesAreQueried(t *testing.T) {
	env.Full(t)
	t.Parallel()
	nowhere := "http://" + rig.FreeAddr(t)
	s := rig.RealStack(t).With("SECKILL_PAYMENT_URL="+startProvider(t, nowhere), "SECKILL_PAYMENT_SECRET="+httpSecret)
	p := s.Serve(t)
	token := s.Tokens(t, 1)[0]
	order := p.Buy(t, token, p.Sale(t, 1)).ID

	payment := p.Must(t, rig.Pay(order, token))["payment"].(map[string]any)
	checkOut(t, payment["checkout_url"].(string), order)

	p.WaitFor(t, token, order, "paid")
}
