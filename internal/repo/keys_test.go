package repo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

func (s *Store) endLifetime(t *testing.T, key string, d time.Duration) {
	t.Helper()
	update := "UPDATE idempotency_keys SET expires_at = " + fmt.Sprintf(s.db.Syntax().InMillis, -d.Milliseconds()) + " WHERE idem_key = ?"
	require.NoError(t, s.db.Writer(t.Context()).Exec(update, []byte(key)).Error)
}

var created = domain.Answer{Status: http.StatusCreated, Location: "/here", ContentType: "text/x", Body: []byte("\x00 '\"\\ 秒")}

func TestKeyLifetime(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		first := newClaim(1, "k", "buy")
		require.Equal(t, domain.KeyState{Runs: 1}, s.ClaimKey(t.Context(), first))
		require.Equal(t, domain.KeyState{Runs: 1}, s.ClaimKey(t.Context(), first), "a repeated claim, after a lost reply")
		require.NoError(t, s.NoteResource(t.Context(), first, 77, now))
		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(1, "k", "buy")).Err, domain.ErrOrderInProgress)
		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(1, "k", "sell")).Err, domain.ErrIdempotencyMismatch)
		require.Equal(t, 1, s.ClaimKey(t.Context(), newClaim(2, "k", "sell")).Runs, "the key of another user")
		require.Equal(t, 1, s.ClaimKey(t.Context(), newClaim(1, "K", "sell")).Runs, "another key: case counts")
		require.Equal(t, 1, s.ClaimKey(t.Context(), newClaim(1, "k ", "sell")).Runs, "another key: blanks count")

		require.NoError(t, s.KeepAnswer(t.Context(), first, created))
		require.NoError(t, s.KeepAnswer(t.Context(), first, created), "a repeated answer, after a lost reply")
		require.Equal(t, domain.KeyState{Answer: &created}, s.ClaimKey(t.Context(), newClaim(1, "k", "buy")))
		s.endLease(t, "k")
		require.Equal(t, domain.KeyState{Answer: &created}, s.ClaimKey(t.Context(), newClaim(1, "k", "buy")), "an answer needs no lease")
		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(1, "k", "sell")).Err, domain.ErrIdempotencyMismatch)

		s.endLifetime(t, "k", -time.Minute)
		require.Equal(t, domain.KeyState{Answer: &created}, s.ClaimKey(t.Context(), newClaim(1, "k", "buy")), "a minute is left")
		s.endLifetime(t, "k", 0)
		require.Equal(t, domain.KeyState{Runs: 1}, s.ClaimKey(t.Context(), newClaim(1, "k", "sell")), "an expired key can be used for any request")
		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(1, "k", "sell")).Err, domain.ErrOrderInProgress, "with its own lease and lifetime")
	})
}

// After a transient answer the same request may run again, and gets the resource that was noted. An answer without a claim is
// not kept, and a large one is kept whole.
func TestTransientAnswerReleasesKey(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		first, second, third := newClaim(1, "k", "buy"), newClaim(1, "k", "buy"), newClaim(1, "k", "buy")
		require.Equal(t, 1, s.ClaimKey(t.Context(), first).Runs)
		require.NoError(t, s.KeepAnswer(t.Context(), first, domain.Answer{Status: 503, Body: []byte("no"), Transient: true}))
		require.Equal(t, domain.KeyState{Runs: 2}, s.ClaimKey(t.Context(), second), "no resource was noted before")
		require.NoError(t, s.NoteResource(t.Context(), second, 5, now))
		require.NoError(t, s.KeepAnswer(t.Context(), second, domain.Answer{Transient: true}))
		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(1, "k", "sell")).Err, domain.ErrIdempotencyMismatch, "released for the same request only")
		require.Equal(t, domain.KeyState{Runs: 3, ResourceID: 5}, s.ClaimKey(t.Context(), third))

		large := domain.Answer{Status: 200, Body: make([]byte, 2<<20)}
		require.NoError(t, s.KeepAnswer(t.Context(), third, large))
		require.Equal(t, &large, s.ClaimKey(t.Context(), newClaim(1, "k", "buy")).Answer)
		never := newClaim(1, "never claimed", "buy")
		require.NoError(t, s.KeepAnswer(t.Context(), never, domain.Answer{Transient: true}), "there is nothing to release")
		require.ErrorIs(t, s.KeepAnswer(t.Context(), never, created), domain.ErrOrderInProgress)
	})
}

// A run whose key was taken over stores no answer, notes no resource and changes nothing.
func TestTakeoverStopsEarlierRun(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		stale, successor := newClaim(1, "k", "make"), newClaim(1, "k", "make")
		require.Equal(t, 1, s.ClaimKey(t.Context(), stale).Runs)
		s.endLease(t, "k")
		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(1, "k", "other")).Err, domain.ErrIdempotencyMismatch)
		require.Equal(t, 2, s.ClaimKey(t.Context(), successor).Runs)

		require.ErrorIs(t, s.KeepAnswer(t.Context(), stale, created), domain.ErrOrderInProgress)
		require.ErrorIs(t, s.NoteResource(t.Context(), stale, 9, now), domain.ErrOrderInProgress)
		err := s.writeOnce(t.Context(), stale, doneBefore, func(*gorm.DB) (int64, error) {
			t.Error("an effect of the earlier run")
			return 0, nil
		})
		require.ErrorIs(t, err, domain.ErrOrderInProgress)

		require.NoError(t, s.NoteResource(t.Context(), successor, 10, now))
		require.NoError(t, s.KeepAnswer(t.Context(), successor, created))
		require.Equal(t, domain.KeyState{Answer: &created}, s.ClaimKey(t.Context(), newClaim(1, "k", "make")))
	})
}

// The lease ends while the transaction of the first run is still open. The takeover waits for its commit and finds the
// effect done.
func TestTakeoverWaitsForOpenTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		slow, successor := newClaim(1, "k", ""), newClaim(1, "k", "")
		s.ClaimKey(t.Context(), slow)
		s.endLease(t, "k")
		open, commit := make(chan struct{}), make(chan struct{})
		committed := env.Go(func() error {
			return s.writeOnce(context.Background(), slow, doneBefore, func(tx *gorm.DB) (int64, error) {
				close(open)
				<-commit
				return 42, tx.Exec("INSERT INTO stock_changes (voucher_id, delta, reason, actor_id, created_at) VALUES (1, 1, 'once', 1, ?)", now).Error
			})
		})
		<-open
		taken := env.Go(func() domain.KeyState { return s.ClaimKey(context.Background(), successor) })
		env.RequireBlocked(t, s.db, "idempotency_keys")
		close(commit)
		require.NoError(t, <-committed)
		require.Equal(t, 2, (<-taken).Runs)
		var resource int64
		err := s.writeOnce(t.Context(), successor, func(id int64) error { resource = id; return nil }, func(tx *gorm.DB) (int64, error) {
			t.Error("a second effect")
			return 0, nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 42, resource)
	})
}

// Several processes run the same requests in different orders. One run of each request gets the lease, and no run fails
// because of a deadlock.
func TestConcurrentClaimsLeaseEachKeyOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const runs, keys = 16, 40
		claims := make([][]*domain.Claim, runs)
		for r := range claims {
			for k := range keys {
				claims[r] = append(claims[r], newClaim(int64(k%3), fmt.Sprint((k*7+r*11)%keys), ""))
			}
		}
		var mu sync.Mutex
		held := map[keyID]int{}
		allAtOnce(t, runs, func(r int) error {
			for _, c := range claims[r] {
				st := s.ClaimKey(t.Context(), c)
				if errors.Is(st.Err, domain.ErrOrderInProgress) {
					continue
				}
				if st.Err != nil {
					return st.Err
				}
				mu.Lock()
				held[keyID{c.UserID, c.Key}]++
				mu.Unlock()
			}
			return nil
		})
		require.NotEmpty(t, held)
		for id, n := range held {
			require.Equal(t, 1, n, "%v", id)
		}
		var rows int64
		require.NoError(t, s.db.Reader(t.Context()).Model(&keyRow{}).Count(&rows).Error)
		require.Len(t, held, int(rows), "every key is leased")
	})
}

// Concurrent purges delete only expired keys, at most sqldb.PurgeBatch at a time.
func TestPurgeKeys(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		addKeys(t, s, 2*sqldb.PurgeBatch+10, func(i int) keyRow { return keyRow{UserID: int64(i % 2), IdemKey: []byte(fmt.Sprint(i))} })
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE idempotency_keys SET expires_at = "+fmt.Sprintf(s.db.Syntax().InMillis, -1)+" WHERE idem_key <> ?", []byte("7")).Error)
		allAtOnce(t, 3, func(int) error {
			for {
				n, err := s.PurgeKeys(t.Context())
				assert.LessOrEqual(t, n, sqldb.PurgeBatch, "rows of one purge")
				if err != nil || n == 0 {
					return err
				}
			}
		})
		var left []keyRow
		require.NoError(t, s.db.Reader(t.Context()).Select("idem_key").Find(&left).Error)
		require.Equal(t, "7", string(env.Only(t, left).IdemKey))
	})
}

// A key that has expired is used for another request after a purge has found it. The purge leaves it alone, so that the answer
// is stored and repeated.
func TestPurgeBesideNewUseOfKey(t *testing.T) {
	onEachFaulty(t, func(t *testing.T, s *Store, faults *env.Faults) {
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(1, "k", "buy")).Err)
		s.endLifetime(t, "k", time.Minute)

		again := newClaim(1, "k", "sell")
		faults.Before(func(query string) error {
			if query == "BEGIN" { // of the purge, which has read the key
				faults.Before(nil)
				require.Equal(t, domain.KeyState{Runs: 1}, s.ClaimKey(t.Context(), again))
			}
			return nil
		})
		require.Equal(t, 1, env.Must(s.PurgeKeys(t.Context()))(t), "found")
		require.NoError(t, s.NoteResource(t.Context(), again, 5, now))
		require.NoError(t, s.KeepAnswer(t.Context(), again, created))
		require.Equal(t, domain.KeyState{Answer: &created}, s.ClaimKey(t.Context(), newClaim(1, "k", "sell")))
	})
}

// While the database is unavailable, no key is reported as leased and no answer as stored.
func TestKeysWithUnavailableDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		c := newClaim(1, "k", "")
		ctx := env.Cancelled(t.Context())
		require.ErrorIs(t, s.ClaimKey(ctx, c).Err, domain.ErrUnavailable)
		require.Equal(t, 1, s.ClaimKey(t.Context(), c).Runs, "the failed call does not use up the key")
		require.ErrorIs(t, s.KeepAnswer(ctx, c, created), domain.ErrUnavailable)
		require.ErrorIs(t, s.NoteResource(ctx, c, 5, now), domain.ErrUnavailable)
		require.NoError(t, s.KeepAnswer(t.Context(), c, created))
	})
}

// A user may have domain.MaxKeys keys. At the limit, existing keys still work and other users are not affected. The
// keys of error answers expire after domain.KeyLifeOfError and then do not count.
func TestMaxKeysPerUser(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		addKeys(t, s, domain.MaxKeys-20, func(i int) keyRow { return keyRow{UserID: 1, IdemKey: []byte(fmt.Sprint("old ", i))} })
		for i := range 20 {
			c := newClaim(1, fmt.Sprint("k", i), "a")
			require.NoError(t, s.ClaimKey(t.Context(), c).Err)
			status := http.StatusOK
			if i%2 == 0 {
				status = http.StatusConflict
			}
			require.NoError(t, s.KeepAnswer(t.Context(), c, domain.Answer{Status: status, Body: []byte("x")}))
		}
		claim := func(user int64, key, body string) domain.KeyState {
			return s.ClaimKey(t.Context(), newClaim(user, key, body))
		}
		require.ErrorAs(t, claim(1, "more", "a").Err, new(*domain.RateLimitedError))
		require.Equal(t, 1, claim(2, "more", "a").Runs)
		require.Equal(t, http.StatusOK, claim(1, "k7", "a").Answer.Status)
		require.ErrorIs(t, claim(1, "k7", "b").Err, domain.ErrIdempotencyMismatch)
		require.ErrorAs(t, claim(1, "more still", "a").Err, new(*domain.RateLimitedError))

		soon := fmt.Sprintf(s.db.Syntax().InMillis, (domain.KeyLifeOfError + time.Minute).Milliseconds())
		var expiring int64
		require.NoError(t, s.db.Reader(t.Context()).Model(&keyRow{}).Where("user_id = 1 AND expires_at < "+soon).Count(&expiring).Error)
		require.EqualValues(t, 10, expiring, "the errors")
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE idempotency_keys SET expires_at = created_at WHERE expires_at < "+soon).Error)
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(1, "more", "a")).Err)
	})
}

func addKeys(t *testing.T, s *Store, n int, key func(i int) keyRow) {
	t.Helper()
	k := s.db.Syntax()
	query := "INSERT INTO idempotency_keys (user_id, idem_key, fingerprint, claim, runs, done, status, location, content_type, locked_until, " +
		"created_at, expires_at) VALUES (?,?,?,1,1,0,200,'',''," + k.Now + "," + k.Now + "," + fmt.Sprintf(k.InMillis, domain.KeyLife.Milliseconds()) + ")"
	require.NoError(t, s.db.Writer(t.Context()).Transaction(func(tx *gorm.DB) error {
		for i := range n {
			row := key(i)
			if err := tx.Exec(query, row.UserID, row.IdemKey, make([]byte, 32)).Error; err != nil {
				return err
			}
		}
		return nil
	}))
}

var lastToken int64

// newClaim returns the claim of a run. body stands for the contents of its request.
func newClaim(user int64, key, body string) *domain.Claim {
	lastToken++
	c := &domain.Claim{KeyedRequest: domain.KeyedRequest{UserID: user, Key: key}, Token: lastToken}
	copy(c.Fingerprint[:], body)
	return c
}

func (s *Store) endLease(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE idempotency_keys SET locked_until = created_at WHERE idem_key = ?", []byte(key)).Error)
}

// keyedOrder returns an order of a request with an Idempotency-Key. body stands for its contents.
func keyedOrder(id, user, voucher int64, limit int, key, body string) domain.NewOrder {
	var fingerprint [32]byte
	copy(fingerprint[:], body)
	k := domain.NewRequestKey(key, fingerprint)
	return domain.NewOrder{Order: newOrder(id, user, voucher), Limit: limit, Key: k}
}

// keyedOutcomes is outcomes with replays marked by "again".
func keyedOutcomes(placed []domain.Placed) []string {
	words := outcomes(placed)
	for i, p := range placed {
		if p.Replayed {
			words[i] = "again " + words[i]
		}
	}
	return words
}

// A key places one order. A repetition returns the order as it was placed, even if it has ended since.
func TestRepeatedRequestReplaysOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx, mismatch := t.Context(), domain.ErrIdempotencyMismatch.Error()
		for _, limit := range []int{1, 3} {
			v, other := newSale(t, s, 100, limit), newSale(t, s, 100, limit)
			at := v.ID * 1000
			user := v.ID * 10
			bought := keyedOrder(at, user, v.ID, limit, "k", "a")
			bought.Order = offered(t, s, &v, bought.Order)[0]
			first := s.PlaceOrders(ctx, []domain.NewOrder{bought})
			require.NoError(t, first[0].Err)
			requireReplay := func(state string) {
				again := s.PlaceOrders(ctx, []domain.NewOrder{
					keyedOrder(at+1, user, v.ID, limit, "k", "a"), keyedOrder(at+2, user, v.ID, limit, "k", "other"),
					keyedOrder(at+3, user, other.ID, limit, "k", "b"), keyedOrder(at+4, user+1, other.ID, limit, "fresh", "b"),
				})
				require.Equal(t, []string{fmt.Sprint("again order ", at), mismatch, mismatch}, keyedOutcomes(again)[:3], state)
				again[0].Order.Slot = first[0].Order.Slot
				require.Equal(t, first[0].Order, again[0].Order, "as it was placed")
			}
			requireReplay("while the order is active")
			env.Must(cancel(ctx, s, user, at, now))(t)
			requireReplay("after it was cancelled")
			require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE seckill_vouchers SET initial_stock = initial_stock - stock, stock = 0 WHERE voucher_id = ?", v.ID).Error)
			requireReplay("after the sale has sold out")
			requireTotals(t, s, v.ID, 0, 0)

			// After domain.KeyLife the key can be used for a new order.
			late := keyedOrder(at+9, user, other.ID, limit, "k", "b")
			late.CreatedAt = now.Add(domain.KeyLife)
			require.Equal(t, []string{fmt.Sprint("order ", at+9)}, keyedOutcomes(s.PlaceOrders(ctx, []domain.NewOrder{late})))
		}
	})
}

func TestRepeatedRequestInOneBatch(t *testing.T) {
	onEachSale(t, 3, 2, func(t *testing.T, s *Store, v domain.Voucher) {
		require.Equal(t, []string{
			"order 1", "again order 1", "order 3", duplicateOf(3), domain.ErrIdempotencyMismatch.Error(), "order 6",
			domain.ErrSoldOut.Error(), domain.ErrSoldOut.Error(),
		}, keyedOutcomes(s.PlaceOrders(t.Context(), []domain.NewOrder{
			keyedOrder(1, 10, v.ID, 2, "k", "a"), keyedOrder(2, 10, v.ID, 2, "k", "a"), keyedOrder(3, 10, v.ID, 2, "l", "a"),
			keyedOrder(4, 10, v.ID, 2, "m", "a"), keyedOrder(5, 10, v.ID, 2, "k", "x"), keyedOrder(6, 11, v.ID, 2, "k", "a"),
			keyedOrder(7, 12, v.ID, 2, "k", "a"), keyedOrder(8, 12, v.ID, 2, "k", "a"), // sold out
		})))
		requireTotals(t, s, v.ID, 0, 3)
	})
}

// A key that another route has used is refused for an order, and vice versa. The other rows of the batch are not affected,
// even one of the same buyer.
func TestKeyUsedByAnotherRoute(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(10, "k", "cancel")).Err)
		tries := &losingContext{Context: t.Context(), lose: func() {}, after: 1 << 30}
		keyed := keyedOrder(6, 13, v.ID, 1, "k", "order")
		keyed.CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
		orders := []domain.NewOrder{
			keyedOrder(1, 10, v.ID, 1, "k", "order"), {Order: newOrder(2, 10, v.ID), Limit: 1}, {Order: newOrder(3, 11, v.ID), Limit: 1},
			{Order: newOrder(4, 11, v.ID), Limit: 1}, {Order: newOrder(5, 12, v.ID), Limit: 1, Fence: tries}, keyed,
		}
		require.Equal(t, []string{domain.ErrIdempotencyMismatch.Error(), "order 2", "order 3", duplicateOf(3), "order 5", "order 6"},
			keyedOutcomes(s.PlaceOrders(t.Context(), orders)))
		require.Less(t, 1<<30-tries.after, 10, "Err is called twice per run of the transaction, and there are few runs")
		again := s.PlaceOrders(t.Context(), []domain.NewOrder{keyedOrder(7, 10, v.ID, 1, "k", "order")})
		require.ErrorIs(t, again[0].Err, domain.ErrIdempotencyMismatch, "the buyer has an order meanwhile")
		requireTotals(t, s, v.ID, 6, 4)

		require.ErrorIs(t, s.ClaimKey(t.Context(), newClaim(13, "k", "cancel")).Err, domain.ErrIdempotencyMismatch)
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(13, "l", "cancel")).Err)
		require.NoError(t, s.ClaimKey(t.Context(), newClaim(14, "k", "cancel")).Err, "another user's key")
	})
}

// A request under the key of an order whose transaction is still open is refused after the commit.
func TestLeaseWaitsForOrderWithItsKey(t *testing.T) {
	onEachSale(t, 10, 1, func(t *testing.T, s *Store, v domain.Voucher) {
		o := keyedOrder(1, 10, v.ID, 1, "k", "order")
		o.CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
		leased := make(chan domain.KeyState, 1)
		o.Fence = &losingContext{Context: t.Context(), after: 1, lose: func() { // at the end of the transaction
			go func() { leased <- s.ClaimKey(t.Context(), newClaim(10, "k", "cancel")) }()
			env.RequireBlocked(t, s.db, "idem_key")
		}}
		require.Equal(t, []string{"order 1"}, keyedOutcomes(s.PlaceOrders(t.Context(), []domain.NewOrder{o})))
		require.ErrorIs(t, (<-leased).Err, domain.ErrIdempotencyMismatch)
	})
}

// Several workers send one request at once, while the buyer cancels orders. One order is placed.
func TestConcurrentRepetitionsPlaceOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for _, limit := range []int{1, 2} {
			const users = 20
			v := newSale(t, s, 1000, limit)
			allAtOnce(t, 4, func(worker int) (err error) {
				for user := range int64(users) {
					id := v.ID*100_000 + int64(worker)*1000 + user*10
					p := s.PlaceOrders(t.Context(), []domain.NewOrder{
						keyedOrder(id, 1+user, v.ID, limit, "k", "a"), keyedOrder(id+1, 1+user, v.ID, limit, fmt.Sprint(worker), "a"),
					})
					if worker == 0 && p[1].Err == nil {
						_, failed := cancel(t.Context(), s, 1+user, p[1].Order.ID, now)
						err = errors.Join(err, failed)
					}
				}
				return err
			})
			var doubled []int64
			hash := domain.KeyHash("k")
			require.NoError(t, s.db.Reader(t.Context()).Raw("SELECT user_id FROM voucher_orders WHERE voucher_id = ? AND idem_key = ? GROUP BY user_id HAVING COUNT(*) > 1",
				v.ID, hash[:]).Scan(&doubled).Error)
			require.Empty(t, doubled)
			totals := env.Must(s.SaleTotals(t.Context()))(t)
			for _, b := range totals {
				require.Empty(t, b.Check())
			}
		}
	})
}

// A buyer sends one key for two vouchers at once, through two processes. One order is placed.
func TestConcurrentUsesOfKeyPlaceOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const users = 50
		vouchers := [2]domain.Voucher{newSale(t, s, users, 1), newSale(t, s, users, 1)}
		for user := range int64(users) {
			requireWinners(t, 1, domain.ErrIdempotencyMismatch, atOnce(len(vouchers), func(i int) error {
				o := keyedOrder(vouchers[i].ID*100_000+user, 1+user, vouchers[i].ID, 1, "k", fmt.Sprint(i))
				return s.PlaceOrders(t.Context(), []domain.NewOrder{o})[0].Err
			}))
		}
	})
}

// The server must look up only the pairs of user and key, or of user and voucher, neither every combination of them nor the
// whole table.
func TestReadsOfBatchLookUpPairs(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *Store) {
		const buyers, vouchers = 60, 20
		rows := make([]*pendingInsert, buyers)
		for i := range rows {
			rows[i] = newPendingInsert(&domain.NewOrder{
				Order: domain.Order{UserID: int64(i + 1), VoucherID: int64(1 + i%vouchers)}, Round: 1,
				Key: &domain.RequestKey{Name: fmt.Sprint("order ", i), Request: [16]byte{1}},
			}, nil)
		}
		require.Equal(t, 1, s.ClaimKey(t.Context(), newClaim(1, "payment", "pay")).Runs)
		for _, statement := range []string{
			"INSERT INTO idempotency_keys (user_id, idem_key, fingerprint, claim, runs, done, status, location, content_type, locked_until, created_at, " +
				"expires_at) SELECT n + 2, 'payment', fingerprint, n + 2, runs, done, status, location, content_type, locked_until, created_at, " +
				"expires_at FROM idempotency_keys, " + env.Numbers(5) + " numbers WHERE user_id = 1 AND n < 5000",
			"INSERT INTO voucher_orders (id, user_id, voucher_id, slot, status, amount, created_at, expires_at, updated_at, entry_round) " +
				"SELECT n + 1, 1 + n MOD 250, 1 + FLOOR(n / 250), 1, 1, 1, NOW(3), NOW(3), NOW(3), 1 FROM " + env.Numbers(5) + " numbers WHERE n < 5000",
			"ANALYZE TABLE idempotency_keys, voucher_orders",
		} {
			require.NoError(t, s.db.Writer(t.Context()).Exec(statement).Error)
		}

		require.Less(t, s.rowReads(t, func(tx *gorm.DB) {
			require.Empty(t, env.Must(s.keysElsewhere(tx, rows))(t))
		}), 5*buyers)
		for _, add := range []func(tx *gorm.DB, of, except []*pendingInsert, known knownOrders) error{s.addActiveOrders, s.addPassOrders} {
			require.Less(t, s.rowReads(t, func(tx *gorm.DB) {
				known := knownOrders{}
				require.NoError(t, add(tx, rows, nil, known))
				require.Len(t, known, buyers)
			}), 5*buyers)
		}
	})
}

func (s *Store) rowReads(t *testing.T, fn func(tx *gorm.DB)) (n int) {
	t.Helper()
	require.NoError(t, s.db.Writer(t.Context()).Transaction(func(tx *gorm.DB) error {
		before := handlerReads(t, tx, "SESSION")
		fn(tx)
		n = handlerReads(t, tx, "SESSION") - before
		return nil
	}))
	return n
}

// handlerReads returns how many rows and index entries were read so far, in this session or in all (GLOBAL).
func handlerReads(t *testing.T, tx *gorm.DB, scope string) (n int) {
	t.Helper()
	var read []struct{ Value int }
	require.NoError(t, tx.Raw("SHOW "+scope+" STATUS WHERE variable_name IN "+
		"('Handler_read_key', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')").Scan(&read).Error)
	require.Len(t, read, 5)
	for _, r := range read {
		n += r.Value
	}
	return n
}
