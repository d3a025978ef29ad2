package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/test/testenv"
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

func TestLoadDividesStock(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := segmentsWithStock(t, rdb, 4, 10)
		require.Equal(t, []int64{3, 3, 2, 2}, stocks(t, g))
		requireExact(t, g, db)
		require.NoError(t, g.Load(t.Context(), voucher, newDatabase()), "the gate is loaded")
	})
}

// All buyers live in one segment. They get every unit of the sale, and are refused only then.
func TestSoldOutOnlyWhenAllSegmentsAreEmpty(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const units = 50
		g, db := segmentsWithStock(t, rdb, 16, units)
		admitted := 0
		for i, user := range usersOf(3, 16, units+5) {
			err := reserve(t, g, admission(int64(i+1), user))[0]
			if err != nil {
				require.ErrorIs(t, err, domain.ErrSoldOut)
				require.Equal(t, make([]int64, 16), stocks(t, g))
				continue
			}
			admitted++
			require.Equal(t, []error{&domain.DuplicateOrderError{OrderID: int64(i + 1)}}, reserve(t, g, admission(1000+int64(i), user)))
		}
		require.Equal(t, units, admitted)
		requireExact(t, g, db)

		// A returned unit is in the home of its buyer, and any other buyer gets it.
		require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: 1, UserID: usersOf(3, 16, 1)[0]}))
		require.Equal(t, []error{nil}, reserve(t, g, admission(2000, usersOf(9, 16, 1)[0])))
	})
}

// The only unit is on its way between two segments, and its process has died. A buyer of a third one gets it.
func TestBuyerGetsUnitThatIsOnItsWay(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := segmentsWithStock(t, rdb, 4, 1)
		all, err := g.readSegments(t.Context(), voucher, segmentKeys(t, g, voucher))
		require.NoError(t, err)
		lender, borrower := &all[0], &all[1]
		require.NoError(t, g.run(t.Context(), lendScript, lender.keys.list(lender.keys.loans), lender.epoch, int(borrower.keys.shard), 1).Err())
		require.Equal(t, make([]int64, 4), stocks(t, g))
		require.EqualValues(t, 1, level(t, g, voucher).Stock, "it is free")
		require.Equal(t, []error{nil}, reserve(t, g, admission(1, usersOf(2, 4, 1)[0])))
		require.Zero(t, level(t, g, voucher).Stock)
		require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(2, usersOf(3, 4, 1)[0])))
	})
}

// The Redis of a lender has lost its loan, for instance in a failover. The next buyer that needs a unit of another segment
// finds a cold gate, and the load sells every unit once.
func TestLostLoanIsLoadedAgain(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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

// More orders are in flight than the database has units, and one of them returns its unit: it pays for another one,
// and no further buyer is admitted.
func TestReturnedUnitsPayForNegativeSegments(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := segmentsWithStock(t, rdb, 4, 3)
		buyer := usersOf(2, 4, 2)
		for i, user := range append(usersOf(1, 4, 2), buyer[0]) {
			require.Equal(t, []error{nil}, reserve(t, g, admission(int64(i+1), user)))
		}
		db.stock[voucher] = 0
		require.NoError(t, g.Rebuild(t.Context(), voucher, level(t, g, voucher).Built, db))
		require.Equal(t, []int64{-3, 0, 0, 0}, stocks(t, g))
		require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: 3, UserID: buyer[0]}))
		require.Equal(t, []int64{-3, 0, 1, 0}, stocks(t, g))
		require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(4, usersOf(3, 4, 1)[0])))
		require.Equal(t, []int64{-2, 0, 0, 0}, stocks(t, g))
		require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(5, buyer[1])))
	})
}

// As many units have returned as a segment lacks, and one more: the next buyer gets it.
func TestUnitLeftByNegativeSegmentIsSold(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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

// A late step of a loan changes nothing after a load, which has counted the units already.
func TestLoadEndsLoans(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := segmentsWithStock(t, rdb, 4, 8)
		all, err := g.readSegments(t.Context(), voucher, segmentKeys(t, g, voucher))
		require.NoError(t, err)
		lender, borrower := &all[0], &all[1]
		require.NoError(t, g.run(t.Context(), lendScript, lender.keys.list(lender.keys.loans), lender.epoch, int(borrower.keys.shard), 2).Err())
		read, _ := during(db, func() {
			require.NoError(t, g.credit(t.Context(), borrower, lender, 2))
			err := g.run(t.Context(), lendScript, lender.keys.list(lender.keys.loans), lender.epoch, int(borrower.keys.shard), 1).Err()
			require.ErrorIs(t, err, redis.Nil, "no loans during a load")
		}, nil)
		require.NoError(t, g.Rebuild(t.Context(), voucher, level(t, g, voucher).Built, read))
		loaded := stocks(t, g)
		require.NoError(t, g.credit(t.Context(), borrower, lender, 2))
		require.Equal(t, loaded, stocks(t, g), "the level of the gate subtracts units that were borrowed but not lent")
		requireExact(t, g, db)
	})
}

// A gate that was loaded with another number of segments is cold.
func TestNumberOfSegmentsChanges(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		db := newDatabase()
		db.stock[voucher] = 10
		for i, n := range []int{1, 4, 2, 16, 1} {
			g := segmented(rdb, map[int64]int{voucher: n})
			if n == 1 { // service.Vouchers unloads the gate after the change
				require.NoError(t, g.Unload(t.Context(), voucher))
			}
			_, err := g.Level(t.Context(), voucher)
			require.ErrorIs(t, err, domain.ErrGateCold)
			require.NoError(t, g.Load(t.Context(), voucher, db))
			requireExact(t, g, db)
			a := admission(int64(i+1), int64(10+i))
			require.Equal(t, []error{nil}, reserve(t, g, a))
			require.Empty(t, db.commit(a))
			settle(t, g, queue(t, g, voucher)[0])
			requireExact(t, g, db)
		}
	})
}

// Removing units takes them from all segments, or none.
func TestAddStockToSegments(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := segmentsWithStock(t, rdb, 4, 10)
		require.ErrorIs(t, g.AddStock(t.Context(), voucher, -11), domain.ErrInvalidState)
		requireExact(t, g, db)
		require.NoError(t, g.AddStock(t.Context(), voucher, -9))
		require.NoError(t, g.AddStock(t.Context(), voucher, 2))
		db.stock[voucher] = 3
		requireExact(t, g, db)
	})
}

// loseReplies is a hook that makes some scripts of loans fail, before or after Redis executes them.
type loseReplies struct{ lost atomic.Int64 }

func (*loseReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*loseReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *loseReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		loan := slices.ContainsFunc(cmd.Args(), func(arg any) bool {
			text, _ := arg.(string)
			return strings.HasSuffix(text, ":loans")
		}) && strings.HasPrefix(cmd.Name(), "eval")
		if !loan || rand.IntN(4) > 0 {
			return next(ctx, cmd)
		}
		if rand.IntN(2) == 0 {
			_ = next(ctx, cmd)
		}
		h.lost.Add(1)
		err := errors.New("reply lost")
		cmd.SetErr(err)
		return err
	}
}

// Many more buyers than units arrive at once, and some steps of loans fail. Every unit is sold once, no user gets two,
// and no buyer is refused while a unit is left.
func TestSegmentsSellEveryUnitOnce(t *testing.T) {
	testenv.Full(t)
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const units, users, rounds = 200, 150, 4
		g, db := segmentsWithStock(t, rdb, 16, units)
		faults := &loseReplies{}
		rdb.AddHook(faults)
		var admitted, next atomic.Int64
		var buyers errgroup.Group
		for range 8 {
			buyers.Go(func() error {
				for range rounds * users / 8 {
					a := admission(next.Add(1), 1+rand.Int64N(users))
					a.Limit = 2
					for {
						results, err := g.Reserve(t.Context(), voucher, onSale(), []domain.Admission{a})
						if err != nil {
							return err
						}
						if errors.Is(results[0], domain.ErrUnavailable) {
							continue
						}
						if results[0] == nil {
							admitted.Add(1)
						}
						if errors.Is(results[0], domain.ErrSoldOut) && admitted.Load() < units-8 {
							return errors.New("sold out too early")
						}
						break
					}
				}
				return nil
			})
		}
		require.NoError(t, buyers.Wait())
		for user := int64(1); admitted.Load() < units && user <= users; user++ { // the rest
			for range 2 {
				a := admission(next.Add(1), user)
				a.Limit = 2
				for {
					result := reserve(t, g, a)[0]
					if errors.Is(result, domain.ErrUnavailable) {
						continue
					}
					if result == nil {
						admitted.Add(1)
					}
					break
				}
			}
		}
		require.EqualValues(t, units, admitted.Load())
		require.Positive(t, faults.lost.Load())
		requireExact(t, g, db)
	})
}

// On three masters, one hot voucher of 16 segments loads all of them: the busiest one executes at most 1.2 times the
// average of the commands, from the purchase to the settled order.
func TestSegmentsLoadMastersEvenly(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
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
		as := make([]domain.Admission, 50)
		for i := range as {
			id := batch*50 + int64(i) + 1
			as[i] = admission(id, id)
		}
		for _, err := range reserve(t, g, as...) {
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
