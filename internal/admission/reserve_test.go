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

	"seckill/internal/service"
	"seckill/internal/testenv"
)

func TestReserve(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 2)
		results := reserve(t, g, admission(1, 10), admission(2, 10), admission(3, 11), admission(4, 12))
		require.Equal(t, []error{nil, &service.DuplicateOrderError{OrderID: 1}, nil, service.ErrSoldOut}, results)
		requireLevel(t, g, Level{Stock: 0, Held: 2, Queued: 2, Backlog: 2})
		require.Equal(t, map[string]string{"10": "1", "11": "3"}, buyers(t, g, voucher))
		q := queue(t, g, voucher)
		require.Equal(t, admission(1, 10), q[0].Admission)
		require.Equal(t, admission(3, 11), q[1].Admission)
		ticket, err := g.Ticket(t.Context(), 10, 1)
		require.NoError(t, err)
		want := admission(1, 10)
		want.ReplyTo = ""
		require.Equal(t, service.Ticket{Admission: want}, ticket)
		ttl, err := rdb.TTL(t.Context(), shardOf(voucher).tickets(10)).Result()
		require.NoError(t, err)
		require.InDelta(t, 24*time.Hour, ttl, float64(time.Minute))
	})
}

// These are what operators see in redis-cli, and what a new version must still understand.
func TestKeysAndTexts(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 2)
		reserve(t, g, admission(1, 10))
		requireKeys(t, rdb, "seckill:{s7}:7:stock", "seckill:{s7}:7:buyers", "seckill:{s7}:7:meta",
			"seckill:{s7}:user:10", "seckill:{s7}:orders")
		at := strconv.FormatInt(noon.UnixMilli(), 10)
		text, err := rdb.HGet(t.Context(), "seckill:{s7}:user:10", "1").Result()
		require.NoError(t, err)
		require.Equal(t, "queued voucher=7 amount=100 limit=1 at="+at, text)
		entries, err := rdb.XRange(t.Context(), "seckill:{s7}:orders", "-", "+").Result()
		require.NoError(t, err)
		require.Equal(t, map[string]any{
			"order": "1", "user": "10", "voucher": "7", "amount": "100", "limit": "1", "at": at, "reply": "here",
		}, entries[0].Values)
	})
}

func TestReserveIsIdempotentByOrder(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		a := admission(1, 10)
		require.Equal(t, []error{nil, nil}, reserve(t, g, a, a))
		before := level(t, g, voucher)
		require.Equal(t, []error{nil}, reserve(t, g, a))
		require.Equal(t, before, level(t, g, voucher))
		require.Equal(t, Level{Stock: 4, Held: 1, Queued: 1, Backlog: 1, Version: before.Version}, before)
		// Somebody else's order id is not his.
		require.Equal(t, []error{nil}, reserve(t, g, admission(1, 11)))
		requireLevel(t, g, Level{Stock: 3, Held: 2, Queued: 2, Backlog: 2})
	})
}

// Ids do not fit into Lua's numbers, and neighbours there are different orders.
func TestBigIDs(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const order, user = int64(1)<<62 + 1, int64(1)<<53 + 1
		g, _ := withStock(t, rdb, 5)
		require.Equal(t, []error{nil}, reserve(t, g, admission(order, user)))
		require.Equal(t, []error{&service.DuplicateOrderError{OrderID: order}}, reserve(t, g, admission(order+1, user)))
		require.Equal(t, []error{nil}, reserve(t, g, admission(order+1, user-1)))
		require.NoError(t, g.Release(t.Context(), voucher, user, order+1)) // not his
		require.NoError(t, g.Release(t.Context(), voucher, user, order))
		require.Equal(t, map[string]string{strconv.FormatInt(user-1, 10): strconv.FormatInt(order+1, 10)},
			buyers(t, g, voucher))
	})
}

func TestLimitAndNewestOrder(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		rows := []service.Admission{admission(1, 10), admission(2, 10), admission(3, 10), admission(4, 10)}
		for i := range rows {
			rows[i].Limit = 3
		}
		require.Equal(t, []error{nil, nil, nil, &service.DuplicateOrderError{OrderID: 3}}, reserve(t, g, rows...))
		require.NoError(t, g.Release(t.Context(), voucher, 10, 3))
		require.Equal(t, map[string]string{"10": "1,2"}, buyers(t, g, voucher))
		one := admission(5, 10)
		require.Equal(t, []error{&service.DuplicateOrderError{OrderID: 2}}, reserve(t, g, one))
	})
}

func TestWindow(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		now := time.Now()
		for want, w := range map[error]service.Window{
			service.ErrSaleNotStarted: {Begin: now.Add(time.Hour), End: now.Add(2 * time.Hour)},
			service.ErrSaleEnded:      {Begin: now.Add(-2 * time.Hour), End: now.Add(-time.Hour)},
		} {
			results, err := g.Reserve(t.Context(), voucher, w, []service.Admission{admission(1, 10), admission(2, 11)})
			require.NoError(t, err)
			require.Equal(t, []error{want, want}, results)
		}
		requireLevel(t, g, Level{Stock: 5})
	})
}

// The bounds, at the very millisecond, by a clock that stands still.
func TestWindowBounds(t *testing.T) {
	m := testenv.StartMiniredis(t)
	m.SetTime(noon)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	g, _ := withStock(t, rdb, 5)
	at := func(begin, end time.Duration) error {
		w := service.Window{Begin: noon.Add(begin), End: noon.Add(end)}
		results, err := g.Reserve(t.Context(), voucher, w, []service.Admission{admission(1, 10)})
		require.NoError(t, err)
		return results[0]
	}
	require.NoError(t, at(0, time.Millisecond))
	require.ErrorIs(t, at(time.Millisecond, time.Hour), service.ErrSaleNotStarted)
	require.ErrorIs(t, at(-time.Hour, 0), service.ErrSaleEnded)
}

func TestBacklogBoundsTheShard(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 3)
		g.cfg.MaxBacklog = 2
		db.stock[neighbour], db.stock[stranger] = 9, 9
		require.NoError(t, g.Load(t.Context(), neighbour, db.read))
		require.NoError(t, g.Load(t.Context(), stranger, db.read))
		of := func(voucherID int64, a service.Admission) service.Admission {
			a.VoucherID = voucherID
			return a
		}
		require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
		require.Equal(t, []error{nil, service.ErrOverloaded},
			reserve(t, g, of(neighbour, admission(2, 10)), of(neighbour, admission(3, 11))))
		require.Equal(t, []error{nil}, reserve(t, g, of(stranger, admission(4, 10))))
		// Who holds an order hears of it, and who finds nothing left hears that, though the backlog is full.
		require.Equal(t, []error{&service.DuplicateOrderError{OrderID: 1}, service.ErrOverloaded},
			reserve(t, g, admission(5, 10), admission(6, 11)))
		require.NoError(t, g.AddStock(t.Context(), voucher, -2))
		require.Equal(t, []error{service.ErrSoldOut}, reserve(t, g, admission(7, 11)))
	})
}

func TestManyBuyersAreSeveralScripts(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 1200)
		as := make([]service.Admission, 1300)
		for i := range as {
			as[i] = admission(int64(i+1), int64(i+1))
		}
		results := reserve(t, g, as...)
		for i, err := range results {
			if i < 1200 {
				require.NoError(t, err, i)
			} else {
				require.ErrorIs(t, err, service.ErrSoldOut, i)
			}
		}
		requireLevel(t, g, Level{Held: 1200, Queued: 1200, Backlog: 1200})
		results, err := g.Reserve(t.Context(), voucher, onSale(), nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

func TestColdGateDecidesNothing(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb)
		_, err := g.Reserve(t.Context(), voucher, onSale(), []service.Admission{admission(1, 10)})
		require.ErrorIs(t, err, service.ErrGateCold)
		_, err = g.Level(t.Context(), voucher)
		require.ErrorIs(t, err, service.ErrGateCold)
		require.NoError(t, g.Release(t.Context(), voucher, 10, 1))
		require.NoError(t, g.AddStock(t.Context(), voucher, 5))
		requireKeys(t, rdb)
	})
}

// Reserving must stay cheap: what one buyer more costs in commands of Redis.
func TestCommandsPerBuyer(t *testing.T) {
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
	as := make([]service.Admission, 200)
	for i := range as {
		as[i] = admission(int64(i+1), int64(i+1))
	}
	reserve(t, g, admission(1000, 1000)) // the script is known from here on
	before := calls()
	reserve(t, g, as...)
	require.LessOrEqual(t, calls()-before, int64(3*len(as)+15))
}

// lossy executes commands and then loses the replies of some.
type lossy struct {
	lose atomic.Int64 // how many more
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

func TestReserveFindsOutWhatALostReplySaid(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 5)
		reserve(t, g, admission(9, 9))
		l := &lossy{}
		l.lose.Store(2)
		rdb.AddHook(l)
		require.Equal(t, []error{nil, nil}, reserve(t, g, admission(1, 10), admission(2, 11)))
		requireLevel(t, g, Level{Stock: 2, Held: 3, Queued: 3, Backlog: 3})

		l.lose.Store(1 << 40)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := g.Reserve(ctx, voucher, onSale(), []service.Admission{admission(3, 12)})
		require.ErrorIs(t, err, service.ErrUnavailable)
	})
}

// Where Redis is not there at all nobody waits for it.
func TestReserveWithoutRedis(t *testing.T) {
	server := testenv.StartRedis(t)
	g, _ := withStock(t, server.Client(t), 5)
	server.Kill()
	_, err := g.Reserve(t.Context(), voucher, onSale(), []service.Admission{admission(1, 10)})
	require.ErrorIs(t, err, service.ErrUnavailable)
}
