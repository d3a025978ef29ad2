package admission

import (
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// segmentsWithStock returns a gate of n segments that is loaded with units of voucher, and its database.
func segmentsWithStock(t testing.TB, rdb redis.UniversalClient, n int, units int64) (*Gate, *database) {
	t.Helper()
	g, db := segmented(rdb, map[int64]int{voucher: n}), newDatabase()
	db.stock[voucher] = units
	require.NoError(t, g.Load(t.Context(), voucher, db))
	return g, db
}

// stocks returns the stock of each segment of the voucher.
func stocks(t *testing.T, g *Gate) (units []int64) {
	t.Helper()
	all, err := g.readSegments(t.Context(), voucher, segmentKeys(t, g, voucher))
	require.NoError(t, err)
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
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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
	rdb := cluster.Client(t)
	g, _ := segmentsWithStock(t, rdb, 16, 3000)
	executed := func() (calls []int64) {
		for _, node := range cluster.Nodes {
			one := redis.NewClient(&redis.Options{Addr: node.Addr})
			stats := one.InfoMap(t.Context(), "stats").Item("Stats", "total_commands_processed")
			require.NoError(t, one.Close())
			calls = append(calls, parseInt(t, stats))
		}
		return calls
	}
	before := executed()
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
	calls := executed()
	for i := range calls {
		calls[i] -= before[i]
		busiest, sum = max(busiest, calls[i]), sum+calls[i]
	}
	t.Logf("commands per master: %v; the busiest has %.2f times the average", calls, float64(busiest)*3/float64(sum))
	require.LessOrEqual(t, busiest*3*10, sum*12, "commands per master: %v", calls)
}

func parseInt(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// The number of segments changes while admissions of an earlier window are queued, so that they are settled in other
// segments than the homes of their users. The gate can then be off by these orders, and a rebuild, which the reconciler
// requests within seconds, makes it exact.
func TestSegmentsChangeBesideQueuedAdmissions(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, n := range [][2]int{{4, 1}, {1, 4}, {4, 2}, {16, 1}, {2, 16}} {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			before, db := segmentsWithStock(t, rdb, n[0], 20)
			reserveApart(t, before, admissions(1, 12)...)
			entries := queue(t, before, voucher)
			require.Len(t, entries, 12)

			after := segmented(rdb, map[int64]int{voucher: n[1]})
			if n[1] > 1 { // a gate of one segment does not look for others: service.Vouchers unloads it
				_, err := after.Level(t.Context(), voucher)
				require.ErrorIs(t, err, domain.ErrGateCold)
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
