package admission

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// A load is exact although the gate and the database change between its mark and its finish, before or after its
// snapshot.
func TestLoadIsExactDuringChanges(t *testing.T) {
	testenv.Full(t)
	type world struct {
		g  *Gate
		db *database
		q  []domain.StreamEntry
	}
	ctx := context.Background()
	release := func(w world, user, order int64) error {
		w.db.cancel(order)
		return w.g.Release(ctx, voucher, domain.Holder{OrderID: order, UserID: user})
	}
	commit := func(w world, i int) {
		for n, a := range w.q[i].Admissions {
			w.q[i].Ends[n].Failed = w.db.commit(a)
		}
	}
	races := map[string]func(w world) error{
		"order is cancelled": func(w world) error {
			return errors.Join(release(w, 10, 1), release(w, 10, 1))
		},
		"admission is committed": func(w world) error {
			commit(w, 0)
			return nil
		},
		"admission is committed and settled": func(w world) error {
			commit(w, 0)
			return errors.Join(w.g.Settle(ctx, w.q[:1]), w.g.Settle(ctx, w.q[:1]))
		},
		"admission is rejected": func(w world) error {
			w.q[1].Ends[0] = failed
			return errors.Join(w.g.Settle(ctx, w.q[1:2]), w.g.Settle(ctx, w.q[1:2]))
		},
		"admission is committed, settled and cancelled": func(w world) error {
			commit(w, 2)
			return errors.Join(w.g.Settle(ctx, w.q[2:3]), release(w, 40, 4))
		},
		"admission is committed, cancelled and settled": func(w world) error {
			commit(w, 2)
			return errors.Join(release(w, 40, 4), w.g.Settle(ctx, w.q[2:3]))
		},
		"admission is dead-lettered": func(w world) error {
			w.q[0].Ends[0].Dead = "poison"
			return w.g.Settle(ctx, w.q[:1])
		},
		"entry of two is committed": func(w world) error {
			commit(w, 3)
			return errors.Join(w.g.Settle(ctx, w.q[3:]), w.g.Settle(ctx, w.q[3:]))
		},
		"entry of two is half committed, half rejected": func(w world) error {
			w.db.commit(w.q[3].Admissions[0])
			w.q[3].Ends[1] = failed
			return errors.Join(w.g.Settle(ctx, w.q[3:]), w.g.Settle(ctx, w.q[3:]))
		},
		"queue becomes empty": func(w world) error {
			for i := range w.q {
				commit(w, i)
			}
			return w.g.Settle(ctx, w.q)
		},
	}
	admit := func(w world) domain.StreamEntry {
		require.Equal(t, []error{nil}, reserve(t, w.g, admission(7, 70)))
		q := queue(t, w.g, voucher)
		return q[len(q)-1]
	}
	// Changes that need a loaded gate.
	beside := map[string]func(w world) error{
		"buyer is admitted": func(w world) error {
			admit(w)
			return nil
		},
		"buyer is admitted and rejected": func(w world) error {
			p := admit(w)
			p.Ends[0] = failed
			return w.g.Settle(ctx, []domain.StreamEntry{p})
		},
		"new admission is committed": func(w world) error {
			w.db.commit(admit(w).Admissions[0])
			return nil
		},
		"new admission is committed and settled": func(w world) error {
			p := admit(w)
			w.db.commit(p.Admissions[0])
			return w.g.Settle(ctx, []domain.StreamEntry{p})
		},
		"new admission is committed and cancelled": func(w world) error {
			p := admit(w)
			w.db.commit(p.Admissions[0])
			return errors.Join(release(w, 70, 7), w.g.Settle(ctx, []domain.StreamEntry{p}))
		},
		"new admission is retried and committed": func(w world) error {
			p := admit(w)
			p.Ends[0].Again = true
			err := w.g.Settle(ctx, []domain.StreamEntry{p})
			q := queue(t, w.g, voucher)
			w.db.commit(p.Admissions[0])
			return errors.Join(err, w.g.Settle(ctx, q[len(q)-1:]))
		},
		"dead letter is replayed": func(w world) error {
			w.q[1].Ends[0].Dead = "poison"
			err := w.g.Settle(ctx, w.q[1:2])
			letters, _ := w.g.DeadLetters(ctx, "", 1)
			_, replayed := w.g.Replay(ctx, letters[0].ID)
			return errors.Join(err, replayed)
		},
		"user missing from the gate buys again": func(w world) error {
			require.Equal(t, []error{nil}, reserve(t, w.g, admission(8, 20)))
			return nil
		},
		"more notes than one call applies": func(w world) error {
			for user := range int64(loadNotes) {
				admitted := admission(1000+user, 1000+user)
				reserve(t, w.g, admitted)
				if user%3 == 0 {
					w.db.commit(admitted)
				}
			}
			return nil
		},
	}
	maps.Copy(beside, races)
	for name, race := range beside {
		t.Run("beside/"+name, func(t *testing.T) {
			testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
				for _, late := range []bool{false, true} {
					require.NoError(t, rdb.FlushDB(ctx).Err())
					g, db, q := cold(t, rdb)
					db.stock[voucher] = 2000
					require.NoError(t, g.Load(ctx, voucher, db.read))
					built := level(t, g, voucher).Built
					k := voucherKeys
					require.NoError(t, errors.Join(
						rdb.IncrBy(ctx, k.stock, 2000).Err(), rdb.HIncrBy(ctx, k.meta, "sum", 5).Err(),
						rdb.HDel(ctx, k.buyers, "20").Err(), rdb.HSet(ctx, k.buyers, "99", 99).Err(),
					))
					happens := func() { require.NoError(t, race(world{g, db, q})) }
					read, reads := during(db, happens, nil)
					if late {
						read, reads = during(db, nil, happens)
					}
					require.NoError(t, g.Rebuild(ctx, voucher, built, read))
					require.EqualValues(t, 1, reads.Load(), "the load did not start over")
					requireExact(t, g, db)
					require.NoError(t, g.Rebuild(ctx, voucher, built, nil), "the gate was replaced already")
				}
			})
		})
	}
	for name, race := range races {
		t.Run(name, func(t *testing.T) {
			testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
				for _, late := range []bool{false, true} {
					require.NoError(t, rdb.FlushDB(ctx).Err())
					g, db, q := cold(t, rdb)
					happens := func() { require.NoError(t, race(world{g, db, q})) }
					read, reads := during(db, happens, nil)
					if late {
						read, reads = during(db, nil, happens)
					}
					require.NoError(t, g.Load(ctx, voucher, read))
					require.EqualValues(t, 1, reads.Load(), "the load did not start over")
					requireExact(t, g, db)
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
		state, err := l.take(t.Context())
		require.NoError(t, err)
		require.Equal(t, "taken", state)
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
		snapshot, err := db.read(t.Context(), voucher, found.orderIDs())
		require.NoError(t, err)
		table := newTable(found, snapshot)
		require.NoError(t, l.write(t.Context(), table))
		require.NoError(t, l.finish(t.Context(), table))
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
		_, err := l.take(t.Context())
		require.NoError(t, err)
		found, last, err := l.readStream(t.Context())
		require.NoError(t, err)
		settle(t, g, q[3], domain.End{Again: true}, failed)
		_, err = l.mark(t.Context(), found, last)
		require.NoError(t, err)
		require.Equal(t, []int64{2, 3, 4, 5}, found.orderIDs())
		snapshot, err := db.read(t.Context(), voucher, found.orderIDs())
		require.NoError(t, err)
		table := newTable(found, snapshot)
		require.NoError(t, l.write(t.Context(), table))
		require.NoError(t, l.finish(t.Context(), table))
		requireExact(t, g, db)
		requireLevel(t, g, Level{Stock: 5, Held: 5, Queued: 4, Backlog: 4})
	})
}
