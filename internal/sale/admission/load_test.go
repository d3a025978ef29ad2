package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"seckill/internal/domain"
	"seckill/test/env"
	"seckill/test/env/servers"
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
func cold(t *testing.T, rdb env.RedisClient) (*Gate, *database, []domain.StreamEntry) {
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

func TestLoadAndInspectReadAllPages(t *testing.T) {
	eachGate(t, 5000, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		as := admissions(1, 2500)
		var all []domain.Holder
		for i, a := range as {
			all = append(all, held(a.OrderID, a.UserID))
			if i%2 == 0 {
				db.commit(a)
			}
		}
		for some := range slices.Chunk(as, 9) { // pages do not end where a script call ended
			reserve(t, g, some...)
		}
		require.NoError(t, g.Unload(t.Context(), voucher))
		require.NoError(t, g.Load(t.Context(), voucher, db))
		requireLevel(t, g, Level{Stock: 2500, Held: 2500, Queued: 2500, Backlog: 278})
		requireExact(t, g, db)
		require.Negative(t, env.Must(rdb.TTL(t.Context(), voucherKeys.buyers).Result())(t), "the table of buyers has no expiry")

		view := env.Must(g.Inspect(t.Context(), voucher, len(as)))(t)
		for _, holders := range [][]domain.Holder{view.Buyers, view.Tickets} {
			slices.SortFunc(holders, func(a, b domain.Holder) int { return cmp.Compare(a.OrderID, b.OrderID) })
			require.Equal(t, all, holders)
		}
		require.Len(t, view.Queue, len(as))
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
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, db, _ := cold(t, rdb)
		old := onlySegment(g, "old")
		env.Must(old.take(t.Context(), loadLease))(t)
		renew := func() bool {
			kept, err := g.run(t.Context(), loadRenewScript, old.keys.list(old.keys.table(old.token)), old.token,
				loadLease.Milliseconds(), tableTTL.Milliseconds()).Bool()
			assert.NoError(t, err)
			return kept
		}
		require.NoError(t, rdb.PExpire(t.Context(), old.keys.loading, loadLease/2).Err())
		require.True(t, renew())
		require.Greater(t, rdb.PTTL(t.Context(), old.keys.loading).Val(), loadLease/2)
		state := env.Must(db.GateState(t.Context(), voucher, nil))(t)
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
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, db := newGate(rdb), newDatabase()
		db.stock[voucher] = 5
		reading, goOn := make(chan struct{}), make(chan struct{})
		read, reads := during(db, func() { close(reading); <-goOn }, nil)
		var loaders errgroup.Group
		hasty, giveUp := context.WithCancel(t.Context())
		first := env.Go(func() error { return g.Load(hasty, voucher, read) })
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

// Close cancels running loads and waits for them. A load that fails leaves nothing behind, its lease neither. Afterwards the
// gate starts none.
func TestCloseCancelsLoads(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, reading := newGate(rdb), make(chan struct{})
		require.ErrorIs(t, g.Load(t.Context(), voucher, reads{newDatabase(), func(context.Context, int64, []int64) (domain.GateState, error) {
			return domain.GateState{}, domain.ErrNotFound
		}}), domain.ErrNotFound)
		requireKeys(t, rdb)

		loaded := env.Go(func() error {
			return g.Load(t.Context(), voucher, reads{newDatabase(), func(ctx context.Context, _ int64, _ []int64) (domain.GateState, error) {
				close(reading)
				<-ctx.Done()
				return domain.GateState{}, ctx.Err()
			}})
		})
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
			env.Must(g.Replay(ctx, deadLetters(t, g)[0].ID))(t)
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
			env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
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

func inspect(t *testing.T, g *Gate, voucherID int64) domain.GateView {
	t.Helper()
	return env.Must(g.Inspect(t.Context(), voucherID, 1000))(t)
}

func held(order, user int64) domain.Holder { return domain.Holder{OrderID: order, UserID: user} }

// Inspect returns the buyers, the queue and the dead letters of one voucher, and nothing of another voucher in its
// shard.
func TestInspectShowsOneVoucher(t *testing.T) {
	eachGate(t, 10, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		reserveApart(t, g, admission(1, 10), admission(2, 20), admission(3, 30))
		db.commit(admission(1, 10))
		settle(t, g, queue(t, g, voucher)[0])
		settle(t, g, queue(t, g, voucher)[0], domain.End{Dead: "poison"})
		db.stock[neighbour] = 5
		require.NoError(t, g.Load(t.Context(), neighbour, db))
		other := admission(4, 10)
		other.VoucherID = neighbour
		reserve(t, g, other)

		view := inspect(t, g, voucher)
		require.Equal(t, level(t, g, voucher), view.Level)
		require.ElementsMatch(t, []domain.Holder{held(1, 10), held(3, 30)}, view.Buyers)
		require.Equal(t, []domain.Holder{held(3, 30)}, view.Tickets)
		waits := env.Only(t, view.Queue)
		require.Equal(t, held(3, 30), waits.Holder)
		require.WithinDuration(t, time.Now(), waits.Since, time.Minute)
		require.Equal(t, []domain.Holder{held(2, 20)}, view.Letters)

		view = env.Must(g.Inspect(t.Context(), voucher, 1))(t)
		require.True(t, view.TooMany)
		require.Empty(t, view.Buyers)
	})
}

// The view of a cold gate reports whether a load is running.
func TestInspectColdGate(t *testing.T) {
	eachGate(t, 10, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		reserve(t, g, admission(1, 10))
		require.Equal(t, domain.GateView{Cold: true}, inspect(t, g, stranger))

		require.NoError(t, rdb.Del(t.Context(), voucherKeys.stock).Err())
		view := inspect(t, g, voucher)
		require.True(t, view.Cold)
		require.False(t, view.Loading)
		require.Len(t, view.Queue, 1)

		require.NoError(t, g.Load(t.Context(), stranger, reads{db, func(ctx context.Context, v int64, inFlight []int64) (domain.GateState, error) {
			view := inspect(t, g, stranger)
			require.True(t, view.Cold)
			require.True(t, view.Loading)
			return db.GateState(ctx, v, inFlight)
		}}))
		require.False(t, inspect(t, g, stranger).Cold)
	})
}

// Inspect reports keys of the wrong type or content. A load after Unload repairs them.
func TestInspectReportsBrokenKeys(t *testing.T) {
	eachGate(t, 10, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		k := voucherKeys
		for name, breakIt := range map[string]func() error{
			"stock is not a number":   func() error { return rdb.Set(t.Context(), k.stock, "many", 0).Err() },
			"counter is not a number": func() error { return rdb.HSet(t.Context(), k.meta, "held", "many").Err() },
			"stock of wrong type":     func() error { rdb.Del(t.Context(), k.stock); return rdb.LPush(t.Context(), k.stock, 1).Err() },
			"counters of wrong type":  func() error { rdb.Del(t.Context(), k.meta); return rdb.Set(t.Context(), k.meta, 1, 0).Err() },
			"buyers of wrong type":    func() error { rdb.Del(t.Context(), k.buyers); return rdb.Set(t.Context(), k.buyers, 1, 0).Err() },
		} {
			require.NoError(t, breakIt())
			require.True(t, inspect(t, g, voucher).Broken, name)
			env.Fails(g.Level(t.Context(), voucher))(t, domain.ErrGateBroken, name)
			require.NoError(t, g.Unload(t.Context(), voucher))
			require.NoError(t, g.Load(t.Context(), voucher, db))
			require.False(t, inspect(t, g, voucher).Broken, name)
			requireExact(t, g, db)
		}
		require.NoError(t, rdb.HSet(t.Context(), k.buyers, "77", "junk,1", "junk", "2").Err())
		view := inspect(t, g, voucher)
		require.Equal(t, 2, view.Unreadable)
		require.Equal(t, []domain.Holder{held(1, 77)}, view.Buyers)
	})
}

// A load restores missing tickets, but only of admissions that are still in the stream.
func TestLoadRestoresMissingTickets(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, db, q := cold(t, rdb)
		k := voucherKeys
		require.NoError(t, rdb.HDel(t.Context(), k.shard.Queued(), "20", "50").Err())
		require.NoError(t, g.Load(t.Context(), voucher, db))
		requireExact(t, g, db)
		tickets := env.Must(g.Tickets(t.Context(), 50))(t)
		require.Len(t, tickets, 1)

		// An entry that has left the stream gets no tickets.
		l := onlySegment(g, "mine")
		require.NoError(t, rdb.Set(t.Context(), k.loading, l.token, 0).Err())
		settle(t, g, q[0])
		require.NoError(t, l.repairTickets(t.Context(), queuedEntries{q[0].Entry: q[0].Admissions, q[1].Entry: q[1].Admissions}, q[1].Entry))
		requireTickets(t, g, voucher)
	})
}

// A load during an upgrade keeps the tickets of an earlier release, whose rows have the name of a server.
func TestLoadKeepsTicketsOfEarlierRelease(t *testing.T) {
	eachGate(t, 5, func(t *testing.T, rdb env.RedisClient, g *Gate, db *database) {
		reserve(t, g, admission(1, 10))
		k := voucherKeys
		for _, e := range env.Must(rdb.XRange(t.Context(), k.shard.Stream(), "-", "+").Result())(t) {
			rows, _ := e.Values["rows"].(string)
			e.Values["rows"] = strings.ReplaceAll(rows, "CNY ", "CNY host-1-ABCDEFGH")
			require.NoError(t, rdb.XDel(t.Context(), k.shard.Stream(), e.ID).Err())
			require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: k.shard.Stream(), Values: e.Values}).Err())
			require.NoError(t, rdb.HSet(t.Context(), k.shard.Queued(), "10", e.Values["rows"]).Err())
		}

		require.NoError(t, g.Rebuild(t.Context(), voucher, level(t, g, voucher).Built, db))
		requireLevel(t, g, Level{Stock: 4, Held: 1, Queued: 1, Backlog: 1})
		require.Len(t, env.Must(g.Tickets(t.Context(), 10))(t), 1)
		settle(t, g, queue(t, g, voucher)[0])
		requireTickets(t, g, voucher)
	})
}

// losses are what a gate does when its Redis has lost data, or may have, or a load may lack a change. They find mutants, too.
var losses = map[string]func(t testing.TB, rdb env.RedisClient){
	"a lost admission is not committed":   lostAdmission,
	"the stream is left":                  confirmed,
	"the gate has no generation":          noGeneration,
	"loads raise the generation":          raises,
	"a load ends on another server":       elsewhere,
	"a purchase without an order decides": withoutOrder,
	"the stock changes during a load":     stockDuringLoad,
}

func TestLosses(t *testing.T) {
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) { loss(t, rdb) })
		})
	}
}

// A worker holds an admission that Redis has lost with the gate, and a process that has never used the gate loads it
// again. Its buyer may be refused as sold out at once, because the admission cannot be committed any more.
func lostAdmission(t testing.TB, rdb env.RedisClient) {
	ctx := t.Context()
	g, db := withStock(t, rdb, 1)
	require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
	inHand := entries(t, g, voucher)[0]
	require.Equal(t, db.generations[voucher], inHand.Admissions[0].Generation)
	require.NoError(t, rdb.FlushDB(ctx).Err())

	started := newGate(rdb)
	defer started.Close()
	require.NoError(t, started.Load(ctx, voucher, db))
	require.NotEqual(t, db.generations[voucher], inHand.Admissions[0].Generation, "the database refuses it")
	require.Equal(t, []error{nil, domain.ErrSoldOut}, reserve(t, started, admission(3, 12), admission(4, 10)))
	env.Fails(started.Confirm(ctx, inHand))(t, domain.ErrNotFound)

	// Another entry may have its id.
	require.NoError(t, rdb.Del(ctx, inHand.Stream).Err())
	require.NoError(t, rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: inHand.Stream, ID: inHand.Entry, Values: []string{"rows", formatRow(&domain.Admission{OrderID: 3, UserID: 12, VoucherID: voucher})},
	}).Err())
	env.Fails(started.Confirm(ctx, inHand))(t, domain.ErrNotFound)
}

// Redis has lost the gate, but not the stream. The gate that is loaded then has the admissions of the stream, so they are
// committed under its generation.
func confirmed(t testing.TB, rdb env.RedisClient) {
	g, db := withStock(t, rdb, 3)
	require.Equal(t, []error{nil, nil}, reserve(t, g, admission(1, 10), admission(2, 11)))
	before := entries(t, g, voucher)[0]
	k := voucherKeys
	require.NoError(t, rdb.Del(t.Context(), k.stock, k.buyers, k.meta, k.loading, k.notes).Err())
	generation := env.Must(g.Confirm(t.Context(), before))(t)
	require.Zero(t, generation, "the gate is cold")

	require.NoError(t, g.Load(t.Context(), voucher, db))
	generation = env.Must(g.Confirm(t.Context(), before))(t)
	require.Greater(t, generation, before.Admissions[0].Generation)
	require.Equal(t, db.generations[voucher], generation)

	// Admissions that are queued again have the generation of the present gate.
	settle(t, g, before, domain.End{Again: true}, domain.End{Dead: "poison"})
	env.Must(g.Replay(t.Context(), deadLetters(t, g)[0].ID))(t)
	again := entries(t, g, voucher)
	require.Len(t, again, 2)
	for _, p := range again {
		require.Equal(t, generation, p.Admissions[0].Generation)
	}
}

// After a failover, the new master may not have the last admissions of the old one. It admits buyers, but answers
// ErrGateLacking instead of sold out until it is loaded. If another server takes over during the load, that may lack what the
// load has read, so the load starts over.
func TestNobodyIsSoldOutWhereAdmissionsMayLack(t *testing.T) {
	rdb := env.StartRedis(t).Client(t)
	ctx := t.Context()
	g, db := withStock(t, rdb, 2)
	defer g.Close()
	failover := func() {
		require.NoError(t, rdb.ReplicaOf(ctx, "127.0.0.1", "1").Err())
		require.NoError(t, rdb.ReplicaOf(ctx, "no", "one").Err())
	}
	require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
	before := entries(t, g, voucher)[0]
	failover()

	require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(2, 11), admission(3, 12)))
	require.ErrorIs(t, domain.ErrGateLacking, domain.ErrUnavailable)
	env.Fails(g.Holders(ctx, voucher, 10))(t, domain.ErrGateLacking, "the list would lack a buyer")

	store, snapshots := during(db, nil, failover)
	require.NoError(t, g.Load(ctx, voucher, store))
	require.EqualValues(t, 2, snapshots.Load())
	require.EqualValues(t, 3, db.generations[voucher], "each failover raises it")
	require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(3, 12)))
	require.ElementsMatch(t, []int64{10, 11}, env.Must(g.Holders(ctx, voucher, 10))(t))
	require.Equal(t, db.generations[voucher], env.Must(g.Confirm(ctx, before))(t))

	// Without the command INFO a gate cannot know that its server has lost admissions.
	require.NoError(t, rdb.Do(ctx, "ACL", "SETUSER", "default", "-info").Err())
	require.NoError(t, g.AddStock(ctx, voucher, 1))
	require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(4, 13), admission(5, 14)))
	require.ErrorIs(t, g.Load(ctx, voucher, db), domain.ErrUnavailable)
}

// The entries of a gate without a generation count as those of generation 0, which a sale has until its first load.
func noGeneration(t testing.TB, rdb env.RedisClient) {
	g, db := withStock(t, rdb, 1)
	require.NoError(t, rdb.HDel(t.Context(), voucherKeys.meta, "generation", "history").Err())
	db.generations[voucher] = 0
	require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(1, 10), admission(2, 11)))
	require.Zero(t, entries(t, g, voucher)[0].Admissions[0].Generation)

	require.NoError(t, g.Load(t.Context(), voucher, db))
	require.EqualValues(t, 1, db.generations[voucher])
	require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(2, 11)))
}

func stockDuringLoad(t testing.TB, rdb env.RedisClient) {
	g, db := withStock(t, rdb, 1)
	require.NoError(t, g.Unload(t.Context(), voucher))
	store, _ := during(db, nil, func() {
		require.NoError(t, g.AddStock(t.Context(), voucher, 1))
		db.stock[voucher]++
	})
	require.NoError(t, g.Load(t.Context(), voucher, store))
	requireExact(t, g, db)
}

// Only a load after which admissions may be lost raises the generation.
func raises(t testing.TB, rdb env.RedisClient) {
	for _, segments := range []int{1, 4} {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		g, db := segmentsWithStock(t, rdb, segments, 10)
		last := segmentKeys(t, g, voucher)[segments-1]
		requireLoad := func(want int64, what string) {
			require.NoError(t, g.Load(t.Context(), voucher, db), what)
			require.Equal(t, want, db.generations[voucher], what)
			for _, k := range segmentKeys(t, g, voucher) {
				require.Equal(t, strconv.FormatInt(want, 10), rdb.HGet(t.Context(), k.meta, "generation").Val(), what)
			}
		}

		requireLoad(1, "the first load, and of a loaded gate")
		require.NoError(t, g.Rebuild(t.Context(), voucher, level(t, g, voucher).Built, db))
		requireLoad(1, "a gate that was rebuilt")
		require.NoError(t, g.Unload(t.Context(), voucher))
		requireLoad(2, "a cold gate")
		require.NoError(t, rdb.HSet(t.Context(), last.meta, "history", "of another server").Err())
		requireLoad(3, "a failover")
		require.NoError(t, rdb.HSet(t.Context(), last.meta, "history", "of another server").Err())
		require.NoError(t, g.Rebuild(t.Context(), voucher, level(t, g, voucher).Built, db))
		requireLoad(4, "a gate that was rebuilt after a failover")

		db.generations[voucher] = 2
		requireLoad(3, "the database has lost the generation of the gate")
		db.generations[voucher] = 9
		require.NoError(t, g.Load(t.Context(), voucher, db))
		require.EqualValues(t, 9, db.generations[voucher], "the gate of an old master, which another one has replaced")
		require.NoError(t, g.Outdate(t.Context(), voucher))
		requireLoad(10, "a gate that nothing replaces")
	}
}

// A load that has lost its lease does not raise the generation of the gate that another one has put in place.
func TestLateLoadRaisesNoGeneration(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		g, db := newGate(rdb), newDatabase()
		fences := 0
		db.beforeFence = func() {
			if fences++; fences > 1 {
				return
			}
			require.NoError(t, rdb.Del(t.Context(), voucherKeys.loading).Err()) // the lease is over
			other := newGate(rdb)
			defer other.Close()
			require.NoError(t, other.Load(t.Context(), voucher, db))
		}
		require.NoError(t, g.Load(t.Context(), voucher, db))
		require.EqualValues(t, 1, db.generations[voucher])
		require.Equal(t, "1", rdb.HGet(t.Context(), voucherKeys.meta, "generation").Val())
	})
}

// A load that began on another server is not put in place.
func elsewhere(t testing.TB, rdb env.RedisClient) {
	l := onlySegment(newGate(rdb), "mine")
	env.Must(l.take(t.Context(), loadLease))(t)
	l.history = "another"
	require.ErrorIs(t, l.finish(t.Context(), &table{}, "1"), errStale)
}

// The data may be lost while the list of buyers is read.
func TestHoldersFindsLossDuringTheRead(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, rdb env.RedisClient){
		"flush": func(t *testing.T, rdb env.RedisClient) { require.NoError(t, rdb.FlushDB(t.Context()).Err()) },
		"flush and load": func(t *testing.T, rdb env.RedisClient) {
			require.NoError(t, rdb.FlushDB(t.Context()).Err())
			other, _ := withStock(t, rdb, 1)
			other.Close()
		},
		"failover": func(t *testing.T, rdb env.RedisClient) {
			require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "history", "of another server").Err())
			require.NoError(t, rdb.HDel(t.Context(), voucherKeys.buyers, "10").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
				watched := servers.AnotherRedisClient(t, rdb)
				g, _ := withStock(t, watched, 1)
				require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
				watched.AddHook(env.EachTrip(func(_ context.Context, cmds []redis.Cmder) error {
					if cmds[0].Name() == "hscan" {
						lose(t, rdb)
					}
					return nil
				}))

				users, err := g.Holders(t.Context(), voucher, 10)
				require.Error(t, err, "a list of %v", users)
			})
		})
	}
}
