package queue

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/domain"
	"seckill/test/testenv"
)

// readerOf returns a reader that is not running.
func readerOf(r *rig, consumer string) *reader {
	cfg := r.config(consumer, r.commit)
	cfg.MinIdle = time.Millisecond
	w := New(cfg)
	return &reader{w: w, stream: r.stream(), log: cfg.Log}
}

// entriesOf returns the pending entries.
func entriesOf(r *rig) []entry {
	var entries []entry
	for _, p := range r.pending() {
		entries = append(entries, entry{StreamEntry: domain.StreamEntry{Entry: p.ID}})
	}
	return entries
}

func TestClaimCountsDeliveries(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 10)
		r.reserveApart(1, 3)
		messages := r.deliver("dead")
		for tries := int64(2); tries < 5; tries++ {
			r.until("they have been idle", func() bool { return r.pending()[2].Idle >= 2*time.Millisecond })
			entries, err := readerOf(r, "a").claim(t.Context())
			require.NoError(t, err)
			require.Len(t, entries, 3)
			for i, e := range entries {
				require.Equal(t, entry{
					StreamEntry: domain.StreamEntry{Entry: messages[i].ID}, fields: messages[i].Values, deliveries: tries,
				}, e)
			}
		}
		for _, p := range r.pending() {
			require.Equal(t, "a", p.Consumer)
			require.EqualValues(t, 4, p.RetryCount)
		}
	})
}

func TestClaimSkipsRecentEntries(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 10)
		r.reserveApart(1, 3)
		r.deliver("busy")
		b := readerOf(r, "b")
		b.w.cfg.MinIdle = time.Hour
		entries, err := b.claim(t.Context())
		require.NoError(t, err)
		require.Empty(t, entries)
		require.Equal(t, "busy", r.pending()[0].Consumer)
	})
}

// A pending entry was deleted from the stream. Redis 6.2 and 7 report that in different ways.
func TestClaimAcknowledgesDeletedEntries(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 10)
		r.reserveApart(1, 3)
		messages := r.deliver("dead")
		require.NoError(t, rdb.XDel(t.Context(), r.stream(), messages[1].ID).Err())
		r.until("they have been idle", func() bool { return r.pending()[0].Idle >= 2*time.Millisecond })
		entries, err := readerOf(r, "a").claim(t.Context())
		require.NoError(t, err)
		require.Len(t, entries, 2)
		require.Len(t, r.pending(), 2)
	})
}

func TestEntryIsDeadLetteredAfterMaxDeliveries(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 10)
		r.reserve(1, 2) // one entry
		r.reserve(3, 1)
		messages := r.deliver("dead")
		require.NoError(t, rdb.Do(t.Context(), "XCLAIM", r.stream(), admission.Group, "dead", 0, messages[0].ID,
			"RETRYCOUNT", maxDeliveries).Err())
		r.start(r.config("a", r.commit))
		r.settled()
		require.Zero(t, r.commitCalls(1))
		require.Zero(t, r.commitCalls(2))
		require.Equal(t, 1, r.commitCalls(3))
		letters := r.deadLetters()
		require.Len(t, letters, 2)
		for i, l := range letters {
			require.EqualValues(t, maxDeliveries+1, l.Tries)
			require.EqualValues(t, 2-i, l.Admission.OrderID)
		}
		r.requireLevel(admission.Level{Stock: 9, Held: 1})
	})
}

// Miniredis does not report how long a consumer has been idle.
func TestClaimDeletesIdleConsumers(t *testing.T) {
	rdb := testenv.StartRedis(t).Client(t)
	r := newRig(t, rdb, 10)
	ctx := t.Context()
	r.reserve(1, 1)
	messages := r.deliver("gone")
	require.NoError(t, rdb.XAck(ctx, r.stream(), admission.Group, messages[0].ID).Err())
	r.reserve(2, 1)
	r.deliver("stuck") // idle too, but with a pending entry
	names := func() []string {
		consumers, err := rdb.XInfoConsumers(ctx, r.stream(), admission.Group).Result()
		require.NoError(t, err)
		var all []string
		for _, c := range consumers {
			all = append(all, c.Name)
		}
		return all
	}
	a := readerOf(r, "a")
	a.w.cfg.MinIdle = time.Hour
	_, err := a.claim(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"gone", "stuck"}, names(), "not idle for an hour")

	a.w.cfg.ConsumerIdle = time.Millisecond
	r.until("only the consumer with a pending entry is left", func() bool {
		_, err := a.claim(ctx)
		require.NoError(t, err)
		return len(names()) == 1
	})
	require.Equal(t, []string{"stuck"}, names())
	require.Len(t, r.pending(), 1)
}

func TestLagCountsUnsettledAndDead(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 10)
		w := New(r.config("a", r.commit))
		lag, err := w.Lag(t.Context())
		require.NoError(t, err)
		require.Equal(t, Lag{}, lag)

		_, err = rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: r.stream(), ID: "1000-0", Values: []string{"a", "b"}}).Result()
		require.NoError(t, err)
		lag, err = w.Lag(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, lag.Unsettled, "an entry without a ticket counts")
		r.reserve(1, 3)
		require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{
			Stream: admission.DeadStreams()[3], Values: []string{"a", "b"},
		}).Err())
		lag, err = w.Lag(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, lag.Unsettled)
		require.EqualValues(t, 1, lag.Dead)
		require.InDelta(t, time.Since(time.UnixMilli(1000)), lag.Oldest, float64(time.Minute))
	})
}
