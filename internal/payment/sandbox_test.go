package payment

import (
	"bytes"
	"context"
	"errors"
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

	"seckill/internal/service"
)

// shop is the other end of the sandbox's webhook, without a network between them.
type shop struct {
	mu     sync.Mutex
	start  time.Time
	calls  []call
	busy   atomic.Int64                              // calls that have not returned
	answer func(n int, r *http.Request) (int, error) // to the n-th call; nil: 200
}

// call is one that came to the shop.
type call struct {
	after     time.Duration // since the beginning
	notice    service.PaymentNotice
	signature string
	body      string
}

// RoundTrip implements http.RoundTripper.
func (s *shop) RoundTrip(r *http.Request) (*http.Response, error) {
	s.busy.Add(1)
	defer s.busy.Add(-1)
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	n := len(s.calls)
	c := call{after: time.Since(s.start), signature: r.Header.Get("X-Seckill-Signature"), body: string(text)}
	c.notice, err = NewSandbox(SandboxConfig{Secret: secret, Now: time.Now}).Notice(c.signature, text)
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

// heard are the calls so far.
func (s *shop) heard() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// book keeps what is logged.
type book struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// times are when the calls came.
func (s *shop) times() (all []time.Duration) {
	for _, c := range s.heard() {
		all = append(all, c.after)
	}
	return all
}

var aPayment = service.Payment{Ref: "pay_A", OrderID: 3368803458027454465, Amount: 8000, Currency: "CNY"}

// inSandbox runs a test beside a sandbox, on a clock that moves only when all wait. When it returns, the sandbox is
// told to stop; the bubble fails if it leaves a goroutine.
func inSandbox(t *testing.T, f Faults, answer func(n int, r *http.Request) (int, error), test func(t *testing.T, s *Sandbox, shop *shop, log *book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log book
		sh := &shop{start: time.Now(), answer: answer}
		s := NewSandbox(SandboxConfig{Secret: secret, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)), Faults: f})
		s.client.Transport = sh
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx, "http://shop.example/hook"); close(done) }()
		synctest.Wait()
		test(t, s, sh, &log)
		stop()
		<-done
		require.Zero(t, sh.busy.Load(), "it waits for what it has begun")
		require.ErrorIs(t, s.Create(context.Background(), aPayment), errNotRunning)
	})
}

func TestSandboxTells(t *testing.T) {
	inSandbox(t, Faults{}, nil, func(t *testing.T, s *Sandbox, shop *shop, log *book) {
		for range 3 {
			require.NoError(t, s.Create(t.Context(), aPayment), "the same reference is the same payment")
		}
		time.Sleep(time.Hour)
		require.Equal(t, []time.Duration{sandboxDelay}, shop.times())
		require.Equal(t, service.PaymentNotice{
			Ref: "pay_A", OrderID: aPayment.OrderID, Amount: 8000, Currency: "CNY", Succeeded: true,
		}, shop.heard()[0].notice)
		require.NoError(t, s.Create(t.Context(), aPayment))
		time.Sleep(time.Hour)
		require.Len(t, shop.heard(), 2, "who asks again is told again")
		require.Empty(t, log.String())
		require.NoError(t, s.Refund(t.Context(), aPayment))
	})
}

// TestSandboxFaults is what it can be told to do wrong, to the millisecond.
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
	} {
		t.Run(name, func(t *testing.T) {
			inSandbox(t, tc.faults, nil, func(t *testing.T, s *Sandbox, shop *shop, log *book) {
				require.NoError(t, s.Create(t.Context(), aPayment))
				time.Sleep(time.Hour)
				require.Equal(t, tc.want, shop.times())
				for _, c := range shop.heard() {
					require.Equal(t, shop.heard()[0].body, c.body, "word for word")
					require.Equal(t, tc.faults.Fail, !c.notice.Succeeded)
				}
				require.Empty(t, log.String())
			})
		})
	}
}

func TestSandboxRefusesRefunds(t *testing.T) {
	inSandbox(t, Faults{RefuseRefunds: 2}, nil, func(t *testing.T, s *Sandbox, _ *shop, _ *book) {
		other := aPayment
		other.Ref = "pay_B"
		for range 2 {
			require.Error(t, s.Refund(t.Context(), aPayment))
			require.Error(t, s.Refund(t.Context(), other), "each payment by itself")
		}
		for range 2 {
			require.NoError(t, s.Refund(t.Context(), aPayment), "the same refund, as often as it is asked for")
		}
		require.NoError(t, s.Refund(t.Context(), other))
	})
}

// TestSandboxTellsAgain until it is answered with 2xx, signed anew each time, with longer and longer pauses.
func TestSandboxTellsAgain(t *testing.T) {
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
	inSandbox(t, Faults{}, bad, func(t *testing.T, s *Sandbox, shop *shop, log *book) {
		require.NoError(t, s.Create(t.Context(), aPayment))
		time.Sleep(time.Hour)
		const ms = time.Millisecond
		require.Equal(t, []time.Duration{300 * ms, 500 * ms, 900 * ms, 1700 * ms, 3300 * ms}, shop.times())
		require.Equal(t, shop.heard()[0].body, shop.heard()[4].body)
		require.NotEqual(t, shop.heard()[0].signature, shop.heard()[4].signature, "an old one would be refused")
		require.Empty(t, log.String())
	})
}

// TestSandboxGivesUp after some ten minutes, and says so; the payment can be begun again.
func TestSandboxGivesUp(t *testing.T) {
	never := func(int, *http.Request) (int, error) { return http.StatusServiceUnavailable, nil }
	inSandbox(t, Faults{}, never, func(t *testing.T, s *Sandbox, shop *shop, log *book) {
		require.NoError(t, s.Create(t.Context(), aPayment))
		time.Sleep(time.Hour)
		require.Len(t, shop.heard(), maxPosts)
		require.Greater(t, shop.heard()[maxPosts-1].after, 9*time.Minute)
		require.Less(t, shop.heard()[maxPosts-1].after, 11*time.Minute)
		require.Contains(t, log.String(), "pay_A")
		require.NoError(t, s.Create(t.Context(), aPayment))
		time.Sleep(time.Second)
		require.Greater(t, len(shop.heard()), maxPosts)
	})
}

// TestSandboxRepeatsWithoutEnd: one that tells as often as it may did not fail to tell.
func TestSandboxRepeatsWithoutEnd(t *testing.T) {
	inSandbox(t, Faults{Repeat: 1000}, nil, func(t *testing.T, s *Sandbox, shop *shop, log *book) {
		require.NoError(t, s.Create(t.Context(), aPayment))
		time.Sleep(time.Hour)
		require.Len(t, shop.heard(), maxPosts)
		require.Empty(t, log.String())
	})
}

// TestSandboxStops in mid-delay, in mid-pause, in mid-call and while calls wait for their turn.
func TestSandboxStops(t *testing.T) {
	hangs := func(_ int, r *http.Request) (int, error) {
		<-r.Context().Done()
		time.Sleep(time.Second) // it takes a while to give up
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
			inSandbox(t, Faults{}, tc.answer, func(t *testing.T, s *Sandbox, shop *shop, log *book) {
				for i := range 2 * maxPosting {
					p := aPayment
					p.Ref += strconv.Itoa(i)
					require.NoError(t, s.Create(t.Context(), p))
				}
				time.Sleep(tc.after)
				synctest.Wait()
				calls = len(shop.heard())
				require.Empty(t, log.String())
			})
			if name == "call" {
				require.Equal(t, maxPosting, calls, "so many at once")
			}
		})
	}
}

func TestSandboxBeforeItRuns(t *testing.T) {
	s := NewSandbox(SandboxConfig{Secret: secret, Now: time.Now})
	require.ErrorIs(t, s.Create(t.Context(), aPayment), errNotRunning)
}

// TestSandboxOverHTTP: what the tests above leave out is a real server.
func TestSandboxOverHTTP(t *testing.T) {
	s := NewSandbox(SandboxConfig{Secret: secret, Now: time.Now, Log: slog.New(slog.DiscardHandler), Faults: Faults{Delay: 1}})
	heard := make(chan service.PaymentNotice, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil && r.Header.Get("Content-Type") == "application/json" && r.Method == http.MethodPost && r.URL.Path == "/hook" {
			var n service.PaymentNotice
			if n, err = s.Notice(r.Header.Get("X-Seckill-Signature"), text); err == nil {
				heard <- n
				return
			}
		}
		http.Error(w, "no", http.StatusBadRequest)
	}))
	defer srv.Close()
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { s.Run(ctx, srv.URL+"/hook") })
	require.Eventually(t, func() bool { return s.Create(ctx, aPayment) == nil }, time.Minute, time.Millisecond)
	require.Equal(t, aPayment.Ref, (<-heard).Ref)
	stop()
	run.Wait()
	_, err := s.Notice("t=1,v1=00", body)
	require.ErrorIs(t, err, service.ErrUnauthenticated)
}
