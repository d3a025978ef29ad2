package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/test/env"
)

// during returns db with snapshots that call before and after, if not nil, around the first one. It counts them.
func during(db *database, before, after func()) (domain.GateStore, *atomic.Int64) {
	count := &atomic.Int64{}
	return reads{db, func(ctx context.Context, v int64, inFlight []int64) (domain.GateState, error) {
		first := count.Add(1) == 1
		if first && before != nil {
			before()
		}
		state, err := db.GateState(ctx, v, inFlight)
		if first && after != nil {
			after()
		}
		return state, err
	}}, count
}

// requireExact checks that the gate of voucher matches the database and the stream.
func requireExact(t testing.TB, g *Gate, db *database) {
	t.Helper()
	want := Level{Stock: db.stock[voucher]}
	table := map[string]string{}
	add := func(user, order int64) {
		want.Held++
		key := strconv.FormatInt(user, 10)
		table[key] = strings.TrimPrefix(fmt.Sprintf("%s,%d", table[key], order), ",")
	}
	for _, id := range sortedKeys(db.orders) {
		if o := db.orders[id]; o.active && o.voucher == voucher {
			add(o.user, id)
		}
	}
	for _, p := range queue(t, g, voucher) {
		want.Backlog++
		for _, a := range p.Admissions {
			want.Queued++
			if _, known := db.orders[a.OrderID]; !known {
				add(a.UserID, a.OrderID)
				want.Stock--
			}
		}
	}
	requireLevel(t, g, want)
	require.Equal(t, table, buyers(t, g, voucher))
	requireTickets(t, g, voucher)
}

// cold returns a cold gate. Its database has order 1 of user 10. Its stream has admissions 2 to 4 of users 20, 30 and
// 40 in an entry each, and 5 and 6 of users 50 and 60 in one entry.
func cold(t *testing.T, rdb redis.UniversalClient) (*Gate, *database, []domain.StreamEntry) {
	t.Helper()
	g, db := withStock(t, rdb, 10)
	reserve(t, g, admission(1, 10))
	require.Empty(t, db.commit(admission(1, 10)))
	settle(t, g, queue(t, g, voucher)[0])
	reserveApart(t, g, admission(2, 20), admission(3, 30), admission(4, 40))
	reserve(t, g, admission(5, 50), admission(6, 60))
	require.NoError(t, g.Unload(t.Context(), voucher))
	return g, db, queue(t, g, voucher)
}

// onlySegment returns the load of voucher's only segment with a token, which has not been taken.
func onlySegment(g *Gate, token string) *segmentLoad {
	return &segmentLoad{load: &load{gate: g, voucherID: voucher, token: token}, keys: voucherKeys}
}

func TestLoadReadsAllPages(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := withStock(t, rdb, 5000)
		as := admissions(1, 2500)
		for i := range as {
			if i%2 == 0 {
				db.commit(as[i])
			}
		}
		for some := range slices.Chunk(as, 9) { // pages do not end where a script call ended
			reserve(t, g, some...)
		}
		require.NoError(t, g.Unload(t.Context(), voucher))
		require.NoError(t, g.Load(t.Context(), voucher, db))
		requireLevel(t, g, Level{Stock: 2500, Held: 2500, Queued: 2500, Backlog: 278})
		requireExact(t, g, db)
		ttl, err := rdb.TTL(t.Context(), voucherKeys.buyers).Result()
		require.NoError(t, err)
		require.Negative(t, ttl, "the table of buyers has no expiry")
	})
}

// TestLoadCountsFirstAdmissionOfAnID: after Redis lost its id counters, two waiting admissions can have one id. If a load
// counted any of them, the reconciler would report a difference that does not exist, and rebuild the gate.
func TestLoadCountsFirstAdmissionOfAnID(t *testing.T) {
	for range 50 {
		table := newTable(queuedEntries{
			"10-0": {{OrderID: 1, UserID: 3}}, "9-10": {{OrderID: 1, UserID: 2}}, "9-9": {{OrderID: 1, UserID: 1}},
		}, domain.GateState{Stock: 5})
		require.Equal(t, []domain.Holder{{OrderID: 1, UserID: 1}}, table.holders)
		require.EqualValues(t, 3, table.queued)
		require.EqualValues(t, 4, table.stock)
	}
}

// A load that lost its lease, because it was suspended for too long, renews, marks and finishes nothing, and does not
// clear the notes of the load that runs now.
func TestStaleLoadChangesNothing(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db, _ := cold(t, rdb)
		old := onlySegment(g, "old")
		_, err := old.take(t.Context(), loadLease)
		require.NoError(t, err)
		renew := func() bool {
			kept, err := g.run(t.Context(), loadRenewScript, old.keys.list(old.keys.table(old.token)), old.token,
				loadLease.Milliseconds(), tableTTL.Milliseconds()).Bool()
			assert.NoError(t, err)
			return kept
		}
		require.NoError(t, rdb.PExpire(t.Context(), old.keys.loading, loadLease/2).Err())
		require.True(t, renew())
		require.Greater(t, rdb.PTTL(t.Context(), old.keys.loading).Val(), loadLease/2)
		state, err := db.GateState(t.Context(), voucher, nil)
		require.NoError(t, err)
		require.ErrorIs(t, old.finish(t.Context(), newTable(nil, state), "1"), errStale, "its table has expired")

		require.NoError(t, rdb.Del(t.Context(), old.keys.loading).Err())
		read, reads := during(db, nil, func() {
			db.cancel(1)
			assert.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: 1, UserID: 10}))
			assert.False(t, renew())
			_, err := old.mark(t.Context(), nil, "")
			assert.ErrorIs(t, err, errStale)
			assert.ErrorIs(t, old.repairTickets(t.Context(), nil, "9999999999999-0"), errStale)
			old.drop(t.Context())
		})
		require.NoError(t, g.Load(t.Context(), voucher, read))
		require.EqualValues(t, 1, reads.Load(), "the running load did not start over")
		requireExact(t, g, db)
	})
}

// Concurrent callers, in one process or several, share one read of the database. The load continues after the context
// of the caller that started it ended.
func TestConcurrentLoadsReadDatabaseOnce(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := newGate(rdb), newDatabase()
		db.stock[voucher] = 5
		reading, goOn := make(chan struct{}), make(chan struct{})
		read, reads := during(db, func() { close(reading); <-goOn }, nil)
		var loaders errgroup.Group
		hasty, giveUp := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- g.Load(hasty, voucher, read) }()
		<-reading
		giveUp()
		require.ErrorIs(t, <-first, domain.ErrUnavailable, "a caller stops waiting when its context ends")
		other := newGate(rdb) // of another process
		for i := range 10 {
			loaders.Go(func() error { return []*Gate{g, other}[i%2].Load(t.Context(), voucher, read) })
		}
		close(goOn)
		require.NoError(t, loaders.Wait())
		require.EqualValues(t, 1, reads.Load())
	})
}

func TestFailedLoadReleasesLease(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := newGate(rdb), newDatabase()
		gone := reads{db, func(context.Context, int64, []int64) (domain.GateState, error) {
			return domain.GateState{}, domain.ErrNotFound
		}}
		require.ErrorIs(t, g.Load(t.Context(), voucher, gone), domain.ErrNotFound)
		requireKeys(t, rdb)
		require.NoError(t, g.Load(t.Context(), voucher, db))
	})
}

// Close cancels running loads and waits for them. Afterwards the gate starts none.
func TestCloseCancelsLoads(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, reading := newGate(rdb), make(chan struct{})
		loaded := make(chan error, 1)
		go func() {
			loaded <- g.Load(t.Context(), voucher, reads{newDatabase(), func(ctx context.Context, _ int64, _ []int64) (domain.GateState, error) {
				close(reading)
				<-ctx.Done()
				return domain.GateState{}, ctx.Err()
			}})
		}()
		<-reading
		g.Close()
		require.ErrorIs(t, <-loaded, context.Canceled)
		requireKeys(t, rdb)
		require.ErrorIs(t, g.Load(t.Context(), voucher, newDatabase()), domain.ErrUnavailable)
	})
}

// A damaged gate is replaced exactly although it changes between the mark and the finish of the load, before or after the
// snapshot, in ways that the storm does not have.
func TestRebuildIsExactDuringChanges(t *testing.T) {
	ctx := context.Background()
	for name, change := range map[string]func(t *testing.T, g *Gate, db *database, q []domain.StreamEntry){
		"dead letter is replayed": func(t *testing.T, g *Gate, _ *database, q []domain.StreamEntry) {
			settle(t, g, q[1], domain.End{Dead: "poison"})
			_, err := g.Replay(ctx, deadLetters(t, g)[0].ID)
			require.NoError(t, err)
		},
		"user missing from the gate buys again": func(t *testing.T, g *Gate, _ *database, _ []domain.StreamEntry) {
			require.Equal(t, []error{nil}, reserve(t, g, admission(8, 20)))
		},
		"more notes than one call applies": func(t *testing.T, g *Gate, db *database, _ []domain.StreamEntry) {
			for user := range int64(loadNotes) {
				admitted := admission(1000+user, 1000+user)
				reserve(t, g, admitted)
				if user%3 == 0 {
					db.commit(admitted)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
				for _, late := range []bool{false, true} {
					require.NoError(t, rdb.FlushDB(ctx).Err())
					g, db, q := cold(t, rdb)
					db.stock[voucher] = 2000
					require.NoError(t, g.Load(ctx, voucher, db))
					built := level(t, g, voucher).Built
					k := voucherKeys
					require.NoError(t, errors.Join(
						rdb.IncrBy(ctx, k.stock, 2000).Err(), rdb.HIncrBy(ctx, k.meta, "sum", 5).Err(),
						rdb.HDel(ctx, k.buyers, "20").Err(), rdb.HSet(ctx, k.buyers, "99", 99).Err(),
					))
					happens := func() { change(t, g, db, q) }
					read, reads := during(db, happens, nil)
					if late {
						read, reads = during(db, nil, happens)
					}
					require.NoError(t, g.Rebuild(ctx, voucher, built, read))
					require.EqualValues(t, 1, reads.Load(), "the load did not start over")
					requireExact(t, g, db)
					require.NoError(t, g.Rebuild(ctx, voucher, built, newDatabase()), "the gate was replaced already")
				}
			})
		})
	}
}
