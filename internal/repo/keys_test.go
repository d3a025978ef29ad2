package repo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

// keepAnswer calls KeepAnswers with one answer.
func (s *Store) keepAnswer(t *testing.T, c *domain.Claim, a domain.Answer) error {
	t.Helper()
	return s.KeepAnswers(t.Context(), []domain.KeptAnswer{{Claim: c, Answer: a}})[0]
}

// endLifetime sets the end of the lifetime of a key to d ago.
func (s *Store) endLifetime(t *testing.T, key string, d time.Duration) {
	t.Helper()
	update := "UPDATE idempotency_keys SET expires_at = " + fmt.Sprintf(s.db.Syntax().InMillis, -d.Milliseconds()) + " WHERE idem_key = ?"
	require.NoError(t, s.db.Writer(t.Context()).Exec(update, []byte(key)).Error)
}

var created = domain.Answer{Status: http.StatusCreated, Location: "/here", ContentType: "text/x", Body: []byte("\x00 '\"\\ 秒")}

func TestKeyLifetime(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		first := newClaim(1, "k", "buy")
		require.Equal(t, domain.KeyState{Runs: 1}, s.claimKey(t, first))
		require.Equal(t, domain.KeyState{Runs: 1}, s.claimKey(t, first), "a repeated claim, after a lost reply")
		require.NoError(t, s.NoteResource(t.Context(), first, 77, now))
		require.ErrorIs(t, s.claimKey(t, newClaim(1, "k", "buy")).Err, domain.ErrOrderInProgress)
		require.ErrorIs(t, s.claimKey(t, newClaim(1, "k", "sell")).Err, domain.ErrIdempotencyMismatch)
		require.Equal(t, 1, s.claimKey(t, newClaim(2, "k", "sell")).Runs, "the key of another user")
		require.Equal(t, 1, s.claimKey(t, newClaim(1, "K", "sell")).Runs, "another key: case counts")
		require.Equal(t, 1, s.claimKey(t, newClaim(1, "k ", "sell")).Runs, "another key: blanks count")

		require.NoError(t, s.keepAnswer(t, first, created))
		require.NoError(t, s.keepAnswer(t, first, created), "a repeated answer, after a lost reply")
		require.Equal(t, domain.KeyState{Answer: &created}, s.claimKey(t, newClaim(1, "k", "buy")))
		s.endLease(t, "k")
		require.Equal(t, domain.KeyState{Answer: &created}, s.claimKey(t, newClaim(1, "k", "buy")), "an answer needs no lease")
		require.ErrorIs(t, s.claimKey(t, newClaim(1, "k", "sell")).Err, domain.ErrIdempotencyMismatch)

		s.endLifetime(t, "k", -time.Minute)
		require.Equal(t, domain.KeyState{Answer: &created}, s.claimKey(t, newClaim(1, "k", "buy")), "a minute is left")
		s.endLifetime(t, "k", 0)
		require.Equal(t, domain.KeyState{Runs: 1}, s.claimKey(t, newClaim(1, "k", "sell")), "an expired key can be used for any request")
		require.ErrorIs(t, s.claimKey(t, newClaim(1, "k", "sell")).Err, domain.ErrOrderInProgress, "with its own lease and lifetime")
	})
}

// After a transient answer the same request may run again, and gets the resource that was noted.
func TestTransientAnswerReleasesKey(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		first, second, third := newClaim(1, "k", "buy"), newClaim(1, "k", "buy"), newClaim(1, "k", "buy")
		require.Equal(t, 1, s.claimKey(t, first).Runs)
		require.NoError(t, s.keepAnswer(t, first, domain.Answer{Status: 503, Body: []byte("no"), Transient: true}))
		require.Equal(t, domain.KeyState{Runs: 2}, s.claimKey(t, second), "no resource was noted before")
		require.NoError(t, s.NoteResource(t.Context(), second, 5, now))
		require.NoError(t, s.keepAnswer(t, second, domain.Answer{Transient: true}))
		require.ErrorIs(t, s.claimKey(t, newClaim(1, "k", "sell")).Err, domain.ErrIdempotencyMismatch, "released for the same request only")
		require.Equal(t, domain.KeyState{Runs: 3, ResourceID: 5}, s.claimKey(t, third))
	})
}

// A run whose key was taken over stores no answer, notes no resource and changes nothing.
func TestTakeoverStopsEarlierRun(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		stale, successor := newClaim(1, "k", "make"), newClaim(1, "k", "make")
		require.Equal(t, 1, s.claimKey(t, stale).Runs)
		s.endLease(t, "k")
		require.ErrorIs(t, s.claimKey(t, newClaim(1, "k", "other")).Err, domain.ErrIdempotencyMismatch)
		require.Equal(t, 2, s.claimKey(t, successor).Runs)

		require.ErrorIs(t, s.keepAnswer(t, stale, created), domain.ErrOrderInProgress)
		require.ErrorIs(t, s.NoteResource(t.Context(), stale, 9, now), domain.ErrOrderInProgress)
		err := writeOnce(t.Context(), s.db, stale, func(*gorm.DB) (int64, error) {
			t.Error("an effect of the earlier run")
			return 0, nil
		})
		require.ErrorIs(t, err, domain.ErrOrderInProgress)

		require.NoError(t, s.NoteResource(t.Context(), successor, 10, now))
		require.NoError(t, s.keepAnswer(t, successor, created))
		require.Equal(t, domain.KeyState{Answer: &created}, s.claimKey(t, newClaim(1, "k", "make")))
	})
}

// The lease ends while the transaction of the first run is still open. The takeover waits for its commit and finds the
// effect done.
func TestTakeoverWaitsForOpenTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		slow, successor := newClaim(1, "k", ""), newClaim(1, "k", "")
		s.claimKey(t, slow)
		s.endLease(t, "k")
		open, commit, committed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			committed <- writeOnce(context.Background(), s.db, slow, func(tx *gorm.DB) (int64, error) {
				close(open)
				<-commit
				return 42, tx.Exec("INSERT INTO stock_changes (voucher_id, delta, reason, actor_id, created_at) VALUES (1, 1, 'once', 1, ?)", now).Error
			})
		}()
		<-open
		taken := make(chan domain.KeyState, 1)
		go func() { taken <- s.ClaimKeys(context.Background(), []*domain.Claim{successor})[0] }()
		env.RequireBlocked(t, s.db, "idempotency_keys")
		close(commit)
		require.NoError(t, <-committed)
		require.Equal(t, 2, (<-taken).Runs)
		err := writeOnce(t.Context(), s.db, successor, func(tx *gorm.DB) (int64, error) {
			t.Error("a second effect")
			return 0, nil
		})
		id, done := domain.DoneBefore(err)
		require.True(t, done, "%v", err)
		require.Equal(t, int64(42), id)
	})
}

// Several batches contain runs of the same requests in different orders. One run of each request gets the lease, and no
// run fails because of a deadlock.
func TestConcurrentClaimsLeaseEachKeyOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const runs, keys = 16, 40
		claims := make([][]*domain.Claim, runs)
		for r := range claims {
			for k := range keys {
				claims[r] = append(claims[r], newClaim(int64(k%3), fmt.Sprint((k*7+r*11)%keys), ""))
			}
		}
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			held = map[keyID]int{}
		)
		for _, batch := range claims {
			wg.Go(func() {
				for i, st := range s.ClaimKeys(context.Background(), batch) {
					if st.Err == nil {
						mu.Lock()
						held[keyID{batch[i].UserID, batch[i].Key}]++
						mu.Unlock()
					} else if !errors.Is(st.Err, domain.ErrOrderInProgress) {
						t.Errorf("%v", st.Err)
					}
				}
			})
		}
		wg.Wait()
		require.NotEmpty(t, held)
		for id, n := range held {
			require.Equal(t, 1, n, "%v", id)
		}
		var rows int64
		require.NoError(t, s.db.Reader(t.Context()).Model(&keyRow{}).Count(&rows).Error)
		require.Len(t, held, int(rows), "every key is leased")
	})
}

// Each claim of a batch gets its own outcome, in any order of the claims.
func TestClaimKeysAnswersEachClaim(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		old := []*domain.Claim{newClaim(1, "answered", "a"), newClaim(1, "dead", "a"), newClaim(1, "running", "a"), newClaim(1, "expired", "a")}
		for _, st := range s.ClaimKeys(t.Context(), old) {
			require.NoError(t, st.Err)
		}
		require.NoError(t, s.keepAnswer(t, old[0], created))
		s.endLease(t, "dead")
		s.endLifetime(t, "expired", time.Second)
		states := s.ClaimKeys(t.Context(), []*domain.Claim{
			newClaim(1, "running", "a"), newClaim(1, "new", "a"), newClaim(1, "expired", "b"), newClaim(1, "answered", "b"),
			newClaim(1, "dead", "a"), newClaim(1, "answered", "a"), newClaim(1, "new", "a"), newClaim(1, "dead", "a"),
		})
		require.ErrorIs(t, states[0].Err, domain.ErrOrderInProgress)
		require.Equal(t, 1, states[2].Runs)
		require.ErrorIs(t, states[3].Err, domain.ErrIdempotencyMismatch)
		require.Equal(t, &created, states[5].Answer)
		for _, pair := range [][2]int{{1, 6}, {4, 7}} { // one of each pair gets the lease
			a, b := states[pair[0]], states[pair[1]]
			if a.Err != nil {
				a, b = b, a
			}
			require.NoError(t, a.Err)
			require.ErrorIs(t, b.Err, domain.ErrOrderInProgress)
		}

		lost, kept := old[1], newClaim(1, "mine", "a")
		s.claimKey(t, kept)
		large := domain.Answer{Status: 200, Body: make([]byte, maxAnswerBytes)}
		errs := s.KeepAnswers(t.Context(), []domain.KeptAnswer{{Claim: lost, Answer: created}, {Claim: kept, Answer: large}, {Claim: old[2], Answer: created}})
		require.ErrorIs(t, errs[0], domain.ErrOrderInProgress)
		require.NoError(t, errs[1])
		require.NoError(t, errs[2])
		require.Equal(t, &large, s.claimKey(t, newClaim(1, "mine", "a")).Answer)
	})
}

// Concurrent purges delete only expired keys, at most sqldb.PurgeBatch at a time.
func TestPurgeKeys(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		var claims []*domain.Claim
		for i := range 2*sqldb.PurgeBatch + 10 {
			claims = append(claims, newClaim(int64(i%2), fmt.Sprint(i), ""))
		}
		for batch := range slices.Chunk(claims, sqldb.PurgeBatch) { // no larger than those of package batch
			for _, st := range s.ClaimKeys(t.Context(), batch) {
				require.NoError(t, st.Err)
			}
		}
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE idempotency_keys SET expires_at = "+fmt.Sprintf(s.db.Syntax().InMillis, -1)+" WHERE idem_key <> ?", []byte("7")).Error)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					n, err := s.PurgeKeys(context.Background())
					if err != nil {
						t.Errorf("purge: %v", err)
					}
					if n > sqldb.PurgeBatch {
						t.Errorf("one purge deleted %d rows", n)
					}
					if err != nil || n == 0 {
						return
					}
				}
			})
		}
		wg.Wait()
		var left []keyRow
		require.NoError(t, s.db.Reader(t.Context()).Select("idem_key").Find(&left).Error)
		require.Len(t, left, 1)
		require.Equal(t, "7", string(left[0].IdemKey))
	})
}

// A key that has expired is used for another request after a purge has found it. The purge leaves it alone, so that the answer
// is stored and repeated.
func TestPurgeBesideNewUseOfKey(t *testing.T) {
	env.OnEach(t, func(t *testing.T, db *sqldb.DB) {
		s, faults := newStore(db), env.Inject(db)
		require.NoError(t, s.claimKey(t, newClaim(1, "k", "buy")).Err)
		s.endLifetime(t, "k", time.Minute)

		again := newClaim(1, "k", "sell")
		faults.Before(func(query string) error {
			if query == "BEGIN" { // of the purge, which has read the key
				faults.Before(nil)
				require.Equal(t, domain.KeyState{Runs: 1}, s.claimKey(t, again))
			}
			return nil
		})
		n, err := s.PurgeKeys(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n, "found")
		require.NoError(t, s.NoteResource(t.Context(), again, 5, now))
		require.NoError(t, s.keepAnswer(t, again, created))
		require.Equal(t, domain.KeyState{Answer: &created}, s.claimKey(t, newClaim(1, "k", "sell")))
	})
}

// While the database is unavailable, no key is reported as leased and no answer as stored.
func TestKeysWithUnavailableDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		c := newClaim(1, "k", "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.ClaimKeys(ctx, []*domain.Claim{c})[0].Err, domain.ErrUnavailable)
		require.Equal(t, 1, s.claimKey(t, c).Runs, "the failed call does not use up the key")
		require.ErrorIs(t, s.KeepAnswers(ctx, []domain.KeptAnswer{{Claim: c, Answer: created}})[0], domain.ErrUnavailable)
		require.ErrorIs(t, s.NoteResource(ctx, c, 5, now), domain.ErrUnavailable)
		require.NoError(t, s.keepAnswer(t, c, created))
	})
}

// A user may have domain.MaxKeys keys. At the limit, existing keys still work and other users are not affected. The
// keys of error answers expire after domain.KeyLifeOfError and then do not count.
func TestMaxKeysPerUser(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for from := 0; from < domain.MaxKeys; from += 250 {
			var claims []*domain.Claim
			var kept []domain.KeptAnswer
			for i := range 250 {
				c := newClaim(1, fmt.Sprint("k", from+i), "a")
				claims = append(claims, c)
				status := http.StatusOK
				if i%50 == 0 {
					status = http.StatusConflict
				}
				kept = append(kept, domain.KeptAnswer{Claim: c, Answer: domain.Answer{Status: status, Body: []byte("x")}})
			}
			for _, st := range s.ClaimKeys(t.Context(), claims) {
				require.NoError(t, st.Err)
			}
			for _, err := range s.KeepAnswers(t.Context(), kept) {
				require.NoError(t, err)
			}
		}
		var limited *domain.RateLimitedError
		states := s.ClaimKeys(t.Context(), []*domain.Claim{
			newClaim(1, "more", "a"), newClaim(2, "more", "a"), newClaim(1, "k7", "a"), newClaim(1, "k7", "b"), newClaim(1, "more still", "a"),
		})
		require.ErrorAs(t, states[0].Err, &limited)
		require.Equal(t, 1, states[1].Runs)
		require.Equal(t, http.StatusOK, states[2].Answer.Status)
		require.ErrorIs(t, states[3].Err, domain.ErrIdempotencyMismatch)
		require.ErrorAs(t, states[4].Err, &limited)

		soon := fmt.Sprintf(s.db.Syntax().InMillis, (domain.KeyLifeOfError + time.Minute).Milliseconds())
		var expiring int64
		require.NoError(t, s.db.Reader(t.Context()).Model(&keyRow{}).Where("user_id = 1 AND expires_at < "+soon).Count(&expiring).Error)
		require.EqualValues(t, domain.MaxKeys/50, expiring, "the errors")
		require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE idempotency_keys SET expires_at = created_at WHERE expires_at < "+soon).Error)
		require.NoError(t, s.claimKey(t, newClaim(1, "more", "a")).Err)
	})
}

var lastToken int64

// newClaim returns the claim of a run. body stands for the contents of its request.
func newClaim(user int64, key, body string) *domain.Claim {
	lastToken++
	c := &domain.Claim{KeyedRequest: domain.KeyedRequest{UserID: user, Key: key}, Token: lastToken}
	copy(c.Fingerprint[:], body)
	return c
}

// claimKey calls ClaimKeys with one claim.
func (s *Store) claimKey(t *testing.T, c *domain.Claim) domain.KeyState {
	t.Helper()
	return s.ClaimKeys(t.Context(), []*domain.Claim{c})[0]
}

// endLease moves the end of the lease of a key into the past.
func (s *Store) endLease(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, s.db.Writer(t.Context()).Exec("UPDATE idempotency_keys SET locked_until = created_at WHERE idem_key = ?", []byte(key)).Error)
}

// vouchersTitled returns the ids of the vouchers with a title.
func vouchersTitled(t *testing.T, s *Store, title string) (ids []int64) {
	t.Helper()
	require.NoError(t, s.db.Reader(t.Context()).Table("vouchers").Where("title = ?", title).Pluck("id", &ids).Error)
	return ids
}

// If a run took effect but could not answer, the next run changes nothing and gets the id of the resource.
func TestRepeatedRequestTakesEffectOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		first, second := newClaim(1, "make", ""), newClaim(1, "make", "")
		s.claimKey(t, first)
		v := domain.Voucher{ShopID: 1, Title: "once", Type: domain.VoucherNormal, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now}
		require.NoError(t, s.CreateVoucher(t.Context(), first, &v, admin))
		s.endLease(t, "make")
		require.Equal(t, 2, s.claimKey(t, second).Runs)
		again := v
		again.ID = 0
		id, done := domain.DoneBefore(s.CreateVoucher(t.Context(), second, &again, admin))
		require.True(t, done)
		require.Equal(t, v.ID, id)
		require.Equal(t, []int64{v.ID}, vouchersTitled(t, s, "once"))

		sale := newSale(t, s, 2, 2)
		_, err := placeOrder(t.Context(), s, newOrder(1, 10, sale.ID), 2)
		require.NoError(t, err)
		first, second = newClaim(10, "cancel", ""), newClaim(10, "cancel", "")
		cancelOnce := func(c *domain.Claim, id int64) error {
			_, err := s.MoveOrder(t.Context(), domain.OrderMove{Move: domain.MoveCancel, OrderID: id, UserID: 10, At: now, Claim: c})
			return err
		}
		s.claimKey(t, first)
		require.ErrorIs(t, cancelOnce(first, 2), domain.ErrNotFound, "an error does not mark the key as done")
		require.NoError(t, cancelOnce(first, 1))
		s.endLease(t, "cancel")
		s.claimKey(t, second)
		id, done = domain.DoneBefore(cancelOnce(second, 1))
		require.True(t, done)
		require.Equal(t, int64(1), id)
		requireTotals(t, s, sale.ID, 2, 0)
	})
}
