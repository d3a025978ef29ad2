package admission

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// A worker holds an admission that Redis has lost with the gate, and a process that has never used the gate loads it
// again. Its buyer may be refused as sold out at once, because the admission cannot be committed any more.
func TestLostAdmissionIsNotCommitted(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) { lostAdmission(t, rdb) })
}

func lostAdmission(t testing.TB, rdb *redis.Client) {
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
	_, err := started.Confirm(ctx, inHand)
	require.ErrorIs(t, err, domain.ErrNotFound)

	// Another entry may have its id.
	require.NoError(t, rdb.Del(ctx, inHand.Stream).Err())
	require.NoError(t, rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: inHand.Stream, ID: inHand.Entry, Values: []string{"rows", formatRow(&domain.Admission{OrderID: 3, UserID: 12, VoucherID: voucher})},
	}).Err())
	_, err = started.Confirm(ctx, inHand)
	require.ErrorIs(t, err, domain.ErrNotFound)
}

// Redis has lost the gate, but not the stream. The gate that is loaded then has the admissions of the stream, so they are
// committed under its generation.
func TestGateConfirmsAdmissionsOfItsStream(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) { confirmed(t, rdb) })
}

func confirmed(t testing.TB, rdb *redis.Client) {
	g, db := withStock(t, rdb, 3)
	require.Equal(t, []error{nil, nil}, reserve(t, g, admission(1, 10), admission(2, 11)))
	before := entries(t, g, voucher)[0]
	k := voucherKeys
	require.NoError(t, rdb.Del(t.Context(), k.stock, k.buyers, k.meta, k.loading, k.notes).Err())
	generation, err := g.Confirm(t.Context(), before)
	require.NoError(t, err)
	require.Zero(t, generation, "the gate is cold")

	require.NoError(t, g.Load(t.Context(), voucher, db))
	generation, err = g.Confirm(t.Context(), before)
	require.NoError(t, err)
	require.Greater(t, generation, before.Admissions[0].Generation)
	require.Equal(t, db.generations[voucher], generation)

	// Admissions that are queued again have the generation of the present gate.
	settle(t, g, before, domain.End{Again: true}, domain.End{Dead: "poison"})
	letters, err := g.DeadLetters(t.Context(), "", 10)
	require.NoError(t, err)
	_, err = g.Replay(t.Context(), letters[0].ID)
	require.NoError(t, err)
	again := entries(t, g, voucher)
	require.Len(t, again, 2)
	for _, p := range again {
		require.Equal(t, generation, p.Admissions[0].Generation)
	}
}

// After a failover, the new master may not have the last admissions of the old one. It admits buyers, but answers
// ErrGateLacking instead of sold out until it is loaded.
func TestNobodyIsSoldOutAfterFailoverUntilTheLoad(t *testing.T) {
	rdb := env.StartRedis(t).Client(t)
	ctx := t.Context()
	g, db := withStock(t, rdb, 2)
	require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
	before := entries(t, g, voucher)[0]
	require.NoError(t, rdb.ReplicaOf(ctx, "127.0.0.1", "1").Err())
	require.NoError(t, rdb.ReplicaOf(ctx, "no", "one").Err())

	require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(2, 11), admission(3, 12)))
	require.ErrorIs(t, domain.ErrGateLacking, domain.ErrUnavailable)
	_, err := g.Holders(ctx, voucher, 10)
	require.ErrorIs(t, err, domain.ErrGateLacking, "the list would lack a buyer")

	require.NoError(t, g.Load(ctx, voucher, db))
	require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(3, 12)))
	users, err := g.Holders(ctx, voucher, 10)
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{10, 11}, users)
	generation, err := g.Confirm(ctx, before)
	require.NoError(t, err)
	require.Equal(t, db.generations[voucher], generation)
}

// Without the command INFO a gate cannot know that its server has lost admissions.
func TestNobodyIsSoldOutWithoutInfo(t *testing.T) {
	rdb := env.StartRedis(t).Client(t)
	ctx := t.Context()
	g, db := withStock(t, rdb, 1)
	require.NoError(t, rdb.Do(ctx, "ACL", "SETUSER", "default", "-info").Err())

	require.Equal(t, []error{nil}, reserve(t, g, admission(1, 10)))
	require.Equal(t, []error{domain.ErrGateLacking}, reserve(t, g, admission(2, 11)))
	require.ErrorIs(t, g.Load(ctx, voucher, db), domain.ErrUnavailable)
}

// The gate of an earlier version has no generation, and so have its entries. They count as those of generation 0, which
// a sale has until its first load by this version.
func TestGateOfEarlierVersion(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) { earlierGate(t, rdb) })
}

func earlierGate(t testing.TB, rdb *redis.Client) {
	g, db := withStock(t, rdb, 1)
	require.NoError(t, rdb.HDel(t.Context(), voucherKeys.meta, "generation", "history").Err())
	db.generations[voucher] = 0
	require.Equal(t, []error{nil, domain.ErrGateLacking}, reserve(t, g, admission(1, 10), admission(2, 11)))
	require.Zero(t, entries(t, g, voucher)[0].Admissions[0].Generation)
	row := formatRow(&domain.Admission{OrderID: 1, UserID: 10, VoucherID: voucher})
	p, err := g.Parse(Streams()[voucher], "1-1", map[string]any{"rows": row})
	require.NoError(t, err)
	require.Zero(t, p.Admissions[0].Generation)

	require.NoError(t, g.Load(t.Context(), voucher, db))
	require.EqualValues(t, 1, db.generations[voucher])
	require.Equal(t, []error{domain.ErrSoldOut}, reserve(t, g, admission(2, 11)))
}

// Only a load after which admissions may be lost raises the generation.
func TestLoadRaisesGeneration(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) { raises(t, rdb) })
}

func raises(t testing.TB, rdb *redis.Client) {
	for _, segments := range []int{1, 4} {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		g, db := segmented(rdb, map[int64]int{voucher: segments}), newDatabase()
		db.stock[voucher] = 10
		last := segmentKeys(t, g, voucher)[segments-1]
		requireLoad := func(want int64, what string) {
			t.Helper()
			require.NoError(t, g.Load(t.Context(), voucher, db), what)
			require.Equal(t, want, db.generations[voucher], what)
			for _, k := range segmentKeys(t, g, voucher) {
				require.Equal(t, strconv.FormatInt(want, 10), rdb.HGet(t.Context(), k.meta, "generation").Val(), what)
			}
		}

		requireLoad(1, "the first load")
		requireLoad(1, "a loaded gate")
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
	}
}

// A load that has lost its lease does not raise the generation of the gate that another one has put in place.
func TestLateLoadRaisesNoGeneration(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db := newGate(rdb), newDatabase()
		fences := 0
		late := lateFence{db, func() {
			if fences++; fences > 1 {
				return
			}
			require.NoError(t, rdb.Del(t.Context(), voucherKeys.loading).Err()) // the lease is over
			other := newGate(rdb)
			defer other.Close()
			require.NoError(t, other.Load(t.Context(), voucher, db))
		}}
		require.NoError(t, g.Load(t.Context(), voucher, late))
		require.EqualValues(t, 1, db.generations[voucher])
		require.Equal(t, "1", rdb.HGet(t.Context(), voucherKeys.meta, "generation").Val())
	})
}

// lateFence is a database that calls before before it raises a generation.
type lateFence struct {
	*database
	before func()
}

func (d lateFence) FenceGate(ctx context.Context, voucherID, from int64) (bool, error) {
	d.before()
	return d.database.FenceGate(ctx, voucherID, from)
}

// Another server takes over during a load, and may lack what the load has read. The load starts over.
func TestFailoverDuringLoad(t *testing.T) {
	rdb := env.StartRedis(t).Client(t)
	g, db := newGate(rdb), newDatabase()
	defer g.Close()
	store, snapshots := during(db, nil, func() {
		require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		require.NoError(t, rdb.ReplicaOf(t.Context(), "no", "one").Err())
	})
	require.NoError(t, g.Load(t.Context(), voucher, store))
	require.EqualValues(t, 2, snapshots.Load())
	require.EqualValues(t, 2, db.generations[voucher])
}

// A load that began on another server is not put in place.
func TestFinishOnAnotherServer(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb *redis.Client) { elsewhere(t, rdb) })
}

func elsewhere(t testing.TB, rdb *redis.Client) {
	require.NoError(t, rdb.FlushDB(t.Context()).Err())
	l := onlySegment(newGate(rdb), "mine")
	_, err := l.take(t.Context(), loadLease)
	require.NoError(t, err)
	l.history = "another"
	require.ErrorIs(t, l.finish(t.Context(), &table{}, "1"), errStale)
}

// The data may be lost while the list of buyers is read.
func TestHoldersFindsLossDuringTheRead(t *testing.T) {
	lose := map[string]func(t *testing.T, rdb *redis.Client){
		"flush": func(t *testing.T, rdb *redis.Client) { require.NoError(t, rdb.FlushDB(t.Context()).Err()) },
		"flush and load": func(t *testing.T, rdb *redis.Client) {
			require.NoError(t, rdb.FlushDB(t.Context()).Err())
			other := newGate(rdb)
			defer other.Close()
			db := newDatabase()
			db.stock[voucher] = 1
			require.NoError(t, other.Load(t.Context(), voucher, db))
		},
		"failover": func(t *testing.T, rdb *redis.Client) {
			require.NoError(t, rdb.HSet(t.Context(), voucherKeys.meta, "history", "of another server").Err())
			require.NoError(t, rdb.HDel(t.Context(), voucherKeys.buyers, "10").Err())
		},
	}
	for name, lose := range lose {
		t.Run(name, func(t *testing.T) {
			env.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
				watched := redis.NewClient(rdb.Options())
				defer func() { _ = watched.Close() }()
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
