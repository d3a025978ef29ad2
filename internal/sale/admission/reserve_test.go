package admission

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
	"seckill/test/env/servers"
)

// Operators see these keys and formats in redis-cli, and later releases must be able to parse them.
func TestKeysAndFormatsAreStable(t *testing.T) {
	eachGate(t, 2, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		reserve(t, g, admission(1, 10), admission(2, 11))
		requireKeys(t, rdb, "seckill:{s7}:7:stock", "seckill:{s7}:7:buyers", "seckill:{s7}:7:meta",
			"seckill:{s7}:queued", "seckill:{s7}:orders")
		at := strconv.FormatInt(noon.UnixMilli(), 10)
		text := env.Must(rdb.HGet(t.Context(), "seckill:{s7}:queued", "10").Result())(t)
		first, second := "1 10 7 1 100 "+at+" CNY  1", "2 11 7 1 100 "+at+" CNY  2"
		require.Equal(t, first, text)
		fields := func(stream string, n int) map[string]any {
			return env.Must(rdb.XRange(t.Context(), stream, "-", "+").Result())(t)[n].Values
		}
		require.Equal(t, map[string]any{"rows": first + "\n" + second, "generation": "1"}, fields("seckill:{s7}:orders", 0))
		p := queue(t, g, voucher)[0]
		p.Tries = 2
		settle(t, g, p, domain.End{Again: true}, domain.End{Dead: "poison"})
		require.Equal(t, map[string]any{"rows": first, "generation": "1", "tries": "2"}, fields("seckill:{s7}:orders", 0))
		require.Equal(t, map[string]any{
			"dead_entry": p.Entry, "dead_reason": "poison", "dead_tries": "2", "row": second,
		}, fields("seckill:{s7}:dead", 0))
		text = env.Must(rdb.HGet(t.Context(), "seckill:{s7}:user:11", "2").Result())(t)
		require.Regexp(t, "^internal [0-9]{13} "+second+"$", text)
		require.InDelta(t, 24*time.Hour, env.Must(rdb.TTL(t.Context(), "seckill:{s7}:user:11").Result())(t), float64(time.Minute))
	})
}

// A large call adds entries of at most 64 buyers.
func TestEntriesHaveAtMost64Admissions(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		const stock, most = 1200, 64
		g, _ := withStock(t, rdb, stock)
		as := admissions(1, stock+100)
		results := reserve(t, g, as...)
		for i, err := range results {
			if i < stock {
				require.NoError(t, err, i)
				as[i].Place = int64(i + 1)
			} else {
				require.ErrorIs(t, err, domain.ErrSoldOut, i)
			}
		}
		all := queue(t, g, voucher)
		for _, p := range all {
			require.LessOrEqual(t, len(p.Admissions), most)
		}
		require.Equal(t, as[:stock], queued(t, g, voucher))
		requireLevel(t, g, Level{Held: stock, Queued: stock, Backlog: int64(len(all))})
		requireTickets(t, g, voucher)

		require.NoError(t, g.Settle(t.Context(), all))
		requireLevel(t, g, Level{Held: stock})
		requireKeys(t, rdb, voucherKeys.stock, voucherKeys.buyers, voucherKeys.meta, shardOf(voucher).Stream())
		require.Empty(t, g.Reserve(t.Context(), voucher, onSale(), nil))
	})
}

// Parse rejects entries that the gate cannot have written.
func TestParse(t *testing.T) {
	g, stream := newGate(nil), shardOf(voucher).Stream()
	for name, fields := range map[string]map[string]any{
		"nothing":            {},
		"an empty row":       {"rows": "1 10 7 1 100 1000 CNY \n"},
		"tries not a number": {"rows": "1 10 7 1 100 1000 CNY ", "generation": "1", "tries": "some"},
		"no generation":      {"rows": "1 10 7 1 100 1000 CNY "},
		"unknown fields":     {"order": "1", "user": "10", "voucher": "7"},
	} {
		require.Error(t, env.Err(g.Parse(stream, "1-1", fields)), name)
	}
}

// The bounds of the window are exact to the millisecond. The server's clock stands still.
func TestWindowIncludesBeginAndExcludesEnd(t *testing.T) {
	m := env.StartMiniredis(t)
	m.SetTime(noon)
	g, _ := withStock(t, servers.NewRedisClient(t, m.Addr(), 0), 5)
	at := func(begin, end time.Duration) error {
		w := domain.Window{Begin: noon.Add(begin), End: noon.Add(end)}
		return g.Reserve(t.Context(), voucher, w, []domain.Admission{admission(1, 10)})[0]
	}
	require.ErrorIs(t, at(time.Millisecond, time.Hour), domain.ErrSaleNotStarted)
	require.ErrorIs(t, at(-time.Hour, 0), domain.ErrSaleEnded)
	require.NoError(t, at(0, time.Millisecond))
	require.NoError(t, at(-time.Hour, 0), "the first reply was lost, and the sale has ended since")
}

func TestBacklogLimitsUsersOfShard(t *testing.T) {
	eachGate(t, 3, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		g.cfg.MaxBacklog = 2
		db.stock[neighbour], db.stock[stranger] = 9, 9
		require.NoError(t, g.Load(t.Context(), neighbour, db))
		require.NoError(t, g.Load(t.Context(), stranger, db))
		of := func(voucherID int64, a domain.Admission) domain.Admission {
			a.VoucherID = voucherID
			return a
		}
		require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
		require.Equal(t, []error{nil, domain.ErrOverloaded},
			reserve(t, g, of(neighbour, admission(2, 10)), of(neighbour, admission(3, 11))))
		require.Equal(t, []error{nil}, reserve(t, g, of(stranger, admission(4, 10))))
		// User 10 has two tickets and counts once. The buyers of one call count one by one.
		require.Equal(t, []error{nil, domain.ErrOverloaded}, reserve(t, g, admission(8, 12), admission(9, 13)))
		// With a full backlog, buyers with an active order still get DuplicateOrderError, and a sold-out sale
		// ErrSoldOut.
		require.Equal(t, []error{&domain.DuplicateOrderError{OrderID: 1}, domain.ErrOverloaded},
			reserve(t, g, admission(5, 10), admission(6, 11)))
		require.NoError(t, g.AddStock(t.Context(), voucher, -1))
		require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(7, 11)))
		require.NoError(t, g.AddStock(t.Context(), voucher, 1))
		for _, p := range queue(t, g, voucher) {
			settle(t, g, p)
		}
		require.Equal(t, []error{nil}, reserve(t, g, admission(7, 11)), "the backlog is settled")
	})
}

// executed returns how many commands a server has executed, those of scripts and earlier calls of executed included.
func executed(t *testing.T, rdb env.RedisClient) int64 {
	t.Helper()
	return env.Must(strconv.ParseInt(rdb.InfoMap(t.Context(), "stats").Item("Stats", "total_commands_processed"), 10, 64))(t)
}

// The number of commands inside the scripts grows with the entries, and not with the buyers.
func TestCommandsDoNotGrowWithBuyers(t *testing.T) {
	rdb := env.StartRedis(t).Client(t)
	g, _ := withStock(t, rdb, 1000)
	as := admissions(1, 200)
	reserve(t, g, admission(1000, 1000)) // loads the script into Redis
	before := executed(t, rdb)
	reserve(t, g, as...)
	require.LessOrEqual(t, executed(t, rdb)-before, int64(len(as)/64+19), "one command per entry, and a constant number")
	done := queue(t, g, voucher)
	before = executed(t, rdb)
	require.NoError(t, g.Settle(t.Context(), done))
	require.LessOrEqual(t, executed(t, rdb)-before, int64(len(done)+12))
}

func TestReserveRepeatsAfterLostReply(t *testing.T) {
	eachGate(t, 5, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		reserve(t, g, admission(9, 9))
		var lose atomic.Int64 // replies still to drop
		lose.Store(2)
		rdb.AddHook(env.RedisHook{Command: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if err == nil && lose.Add(-1) >= 0 {
				err = &net.OpError{Op: "read", Err: errors.New("connection reset")}
				cmd.SetErr(err)
			}
			return err
		}})
		require.Equal(t, []error{nil, nil}, reserve(t, g, admission(1, 10), admission(2, 11)))
		requireLevel(t, g, Level{Stock: 2, Held: 3, Queued: 3, Backlog: 2})

		lose.Store(1 << 40)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, g.Reserve(ctx, voucher, onSale(), []domain.Admission{admission(3, 12)})[0], domain.ErrUnavailable)
	})
}

func TestReserveFailsAtOnceWithoutRedis(t *testing.T) {
	server := env.StartRedis(t)
	g, _ := withStock(t, server.Client(t), 5)
	server.Kill()
	require.ErrorIs(t, reserve(t, g, admission(1, 10))[0], domain.ErrUnavailable)
}

// keyed returns an admission with a request key, for a user with a limit of 3. what is the content of the request.
func keyed(order, user int64, key, what string) domain.Admission {
	a := admission(order, user)
	var fingerprint [32]byte
	copy(fingerprint[:], what)
	a.Limit, a.Key = 3, domain.NewRequestKey(key, fingerprint)
	return a
}

// Until the order is in the database, the gate recognizes a request that it has admitted, in the same batch and in a
// later one. The order id itself is admitted again, as after a lost reply.
func TestReserveRecognizesRepeatedRequest(t *testing.T) {
	eachGate(t, 10, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		first, again, mismatch := keyed(1, 10, "k", "a"), &domain.RepeatedError{OrderID: 1}, domain.ErrIdempotencyMismatch
		require.Equal(t, []error{nil, again, nil, mismatch, nil}, reserve(t, g,
			first, keyed(2, 10, "k", "a"), keyed(3, 10, "l", "a"), keyed(4, 10, "k", "b"), keyed(5, 11, "k", "b")))
		require.Equal(t, []error{nil, again, nil}, reserve(t, g, first, keyed(6, 10, "k", "a"), admission(7, 12)))
		requireLevel(t, g, Level{Stock: 6, Held: 4, Queued: 4, Backlog: 2})

		stored := queue(t, g, voucher)[0].Admissions[0]
		require.Equal(t, first.Key.Hash, stored.Key.Hash)
		require.Equal(t, first.Key.Request, stored.Key.Request)

		// The keys' records expire. While the orders are queued, their tickets have the keys.
		notes := env.Must(rdb.Keys(t.Context(), "seckill:{s7}:key:*").Result())(t)
		require.Len(t, notes, 3)
		require.Positive(t, rdb.TTL(t.Context(), notes[0]).Val())
		require.NoError(t, rdb.Del(t.Context(), notes...).Err())
		require.Equal(t, []error{again, mismatch, nil}, reserve(t, g,
			keyed(8, 10, "k", "a"), keyed(9, 10, "l", "b"), keyed(10, 10, "m", "a")))
	})
}

// A purchase without an order id gets no unit, although some are free. Its other answers are those of every purchase.
func withoutOrder(t testing.TB, rdb env.RedisClient) {
	for _, segments := range []int{1, 4} {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		g, _ := segmentsWithStock(t, rdb, segments, 10)
		require.Equal(t, []error{nil}, reserve(t, g, keyed(1, 10, "k", "a")))
		before := level(t, g, voucher)
		second := keyed(0, 10, "l", "a")
		second.Limit = 1
		require.Equal(t, []error{
			&domain.RepeatedError{OrderID: 1}, domain.ErrIdempotencyMismatch, &domain.DuplicateOrderError{OrderID: 1}, domain.ErrSoldOut,
		}, reserve(t, g, keyed(0, 10, "k", "a"), keyed(0, 10, "k", "b"), second, admission(0, 11)))
		require.Equal(t, before, level(t, g, voucher))

		require.NoError(t, rdb.HSet(t.Context(), segmentKeys(t, g, voucher)[home(11, segments)].meta, "history", "of another server").Err())
		require.Equal(t, []error{domain.ErrGateLacking}, reserve(t, g, admission(0, 11)))
	}
}

func TestParseRowRejectsMalformedRows(t *testing.T) {
	for name, row := range map[string]string{
		"nothing":                   "",
		"too few words":             "1 10 7 1 100",
		"no currency":               "1 10 7 1 100 1000",
		"not a number":              "1 10 7 1 hundred 1000 ",
		"number out of range":       "9223372036854775808 10 7 1 100 1000 ",
		"seconds not a number":      "1 10 7 1 100 1000 EUR here~soon",
		"position not a number":     "1 10 7 1 100 1000 EUR here first",
		"an empty position":         "1 10 7 1 100 1000 EUR here ",
		"a short offer":             "1 10 7 1 100 1000 EUR here!AAAA",
		"an offer of no bytes":      "1 10 7 1 100 1000 EUR here!++++++++++++++++++++++",
		"a short request key":       "1 10 7 1 100 1000 EUR here#AAAA",
		"a request key of no bytes": "1 10 7 1 100 1000 EUR here#!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
	} {
		require.Error(t, env.Err(parseRow(row)), name)
	}
}

func TestRowsRoundTrip(t *testing.T) {
	key := domain.NewRequestKey("k", [32]byte{7})
	key.Name = "" // is not stored
	at := time.UnixMilli(1000).UTC()
	offers := []domain.OfferID{{}, {1, 2, 3}}
	var as []domain.Admission
	for _, key := range []*domain.RequestKey{nil, key} {
		for _, timeToPay := range []time.Duration{0, 90 * time.Second} {
			for _, place := range []int64{0, 5} {
				round := uint32(len(as)) * 9 // 0 in the first
				for _, trace := range []*domain.Trace{nil, {Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Since: at}} {
					as = append(as, domain.Admission{
						OrderID: 1 << 60, UserID: 10, VoucherID: 7, Limit: 2, Amount: 100, Currency: "EUR", At: at,
						PayTimeout: timeToPay, Round: round, Key: key, Place: place, Trace: trace,
						OfferID: offers[(len(as)+len(as)/2)%2],
					})
				}
			}
		}
	}
	rows := formatRows(as)
	for i := range as {
		require.Equal(t, rows[i], formatRow(&as[i]))
		require.Equal(t, []domain.Admission{as[i], as[0]}, env.Must(parseRows(rows[i]+rowSeparator+rows[0]))(t))

		earlier := strings.Replace(rows[i], "EUR ", "EUR host-1-ABCDEFGH", 1)
		require.Equal(t, as[i], env.Must(parseRow(earlier))(t), "of a release that wrote the name of a server")
	}
}

func stocks(t *testing.T, g *Gate) (units []int64) {
	t.Helper()
	all := env.Must(g.readSegments(t.Context(), voucher, segmentKeys(t, g, voucher)))(t)
	for i := range all {
		units = append(units, all[i].level.Stock)
	}
	return units
}

// usersOf returns users whose home is a segment.
func usersOf(segment, segments, count int) (users []int64) {
	for user := int64(1); len(users) < count; user++ {
		if home(user, segments) == segment {
			users = append(users, user)
		}
	}
	return users
}

func TestHomesAreEven(t *testing.T) {
	for _, step := range []int64{1, 16, 1 << 32} {
		counts := make([]int, Shards)
		for i := range int64(16_000) {
			counts[home(1+i*step, len(counts))]++
		}
		require.Less(t, slices.Max(counts), 1120, "users %d apart", step)
		require.Greater(t, slices.Min(counts), 880, "users %d apart", step)
	}
}

// The Redis of a lender has lost its loan, for instance in a failover. The next buyer that needs a unit of another segment
// finds a cold gate, and the load sells every unit once.
func TestLostLoanIsLoadedAgain(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, db := segmentsWithStock(t, rdb, 2, 8)
		for i, user := range usersOf(0, 2, 5) { // the fifth borrows
			require.Equal(t, []error{nil}, reserve(t, g, admission(int64(i+1), user)))
		}
		keys := segmentKeys(t, g, voucher)
		require.NoError(t, rdb.HDel(t.Context(), keys[1].loans, "to:"+strconv.Itoa(int(keys[0].shard))).Err())
		buyer := admission(9, usersOf(1, 2, 9)[8])
		require.NoError(t, rdb.Set(t.Context(), keys[1].stock, 0, 0).Err())
		require.Equal(t, []error{domain.ErrGateCold}, reserve(t, g, buyer))
		require.NoError(t, g.Load(t.Context(), voucher, db))
		require.Equal(t, []error{nil}, reserve(t, g, buyer))
		require.EqualValues(t, 2, level(t, g, voucher).Stock)
	})
}

// As many units have returned as a segment lacks, and one more: the next buyer gets it.
func TestUnitLeftByNegativeSegmentIsSold(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, db := segmentsWithStock(t, rdb, 4, 4)
		buyers := append(usersOf(1, 4, 2), usersOf(2, 4, 2)...)
		for i, user := range buyers {
			require.Equal(t, []error{nil}, reserve(t, g, admission(int64(i+1), user)))
		}
		db.stock[voucher] = 1
		require.NoError(t, g.Rebuild(t.Context(), voucher, level(t, g, voucher).Built, db))
		for i, user := range buyers {
			require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: int64(i + 1), UserID: user}))
		}
		require.Equal(t, []int64{-3, 2, 2, 0}, stocks(t, g))
		require.Equal(t, []error{nil}, reserve(t, g, admission(5, usersOf(3, 4, 1)[0])))
		require.Equal(t, []int64{0, 0, 0, 0}, stocks(t, g))
	})
}

// On three masters, one hot voucher of 16 segments loads all of them: the busiest one executes at most 1.2 times the
// average of the commands, from the purchase to the settled order.
func TestSegmentsLoadMastersEvenly(t *testing.T) {
	cluster := env.StartRedisCluster(t)
	g, _ := segmentsWithStock(t, cluster.Client(t), 16, 3000)
	byMaster := func() (calls []int64) {
		for _, node := range cluster.Nodes {
			calls = append(calls, executed(t, servers.NewRedisClient(t, node.Addr, 0)))
		}
		return calls
	}
	before := byMaster()
	admitted := 0
	for batch := range int64(64) { // 3,200 buyers, 50 at a time, as the lane groups them
		for _, err := range reserve(t, g, admissions(batch*50+1, 50)...) {
			if err == nil {
				admitted++
			}
		}
		require.NoError(t, g.Settle(t.Context(), queue(t, g, voucher)))
	}
	require.Equal(t, 3000, admitted)
	var busiest, sum int64
	calls := byMaster()
	for i := range calls {
		calls[i] -= before[i]
		busiest, sum = max(busiest, calls[i]), sum+calls[i]
	}
	t.Logf("commands per master: %v; the busiest has %.2f times the average", calls, float64(busiest)*3/float64(sum))
	require.LessOrEqual(t, busiest*3*10, sum*12, "commands per master: %v", calls)
}

// The number of segments changes while admissions of an earlier window are queued, so that they are settled in other
// segments than the homes of their users. The gate can then be off by these orders, and a rebuild, which the reconciler
// requests within seconds, makes it exact.
func TestSegmentsChangeBesideQueuedAdmissions(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		for _, n := range [][2]int{{4, 1}, {1, 4}, {4, 2}, {16, 1}, {2, 16}} {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			before, db := segmentsWithStock(t, rdb, n[0], 20)
			reserveApart(t, before, admissions(1, 12)...)
			entries := queue(t, before, voucher)
			require.Len(t, entries, 12)

			after := segmented(rdb, map[int64]int{voucher: n[1]})
			if n[1] > 1 { // a gate of one segment does not look for others: service.Vouchers unloads it
				env.Fails(after.Level(t.Context(), voucher))(t, domain.ErrGateCold)
			}
			require.NoError(t, after.Unload(t.Context(), voucher))
			require.NoError(t, after.Load(t.Context(), voucher, db))
			for i, p := range entries {
				a := p.Admissions[0]
				if i%2 == 0 {
					settle(t, after, p, failed)
					continue
				}
				require.Empty(t, db.commit(a))
				settle(t, after, p)
				if i%4 == 1 {
					require.True(t, db.cancel(a.OrderID))
					require.NoError(t, after.Release(t.Context(), voucher, domain.Holder{OrderID: a.OrderID, UserID: a.UserID}))
				}
			}

			require.NoError(t, after.Rebuild(t.Context(), voucher, level(t, after, voucher).Built, db))
			requireExact(t, after, db)
		}
	})
}
