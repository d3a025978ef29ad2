package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
	"seckill/test/env"
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
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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
		late := readerOf(r, "b")
		late.w.cfg.MinIdle = time.Hour
		entries, err := late.claim(t.Context())
		require.NoError(t, err)
		require.Empty(t, entries, "they have not been idle for an hour")
		for _, p := range r.pending() {
			require.Equal(t, "a", p.Consumer)
			require.EqualValues(t, 4, p.RetryCount)
		}

		// An entry that was deleted from the stream is acknowledged. Redis 6.2 and 7 report it in different ways.
		require.NoError(t, rdb.XDel(t.Context(), r.stream(), messages[1].ID).Err())
		r.until("they have been idle", func() bool { return r.pending()[2].Idle >= 2*time.Millisecond })
		entries, err = readerOf(r, "a").claim(t.Context())
		require.NoError(t, err)
		require.Len(t, entries, 2)
		require.Len(t, r.pending(), 2)
	})
}

func TestEntryIsDeadLetteredAfterMaxDeliveries(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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
	rdb := env.StartRedis(t).Client(t)
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
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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

// An admission fails its batch, by an error or otherwise. The others are committed, and it has an error with a text, which
// its dead letter shows.
func TestPoisonIsIsolated(t *testing.T) {
	for name, poison := range map[string]func(errs []error) []error{
		"error":      func(errs []error) []error { return slices.Repeat([]error{errors.New("")}, len(errs)) },
		"panic":      func([]error) []error { panic("a column is too short") },
		"no results": func(errs []error) []error { return errs[:0] },
	} {
		r := &reader{log: slog.New(slog.DiscardHandler), w: New(Config{Commit: func(_ context.Context, as []domain.Admission) []error {
			errs := make([]error, len(as))
			if slices.ContainsFunc(as, func(a domain.Admission) bool { return a.OrderID == 3 }) {
				return poison(errs)
			}
			return errs
		}})}
		errs := r.commit(t.Context(), []domain.Admission{{OrderID: 1}, {OrderID: 3}, {OrderID: 4}})
		require.NoError(t, errs[0], name)
		require.NotEmpty(t, truncated(errs[1]), name)
		require.NoError(t, errs[2], name)
	}
}

// An entry that cannot be read is a dead letter at once. One with a voucher of another shard, as a changed number of
// segments may leave it, becomes an order and leaves its stream.
func TestForeignEntries(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 1)
		add := func(field, value string) string {
			return rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: r.stream(), Values: []string{field, value}}).Val()
		}
		junk := add("order", "seven")
		add("rows", "2 2 8 1 100 1000 ")
		r.reserve(3, 1)
		r.start(r.config("a", r.commit))
		r.settled()
		r.requireOrders(1, 3)
		letters := r.deadLetters()
		require.Len(t, letters, 1)
		require.Equal(t, junk, letters[0].Entry)
		require.EqualValues(t, 1, letters[0].Tries)
	})
}

// If one admission of an entry is poison, the others become orders at once. The poison is retried alone, after a pause.
func TestPoisonIsRetriedAlone(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 20)
		var healed atomic.Bool
		cfg := r.config("a", func(ctx context.Context, as []domain.Admission) []error {
			if slices.ContainsFunc(as, func(a domain.Admission) bool { return a.OrderID == 3 }) && !healed.Load() {
				return r.refuse(as, errors.New("a column is too short"))
			}
			return r.commit(ctx, as)
		})
		cfg.MinIdle = time.Hour // these workers do not claim it
		stop := r.start(cfg)
		r.until("the others are settled", func() bool { return r.level().Queued == 1 && len(r.pending()) == 1 })
		tries := r.commitCalls(3)
		r.requireLevel(admission.Level{Stock: 80, Held: 20, Queued: 1, Backlog: 1})
		ticket, err := r.gate.Ticket(t.Context(), 3, 3)
		require.NoError(t, err)
		require.Empty(t, ticket.Failed)
		require.Equal(t, tries, r.commitCalls(3), "it is not tried before it is claimed")

		stop()
		healed.Store(true)
		cfg.MinIdle = time.Millisecond
		r.start(cfg)
		r.settled()
		r.requireOrders(1, 20)
		require.Equal(t, tries+1, r.commitCalls(3))
		require.Empty(t, r.deadLetters())
		require.EqualValues(t, 20, r.level().Held)
	})
}

// Entries of an earlier version name no generation. They are committed if the sale had no load since, or if the gate
// confirms them.
func TestEntryWithoutGeneration(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 10)
		r.reserve(1, 1)
		r.reserve(2, 1)
		for _, m := range rdb.XRange(t.Context(), r.stream(), "-", "+").Val() {
			delete(m.Values, "generation")
			require.NoError(t, rdb.XDel(t.Context(), r.stream(), m.ID).Err())
			require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: r.stream(), Values: m.Values}).Err())
		}
		r.start(r.config("a", r.commit))
		r.settled()
		r.requireOrders(1, 2)
		require.Equal(t, []int{2, 2}, []int{r.commitCalls(1), r.commitCalls(2)})
		r.requireLevel(admission.Level{Stock: 8, Held: 2})
	})
}
