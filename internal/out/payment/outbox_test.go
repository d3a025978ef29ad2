package payment_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/out/webhook"
)

// maxStored is the number of characters of an answer that are stored.
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
func run(t *testing.T, m *memory, n int, last time.Duration, receive func(call int) (webhook.Answer, error)) (calls []time.Duration) {
	t.Helper()
	start := time.Now()
	m.event.CreatedAt, m.event.Status, m.next = start, domain.EventPending, start
	var mu sync.Mutex
	ctx, stop := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	for range n {
		s := webhook.NewOutbox(webhook.OutboxConfig{
			Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Encode: func(*domain.OrderEvent) ([]byte, error) { return []byte("{}"), nil },
			Post: func(context.Context, []byte) (webhook.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, time.Since(start))
				return receive(len(calls))
			},
		})
		senders.Go(func() { s.Run(ctx) })
	}
	time.Sleep(last)
	stop()
	senders.Wait()
	return calls
}

// An event is delivered by one of several servers, and never again after a 2xx answer.
func TestEventIsDeliveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		calls := run(t, m, 3, time.Hour, func(int) (webhook.Answer, error) {
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
		calls := run(t, m, 1, 5*24*time.Hour, func(call int) (webhook.Answer, error) {
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
		m.event.Status = domain.EventPending
		ctx, stop := context.WithCancel(t.Context())
		s := webhook.NewOutbox(webhook.OutboxConfig{
			Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Encode: func(*domain.OrderEvent) ([]byte, error) { return nil, nil },
			Post: func(ctx context.Context, _ []byte) (webhook.Answer, error) {
				stop()
				<-ctx.Done()
				return webhook.Answer{}, ctx.Err()
			},
		})
		require.ErrorIs(t, s.SendDue(ctx), context.Canceled)
		require.Zero(t, m.done)
		require.Equal(t, domain.EventPending, m.event.Status)
	})
}
