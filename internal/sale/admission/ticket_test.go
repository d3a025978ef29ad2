package admission

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// countReads counts the HMGET commands of a client, and no others, such as those of a new connection.
func countReads(rdb env.RedisClient) *atomic.Int64 {
	n := &atomic.Int64{}
	rdb.AddHook(env.EachTrip(func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == "hmget" {
				n.Add(1)
			}
		}
		return nil
	}))
	return n
}

// 5,000 buyers of one sale, who come within a second, poll their tickets while no worker runs and Redis answers within a
// millisecond. Together they need fewer than 100 commands per second, because the pause after a read of many tickets collects more.
func TestWaitingBuyersShareReads(t *testing.T) {
	redisAddr := env.StartRedis(t).Addr
	// The seconds are those of the buyers' timers: they stand still while Redis answers.
	synctest.Test(t, func(t *testing.T) {
		const n, voucher, seconds = 5000, 7, 3
		rdb := servers.NewRedisClient(t, redisAddr, 0)
		g, rows := newGate(rdb), make([]any, 0, 2*n)
		for id := range int64(n) {
			a := at(1, admission(id+1, id+1))
			rows = append(rows, a.UserID, formatRow(&a))
		}
		shard := Shard(voucher)
		require.NoError(t, rdb.HSet(t.Context(), shard.Queued(), rows...).Err())
		require.NoError(t, rdb.HSet(t.Context(), shard.Meta(voucher), "line", n, "queued", n).Err())

		commands := countReads(rdb)
		rdb.AddHook(env.EachTrip(func(context.Context, []redis.Cmder) error {
			time.Sleep(time.Millisecond)
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var checks, wrong atomic.Int64
		var buyers sync.WaitGroup
		for id := range int64(n) {
			buyers.Go(func() {
				time.Sleep(time.Duration(id) * time.Second / n)
				for pause := time.Second / 4; loop.Sleep(ctx, pause) == nil; pause = min(2*pause, time.Second) {
					checks.Add(1)
					ticket, err := g.Ticket(ctx, id+1, id+1, voucher)
					if err == nil && (ticket.OrderID != id+1 || ticket.Ahead == nil) {
						wrong.Add(1)
					}
				}
			})
		}
		time.Sleep(seconds * time.Second)
		cancel()
		buyers.Wait()
		time.Sleep(2 * maxTicketPause) // the pauses of the last reads end
		t.Log(checks.Load(), "checks,", commands.Load(), "commands")
		require.Zero(t, wrong.Load())
		require.GreaterOrEqual(t, checks.Load(), int64(2*n))
		require.Less(t, commands.Load(), int64(100*seconds))
	})
}

// Redis hangs while a buyer waits. The read of the ticket ends with its context.
func TestTicketEndsWhileRedisHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := servers.NewRedisClient(t, "127.0.0.1:1", 0)
		rdb.AddHook(env.EachTrip(func(ctx context.Context, _ []redis.Cmder) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		g, start := newGate(rdb), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		env.Fails(g.Ticket(ctx, 10, 1, voucher))(t, domain.ErrUnavailable)
		require.Equal(t, time.Second, time.Since(start))
		time.Sleep(time.Minute) // the read ends
	})
}

// inShards queues order 1 of user 10 in the shard of voucher, and order 2 in another one.
func inShards(t *testing.T, rdb env.RedisClient) (g *Gate, second domain.Admission) {
	t.Helper()
	g, db := withStock(t, rdb, 5)
	db.stock[stranger] = 5
	require.NoError(t, g.Load(t.Context(), stranger, db))
	second = admission(2, 10)
	second.VoucherID = stranger
	reserve(t, g, admission(1, 10))
	reserve(t, g, second)
	return g, second
}

// A request for a ticket searches all shards if its voucher is not known, and otherwise reads its own.
func TestTicketIsSearchedInShards(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		admits, _ := inShards(t, rdb)
		g, commands := newGate(rdb), countReads(rdb)
		for of, want := range map[int64]int64{0: int64(Shards) + 1, stranger: 2} { // commands
			commands.Store(0)
			ticket := env.Must(g.Ticket(t.Context(), 10, 2, of))(t)
			require.Equal(t, stranger, ticket.VoucherID)
			require.NotNil(t, ticket.Ahead)
			require.Equal(t, want, commands.Load())
		}
		settle(t, admits, queue(t, admits, stranger)[0], failed)
		for _, of := range []int64{0, stranger} {
			require.Equal(t, "sold_out", env.Must(g.Ticket(t.Context(), 10, 2, of))(t).Failed)
			env.Fails(g.Ticket(t.Context(), 11, 2, of))(t, domain.ErrNotFound, "another user's")
		}
	})
}

// Tickets of a sale are not delayed by another one, whose number of segments the database does not tell in time.
func TestTicketsDoNotWaitForSegmentsOfOthers(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		inShards(t, rdb)
		asked, answer := make(chan struct{}), make(chan struct{})
		g := New(Config{Redis: rdb, Segments: func(_ context.Context, of int64) (int, error) {
			if of == voucher {
				close(asked)
				<-answer
			}
			return 1, nil
		}})
		waiting := env.Go(func() error { return env.Err(g.Ticket(t.Context(), 10, 1, voucher)) })
		<-asked

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := g.Ticket(ctx, 10, 2, stranger)
		close(answer)
		require.NoError(t, err)
		require.NoError(t, <-waiting)
	})
}

// While one shard hangs, a search of all shards does not delay a buyer whose order is in another one.
func TestTicketDoesNotWaitForAllShards(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, _ := inShards(t, rdb)
		asked, answer := make(chan struct{}, 2), make(chan struct{})
		rdb.AddHook(env.EachTrip(func(_ context.Context, cmds []redis.Cmder) error {
			if len(cmds) == int(Shards) {
				asked <- struct{}{}
				<-answer
			}
			return nil
		}))
		listing := env.Go(func() error { return env.Err(g.Tickets(t.Context(), 10)) })
		<-asked

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := g.Ticket(ctx, 10, 1, voucher)
		close(answer)
		require.NoError(t, err)
		require.NoError(t, <-listing)
	})
}

func TestTicketsOfAllShards(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, second := inShards(t, rdb)
		settle(t, g, queue(t, g, voucher)[0], failed)
		reserve(t, g, admission(3, 10), admission(4, 11))
		tickets := env.Must(g.Tickets(t.Context(), 10))(t)
		require.Len(t, tickets, 3)
		require.EqualValues(t, 3, tickets[0].OrderID, "the newest first")
		require.Equal(t, domain.Ticket{Admission: at(1, second), Ahead: new(int64)}, tickets[1])
		require.Equal(t, "sold_out", tickets[2].Failed)

		for order, key := range map[int64]string{4: Shard(stranger).Queued(), 5: Shard(voucher).Failed(10)} {
			require.NoError(t, rdb.HSet(t.Context(), key, "10", "garbage", "5", "garbage").Err())
			_, err := g.Ticket(t.Context(), 10, order, 0)
			require.Error(t, err)
			require.NotErrorIs(t, err, domain.ErrNotFound)
			require.Error(t, env.Err(g.Tickets(t.Context(), 10)))
			require.NoError(t, rdb.Del(t.Context(), key).Err())
		}
	})
}

// failed is the End of a rejected admission.
var failed = domain.End{Failed: "sold_out"}

// A settlement removes the ticket of its order, and a release its hold, and nothing of other ids with the same digits.
func TestIDsAreComparedAsAWhole(t *testing.T) {
	eachGate(t, 9, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
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

// A ticket shows the number of admissions ahead of it, which falls as they are settled.
func TestTicketShowsQueuePosition(t *testing.T) {
	eachGate(t, 100, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		const buyers = 10
		reserveApart(t, g, admissions(1, buyers)...)
		ahead := func(user int64) *int64 {
			ticket := env.Must(g.Ticket(t.Context(), user, user, 0))(t)
			require.Equal(t, []domain.Ticket{ticket}, env.Must(g.Tickets(t.Context(), user))(t))
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
		settle(t, g, queue(t, g, voucher)[1], domain.End{Failed: "sold_out"})
		require.Nil(t, ahead(13), "a failed ticket has no position")
	})
}

func deadLetters(t testing.TB, g *Gate) []domain.DeadLetter {
	t.Helper()
	return env.Must(g.DeadLetters(t.Context(), "", maxDeadLetters))(t)
}

// A dead letter says what failed. A replay that fails changes nothing.
func TestDeadLetterIsReplayed(t *testing.T) {
	eachGate(t, 1, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		reserve(t, g, admission(1, 10))
		entry := queue(t, g, voucher)[0]
		entry.Tries = 5
		settle(t, g, entry, domain.End{Dead: "poison"})
		l, a := env.Only(t, deadLetters(t, g)), at(1, admission(1, 10))
		require.WithinDuration(t, time.Now(), l.BuriedAt, time.Minute)
		require.Equal(t, domain.DeadLetter{
			ID: l.ID, BuriedAt: l.BuriedAt, Entry: entry.Entry, Admission: &a, Reason: "poison", Tries: 5,
			Fields: map[string]string{
				"order": "1", "user": "10", "voucher": "7", "limit": "1", "amount": "100",
				"at": strconv.FormatInt(noon.UnixMilli(), 10),
			},
		}, l)

		require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "line", "many").Err())
		env.Fails(g.Replay(t.Context(), l.ID))(t, domain.ErrUnavailable)
		require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "line", "1").Err())
		requireLevel(t, g, Level{Stock: 1})
		require.Empty(t, buyers(t, g, voucher))

		env.Must(g.Replay(t.Context(), l.ID))(t)
		requireLevel(t, g, Level{Held: 1, Queued: 1, Backlog: 1})
	})
}

func TestUnparsableEntryIsDeadLetteredWithItsFields(t *testing.T) {
	eachGate(t, 5, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		stream := shardOf(voucher).Stream()
		add := func(values ...string) string {
			return env.Must(rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: values}).Result())(t)
		}
		junk := add("order", "seven")
		misplaced := add("rows", "1 10 8 1 100 1000 CNY ") // a row of another shard
		for range 2 {
			require.NoError(t, g.MoveToDeadLetters(t.Context(), stream, junk, "junk"))
			require.NoError(t, g.MoveToDeadLetters(t.Context(), stream, misplaced, "misplaced"))
		}
		requireLevel(t, g, Level{Stock: 5})
		all := deadLetters(t, g)
		require.Len(t, all, 2)
		require.Nil(t, all[0].Admission)
		require.Equal(t, map[string]string{"rows": "1 10 8 1 100 1000 CNY "}, all[0].Fields)
		require.Nil(t, all[1].Admission)
		require.Equal(t, map[string]string{"order": "seven"}, all[1].Fields)
		env.Fails(g.Replay(t.Context(), all[1].ID))(t, domain.ErrInvalidState)
		require.NoError(t, g.Discard(t.Context(), all[1].ID))
		require.Error(t, g.MoveToDeadLetters(t.Context(), "another", junk, "junk"))
	})
}

func TestDeadLettersAreNewestFirst(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
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
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g := newGate(rdb)
		for _, id := range []string{"x", "1-2", "16-1-1", "-1-1-1", "1-x-1", "1-1-x", "1-1-1-1", "7-1-1"} {
			env.Fails(g.Replay(t.Context(), id))(t, domain.ErrNotFound, id)
			require.ErrorIs(t, g.Discard(t.Context(), id), domain.ErrNotFound, id)
		}
		env.Fails(g.DeadLetters(t.Context(), "x", 1))(t, domain.ErrNotFound)
	})
}

func TestLagCountsUnsettledAndDead(t *testing.T) {
	eachGate(t, 9, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
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
