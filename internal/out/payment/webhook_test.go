package payment

// The tests of package webhook, by which payments are called: a program of their own costs more than a second of linking.

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/out/webhook"
	"seckill/test/env"
)

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

func (m *memory) PurgeEvents(context.Context, time.Time) (int, error) { return 0, nil }

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
		defer env.InBackground(t, func(ctx context.Context) { loop.Run(ctx, slog.New(slog.DiscardHandler), s.Tasks()...) })()
	}
	time.Sleep(last)
	return calls
}

// An event is delivered by one of several servers, and never again after a 2xx answer.
func TestEventIsDeliveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		calls := run(t, m, 3, time.Hour, func(context.Context, int) (webhook.Answer, error) {
			return webhook.Answer{Status: 204, Body: []byte("ok\x00\xff" + strings.Repeat("ä", 2*maxStored))}, nil
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
