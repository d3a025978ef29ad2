package payment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/out/webhook"
	"seckill/test/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop receives the calls of the webhook, without a network.
type shop struct {
	mu     sync.Mutex
	start  time.Time
	calls  []call
	busy   atomic.Int64                              // calls in progress
	answer func(n int, r *http.Request) (int, error) // answer to the n-th call; nil means 200
}

type call struct {
	after     time.Duration // time since the start of the test
	notice    domain.PaymentNotice
	signature string
	userAgent string
	body      string
}

func (s *shop) RoundTrip(r *http.Request) (*http.Response, error) {
	s.busy.Add(1)
	defer s.busy.Add(-1)
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	n := len(s.calls)
	c := call{after: time.Since(s.start), signature: r.Header.Get("X-Seckill-Signature"), userAgent: r.UserAgent(), body: string(text)}
	c.notice, err = NewSandbox(SandboxConfig{API: webhook.Client{Secrets: secrets, Now: time.Now}}).Notice(c.signature, text)
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if s.answer != nil {
		if status, err = s.answer(n, r); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

func (s *shop) received() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *shop) times() (all []time.Duration) {
	for _, c := range s.received() {
		all = append(all, c.after)
	}
	return all
}

var aPayment = domain.Payment{Ref: "pay_A", OrderID: 3368803458027454465, Amount: 8000, Currency: "CNY"}

// inSandbox runs a test with a sandbox in a synctest bubble. When the test returns, it stops the sandbox; the bubble
// fails if a goroutine is left.
func inSandbox(t *testing.T, f Faults, answer func(n int, r *http.Request) (int, error), test func(t *testing.T, s *Sandbox, shop *shop, log func() string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var entries bytes.Buffer
		log := func() string {
			synctest.Wait()
			return entries.String()
		}
		sh := &shop{start: time.Now(), answer: answer}
		api := webhook.Client{Secrets: secrets, Now: time.Now, UserAgent: "seckill/1.2.3", HTTP: webhook.NewHTTPClient(webhook.DeliveryTimeout)}
		api.HTTP.Transport = sh
		s := NewSandbox(SandboxConfig{API: api, Log: slog.New(slog.NewTextHandler(&entries, nil)), Faults: f})
		stop := env.InBackground(t, func(ctx context.Context) { s.Run(ctx, "http://shop.example/hook") })
		synctest.Wait()
		test(t, s, sh, log)
		stop()
		require.Zero(t, sh.busy.Load(), "Run waits for the calls in progress")
		require.ErrorIs(t, s.Create(context.Background(), &aPayment), errNotRunning)
	})
}

func TestSandboxDeliversNotice(t *testing.T) {
	inSandbox(t, Faults{}, nil, func(t *testing.T, s *Sandbox, shop *shop, log func() string) {
		for range 3 {
			require.NoError(t, s.Create(t.Context(), &aPayment), "the same reference is the same payment")
		}
		time.Sleep(time.Hour)
		require.Equal(t, []time.Duration{sandboxDelay}, shop.times())
		require.Equal(t, domain.PaymentNotice{
			Ref: "pay_A", OrderID: aPayment.OrderID, Amount: 8000, Currency: "CNY", Result: domain.PaymentSucceeded,
			Body: shop.received()[0].notice.Body,
		}, shop.received()[0].notice)
		require.Equal(t, "seckill/1.2.3", shop.received()[0].userAgent)
		require.NoError(t, s.Create(t.Context(), &aPayment))
		time.Sleep(time.Hour)
		require.Len(t, shop.received(), 2, "a second Create is delivered again")
		require.Empty(t, log())
		require.NoError(t, s.Refund(t.Context(), aPayment))
	})
}

// posts is the number of calls that fit in noticeTime.
const posts = 18

// Notices with the faults of the sandbox, and repeated until they are answered with 2xx: with the same body, a new signature each
// time and growing pauses, for about ten minutes. Then that is logged, and the payment can be created again.
func TestSandboxFaults(t *testing.T) {
	const ms = time.Millisecond
	bad := func(n int, _ *http.Request) (int, error) {
		if n == 0 {
			return 0, errors.New("connection refused")
		}
		statuses := []int{http.StatusInternalServerError, http.StatusUnauthorized, http.StatusNotModified, http.StatusNoContent}
		return statuses[min(n, len(statuses))-1], nil
	}
	never := func(int, *http.Request) (int, error) { return http.StatusServiceUnavailable, nil }
	for name, tc := range map[string]struct {
		faults Faults
		answer func(int, *http.Request) (int, error)
		want   []time.Duration // nil: as many as fit
		log    string
	}{
		"delay":         {Faults{Delay: time.Minute}, nil, []time.Duration{time.Minute}, ""},
		"repeat":        {Faults{Repeat: 2}, nil, []time.Duration{300 * ms, 500 * ms, 900 * ms}, ""},
		"lose":          {Faults{Lose: 2}, nil, []time.Duration{900 * ms}, ""},
		"fail":          {Faults{Fail: true}, nil, []time.Duration{300 * ms}, ""},
		"bad answers":   {Faults{}, bad, []time.Duration{300 * ms, 500 * ms, 900 * ms, 1700 * ms, 3300 * ms}, ""},
		"never answers": {Faults{}, never, nil, "pay_A"},
		// Reaching the bound is no failure.
		"repeat without end": {Faults{Repeat: 1000}, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inSandbox(t, tc.faults, tc.answer, func(t *testing.T, s *Sandbox, shop *shop, log func() string) {
				require.NoError(t, s.Create(t.Context(), &aPayment))
				time.Sleep(time.Hour)
				calls := shop.received()
				if tc.want == nil {
					require.Len(t, calls, posts)
					require.InDelta(t, 10*time.Minute, calls[posts-1].after, float64(time.Minute))
				} else {
					require.Equal(t, tc.want, shop.times())
				}
				for _, c := range calls {
					require.Equal(t, calls[0].body, c.body, "a repeated notice has the same body")
					require.Contains(t, c.signature, fmt.Sprintf("t=%d,", shop.start.Add(c.after).Unix()), "an old signature would be rejected")
					require.Equal(t, tc.faults.Fail, c.notice.Result == domain.PaymentFailed)
				}
				require.Contains(t, log(), tc.log)
				require.Equal(t, tc.log == "", log() == "", log())

				require.NoError(t, s.Create(t.Context(), &aPayment))
				time.Sleep(time.Minute + time.Second) // then some wait for the next try
				require.Greater(t, len(shop.received()), len(calls))
			})
		})
	}
}

func TestSandboxRefusesRefunds(t *testing.T) {
	inSandbox(t, Faults{RefuseRefunds: 2}, nil, func(t *testing.T, s *Sandbox, _ *shop, _ func() string) {
		other := aPayment
		other.Ref = "pay_B"
		for range 2 {
			require.Error(t, s.Refund(t.Context(), aPayment))
			require.Error(t, s.Refund(t.Context(), other), "each payment is counted separately")
		}
		for range 2 {
			require.NoError(t, s.Refund(t.Context(), aPayment), "a repeated refund is accepted again")
		}
		require.NoError(t, s.Refund(t.Context(), other))
	})
}

// The sandbox stops during calls, while others wait for the semaphore, and during the delay of a payment. In TestSandboxFaults it
// stops during a pause.
func TestSandboxStops(t *testing.T) {
	hangs := func(_ int, r *http.Request) (int, error) {
		<-r.Context().Done()
		time.Sleep(time.Second) // the call ends some time after its context
		return 0, r.Context().Err()
	}
	inSandbox(t, Faults{}, hangs, func(t *testing.T, s *Sandbox, shop *shop, log func() string) {
		for i := range 2 * maxConcurrentPosts {
			p := aPayment
			p.Ref += strconv.Itoa(i)
			require.NoError(t, s.Create(t.Context(), &p))
		}
		time.Sleep(sandboxDelay + time.Second)
		require.NoError(t, s.Create(t.Context(), &aPayment))
		require.Empty(t, log())
		require.Len(t, shop.received(), maxConcurrentPosts)
	})
}

func TestParseNotice(t *testing.T) {
	const id = 3368803458027454465 // above 2^53
	good := domain.PaymentNotice{Ref: "pay_1", OrderID: id, Amount: 8000, Result: domain.PaymentSucceeded}
	with := func(field, value string) string {
		fields := map[string]string{
			"provider_ref": `"pay_1"`, "order_id": `"3368803458027454465"`, "amount": "8000", "status": `"succeeded"`,
		}
		fields[field] = value
		var parts []string
		for k, v := range fields {
			if v != "" {
				parts = append(parts, strconv.Quote(k)+":"+v)
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	minus := func(text string) string { return strings.Replace(text, "8000", "-8000", 1) }
	failed := good
	failed.Result = domain.PaymentFailed
	refunded := good
	refunded.Result = domain.PaymentRefunded
	disputed := good
	disputed.Result = domain.PaymentDisputed
	inYen := good
	inYen.Currency = "JPY"
	for text, want := range map[string]domain.PaymentNotice{
		with("order_id", "3368803458027454465"): good, // from a provider with 64-bit numbers
		with("status", `"failed"`):              failed,
		with("status", `"refunded"`):            refunded,
		with("status", `"Disputed"`):            disputed,
		with("currency", `"JPY"`):               inYen,
		// As banks write them: 202-ecommerce/stripe_official#2, nevermined-io/payments-py#270.
		with("currency", `"jpy"`):                               inYen,
		with("currency", `" Jpy "`):                             inYen,
		with("amount", `"8000"`):                                good,
		with("amount", `8000.0`):                                good,
		with("amount", `"8000.00"`):                             good,
		with("amount", `8.0E3`):                                 good, // as Java writes 1.0E7
		with("amount", `8e+3`):                                  good,
		with("amount", `800000E-2`):                             good,
		with("amount", `8.000000e+003`):                         good, // as printf writes it on older Windows
		with("Amount", `80`):                                    good, // other fields
		with("Currency", `"USD"`):                               good,
		with("STATUS", `"00"`):                                  good,
		with("status", `"SUCCEEDED"`):                           good,
		minus(with("status", `"refunded"`)):                     refunded, // the money goes back
		minus(with("status", `"disputed"`)):                     disputed,
		with("amount", `"+8000"`):                               good,
		with("amount", `" 8000 "`):                              good,
		with("provider_ref", `"pay_1 "`):                        good,
		with("currency", "null"):                                good,
		"\ufeff" + with("x", "1"):                               good,
		"\r\n" + with("x", "1") + "\r\n":                        good,
		with("more", `{"a":[1]}`):                               good,
		with("timestamp", "null"):                               good,
		with("x", "1")[:1] + `"amount":1,` + with("x", "1")[1:]: good, // the last of equal fields counts
		string(body):                                            good,
	} {
		got, err := parse([]byte(text))
		require.NoError(t, err, text)
		want.Body = []byte(text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "null", "[]", "{}", "8", `"x"`, `{"a":`, string(body) + "{}", with("provider_ref", ""), with("provider_ref", `""`),
		with("provider_ref", "7"), with("provider_ref", `"`+strings.Repeat("x", maxRef+1)+`"`), with("provider_ref", `"a b"`),
		with("provider_ref", `"a\nb"`), with("provider_ref", `"\u0000"`), with("provider_ref", `"支付"`), with("provider_ref", "\"\xff\""),
		with("order_id", ""), with("order_id", "0"), with("order_id", "-1"), with("order_id", `"1.0"`), with("order_id", "1e3"),
		with("order_id", "null"), with("order_id", `"9223372036854775808"`), with("order_id", `[1]`),
		with("amount", ""), with("amount", "null"), with("amount", `"8,000"`), with("amount", `""`), with("amount", "8000.5"), with("amount", "8.0005e3"), with("amount", "1e999999999"), with("amount", "8005e-1"), with("amount", "8/1"), with("amount", "true"),
		with("amount", "[8000]"), with("amount", "1e30"),
		with("amount", "9223372036854775808"), with("status", ""), with("status", `"pending"`),
		with("currency", "7"), strings.Repeat(`{"a":`, 20_000),
	} {
		env.Fails(parse([]byte(text)))(t, new(*domain.InvalidError), text)
	}
	for text, want := range map[string]domain.PaymentNotice{ // an operator needs what can be read
		with("status", `"perhaps"`): {Ref: "pay_1", OrderID: id},
		with("amount", `"8,000"`):   {Ref: "pay_1", OrderID: id},
		with("order_id", "0"):       {Ref: "pay_1"},
		with("provider_ref", "7"):   {OrderID: id},
		with("currency", "156"):     {Ref: "pay_1", OrderID: id}, // the number of CNY in ISO 4217
		with("status", "1"):         {Ref: "pay_1", OrderID: id},
	} {
		got, err := parse([]byte(text))
		require.Error(t, err)
		want.Body = []byte(text)
		require.Equal(t, want, got, text)
	}
	env.Must(parse([]byte(with("provider_ref", `"`+strings.Repeat("~", maxRef)+`"`))))(t)
}

func TestUnmarshalFaults(t *testing.T) {
	for text, want := range map[string]Faults{
		"":                                   {},
		"fail":                               {Fail: true},
		"delay=3s":                           {Delay: 3 * time.Second},
		"delay=1m , repeat=2,lose=1":         {Delay: time.Minute, Repeat: 2, Lose: 1},
		"refuse-refunds=2,fail":              {RefuseRefunds: 2, Fail: true},
		"repeat=0,lose=0":                    {},
		"lose=1,lose=3":                      {Lose: 3},
		"delay=0s,repeat=1,refuse-refunds=0": {Repeat: 1},
	} {
		got := Faults{Fail: true} // must be overwritten
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		",", "fail,", "x", "delay", "delay=", "delay=3", "delay=-1s", "repeat", "repeat=-1", "repeat=a", "lose=1.5", "lose=-2",
		"refuse-refunds=-1", "fail=no", "FAIL", "repeat=99999999999999999999",
	} {
		require.Error(t, new(Faults).UnmarshalText([]byte(text)), text)
	}
}

func provide(t *testing.T, status int, answer string) *HTTP {
	t.Helper()
	return &HTTP{API: newClient(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})}
}

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
		"unknown": provide(t, http.StatusNotFound, ""), "a number for a page": provide(t, http.StatusOK, answerWith("pending", `,"checkout_url":7`)),
	} {
		p := aPayment
		require.Error(t, h.Create(t.Context(), &p), what)
	}
}

// A refund is done when the provider says so, and requested again otherwise.
func TestHTTPRefund(t *testing.T) {
	for _, status := range []string{"refunded", "REFUNDED ", "disputed"} {
		require.NoError(t, provide(t, http.StatusOK, answerWith(status, "")).Refund(t.Context(), aPayment), status)
	}
	for _, status := range []string{"refunding", "succeeded", "pending", ""} {
		require.Error(t, provide(t, http.StatusOK, answerWith(status, "")).Refund(t.Context(), aPayment), status)
	}
	// The last of equal fields counts. The whole amount as banks write it, and a part of it or other money (HiEventsDev/Hi.Events#1067).
	for _, whole := range []string{`,"amount":-8000`, `,"amount":"8000.00","currency":"cny"`, `,"currency":null`, `,"amount":null`} {
		require.NoError(t, provide(t, http.StatusOK, answerWith("refunded", whole)).Refund(t.Context(), aPayment), whole)
	}
	for _, other := range []string{`,"amount":4000`, `,"amount":0`, `,"amount":"-40.00"`, `,"amount":8001`, `,"currency":"USD"`, `,"amount":"4,000"`, `,"amount":40.5`} {
		require.Error(t, provide(t, http.StatusOK, answerWith("refunded", other)).Refund(t.Context(), aPayment), other)
	}
	inSmallLetters := aPayment
	inSmallLetters.Currency = "cny" // of an order that another program stored
	require.NoError(t, provide(t, http.StatusOK, answerWith("refunded", "")).Refund(t.Context(), inSmallLetters))
	for answer, whole := range map[string]bool{`,"amount":4000`: false, `,"amount":8000`: true, ``: true, `,"currency":"USD"`: false} {
		err := provide(t, http.StatusOK, `{"provider_ref":"pay_A","status":"refunded"`+answer+`}`).Refund(t.Context(), aPayment)
		require.Equal(t, whole, err == nil, "without the order: %s", answer)
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
		got := env.Must(provide(t, http.StatusOK, answerWith(status, `,"checkout_url":"https://pay.example/A"`)).Query(t.Context(), aPayment))(t)
		if want != nil {
			require.Contains(t, string(got.Body), status)
			want.Body = got.Body
			want.Source = domain.SourceQuery
		}
		require.Equal(t, want, got, status)
	}
	got := env.Must(provide(t, http.StatusOK, "\ufeff"+answerWith("succeeded", "")).Query(t.Context(), aPayment))(t)
	require.Equal(t, domain.PaymentSucceeded, got.Result, "a byte order mark")
	require.Nil(t, env.Must(provide(t, http.StatusNotFound, "").Query(t.Context(), aPayment))(t), "the creation failed")
	got, err := provide(t, http.StatusInternalServerError, answerWith("succeeded", "")).Query(t.Context(), aPayment)
	require.Error(t, err)
	require.Nil(t, got)
	got, err = provide(t, http.StatusOK, "<html>").Query(t.Context(), aPayment)
	require.Error(t, err)
	require.Nil(t, got, "a page of a proxy is no answer of the provider")
	got, err = provide(t, http.StatusOK, `{"status":"pending"}`).Query(t.Context(), aPayment)
	require.Error(t, err)
	require.Nil(t, got, "no money has moved")
	for _, unreadable := range []string{
		`{"provider_ref":"pay_A","status":"succeeded"}`, `{"provider_ref":"pay_A ","status":2}`, `{"provider_ref":"pay_A","status":"paid"}`,
		`{"provider_ref":"pay_A","status":"pending","checkout_url":7}`,
		// Without the reference, or with that of another payment.
		`{"status":"succeeded","amount":8000,"currency":"CNY"}`, `{"payment":{"provider_ref":"pay_A","status":"succeeded"}}`,
		`{"provider_ref":"pay_B","status":"succeeded"}`, `{"provider_ref":7,"status":"succeeded"}`,
	} {
		got, err = provide(t, http.StatusOK, unreadable).Query(t.Context(), aPayment)
		require.Error(t, err)
		require.Equal(t, &domain.PaymentNotice{Ref: "pay_A", Body: []byte(unreadable), Source: domain.SourceQuery}, got, "for an operator")
	}
}

func TestInquiryPause(t *testing.T) {
	require.Greater(t, minInquiryPause, CallTimeout, "the lease must outlast the query")
	for age, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, -time.Minute: 10 * time.Second, time.Minute: time.Minute, time.Hour: 10 * time.Minute, inquiryEnd - 1: 10 * time.Minute, inquiryEnd: 0,
	} {
		require.Equal(t, want, inquiryPause(age), age)
	}
}

func newClient(t *testing.T, receive http.HandlerFunc) webhook.Client {
	t.Helper()
	server := httptest.NewServer(receive)
	t.Cleanup(server.Close)
	c := webhook.Client{URL: server.URL + "/hook?token=hidden", Secrets: domain.NewKeyring(secret), Now: func() time.Time { return at }, UserAgent: "seckill/1.2.3", HTTP: webhook.NewHTTPClient(time.Minute)}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

func TestPostIsSigned(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.UserAgent() != "seckill/1.2.3" ||
			webhook.Verify(secrets, text, r.Header.Get(webhook.SignatureHeader), at) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "taken")
	})
	answer := env.Must(c.Post(t.Context(), body))(t)
	require.Equal(t, webhook.Answer{Status: http.StatusOK, Body: []byte("taken")}, answer)
	require.NoError(t, answer.Err())
	c.Secrets = domain.NewKeyring([]byte("another secret"))
	answer = env.Must(c.Post(t.Context(), body))(t)
	require.ErrorContains(t, answer.Err(), "401")

	c = newClient(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") })
	require.NoError(t, c.Send(t.Context(), body), "the body of an answer does not matter")
	env.Fails(c.Post(t.Context(), body))(t, io.ErrUnexpectedEOF)
}

// A redirect is an answer like any other, and a long answer is cut off.
func TestPostFollowsNoRedirect(t *testing.T) {
	calls := 0
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, strings.Repeat("x", 2*maxAnswer))
	})
	answer := env.Must(c.Post(t.Context(), body))(t)
	require.ErrorContains(t, answer.Err(), "307")
	require.Len(t, answer.Body, maxAnswer)
	require.Equal(t, 1, calls)
}

// The context of the caller ends a call, and so does the timeout of the client. The errors do not contain the URL.
func TestSlowReceiverIsAbandoned(t *testing.T) {
	called := make(chan struct{}, 2)
	c := newClient(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // afterwards the server notices that the client is gone
		called <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-called; cancel() }()
	fails := func(ctx context.Context, want any) {
		_, err := c.Post(ctx, body)
		env.Fails(0, err)(t, want)
		require.NotContains(t, err.Error(), "hidden")
	}
	fails(ctx, context.Canceled)
	c.HTTP.Timeout = time.Millisecond
	fails(t.Context(), context.DeadlineExceeded)
	c.URL = "http://receiver.example:port/?token=hidden"
	fails(t.Context(), "invalid port")
}

// What docs/integration.md promises.
const (
	maxAge    = 5 * time.Minute
	maxAnswer = 64 << 10
)

var (
	secret  = []byte("a secret of provider and shop")
	secrets = domain.NewKeyring(secret)
	at      = time.Unix(1794398400, 0)
	body    = []byte(`{"provider_ref":"pay_1","order_id":"3368803458027454465","amount":8000,"status":"succeeded","timestamp":"2026-11-11T12:00:00Z"}`)
)

// byOpenSSL is the result of another implementation:
//
//	printf '%s.%s' 1794398400 "$body" | openssl dgst -sha256 -hmac 'a secret of provider and shop'
const byOpenSSL = "8365c5c01f1adca899d70b4291c6a8f84ee38a746f6e25ba5a459bf1c3bd52a7"

func TestSignature(t *testing.T) {
	good := "t=1794398400,v1=" + byOpenSSL
	require.Equal(t, good, webhook.Sign(secret, body, at))
	wrong := "v1=" + strings.Repeat("0", 64)
	for _, signature := range []string{
		good, "v1=" + byOpenSSL + ",t=1794398400", // any order
		" t=1794398400 , v1=" + byOpenSSL, "t = 1794398400, v1 = " + byOpenSSL, strings.Replace(good, byOpenSSL, strings.ToUpper(byOpenSSL), 1),
		"t=1794398400," + wrong + ",v1=" + byOpenSSL, good + "," + wrong, // while the secret is changed
		good + ",v0=old,x", // unknown parts are ignored
	} {
		require.NoError(t, webhook.Verify(secrets, body, signature, at), signature)
	}
	for _, signature := range []string{
		"", ",", "t=,v1=", "t=1794398400", "v1=" + byOpenSSL, "t=1794398400," + wrong, "t=1794398400,v1=", "t=1794398400,v1=zz",
		"t=1794398400,v0=" + byOpenSSL, "t=1794398401,v1=" + byOpenSSL, "t=+1794398400,v1=" + byOpenSSL,
		"t=1794398400,v1=" + byOpenSSL[:62], "t=1794398400,v1=" + byOpenSSL + "00", "T=1794398400,V1=" + byOpenSSL,
		"t=99999999999999999999,v1=" + byOpenSSL, "t=9223372036854775807,v1=" + byOpenSSL, "t=-9223372036854775808,v1=" + byOpenSSL,
		"t=1794398400;v1=" + byOpenSSL, good + ",t=1794398401",
	} {
		require.ErrorIs(t, webhook.Verify(secrets, body, signature, at), domain.ErrUnauthenticated, signature)
	}
	require.ErrorIs(t, webhook.Verify(domain.NewKeyring([]byte("another secret")), body, good, at), domain.ErrUnauthenticated)
	require.ErrorIs(t, webhook.Verify(secrets, append(body, ' '), good, at), domain.ErrUnauthenticated)
	require.NoError(t, webhook.Verify(domain.NewKeyring([]byte("a newer secret"), secret), body, good, at), "signed before the change of the secret")
}

// A captured notice must not be accepted after maxAge.
func TestSignatureAge(t *testing.T) {
	good := webhook.Sign(secret, body, at)
	for off, ok := range map[time.Duration]bool{
		0: true, maxAge: true, -maxAge: true, maxAge + 1: false, -maxAge - 1: false, 24 * time.Hour: false, -100 * 365 * 24 * time.Hour: false,
	} {
		err := webhook.Verify(secrets, body, good, at.Add(off))
		if ok {
			require.NoError(t, err, off)
		} else {
			require.ErrorIs(t, err, domain.ErrUnauthenticated, off)
		}
	}
}

const maxStored = 1000

// memory is an EventStore with one event, whose lease and retries follow the clock of the bubble.
type memory struct {
	domain.EventStore
	mu    sync.Mutex
	event domain.OrderEvent
	next  time.Time
	done  domain.EventResult
}

func (m *memory) ClaimEvents(_ context.Context, _ int, lease time.Duration) ([]domain.OrderEvent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.event.Status != domain.EventPending || m.next.After(time.Now()) {
		return nil, nil
	}
	if lease <= webhook.DeliveryTimeout {
		panic("another server would deliver the event meanwhile")
	}
	m.next = time.Now().Add(lease)
	m.event.Tries++
	return []domain.OrderEvent{m.event}, nil
}

func (m *memory) FinishEvents(_ context.Context, results []domain.EventResult) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.done = results[0]; {
	case m.done.Delivered:
		m.event.Status = domain.EventDelivered
	case m.done.Retry == 0:
		m.event.Status = domain.EventFailed
	default:
		m.next = time.Now().Add(m.done.Retry)
	}
	return nil
}

// run runs n senders with a receiver for a time, and returns when the receiver was called.
func run(t *testing.T, m *memory, n int, last time.Duration, receive func(ctx context.Context, call int) (webhook.Answer, error)) (calls []time.Duration) {
	t.Helper()
	start := time.Now()
	m.event.CreatedAt, m.event.Status, m.next = start, domain.EventPending, start
	var mu sync.Mutex
	for range n {
		s := &webhook.Outbox{
			Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Encode: func(*domain.OrderEvent) ([]byte, error) { return []byte("{}"), nil },
			Post: func(ctx context.Context, _ []byte) (webhook.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, time.Since(start))
				return receive(ctx, len(calls))
			},
		}
		defer env.InBackground(t, func(ctx context.Context) { loop.Run(ctx, slog.New(slog.DiscardHandler), s.Task()) })()
	}
	time.Sleep(last)
	return calls
}

// An event is delivered by one of several servers, and never again after a 2xx answer.
func TestEventIsDeliveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		calls := run(t, m, 3, time.Hour, func(context.Context, int) (webhook.Answer, error) {
			return webhook.Answer{Status: 204, Body: []byte("ok\x00\xff" + strings.Repeat("ä", 2*maxStored))}, io.ErrUnexpectedEOF // of the body
		})
		require.Equal(t, []time.Duration{time.Second}, calls)
		require.True(t, m.done.Delivered)
		require.Equal(t, 204, m.done.Status)
		require.Equal(t, "ok\uFFFD"+strings.Repeat("ä", maxStored-3), m.done.Answer)
	})
}

// A failing event is retried with growing pauses, for three days.
func TestEventIsRetriedForThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		calls := run(t, m, 1, 5*24*time.Hour, func(_ context.Context, call int) (webhook.Answer, error) {
			if call%2 == 0 {
				return webhook.Answer{}, errors.New("connection refused")
			}
			return webhook.Answer{Status: 302, Body: []byte("elsewhere")}, nil
		})
		require.Equal(t, []time.Duration{time.Second, 6 * time.Second, 16 * time.Second, 36 * time.Second}, calls[:4])
		// Events are searched for each second.
		const longest = 15*time.Minute + time.Second
		for i := 1; i < len(calls); i++ {
			require.LessOrEqual(t, calls[i]-calls[i-1], longest)
		}
		require.GreaterOrEqual(t, calls[len(calls)-1], 3*24*time.Hour)
		require.Less(t, calls[len(calls)-1], 3*24*time.Hour+longest)
		require.Equal(t, domain.EventFailed, m.event.Status)
	})
}

// The end of a server cuts its deliveries off without counting them as failures.
func TestStopLeavesEventPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		calls := run(t, m, 1, 2*time.Second, func(ctx context.Context, _ int) (webhook.Answer, error) {
			<-ctx.Done()
			return webhook.Answer{}, ctx.Err()
		})
		require.Len(t, calls, 1)
		require.Zero(t, m.done)
		require.Equal(t, domain.EventPending, m.event.Status)
	})
}
