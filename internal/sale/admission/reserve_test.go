package admission

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

func TestReserveRespectsStockAndLimit(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 2)
		results := reserve(t, g, admission(1, 10), admission(2, 10), admission(3, 11), admission(4, 12))
		require.Equal(t, []error{nil, &domain.DuplicateOrderError{OrderID: 1}, nil, domain.ErrSoldOut}, results)
		requireLevel(t, g, Level{Stock: 0, Held: 2, Queued: 2, Backlog: 1})
		require.Equal(t, map[string]string{"10": "1", "11": "3"}, buyers(t, g, voucher))
		require.Equal(t, []domain.Admission{at(1, admission(1, 10)), at(2, admission(3, 11))}, queue(t, g, voucher)[0].Admissions)
		ticket, err := g.Ticket(t.Context(), 10, 1)
		require.NoError(t, err)
		want, first := at(1, admission(1, 10)), int64(0)
		want.ReplyTo = ""
		require.Equal(t, domain.Ticket{Admission: want, Ahead: &first}, ticket)
		requireTickets(t, g, voucher)
	})
}

// Operators see these keys and formats in redis-cli, and later releases must be able to parse them.
func TestKeysAndFormatsAreStable(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 2)
		reserve(t, g, admission(1, 10), admission(2, 11))
		requireKeys(t, rdb, "seckill:{s7}:7:stock", "seckill:{s7}:7:buyers", "seckill:{s7}:7:meta",
			"seckill:{s7}:queued", "seckill:{s7}:orders")
		at := strconv.FormatInt(noon.UnixMilli(), 10)
		text, err := rdb.HGet(t.Context(), "seckill:{s7}:queued", "10").Result()
		require.NoError(t, err)
		first, second := "1 10 7 1 100 "+at+" CNY here 1", "2 11 7 1 100 "+at+" CNY here 2"
		require.Equal(t, first, text)
		fields := func(stream string, n int) map[string]any {
			entries, err := rdb.XRange(t.Context(), stream, "-", "+").Result()
			require.NoError(t, err)
			return entries[n].Values
		}
		require.Equal(t, map[string]any{"rows": first + "\n" + second, "generation": "1"}, fields("seckill:{s7}:orders", 0))
		p := queue(t, g, voucher)[0]
		p.Tries = 2
		settle(t, g, p, domain.End{Again: true}, domain.End{Dead: "poison"})
		require.Equal(t, map[string]any{"rows": first, "generation": "1", "tries": "2"}, fields("seckill:{s7}:orders", 0))
		require.Equal(t, map[string]any{
			"dead_entry": p.Entry, "dead_reason": "poison", "dead_tries": "2", "row": second,
		}, fields("seckill:{s7}:dead", 0))
		text, err = rdb.HGet(t.Context(), "seckill:{s7}:user:11", "2").Result()
		require.NoError(t, err)
		require.Regexp(t, "^internal [0-9]{13} "+second+"$", text)
	})
}

// A call that admits more than 64 buyers adds several entries.
func TestReserveSplitsEntriesAt64Rows(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 1000)
		as := make([]domain.Admission, 130)
		for i := range as {
			as[i] = admission(int64(i+1), int64(i+1))
		}
		reserve(t, g, as...)
		var sizes []int
		for _, p := range queue(t, g, voucher) {
			sizes = append(sizes, len(p.Admissions))
		}
		require.Equal(t, []int{64, 64, 2}, sizes)
		for i := range as {
			as[i].Place = int64(i + 1)
		}
		require.Equal(t, as, queued(t, g, voucher))
		requireTickets(t, g, voucher)
		require.NoError(t, g.Settle(t.Context(), queue(t, g, voucher)))
		requireLevel(t, g, Level{Stock: 870, Held: 130})
		requireKeys(t, rdb, voucherKeys.stock, voucherKeys.buyers, voucherKeys.meta, shardOf(voucher).Stream())
	})
}

// Parse rejects entries that the gate cannot have written.
func TestParse(t *testing.T) {
	g, stream := newGate(nil), shardOf(voucher).Stream()
	for name, fields := range map[string]map[string]any{
		"nothing":            {},
		"an empty row":       {"rows": "1 10 7 1 100 1000 \n"},
		"two vouchers":       {"rows": "1 10 7 1 100 1000 \n2 11 23 1 100 1000 "},
		"tries not a number": {"rows": "1 10 7 1 100 1000 ", "tries": "some"},
		"unknown fields":     {"order": "1", "user": "10", "voucher": "7"},
	} {
		_, err := g.Parse(stream, "1-1", fields)
		require.Error(t, err, name)
	}
	p, err := g.Parse(stream, "1-1", map[string]any{"rows": "1 10 7 1 100 1000 CNY here\n2 11 7 1 100 1000 CNY here", "tries": "3"})
	require.NoError(t, err)
	want := []domain.Admission{admission(1, 10), admission(2, 11)}
	want[0].At, want[1].At = time.UnixMilli(1000).UTC(), time.UnixMilli(1000).UTC()
	require.Equal(t, domain.StreamEntry{Stream: stream, Entry: "1-1", Tries: 3, Admissions: want}, p)
}

func TestReserveIsIdempotentByOrder(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		a := admission(1, 10)
		require.Equal(t, []error{nil, nil}, reserve(t, g, a, a))
		before := level(t, g, voucher)
		require.Equal(t, []error{nil}, reserve(t, g, a))
		require.Equal(t, before, level(t, g, voucher))
		requireLevel(t, g, Level{Stock: 4, Held: 1, Queued: 1, Backlog: 1})
		// The same order id of another user is a different admission.
		require.Equal(t, []error{nil}, reserve(t, g, admission(1, 11)))
		requireLevel(t, g, Level{Stock: 3, Held: 2, Queued: 2, Backlog: 2})
		requireTickets(t, g, voucher)
	})
}

// Adjacent ids beyond the precision of Lua's numbers are different orders.
func TestIDsAbove53BitsStayDistinct(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const order, user = int64(1)<<62 + 1, int64(1)<<53 + 1
		g, _ := withStock(t, rdb, 5)
		require.Equal(t, []error{nil}, reserve(t, g, admission(order, user)))
		require.Equal(t, []error{&domain.DuplicateOrderError{OrderID: order}}, reserve(t, g, admission(order+1, user)))
		require.Equal(t, []error{nil}, reserve(t, g, admission(order+1, user-1)))
		require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: order + 1, UserID: user})) // another user's
		require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: order, UserID: user}))
		require.Equal(t, map[string]string{strconv.FormatInt(user-1, 10): strconv.FormatInt(order+1, 10)},
			buyers(t, g, voucher))
	})
}

func TestReserveOutsideWindowIsRefused(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		now := time.Now()
		for want, w := range map[error]domain.Window{
			domain.ErrSaleNotStarted: {Begin: now.Add(time.Hour), End: now.Add(2 * time.Hour)},
			domain.ErrSaleEnded:      {Begin: now.Add(-2 * time.Hour), End: now.Add(-time.Hour)},
		} {
			results, err := g.Reserve(t.Context(), voucher, w, []domain.Admission{admission(1, 10), admission(2, 11)})
			require.NoError(t, err)
			require.Equal(t, []error{want, want}, results)
		}
		requireLevel(t, g, Level{Stock: 5})
	})
}

// The bounds of the window are exact to the millisecond. The server's clock stands still.
func TestWindowIncludesBeginAndExcludesEnd(t *testing.T) {
	m := testenv.StartMiniredis(t)
	m.SetTime(noon)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	g, _ := withStock(t, rdb, 5)
	at := func(begin, end time.Duration) error {
		w := domain.Window{Begin: noon.Add(begin), End: noon.Add(end)}
		results, err := g.Reserve(t.Context(), voucher, w, []domain.Admission{admission(1, 10)})
		require.NoError(t, err)
		return results[0]
	}
	require.NoError(t, at(0, time.Millisecond))
	require.ErrorIs(t, at(time.Millisecond, time.Hour), domain.ErrSaleNotStarted)
	require.ErrorIs(t, at(-time.Hour, 0), domain.ErrSaleEnded)
}

func TestBacklogLimitsUsersOfShard(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 3)
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

func TestReserveSplitsLargeCalls(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 1200)
		as := make([]domain.Admission, 1300)
		for i := range as {
			as[i] = admission(int64(i+1), int64(i+1))
		}
		results := reserve(t, g, as...)
		for i, err := range results {
			if i < 1200 {
				require.NoError(t, err, i)
			} else {
				require.ErrorIs(t, err, domain.ErrSoldOut, i)
			}
		}
		requireLevel(t, g, Level{Held: 1200, Queued: 1200, Backlog: 20})
		results, err := g.Reserve(t.Context(), voucher, onSale(), nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

func TestColdGateDecidesNothing(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb)
		_, err := g.Reserve(t.Context(), voucher, onSale(), []domain.Admission{admission(1, 10)})
		require.ErrorIs(t, err, domain.ErrGateCold)
		_, err = g.Level(t.Context(), voucher)
		require.ErrorIs(t, err, domain.ErrGateCold)
		require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: 1, UserID: 10}))
		require.NoError(t, g.AddStock(t.Context(), voucher, 5))
		requireKeys(t, rdb)
	})
}

// The number of commands inside the scripts grows with the entries, and not with the buyers.
func TestCommandsDoNotGrowWithBuyers(t *testing.T) {
	rdb := testenv.StartRedis(t).Client(t)
	g, _ := withStock(t, rdb, 1000)
	calls := func() int64 {
		info, err := rdb.InfoMap(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		var total int64
		for name, stats := range info["Commandstats"] {
			if name == "cmdstat_info" {
				continue
			}
			var n int64
			for _, c := range stats[len("calls="):] {
				if c < '0' || c > '9' {
					break
				}
				n = 10*n + int64(c-'0')
			}
			total += n
		}
		return total
	}
	as := make([]domain.Admission, 200)
	for i := range as {
		as[i] = admission(int64(i+1), int64(i+1))
	}
	reserve(t, g, admission(1000, 1000)) // loads the script into Redis
	before := calls()
	reserve(t, g, as...)
	require.LessOrEqual(t, calls()-before, int64(len(as)/64+18), "one command per entry and a constant number of others")
	done := queue(t, g, voucher)
	before = calls()
	require.NoError(t, g.Settle(t.Context(), done))
	require.LessOrEqual(t, calls()-before, int64(len(done)+12))
}

// lossy is a hook that executes commands and drops the replies of some.
type lossy struct {
	lose atomic.Int64 // replies still to drop
}

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && l.lose.Add(-1) >= 0 {
			err = &net.OpError{Op: "read", Err: errors.New("connection reset")}
			cmd.SetErr(err)
		}
		return err
	}
}

func TestReserveRepeatsAfterLostReply(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(9, 9))
		l := &lossy{}
		l.lose.Store(2)
		rdb.AddHook(l)
		require.Equal(t, []error{nil, nil}, reserve(t, g, admission(1, 10), admission(2, 11)))
		requireLevel(t, g, Level{Stock: 2, Held: 3, Queued: 3, Backlog: 2})

		l.lose.Store(1 << 40)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := g.Reserve(ctx, voucher, onSale(), []domain.Admission{admission(3, 12)})
		require.ErrorIs(t, err, domain.ErrUnavailable)
	})
}

// Reserve does not retry if Redis refuses the connection.
func TestReserveFailsAtOnceWithoutRedis(t *testing.T) {
	server := testenv.StartRedis(t)
	g, _ := withStock(t, server.Client(t), 5)
	server.Kill()
	_, err := g.Reserve(t.Context(), voucher, onSale(), []domain.Admission{admission(1, 10)})
	require.ErrorIs(t, err, domain.ErrUnavailable)
}
