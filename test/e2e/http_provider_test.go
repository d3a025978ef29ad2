package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/testenv"
)

const httpSecret = "3f7a0c91d25be8846a1b9c07e5d2f4386b90ae17"

// noticeLine is the network between a payment provider and the webhook. It loses some notices and doubles the others.
type noticeLine struct {
	mu    sync.Mutex
	lose  int
	seen  int // notices of the provider
	shop  string
	taken []int // the statuses of the shop's answers
}

func (l *noticeLine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	l.seen++
	lost, shop := l.seen <= l.lose, l.shop
	l.mu.Unlock()
	if lost {
		return // answered, but never passed on
	}
	for copies := 0; copies < 2; {
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, shop+r.URL.Path, bytes.NewReader(body))
		req.Header = r.Header.Clone()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable { // the provider would send it again
			time.Sleep(20 * time.Millisecond)
			continue
		}
		copies++
		l.mu.Lock()
		l.taken = append(l.taken, res.StatusCode)
		l.mu.Unlock()
	}
}

// startProvider builds and starts the example of a payment provider. Its notices go through the line.
func startProvider(t *testing.T, line *noticeLine) (url string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "payment-provider")
	out, err := exec.Command("go", "build", "-o", binary, "../../docs/examples/payment-provider").CombinedOutput()
	require.NoError(t, err, string(out))
	shop := httptest.NewServer(line)
	t.Cleanup(shop.Close)
	addr := rig.FreeAddr(t)
	cmd := exec.Command(binary, "-addr", addr, "-shop", shop.URL)
	cmd.Env = append(os.Environ(), "SECKILL_PAYMENT_SECRET="+httpSecret)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	rig.Eventually(t, "the provider listens", func() bool {
		res, err := http.Get("http://" + addr + "/checkout/none")
		return err == nil && res.Body.Close() == nil
	})
	return "http://" + addr
}

// TestPaymentsOverHTTP pays and refunds orders at the example of a payment provider, whose notices are lost, doubled or
// late. Its money moves once.
func TestPaymentsOverHTTP(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	s := rig.RealStack(t)
	line := &noticeLine{lose: 1}
	s = s.With("SECKILL_PAYMENT_URL="+startProvider(t, line), "SECKILL_PAYMENT_SECRET="+httpSecret)
	p := s.Serve(t)
	line.shop = p.URL
	tokens := s.Tokens(t, 3)
	sale := p.Sale(t, 3)
	orders, pages := make([]string, len(tokens)), make([]string, len(tokens))
	for i, token := range tokens {
		orders[i] = p.Buy(t, token, sale).ID
		payment := p.Must(t, rig.Pay(orders[i], token))["payment"].(map[string]any)
		require.Equal(t, "http", payment["provider"])
		pages[i] = payment["checkout_url"].(string)
	}
	checkOut := func(i int) {
		res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Post(pages[i], "", nil)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.True(t, strings.HasSuffix(res.Header.Get("Location"), "/orders/"+orders[i]))
	}
	p.Must(t, rig.Post("/orders/"+orders[2]+"/cancel", tokens[2], nil))
	for i := range orders {
		checkOut(i)
		checkOut(i) // the buyer's second press
		rig.Eventually(t, "a notice is sent", func() bool { line.mu.Lock(); defer line.mu.Unlock(); return line.seen > i })
	}
	p.WaitFor(t, tokens[0], orders[0], "paid") // its notice was lost
	p.WaitFor(t, tokens[1], orders[1], "paid")
	p.Must(t, rig.Post("/orders/"+orders[1]+"/refund", tokens[1], nil))
	p.WaitFor(t, tokens[1], orders[1], "refunded")
	for i, want := range []string{"succeeded", "refunded", "refunded"} { // the third arrived after the cancellation
		rig.Eventually(t, "the payment of order "+orders[i]+" is "+want, func() bool {
			_, statuses := p.Payments(t, tokens[i], orders[i])
			return slices.Equal(statuses, []string{want})
		})
		res, err := http.Get(pages[i])
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Contains(t, string(text), want, "what the provider has")
	}
	rig.Eventually(t, "doubled notices are taken", func() bool {
		line.mu.Lock()
		defer line.mu.Unlock()
		return slices.Equal([]int{200, 200, 200, 200}, line.taken)
	})
	s.Verify(t)
}
