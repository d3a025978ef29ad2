package payment

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
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
	c.notice, err = NewSandbox(SandboxConfig{Secrets: secrets, Now: time.Now}).Notice(c.signature, text)
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
		s := NewSandbox(SandboxConfig{Secrets: secrets, Now: time.Now, Log: slog.New(slog.NewTextHandler(&entries, nil)), Faults: f, UserAgent: "seckill/1.2.3"})
		s.client.Transport = sh
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx, "http://shop.example/hook"); close(done) }()
		synctest.Wait()
		test(t, s, sh, log)
		stop()
		<-done
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

// Each fault must produce calls at exactly these times.
func TestSandboxFaults(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		faults Faults
		want   []time.Duration
	}{
		"delay":  {Faults{Delay: time.Minute}, []time.Duration{time.Minute}},
		"repeat": {Faults{Repeat: 2}, []time.Duration{300 * ms, 500 * ms, 900 * ms}},
		"lose":   {Faults{Lose: 2}, []time.Duration{900 * ms}},
		"fail":   {Faults{Fail: true}, []time.Duration{300 * ms}},
		// Bounded, and reaching the bound is not logged as a failure.
		"repeat without end": {Faults{Repeat: 1000}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inSandbox(t, tc.faults, nil, func(t *testing.T, s *Sandbox, shop *shop, log func() string) {
				require.NoError(t, s.Create(t.Context(), &aPayment))
				time.Sleep(time.Hour)
				if tc.want == nil {
					require.Len(t, shop.received(), maxPosts)
				} else {
					require.Equal(t, tc.want, shop.times())
				}
				for _, c := range shop.received() {
					require.Equal(t, shop.received()[0].body, c.body, "a repeated notice has the same body")
					require.Equal(t, tc.faults.Fail, c.notice.Result == domain.PaymentFailed)
				}
				require.Empty(t, log())
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

// A notice is repeated until it is answered with 2xx, with a new signature each time and with growing pauses.
func TestSandboxRetriesNotice(t *testing.T) {
	bad := func(n int, _ *http.Request) (int, error) {
		switch n {
		case 0:
			return http.StatusInternalServerError, nil
		case 1:
			return 0, errors.New("connection refused")
		case 2:
			return http.StatusUnauthorized, nil
		case 3:
			return http.StatusNotModified, nil
		}
		return http.StatusNoContent, nil
	}
	inSandbox(t, Faults{}, bad, func(t *testing.T, s *Sandbox, shop *shop, log func() string) {
		require.NoError(t, s.Create(t.Context(), &aPayment))
		time.Sleep(time.Hour)
		const ms = time.Millisecond
		require.Equal(t, []time.Duration{300 * ms, 500 * ms, 900 * ms, 1700 * ms, 3300 * ms}, shop.times())
		require.Equal(t, shop.received()[0].body, shop.received()[4].body)
		require.NotEqual(t, shop.received()[0].signature, shop.received()[4].signature, "an old signature would be rejected")
		require.Empty(t, log())
	})
}

// After about ten minutes the sandbox stops retrying and logs it. The payment can be created again.
func TestSandboxGivesUp(t *testing.T) {
	never := func(int, *http.Request) (int, error) { return http.StatusServiceUnavailable, nil }
	inSandbox(t, Faults{}, never, func(t *testing.T, s *Sandbox, shop *shop, log func() string) {
		require.NoError(t, s.Create(t.Context(), &aPayment))
		time.Sleep(time.Hour)
		require.Len(t, shop.received(), maxPosts)
		require.Greater(t, shop.received()[maxPosts-1].after, 9*time.Minute)
		require.Less(t, shop.received()[maxPosts-1].after, 11*time.Minute)
		require.Contains(t, log(), "pay_A")
		require.NoError(t, s.Create(t.Context(), &aPayment))
		time.Sleep(time.Second)
		require.Greater(t, len(shop.received()), maxPosts)
	})
}

// The sandbox stops during a delay, a pause or a call, and while calls wait for the semaphore.
func TestSandboxStops(t *testing.T) {
	hangs := func(_ int, r *http.Request) (int, error) {
		<-r.Context().Done()
		time.Sleep(time.Second) // the call ends some time after its context
		return 0, r.Context().Err()
	}
	refuses := func(int, *http.Request) (int, error) { return http.StatusBadGateway, nil }
	for name, tc := range map[string]struct {
		answer func(int, *http.Request) (int, error)
		after  time.Duration
	}{
		"delay": {nil, sandboxDelay / 2}, "pause": {refuses, 5 * time.Minute}, "call": {hangs, sandboxDelay + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var calls int
			inSandbox(t, Faults{}, tc.answer, func(t *testing.T, s *Sandbox, shop *shop, log func() string) {
				for i := range 2 * maxConcurrentPosts {
					p := aPayment
					p.Ref += strconv.Itoa(i)
					require.NoError(t, s.Create(t.Context(), &p))
				}
				time.Sleep(tc.after)
				synctest.Wait()
				calls = len(shop.received())
				require.Empty(t, log())
			})
			if name == "call" {
				require.Equal(t, maxConcurrentPosts, calls)
			}
		})
	}
}
