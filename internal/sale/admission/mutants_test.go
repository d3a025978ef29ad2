package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/test/env"
	"seckill/test/env/servers"
)

type mutant struct {
	fault      string
	script     **redis.Script
	source     string // the file in the folder lua
	what, with string // replaced text, there or else in common.lua, and its replacement
	find       func(t testing.TB, rdb env.RedisClient)
}

// How a mutant is found: by the models, which have one goroutine, by changes during loads, or after a loss of data.
func byModel(t testing.TB, rdb env.RedisClient) { runModel(t, rdb, rand.Uint64(), 500, nil) }
func bySegments(t testing.TB, rdb env.RedisClient) {
	runModel(t, rdb, rand.Uint64(), 500, modelSegments)
}
func byStorm(t testing.TB, rdb env.RedisClient) { runStorm(t, rdb, 20, 1) }
func byLoss(t testing.TB, rdb env.RedisClient) {
	for _, loss := range losses {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		loss(t, rdb)
	}
}

var mutants = []mutant{
	{"a buyer gets one order too many", &reserveScript, "reserve", `>= tonumber(limit)`, `> tonumber(limit)`, byModel},
	{"one unit too many is admitted", &reserveScript, "reserve", `#rows >= units`, `#rows > units`, byModel},
	{"a purchase without an order gets a unit", &reserveScript, "reserve", `order == '0' or`, ``, byLoss},
	{"a repeated call admits again", &reserveScript, "reserve", `if not has_order(list, order) then`, `if true then`, byModel},
	{"a duplicate names the oldest order", &reserveScript, "reserve", `'[^,]*$'`, `'^[^,]*'`, byModel},
	{"a call takes one unit for all", &reserveScript, "reserve", `'DECRBY', STOCK, #rows`, `'DECRBY', STOCK, 1`, byModel},
	{"a purchase does not change the sum", &reserveScript, "reserve", `redis.call('HINCRBY', META, 'sum', sum)`, ``, byModel},
	{"a purchase does not change the version", &reserveScript, "reserve", `increment_version()`, ``, byModel},
	{"purchases during a load are lost", &reserveScript, "reserve", `if loading then`, `if false then`, byStorm},

	{"an entry is settled twice", &settleScript, "settle", `redis.call('XDEL', STREAM, entry) == 1`, `redis.call('XDEL', STREAM, entry) >= 0`, byModel},
	{"a retried order forgets its tries", &settleScript, "settle", `add_entry(row, 'tries', tries)`, `add_entry(row, 'tries', 0)`, byModel},
	{"a rejected order keeps its unit", &settleScript, "settle", `release_order(user, order)`, ``, byModel},
	{"settled tickets stay", &settleScript, "settle", `remove_tickets(users, prefixes)`, ``, byModel},
	{"entries are counted instead of orders", &settleScript, "settle", `'queued', -removed_rows`, `'queued', -removed_entries`, byModel},
	{"a dead order has no letter", &settleScript, "settle", `redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', reason, 'dead_tries', tries, 'row', row)`, ``, byModel},
	{"settlements during a load are lost", &settleScript, "settle", `if loading then`, `if false then`, byStorm},

	{"each release returns a unit", &releaseScript, "release", `if not list or not has_order(list, order) then`, `if not list then`, byModel},
	{"a release frees all orders of a buyer", &releaseScript, "release", `remove_order(list, order))`, `'')`, byModel},
	{"releases during a load are lost", &releaseScript, "release", `if loading then add_notes('- '`, `if false then add_notes('- '`, byStorm},

	{"more units are removed than are free", &addStockScript, "add_stock", `return 'short'`, `delta = 0`, byModel},
	{"a load may miss a change of the stock", &addStockScript, "add_stock", `if loading then abort_load() end`, ``, byStorm},

	{"the lender keeps its units", &lendScript, "lend", `redis.call('DECRBY', STOCK, units)`, ``, bySegments},
	{"more units are lent than are free", &lendScript, "lend", `math.min(tonumber(redis.call('GET', STOCK)), tonumber(most))`, `tonumber(most)`, bySegments},
	{"a segment knows the last loan only", &lendScript, "lend", `'HINCRBY', LOANS`, `'HSET', LOANS`, bySegments},
	{"a repeated loan counts twice", &borrowScript, "borrow", `redis.call('HGET', LOANS, 'from:' .. other) or 0`, `0`, bySegments},
	{"a loan outlives a load", &borrowScript, "borrow", `or redis.call('HGET', LOANS, 'epoch') ~= epoch`, ``, bySegments},

	{"a replay takes no unit", &replayScript, "replay", `redis.call('DECR', STOCK)`, ``, byModel},
	{"a replay ignores the limit", &replayScript, "replay", `>= tonumber(limit)`, `>= 10`, byModel},
	{"a replayed letter stays", &replayScript, "replay", `redis.call('XDEL', DEAD, letter)`, ``, byModel},

	{"changes before the mark count again", &loadMarkScript, "load_mark", `redis.call('UNLINK', NOTES)`, ``, byStorm},
	{"changes in the snapshot count again", &loadFinishScript, "load_finish", `if has_order(list, order) == (n > 0) then return end`, ``, byStorm},
	{"a stale load is put in place", &loadFinishScript, "load_finish", `redis.call('GET', LOADING) ~= token or`, ``, byStorm},
	{"a load keeps loans that it has counted", &loadFinishScript, "load_finish", `redis.call('UNLINK', LOANS)`, ``, bySegments},
	{"a load of a lost gate does not raise the generation", &loadTakeScript, "load_take", `whole and 'taken' or 'fence'`, `'taken'`, byLoss},
	{"a load trusts a generation that the database has lost", &loadTakeScript, "load_take", `<= tonumber(ARGV[4])`, `>= 0`, byLoss},
	{"a gate forgets its server", &loadTakeScript, "load_take", `known and history == server_history()`, `known`, byLoss},
	{"a gate without a server is complete", &reserveScript, "reserve", `has_all_admissions() and 'sold_out' or 'unsure'`, `'sold_out'`, byLoss},
	{"a load keeps the old generation", &loadFinishScript, "load_finish", `if generation ~= '' then`, `if false then`, byLoss},
	{"a load ends on another server", &loadFinishScript, "load_finish", `server_history() ~= history`, `false`, byLoss},
	{"entries have no generation", &reserveScript, "reserve", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"a retried order has no generation", &settleScript, "settle", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"a replayed order has no generation", &replayScript, "replay", `generation or redis.call('HGET', META, 'generation') or '0'`, `'0'`, byLoss},
	{"any entry with the id is confirmed", &confirmScript, "confirm", `prefix, 1, true) == 1`, `prefix, 1, true) ~= 0`, byLoss},
	{"a lost entry is confirmed", &confirmScript, "confirm", `if not found then return false end`, `if not found then return 1 end`, byLoss},

	{"tickets of lost entries stay", &loadTicketsScript, "load_tickets", `remove_tickets(users, rows)`, ``, byModel},
}

// plant replaces a script by its mutant until the test ends.
func (m mutant) plant(t *testing.T) {
	t.Helper()
	common, own := lua("common"), strings.ReplaceAll(lua(m.source), m.what, m.with)
	if own == lua(m.source) {
		common = strings.ReplaceAll(lua("common"), m.what, m.with)
	}
	require.NotEqual(t, lua("common")+lua(m.source), common+own, "the script has changed; update the mutant")
	sound := *m.script
	*m.script = redis.NewScript(common + own)
	t.Cleanup(func() { *m.script = sound })
}

func TestMutantsAreCaught(t *testing.T) {
	env.FullNoRace(t, "it shows what the models find")
	rdb := servers.NewRedisClient(t, env.StartMiniredis(t).Addr(), 0)
	for _, m := range mutants {
		t.Run(m.fault, func(t *testing.T) {
			m.plant(t)
			require.NoError(t, (*m.script).Load(t.Context(), rdb).Err(), "the mutant is no script")
			for run := 1; ; run++ {
				require.NoError(t, rdb.FlushDB(t.Context()).Err())
				if env.Finds(t, func(t testing.TB) { m.find(t, rdb) }) {
					t.Logf("caught in run %d", run)
					return
				}
				require.Less(t, run, 60, "nothing finds the fault")
			}
		})
	}
}

// storm is a gate and its database under concurrent changes.
type storm struct {
	g     *Gate
	db    *database
	store domain.GateStore // db with slow snapshots
}

func newStorm(rdb env.RedisClient, segments int) *storm {
	s := &storm{g: segmented(rdb, map[int64]int{voucher: segments}), db: newDatabase()}
	pause := func() { time.Sleep(rand.N(time.Millisecond)) }
	s.store = reads{s.db, func(ctx context.Context, v int64, inFlight []int64) (domain.GateState, error) {
		pause()
		defer pause()
		return s.db.GateState(ctx, v, inFlight)
	}}
	return s
}

// buy reserves two orders of random users. It loads the gate whenever it is cold.
func (s *storm) buy(ctx context.Context, order int64) error {
	as := []domain.Admission{admission(order, 1+rand.Int64N(50)), admission(order+1, 1+rand.Int64N(50))}
	for {
		var cold []domain.Admission // a gate of several segments can be cold for some buyers only
		for i, result := range s.g.Reserve(ctx, voucher, onSale(), as) {
			if errors.Is(result, domain.ErrUnavailable) && !errors.Is(result, domain.ErrGateLacking) {
				return result
			}
			if errors.Is(result, domain.ErrGateCold) {
				cold = append(cold, as[i])
			}
		}
		if as = cold; len(as) == 0 {
			return nil
		}
		if err := s.g.Load(ctx, voucher, s.store); err != nil {
			return err
		}
	}
}

// work commits the first entries of each stream and settles them. At random it retries admissions, leaves entries
// unsettled, and settles twice.
func (s *storm) work(ctx context.Context) error {
	segments, err := s.g.segments(ctx, voucher)
	if err != nil {
		return err
	}
	for _, k := range segments {
		if err := s.workOn(ctx, k.shard.Stream()); err != nil {
			return err
		}
	}
	return nil
}

func (s *storm) workOn(ctx context.Context, stream string) error {
	entries, err := s.g.cfg.Redis.XRangeN(ctx, stream, "-", "+", 20).Result()
	if err != nil {
		return err
	}
	var done []domain.StreamEntry
	for _, e := range entries {
		p, err := s.g.Parse(stream, e.ID, e.Values)
		if err != nil {
			return err
		}
		committed, err := s.commit(ctx, &p)
		if err != nil {
			return err
		}
		if committed && rand.IntN(5) > 0 {
			done = append(done, p)
		}
	}
	for range 1 + rand.IntN(2) {
		if err := s.g.Settle(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// commit commits the admissions of an entry, if it is of the sale's generation or the gate confirms it.
func (s *storm) commit(ctx context.Context, p *domain.StreamEntry) (bool, error) {
	p.Tries++
	p.Ends = make([]domain.End, len(p.Admissions))
	for range 2 {
		s.db.mu.Lock()
		current := p.Admissions[0].Generation == s.db.generations[voucher]
		for i, a := range p.Admissions {
			if p.Ends[i].Again = p.Tries < 3 && rand.IntN(8) == 0; current && !p.Ends[i].Again {
				p.Ends[i].Failed = s.db.commit(a)
			}
		}
		s.db.mu.Unlock()
		if current {
			return true, nil
		}

		generation, err := s.g.Confirm(ctx, *p)
		if errors.Is(err, domain.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for i := range p.Admissions {
			p.Admissions[i].Generation = generation
		}
	}
	return false, nil
}

// flush empties Redis. No gate is loaded within the same millisecond, so that no new entry gets the id of a lost one.
func (s *storm) flush(ctx context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()

	rdb := s.g.cfg.Redis
	err := rdb.FlushDB(ctx).Err()
	for begin := rdb.Time(ctx).Val(); err == nil && rdb.Time(ctx).Val().Sub(begin) < 2*time.Millisecond; {
		err = ctx.Err()
	}
	return err
}

func (s *storm) cancel(ctx context.Context) error {
	s.db.mu.Lock()
	var order, user int64
	for id, o := range s.db.orders {
		if o.active {
			order, user = id, o.user
			break
		}
	}
	s.db.cancel(order)
	s.db.mu.Unlock()
	return s.g.Release(ctx, voucher, domain.Holder{OrderID: order, UserID: user})
}

func (s *storm) rebuild(ctx context.Context) error {
	level, err := s.g.Level(ctx, voucher)
	if err != nil {
		return nil //nolint:nilerr // the gate is cold
	}
	return s.g.Rebuild(ctx, voucher, level.Built, s.store)
}

// addStock changes the stock. No load reads the database between the two steps of the change.
func (s *storm) addStock(ctx context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	delta := rand.Int64N(7) - 3
	if s.db.stock[voucher]+delta < 0 || s.db.stock[voucher]+delta > 30 {
		return nil
	}
	err := s.g.AddStock(ctx, voucher, delta)
	if errors.Is(err, domain.ErrInvalidState) {
		return nil
	}
	s.db.stock[voucher] += delta
	return err
}

// Buyers, a worker, cancellations and changes of the stock run concurrently with a load. Afterwards the gate matches the
// database and the stream.
func TestGateIsExactAfterConcurrentChanges(t *testing.T) { testStorm(t, 1, 50, 200) }

func TestGateOfSegmentsIsExactAfterConcurrentChanges(t *testing.T) { testStorm(t, 4, 4, 30) }

func testStorm(t *testing.T, segments, rounds, fullRounds int) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) { runStorm(t, rdb, env.ByLevel(rounds, fullRounds), segments) })
}

func runStorm(t testing.TB, rdb env.RedisClient, rounds, segments int) {
	s := newStorm(rdb, segments)
	s.db.stock[voucher] = 30
	require.NoError(t, s.g.Load(t.Context(), voucher, s.store))
	var orders atomic.Int64
	for round := range rounds {
		group, ctx := errgroup.WithContext(t.Context())
		often := func(n int, do func() error) {
			group.Go(func() error {
				for range n {
					if err := do(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for range 3 {
			often(5, func() error { return s.buy(ctx, orders.Add(2)) })
			often(5, func() error { return s.cancel(ctx) })
		}
		often(3, func() error { return s.work(ctx) })
		often(2, func() error { return s.addStock(ctx) })
		often(1, func() error { return s.rebuild(ctx) })
		if round%3 == 0 {
			often(1, func() error { return s.g.Unload(ctx, voucher) })
		}
		if round%20 == 19 {
			often(1, func() error { return s.flush(ctx) })
		}
		require.NoError(t, group.Wait())
		require.NoError(t, s.g.Load(t.Context(), voucher, s.store))
		requireExact(t, s.g, s.db)
	}
	for len(queue(t, s.g, voucher)) > 0 {
		require.NoError(t, s.work(t.Context()))
	}
	requireExact(t, s.g, s.db)
}
