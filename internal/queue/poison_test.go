package queue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/domain"
	"seckill/test/testenv"
)

// poisons are the ways in which order 3 makes a commit fail. at is its index, and errs are the results without the
// fault.
var poisons = map[string]func(errs []error, at int) []error{
	"error":              func(errs []error, at int) []error { errs[at] = errors.New("a column is too short"); return errs },
	"error without text": func(errs []error, at int) []error { errs[at] = errors.New(""); return errs },
	"panic":              func([]error, int) []error { panic("a column is too short") },
	"no results":         func(errs []error, _ int) []error { return errs[:0] },
}

// Poison is dead-lettered after the fifth try. Other admissions of its batch become orders, and none of them is
// dead-lettered.
func TestPoisonIsDeadLetteredAfterMaxTries(t *testing.T) {
	testenv.Full(t)
	for name, poison := range poisons {
		t.Run(name, func(t *testing.T) {
			testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
				r := newRig(t, rdb, 100)
				r.reserve(3, 1)
				cfg := r.config("a", func(_ context.Context, as []domain.Admission) []error {
					errs := r.refuse(as, nil)
					at := slices.IndexFunc(as, func(a domain.Admission) bool { return a.OrderID == 3 })
					if at < 0 {
						return errs
					}
					return poison(errs, at)
				})
				stop := r.start(cfg)
				r.settled()
				stop()
				require.Equal(t, 5, r.commitCalls(3), "alone in its batch, each try is one commit")
				letters := r.deadLetters()
				require.Len(t, letters, 1)
				require.EqualValues(t, 5, letters[0].Tries)
				require.EqualValues(t, 3, letters[0].Admission.OrderID)
				ticket, err := r.gate.Ticket(t.Context(), 3, 3)
				require.NoError(t, err)
				require.Equal(t, "internal", ticket.Failed)
				r.requireLevel(admission.Level{Stock: 100})

				// In one batch with others, it is isolated, and the others are committed.
				r.reserve(10, 10)
				_, err = r.gate.Replay(t.Context(), letters[0].ID)
				require.NoError(t, err)
				r.reserve(20, 10)
				r.start(cfg)
				r.settled()
				require.Len(t, r.deadLetters(), 1)
				require.EqualValues(t, 3, r.deadLetters()[0].Admission.OrderID)
				require.EqualValues(t, 80, r.level().Stock)
				require.EqualValues(t, 20, r.level().Held)
			})
		})
	}
}

func TestUnparsableEntryIsDeadLetteredAtOnce(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 100)
		r.reserve(1, 1)
		junk := map[string]any{"order": "seven", "note": "written by hand"}
		id, err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: r.stream(), Values: junk}).Result()
		require.NoError(t, err)
		r.reserve(2, 1)
		r.start(r.config("a", r.commit))
		r.settled()
		r.requireOrders(1, 2)
		letters := r.deadLetters()
		require.Len(t, letters, 1)
		require.Nil(t, letters[0].Admission)
		require.Equal(t, map[string]string{"order": "seven", "note": "written by hand"}, letters[0].Fields)
		require.Equal(t, id, letters[0].Entry)
		require.EqualValues(t, 1, letters[0].Tries)
	})
}

// An entry with a voucher of another shard, as a changed number of segments may leave it, becomes an order and leaves its
// stream.
func TestEntryOfOtherShardIsSettled(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		r := newRig(t, rdb, 100)
		misplaced := map[string]any{"rows": "5 5 8 1 100 1000 "}
		require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: r.stream(), Values: misplaced}).Err())
		r.start(r.config("a", r.commit))
		r.settled()
		r.requireOrders(5, 1)
		require.Empty(t, r.deadLetters())
	})
}

// If one admission of an entry is poison, the others become orders at once. The poison is retried alone, after a pause.
func TestPoisonIsRetriedAlone(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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
