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
	"seckill/test/env"
)

// failed is the End of a rejected admission.
var failed = domain.End{Failed: "sold_out"}

// A settlement removes the ticket of its order, and a release its hold, and nothing of other ids with the same digits.
func TestIDsAreComparedAsAWhole(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 9)
		as := []domain.Admission{admission(11, 10), admission(1, 10), admission(111, 10), admission(1, 1)}
		for i := range as {
			as[i].Limit = 3
		}
		reserveApart(t, g, as...)
		q := queue(t, g, voucher)
		for _, i := range []int{1, 3, 2, 0} {
			settle(t, g, q[i])
			requireTickets(t, g, voucher)
		}
		requireLevel(t, g, Level{Stock: 5, Held: 4})

		for _, part := range []int64{10, 12, 101, 211} {
			require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: part, UserID: 10}))
		}
		requireLevel(t, g, Level{Stock: 5, Held: 4})
	})
}

// Entries that leave the stream do not stay pending in the group.
func TestSettledAndDeadLetteredEntriesAreAcknowledged(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserveApart(t, g, admission(1, 10), admission(2, 11))
		junk := env.Must(rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: shardOf(voucher).Stream(), Values: []string{"a", "b"}}).Result())(t)
		stream := shardOf(voucher).Stream()
		require.NoError(t, rdb.XGroupCreate(t.Context(), stream, Group, "0").Err())
		require.NoError(t, rdb.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: Group, Consumer: "a", Streams: []string{stream, ">"}, Block: -1,
		}).Err())
		require.NoError(t, g.MoveToDeadLetters(t.Context(), stream, junk, "junk", 1))
		q := queue(t, g, voucher)
		settle(t, g, q[0])
		deadLetterAll(t, g, q[1])
		pending := env.Must(rdb.XPending(t.Context(), stream, Group).Result())(t)
		require.Zero(t, pending.Count)
	})
}

// A ticket shows the number of admissions ahead of it, which falls as they are settled.
func TestTicketShowsQueuePosition(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 100)
		const buyers = 10
		reserveApart(t, g, admissions(1, buyers)...)
		ahead := func(user int64) *int64 {
			ticket := env.Must(g.Ticket(t.Context(), user, user, 0))(t)
			all := env.Must(g.Tickets(t.Context(), user))(t)
			require.Equal(t, []domain.Ticket{ticket}, all)
			return ticket.Ahead
		}
		for gone, p := range queue(t, g, voucher) {
			for user := gone + 1; user <= buyers; user++ {
				require.EqualValues(t, user-1-gone, *ahead(int64(user)))
			}
			settle(t, g, p)
		}
		reserve(t, g, admission(11, 11), admission(12, 12))
		require.Zero(t, *ahead(11))
		require.EqualValues(t, 1, *ahead(12))
		// A cold gate has no positions. After a load, a ticket shows no more admissions ahead than are queued.
		require.NoError(t, g.Unload(t.Context(), voucher))
		require.Nil(t, ahead(12))
		for order := range int64(buyers) {
			db.orders[order+1] = dbOrder{voucher: voucher, user: order + 1, active: true}
		}
		require.NoError(t, g.Load(t.Context(), voucher, db))
		require.EqualValues(t, 1, *ahead(12))
		reserve(t, g, admission(13, 13))
		require.EqualValues(t, 2, *ahead(13))
		fail := queue(t, g, voucher)[1]
		settle(t, g, fail, domain.End{Failed: "sold_out"})
		require.Nil(t, ahead(13), "a failed ticket has no position")
	})
}

func deadLetterAll(t *testing.T, g *Gate, p domain.StreamEntry) {
	t.Helper()
	p.Tries = 5
	settle(t, g, p, slices.Repeat([]domain.End{{Dead: "poison"}}, len(p.Admissions))...)
}

func deadLetters(t *testing.T, g *Gate) []domain.DeadLetter {
	t.Helper()
	return env.Must(g.DeadLetters(t.Context(), "", maxDeadLetters))(t)
}

func TestDeadLetteredAdmissionReturnsUnit(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(1, 10))
		entry := queue(t, g, voucher)[0]
		for range 2 {
			deadLetterAll(t, g, entry)
			requireLevel(t, g, Level{Stock: 5})
		}
		all := deadLetters(t, g)
		require.Len(t, all, 1)
		l, a := all[0], at(1, admission(1, 10))
		require.WithinDuration(t, time.Now(), l.BuriedAt, time.Minute)
		require.Equal(t, domain.DeadLetter{
			ID: l.ID, BuriedAt: l.BuriedAt, Entry: entry.Entry, Admission: &a, Reason: "poison", Tries: 5,
			Fields: map[string]string{
				"order": "1", "user": "10", "voucher": "7", "limit": "1", "amount": "100",
				"at": strconv.FormatInt(noon.UnixMilli(), 10),
			},
		}, l)
		ticket := env.Must(g.Ticket(t.Context(), 10, 1, voucher))(t)
		require.Equal(t, "internal", ticket.Failed)
	})
}

func TestUnparsableEntryIsDeadLetteredWithItsFields(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		stream := shardOf(voucher).Stream()
		add := func(values ...string) string {
			return env.Must(rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: values}).Result())(t)
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
		env.Fails(g.Replay(t.Context(), all[1].ID))(t, domain.ErrInvalidState)
		require.NoError(t, g.Discard(t.Context(), all[1].ID))
		require.Error(t, g.MoveToDeadLetters(t.Context(), "another", junk, "junk", 1))
	})
}

func TestFailedReplayChangesNothing(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 1)
		reserve(t, g, admission(1, 10))
		deadLetterAll(t, g, queue(t, g, voucher)[0])
		id := deadLetters(t, g)[0].ID

		require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "line", "many").Err())
		env.Fails(g.Replay(t.Context(), id))(t, domain.ErrUnavailable)
		require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "line", "1").Err())
		requireLevel(t, g, Level{Stock: 1})
		require.Empty(t, buyers(t, g, voucher))

		env.Must(g.Replay(t.Context(), id))(t)
		requireLevel(t, g, Level{Held: 1, Queued: 1, Backlog: 1})
	})
}

func TestDeadLettersAreNewestFirst(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb)
		var want []string
		for ms := 3; ms > 0; ms-- { // equal times in several shards
			for _, s := range []Shard{15, 7, 0} {
				id := fmt.Sprintf("%d-0", ms)
				want = append(want, fmt.Sprintf("%d-%s", s, id))
			}
		}
		for i := len(want) - 1; i >= 0; i-- {
			id := env.Must(parseDeadLetterID(want[i]))(t)
			require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{
				Stream: id.shard.Dead(), ID: id.entry, Values: []string{"a", "b"},
			}).Err())
		}
		for limit := 1; limit <= 10; limit++ {
			var got []string
			for before := ""; ; before = got[len(got)-1] {
				page := env.Must(g.DeadLetters(t.Context(), before, limit))(t)
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
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb)
		for _, id := range []string{"x", "1-2", "16-1-1", "-1-1-1", "1-x-1", "1-1-x", "1-1-1-1", "7-1-1"} {
			env.Fails(g.Replay(t.Context(), id))(t, domain.ErrNotFound, id)
			require.ErrorIs(t, g.Discard(t.Context(), id), domain.ErrNotFound, id)
		}
		env.Fails(g.DeadLetters(t.Context(), "x", 1))(t, domain.ErrNotFound)
	})
}

func TestLagCountsUnsettledAndDead(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 9)
		require.Equal(t, domain.QueueLag{}, env.Must(g.Lag(t.Context()))(t))

		stream := shardOf(voucher).Stream()
		require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, ID: "1000-0", Values: []string{"a", "b"}}).Err())
		lag := env.Must(g.Lag(t.Context()))(t)
		require.EqualValues(t, 1, lag.Unsettled, "an entry without a ticket counts")

		reserve(t, g, admissions(1, 3)...)
		require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: Shard(3).Dead(), Values: []string{"a", "b"}}).Err())
		lag = env.Must(g.Lag(t.Context()))(t)
		require.EqualValues(t, 3, lag.Unsettled)
		require.EqualValues(t, 1, lag.DeadLetters)
		require.InDelta(t, time.Since(time.UnixMilli(1000)).Seconds(), lag.Oldest, 60)
	})
}
