package admission

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

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
			testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
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

// Changes between the take and the mark are in the snapshot, and must not be counted twice.
func TestLoadIsExactWithChangesBeforeMark(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db, q := cold(t, rdb)
		l := &load{gate: g, voucherID: voucher, keys: voucherKeys, token: "mine"}
		state, err := l.take(t.Context(), 0, loadLease)
		require.NoError(t, err)
		require.Equal(t, loadFences, state)
		require.Empty(t, db.commit(q[0].Admissions[0]))
		require.NoError(t, g.Settle(t.Context(), q[:1])) // before the load reads the stream

		found, last, err := l.readStream(t.Context())
		require.NoError(t, err)
		require.Len(t, found, 3)
		q[1].Ends[0] = failed
		require.NoError(t, g.Settle(t.Context(), q[1:2])) // after it
		db.cancel(1)
		require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: 1, UserID: 10}))
		_, err = l.mark(t.Context(), found, last)
		require.NoError(t, err)
		require.Len(t, found, 2)

		db.cancel(2)
		require.NoError(t, g.Release(t.Context(), voucher, domain.Holder{OrderID: 2, UserID: 20}))
		snapshot, err := db.GateState(t.Context(), voucher, found.orderIDs())
		require.NoError(t, err)
		table := newTable(found, snapshot)
		require.NoError(t, l.write(t.Context(), table))
		require.NoError(t, l.finish(t.Context(), table, "1"))
		requireExact(t, g, db)
		requireLevel(t, g, Level{Stock: 7, Held: 3, Queued: 3, Backlog: 2})
	})
}

// An admission that is retried after the load has read the stream and before its mark is in a new entry, which the mark
// reads.
func TestLoadFindsRetriedAdmissionBeforeMark(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, db, q := cold(t, rdb)
		l := &load{gate: g, voucherID: voucher, keys: voucherKeys, token: "mine"}
		_, err := l.take(t.Context(), 0, loadLease)
		require.NoError(t, err)
		found, last, err := l.readStream(t.Context())
		require.NoError(t, err)
		settle(t, g, q[3], domain.End{Again: true}, failed)
		_, err = l.mark(t.Context(), found, last)
		require.NoError(t, err)
		require.Equal(t, []int64{2, 3, 4, 5}, found.orderIDs())
		snapshot, err := db.GateState(t.Context(), voucher, found.orderIDs())
		require.NoError(t, err)
		table := newTable(found, snapshot)
		require.NoError(t, l.write(t.Context(), table))
		require.NoError(t, l.finish(t.Context(), table, "1"))
		requireExact(t, g, db)
		requireLevel(t, g, Level{Stock: 5, Held: 5, Queued: 4, Backlog: 4})
	})
}
