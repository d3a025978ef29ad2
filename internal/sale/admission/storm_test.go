package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/test/env"
)

// storm is a gate and its database under concurrent changes.
type storm struct {
	g     *Gate
	db    *database
	store domain.GateStore // db with slow snapshots
}

func newStorm(rdb *redis.Client, segments int) *storm {
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
		results, err := s.g.Reserve(ctx, voucher, onSale(), as)
		if err == nil { // a gate of several segments can be cold for some buyers only
			var cold []domain.Admission
			for i, result := range results {
				if errors.Is(result, domain.ErrUnavailable) && !errors.Is(result, domain.ErrGateLacking) {
					return result
				}
				if errors.Is(result, domain.ErrGateCold) {
					cold = append(cold, as[i])
				}
			}
			if as = cold; len(as) > 0 {
				err = domain.ErrGateCold
			}
		}
		if !errors.Is(err, domain.ErrGateCold) {
			return err
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
	err := s.g.cfg.Redis.FlushDB(ctx).Err()
	time.Sleep(2 * time.Millisecond)
	return err
}

// cancel ends an active order, if there is one.
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

// rebuild replaces the gate, unless it is cold.
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
	if env.IsFull() {
		rounds = fullRounds
	}
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) { runStorm(t, rdb, rounds, segments) })
}

func runStorm(t testing.TB, rdb *redis.Client, rounds, segments int) {
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
