// Command payment-provider is an example of a service for SECKILL_PAYMENT_URL. It has a page on which the buyer pays, and
// moves no money: call your payment company where a comment says so. It stores payments in memory; use a database.
//
//	SECKILL_PAYMENT_SECRET=... go run ./docs/examples/payment-provider -addr 127.0.0.1:9100 -shop http://127.0.0.1:8080
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// payment is the body of all answers and notices.
type payment struct {
	Ref     string `json:"provider_ref"`
	OrderID string `json:"order_id"`
	// In the smallest unit of the currency.
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// One of pending, succeeded, failed and refunded.
	Status      string `json:"status"`
	CheckoutURL string `json:"checkout_url,omitempty"`
}

var (
	secret   = []byte(os.Getenv("SECKILL_PAYMENT_SECRET"))
	addr     = flag.String("addr", "127.0.0.1:9100", "address to listen on")
	shop     = flag.String("shop", "http://127.0.0.1:8080", "URL of the shop")
	mu       sync.Mutex
	payments = map[string]*payment{}
)

func main() {
	flag.Parse()
	if len(secret) == 0 {
		log.Fatal("SECKILL_PAYMENT_SECRET is not set: without it anyone could forge calls")
	}

	http.HandleFunc("POST /payments", call(func(in payment) *payment {
		// A repeated call is the same payment.
		if payments[in.Ref] == nil {
			in.Status = "pending"
			in.CheckoutURL = "http://" + *addr + "/checkout/" + in.Ref
			payments[in.Ref] = &in
		}
		return payments[in.Ref]
	}))

	http.HandleFunc("POST /payments/query", call(func(in payment) *payment { return payments[in.Ref] }))

	http.HandleFunc("POST /payments/refund", call(func(in payment) *payment {
		p := payments[in.Ref]
		// Return the money here, under a reference that makes a repetition harmless.
		if p != nil && p.Status == "succeeded" {
			p.Status = "refunded"
		}
		return p
	}))

	http.HandleFunc("GET /checkout/{ref}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if p := payments[r.PathValue("ref")]; p != nil {
			fmt.Fprintf(w, `<!doctype html><form method="post">Order %s: %d %s in the smallest unit, %s. <button>Pay</button></form>`,
				html.EscapeString(p.OrderID), p.Amount, html.EscapeString(p.Currency), p.Status)
		}
	})

	http.HandleFunc("POST /checkout/{ref}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()

		p := payments[r.PathValue("ref")]
		// Take the money here.
		if p != nil && p.Status == "pending" {
			p.Status = "succeeded"
			go notify(context.WithoutCancel(r.Context()), *p)
		}

		if p != nil {
			http.Redirect(w, r, *shop+"/orders/"+p.OrderID, http.StatusSeeOther)
		}
	})

	server := http.Server{Addr: *addr, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// call verifies a signed call and answers with the payment that do returns, or 404.
func call(do func(in payment) *payment) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
		stamp, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("X-Seckill-Signature"), "t="), ",")
		at, _ := strconv.ParseInt(stamp, 10, 64)
		fresh := time.Since(time.Unix(at, 0)).Abs() < 5*time.Minute
		if err != nil || !fresh || !hmac.Equal([]byte(r.Header.Get("X-Seckill-Signature")), []byte(sign(stamp, body))) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		var in payment
		if json.Unmarshal(body, &in) != nil || in.Ref == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}

		mu.Lock()
		defer mu.Unlock()

		p := do(in)
		w.Header().Set("Content-Type", "application/json")

		if p == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}

		_ = json.NewEncoder(w).Encode(p)
	}
}

func sign(stamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(stamp + "." + string(body)))
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// notify reports a result to the shop until it answers with 2xx. Each call is signed anew. If all are lost, the shop
// queries the payment.
func notify(ctx context.Context, p payment) {
	body, _ := json.Marshal(p)
	for pause := time.Second; pause < time.Hour; pause *= 2 {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, *shop+"/api/v1/payments/webhook/http", bytes.NewReader(body))
		req.Header.Set("X-Seckill-Signature", sign(strconv.FormatInt(time.Now().Unix(), 10), body))
		res, err := http.DefaultClient.Do(req)
		if err == nil && res.Body.Close() == nil && res.StatusCode/100 == 2 {
			return
		}

		time.Sleep(pause)
	}

	log.Printf("the shop does not take the notice of payment %s", p.Ref)
}
