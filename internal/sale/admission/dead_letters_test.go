package admission

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// deadLetterAll settles all admissions of an entry as dead letters.
func deadLetterAll(t *testing.T, g *Gate, p domain.StreamEntry) {
	t.Helper()
	p.Tries = 5
	settle(t, g, p, slices.Repeat([]domain.End{{Dead: "poison"}}, len(p.Admissions))...)
}

func deadLetters(t *testing.T, g *Gate) []DeadLetter {
	t.Helper()
	all, err := g.DeadLetters(t.Context(), "", maxDeadLetters)
	require.NoError(t, err)
	return all
}

func TestDeadLetteredAdmissionReturnsUnit(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(1, 10))
		entry := queue(t, g, voucher)[0]
		for range 2 {
			deadLetterAll(t, g, entry)
			requireLevel(t, g, Level{Stock: 5})
		}
		all := deadLetters(t, g)
		require.Len(t, all, 1)
		l := all[0]
		require.Equal(t, at(1, admission(1, 10)), *l.Admission)
		require.Equal(t, "poison", l.Reason)
		require.EqualValues(t, 5, l.Tries)
		require.Equal(t, entry.Entry, l.Entry)
		require.WithinDuration(t, time.Now(), l.BuriedAt, time.Minute)
		require.Equal(t, map[string]string{
			"order": "1", "user": "10", "voucher": "7", "limit": "1", "amount": "100",
			"at": strconv.FormatInt(noon.UnixMilli(), 10),
		}, l.Fields)
		ticket, err := g.Ticket(t.Context(), 10, 1)
		require.NoError(t, err)
		require.Equal(t, "internal", ticket.Failed)
	})
}

func TestUnparsableEntryIsDeadLetteredWithItsFields(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		stream := shardOf(voucher).Stream()
		add := func(values ...string) string {
			id, err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: values}).Result()
			require.NoError(t, err)
			return id
		}
		junk := add("order", "seven")
		misplaced := add("rows", "1 10 8 1 100 1000 ") // a row of another shard
		for range 2 {
			require.NoError(t, g.MoveToDeadLetters(t.Context(), stream, junk, "junk", 1))
			require.NoError(t, g.MoveToDeadLetters(t.Context(), stream, misplaced, "misplaced", 1))
		}
		requireLevel(t, g, Level{Stock: 5})
		all := deadLetters(t, g)
		require.Len(t, all, 2)
		require.Nil(t, all[0].Admission)
		require.Equal(t, map[string]string{"rows": "1 10 8 1 100 1000 "}, all[0].Fields)
		require.Nil(t, all[1].Admission)
		require.Equal(t, map[string]string{"order": "seven"}, all[1].Fields)
		_, err := g.Replay(t.Context(), all[1].ID)
		require.ErrorIs(t, err, domain.ErrInvalidState)
		require.NoError(t, g.Discard(t.Context(), all[1].ID))
		require.Error(t, g.MoveToDeadLetters(t.Context(), "another", junk, "junk", 1))
	})
}

func TestReplayQueuesAdmissionAgain(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 1)
		reserve(t, g, admission(1, 10))
		deadLetterAll(t, g, queue(t, g, voucher)[0])
		id := deadLetters(t, g)[0].ID
		meta := voucherKeys.meta
		require.NoError(t, rdb.HSet(t.Context(), meta, "line", "many").Err())
		_, err := g.Replay(t.Context(), id)
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.NoError(t, rdb.HSet(t.Context(), meta, "line", "1").Err())
		requireLevel(t, g, Level{Stock: 1})
		require.Empty(t, buyers(t, g, voucher), "a failed replay changes nothing")

		a, err := g.Replay(t.Context(), id)
		require.NoError(t, err)
		want := admission(1, 10)
		want.ReplyTo = ""
		require.Equal(t, want, a)
		requireLevel(t, g, Level{Held: 1, Queued: 1, Backlog: 1})
		require.Equal(t, at(2, want), queued(t, g, voucher)[0])
		requireTickets(t, g, voucher)
		require.Zero(t, rdb.Exists(t.Context(), shardOf(voucher).Failed(10)).Val(), "the failed ticket is deleted")
		ticket, err := g.Ticket(t.Context(), 10, 1)
		require.NoError(t, err)
		require.Empty(t, ticket.Failed)
		_, err = g.Replay(t.Context(), id)
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

func TestDeadLettersAreNewestFirst(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb)
		var want []string
		for ms := 3; ms > 0; ms-- { // equal times in several shards
			for _, s := range []Shard{15, 7, 0} {
				id := fmt.Sprintf("%d-0", ms)
				want = append(want, fmt.Sprintf("%d-%s", s, id))
			}
		}
		for i := len(want) - 1; i >= 0; i-- {
			id, err := parseDeadLetterID(want[i])
			require.NoError(t, err)
			require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{
				Stream: id.shard.Dead(), ID: id.entry(), Values: []string{"a", "b"},
			}).Err())
		}
		for limit := 1; limit <= 10; limit++ {
			var got []string
			for before := ""; ; before = got[len(got)-1] {
				page, err := g.DeadLetters(t.Context(), before, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				for _, l := range page {
					got = append(got, l.ID)
				}
				if len(page) == 0 {
					break
				}
			}
			require.Equal(t, want, got, "pages of %d", limit)
		}
	})
}

func TestInvalidDeadLetterIDIsNotFound(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb)
		for _, id := range []string{"x", "1-2", "16-1-1", "-1-1-1", "1-x-1", "1-1-x", "1-1-1-1", "7-1-1"} {
			_, err := g.Replay(t.Context(), id)
			require.ErrorIs(t, err, domain.ErrNotFound, id)
			require.ErrorIs(t, g.Discard(t.Context(), id), domain.ErrNotFound, id)
		}
		_, err := g.DeadLetters(t.Context(), "x", 1)
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}
