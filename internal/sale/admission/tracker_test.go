package admission

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

func startTracker(t *testing.T, rdb redis.UniversalClient) *Tracker {
	tracker := newTracker(rdb, t.Name(), slog.New(slog.DiscardHandler))
	t.Cleanup(tracker.Close)
	return tracker
}

// never is a check that does not find the outcome.
func never(context.Context) (domain.Outcome, bool, error) { return domain.Outcome{}, false, nil }

// listening runs a tracker, and waits until it is subscribed. Its instance is named after the test, because Redis
// channels are not separated by database number.
func listening(t *testing.T, rdb *redis.Client) *Tracker {
	t.Helper()
	tracker := startTracker(t, rdb)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- tracker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool {
		n, err := rdb.PubSubNumSub(ctx, outcomeChannel(tracker.Instance())).Result()
		return err == nil && n[outcomeChannel(tracker.Instance())] == 1
	}, time.Minute, time.Millisecond)
	return tracker
}

func TestOutcomesReachWaitingBuyers(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		tracker := listening(t, rdb)
		here := tracker.Instance()
		p := domain.StreamEntry{
			Admissions: []domain.Admission{
				{OrderID: 1, ReplyTo: here}, {OrderID: 2, ReplyTo: here}, {OrderID: 3, ReplyTo: "elsewhere"},
				{OrderID: 4, ReplyTo: here}, {OrderID: 5, ReplyTo: here}, {OrderID: 6},
			},
			Ends: []domain.End{{}, {Failed: "sold_out"}, {}, {Dead: "poison"}, {Again: true}, {}},
		}
		var waiting [6]*OutcomeWaiter
		for i, order := range []int64{1, 2, 3, 4, 5, 1} { // two for the first order
			waiting[i] = tracker.Expect(order)
			defer waiting[i].Close()
		}
		tracker.Publish(t.Context(), []domain.StreamEntry{p})
		wants := map[int]domain.Outcome{
			0: {OrderID: 1}, 1: {OrderID: 2, Failed: "sold_out"}, 3: {OrderID: 4, Failed: "internal"}, 5: {OrderID: 1},
		}
		for i, want := range wants {
			got, err := waiting[i].Wait(t.Context(), never)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		for i, why := range map[int]string{2: "published to another instance", 4: "not settled yet"} {
			require.Empty(t, waiting[i].outcome, why)
		}
	})
}

// Wait finds the outcome by its checks if the message is lost, and continues after an error of a check.
func TestWaitPollsWithoutMessages(t *testing.T) {
	tracker := startTracker(t, nil)
	e := tracker.Expect(1)
	defer e.Close()
	checks := 0
	o, err := e.Wait(t.Context(), func(context.Context) (domain.Outcome, bool, error) {
		switch checks++; checks {
		case 1:
			return domain.Outcome{}, false, nil
		case 2:
			return domain.Outcome{}, true, errors.New("database unavailable")
		}
		return domain.Outcome{OrderID: 1, Failed: "sold_out"}, true, nil
	})
	require.NoError(t, err)
	require.Equal(t, domain.Outcome{OrderID: 1, Failed: "sold_out"}, o)
	require.Equal(t, 3, checks)
}

func TestWaitReturnsContextError(t *testing.T) {
	e := startTracker(t, nil).Expect(1)
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Wait(ctx, never)
	require.ErrorIs(t, err, context.Canceled)
}

// Wait returns an outcome that has arrived even if the context has ended.
func TestWaitPrefersOutcomeToContextError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		tracker := startTracker(t, nil)
		e := tracker.Expect(1)
		tracker.deliver("1")
		o, err := e.Wait(ctx, never)
		require.NoError(t, err)
		require.Equal(t, domain.Outcome{OrderID: 1}, o)
	}
}

func TestRunFailsAfterClientIsClosed(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		tracker := startTracker(t, rdb)
		ended := make(chan error)
		go func() { ended <- tracker.Run(t.Context()) }()
		require.Eventually(t, func() bool {
			n, err := rdb.PubSubNumSub(t.Context(), outcomeChannel(tracker.Instance())).Result()
			return err == nil && n[outcomeChannel(tracker.Instance())] == 1
		}, time.Minute, time.Millisecond)
		require.NoError(t, rdb.Close())
		require.Error(t, <-ended)
	})
}

func TestCloseRemovesExpectation(t *testing.T) {
	tracker := startTracker(t, nil)
	a, b := tracker.Expect(1), tracker.Expect(1)
	a.Close()
	a.Close()
	tracker.deliver("1 garbage 2:sold_out")
	require.Empty(t, a.outcome)
	require.Len(t, b.outcome, 1)
	tracker.deliver("1") // a second outcome is dropped
	b.Close()
	require.Empty(t, tracker.waiting)
}

// Run reconnects after a restart of Redis.
func TestRunReconnects(t *testing.T) {
	server := testenv.StartRedis(t)
	rdb := server.Client(t)
	tracker := listening(t, rdb)
	require.NoError(t, server.Restart())
	e := tracker.Expect(1)
	defer e.Close()
	require.Eventually(t, func() bool {
		tracker.Publish(t.Context(), []domain.StreamEntry{{
			Admissions: []domain.Admission{{OrderID: 1, ReplyTo: tracker.Instance()}}, Ends: make([]domain.End, 1),
		}})
		return len(e.outcome) == 1
	}, 30*time.Second, 10*time.Millisecond)
}
