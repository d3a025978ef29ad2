package service

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// memKeys is a KeyStore in memory. It breaks on command.
type memKeys struct {
	mu     sync.Mutex
	rows   map[string]*memKey
	claims int   // how many were attempted
	err    error // of every method
	frozen bool  // nothing is answered before the context ends
}

type memKey struct {
	claim  Claim
	runs   int
	until  time.Time
	answer *Answer
}

func newMemKeys() *memKeys { return &memKeys{rows: map[string]*memKey{}} }

// broken says what is wrong. It must not be called under the lock: time stands still while somebody waits for that.
func (m *memKeys) broken(ctx context.Context) error {
	m.mu.Lock()
	frozen, err := m.frozen, m.err
	m.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return ErrUnavailable
	}
	return err
}

func keyRowOf(c *Claim) string { return strconv.FormatInt(c.UserID, 10) + "/" + c.Key }

func (m *memKeys) ClaimKeys(ctx context.Context, claims []*Claim) []KeyState {
	states, err := make([]KeyState, len(claims)), m.broken(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims += len(claims)
	for i, c := range claims {
		r := m.rows[keyRowOf(c)]
		switch {
		case err != nil:
			states[i].Err = err
			continue
		case r == nil:
			r = &memKey{claim: *c}
			m.rows[keyRowOf(c)] = r
		case r.claim.Fingerprint != c.Fingerprint:
			states[i].Err = ErrIdempotencyMismatch
			continue
		case r.answer != nil:
			states[i].Answer = r.answer
			continue
		case time.Now().Before(r.until):
			states[i].Err = ErrOrderInProgress
			continue
		}
		r.claim.Token, r.until = c.Token, time.Now().Add(KeyLease)
		r.runs++
		states[i] = KeyState{Runs: r.runs, ResourceID: r.claim.ResourceID, ResourceAt: r.claim.ResourceAt}
	}
	return states
}

func (m *memKeys) KeepAnswers(ctx context.Context, answers []KeptAnswer) []error {
	errs, err := make([]error, len(answers)), m.broken(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range answers {
		r := m.rows[keyRowOf(a.Claim)]
		switch {
		case err != nil:
			errs[i] = err
		case r.claim.Token != a.Claim.Token:
			errs[i] = ErrOrderInProgress
		case a.Answer.Transient:
			r.until = time.Now()
		default:
			r.answer = &a.Answer
		}
	}
	return errs
}

func (m *memKeys) NoteResources(ctx context.Context, claims []*Claim) []error {
	errs := make([]error, len(claims))
	for i, c := range claims {
		if errs[i] = m.broken(ctx); errs[i] == nil {
			m.set(func() {
				m.rows[keyRowOf(c)].claim.ResourceID, m.rows[keyRowOf(c)].claim.ResourceAt = c.ResourceID, c.ResourceAt
			})
		}
	}
	return errs
}

func (m *memKeys) PurgeKeys(ctx context.Context) (int, error) { return 0, m.broken(ctx) }

// set changes the store under its lock.
func (m *memKeys) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// keyOutcomes counts what was observed.
type keyOutcomes struct {
	mu   sync.Mutex
	seen []string
}

func (o *keyOutcomes) add(outcome string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, outcome)
}

func newKeys(store KeyStore, seen *keyOutcomes) *Idempotency {
	return NewIdempotency(IdempotencyConfig{Store: store, Observe: seen.add})
}

var (
	doneAnswer  = Answer{Status: http.StatusCreated, Body: []byte("done")}
	retryAnswer = Answer{Status: http.StatusServiceUnavailable, RetryAfter: "1", Transient: true}
)

// answering is a run that gives an answer, and counts.
func answering(a Answer, runs *atomic.Int64) func(context.Context) Answer {
	return func(context.Context) Answer { runs.Add(1); return a }
}

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		seen := &keyOutcomes{}
		keys := newKeys(newMemKeys(), seen)
		r := KeyedRequest{UserID: 1, Key: "k", Fingerprint: [32]byte{1}}
		a, replayed, err := keys.Once(t.Context(), r, answering(retryAnswer, &runs))
		require.NoError(t, err)
		require.Equal(t, retryAnswer, a)
		require.False(t, replayed)
		a, replayed, err = keys.Once(t.Context(), r, answering(doneAnswer, &runs))
		require.NoError(t, err)
		require.Equal(t, doneAnswer, a, "what asks to try again is not kept")
		require.False(t, replayed)
		a, replayed, err = keys.Once(t.Context(), r, answering(retryAnswer, &runs))
		require.NoError(t, err)
		require.Equal(t, doneAnswer, a)
		require.True(t, replayed)
		other := r
		other.Fingerprint[0] = 2
		_, _, err = keys.Once(t.Context(), other, answering(doneAnswer, &runs))
		require.ErrorIs(t, err, ErrIdempotencyMismatch)
		require.EqualValues(t, 2, runs.Load())
		other.UserID = 2
		_, replayed, err = keys.Once(t.Context(), other, answering(doneAnswer, &runs))
		require.NoError(t, err)
		require.False(t, replayed, "another user's key")
		require.Equal(t, []string{"new", "takeover", "replayed", "mismatch", "new"}, seen.seen)
		require.Empty(t, keys.running)
	})
}

// TestOnceTogether: those who send the same request while it runs get its answer, in this process without asking the
// store, in another one as soon as it is kept.
func TestOnceTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemKeys(), &keyOutcomes{}
		here, there := newKeys(store, seen), newKeys(store, seen)
		r := KeyedRequest{UserID: 1, Key: "k"}
		var runs atomic.Int64
		slow := func(context.Context) Answer {
			runs.Add(1)
			time.Sleep(time.Second)
			return doneAnswer
		}
		var wg sync.WaitGroup
		start := time.Now()
		ask := func(keys *Idempotency) {
			wg.Go(func() {
				a, _, err := keys.Once(t.Context(), r, slow)
				if err != nil || a.Status != doneAnswer.Status {
					t.Errorf("%v %v", a, err)
				}
			})
			synctest.Wait()
		}
		for range 50 {
			ask(here)
		}
		require.Equal(t, 1, store.claims, "the store is asked once")
		ask(there)
		wg.Wait()
		require.EqualValues(t, 1, runs.Load())
		require.LessOrEqual(t, time.Since(start), time.Second+keyPoll)
		require.Equal(t, 51, len(seen.seen))
		require.Equal(t, 1, len(slices.DeleteFunc(seen.seen, func(o string) bool { return o == "replayed" })))
	})
}

// TestOnceOfADeadProcess: while its lease lasts, others are told to wait; then the next one takes over, and knows what
// was noted. The first, if it is alive after all, gives no answer of its own.
func TestOnceOfADeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemKeys(), &keyOutcomes{}
		first, next := newKeys(store, seen), newKeys(store, seen)
		r := KeyedRequest{UserID: 1, Key: "k"}
		zombie := make(chan error, 1)
		go func() {
			_, _, err := first.Once(t.Context(), r, func(ctx context.Context) Answer {
				require.NoError(t, ClaimOf(ctx).Note(ctx, 9, testNow))
				time.Sleep(KeyLease + time.Minute)
				return doneAnswer
			})
			zombie <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, _, err := next.Once(t.Context(), r, func(context.Context) Answer { t.Error("two at once"); return doneAnswer })
		require.ErrorIs(t, err, ErrOrderInProgress)
		require.LessOrEqual(t, time.Since(start), keyedTimeout+keyPoll, "an answer in time")
		time.Sleep(KeyLease)
		a, replayed, err := next.Once(t.Context(), r, func(ctx context.Context) Answer {
			c := ClaimOf(ctx)
			require.True(t, c.Again)
			require.Equal(t, int64(9), c.ResourceID, "what the first run noted")
			require.Equal(t, testNow, c.ResourceAt)
			return doneAnswer
		})
		require.NoError(t, err)
		require.False(t, replayed)
		require.Equal(t, doneAnswer, a)
		require.ErrorIs(t, <-zombie, ErrOrderInProgress)
		require.Equal(t, []string{"new", "in_progress", "takeover", "lost"}, seen.seen)
	})
}

// TestOnceWithoutStore: nothing runs whose key cannot be claimed, no answer is given that cannot be kept, and the key
// is not burnt.
func TestOnceWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemKeys(), &keyOutcomes{}
		keys := newKeys(store, seen)
		r := KeyedRequest{UserID: 1, Key: "k"}
		var runs atomic.Int64
		store.err = ErrUnavailable
		_, _, err := keys.Once(t.Context(), r, answering(doneAnswer, &runs))
		require.ErrorIs(t, err, ErrUnavailable)
		require.Zero(t, runs.Load())

		store.err = nil
		_, _, err = keys.Once(t.Context(), r, func(context.Context) Answer {
			runs.Add(1)
			store.set(func() { store.err = ErrUnavailable })
			return doneAnswer
		})
		require.ErrorIs(t, err, ErrUnavailable)
		store.set(func() { store.err = nil })
		time.Sleep(KeyLease)
		_, _, err = keys.Once(t.Context(), r, answering(doneAnswer, &runs))
		require.NoError(t, err)
		require.EqualValues(t, 2, runs.Load())

		r.Key = "frozen"
		a, _, err := keys.Once(t.Context(), r, func(context.Context) Answer { store.set(func() { store.frozen = true }); return retryAnswer })
		require.NoError(t, err)
		require.Equal(t, retryAnswer, a, "what is not kept anyway is given")
		start := time.Now()
		r.Key = "late"
		_, _, err = keys.Once(t.Context(), r, answering(doneAnswer, &runs))
		require.ErrorIs(t, err, ErrUnavailable)
		require.LessOrEqual(t, time.Since(start), keyedTimeout)
		time.Sleep(2 * time.Second) // until the batch that hangs has timed out
	})
}

// TestOnceOfOneWhoHangsUp runs to its end, and the answer is there for who asks again.
func TestOnceOfOneWhoHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeys(newMemKeys(), &keyOutcomes{})
		r := KeyedRequest{UserID: 1, Key: "k"}
		ctx, hangUp := context.WithCancel(t.Context())
		_, _, err := keys.Once(ctx, r, func(ctx context.Context) Answer {
			hangUp()
			require.NoError(t, ctx.Err())
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			return doneAnswer
		})
		require.NoError(t, err)
		a, replayed, err := keys.Once(t.Context(), r, func(context.Context) Answer { t.Error("again"); return doneAnswer })
		require.NoError(t, err)
		require.True(t, replayed)
		require.Equal(t, doneAnswer, a)
	})
}

// TestOnceWithAPanic: the key is free again, and those who waited for the answer hear that there is none.
func TestOnceWithAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeys(newMemKeys(), &keyOutcomes{})
		r := KeyedRequest{UserID: 1, Key: "k"}
		twin := make(chan error, 1)
		require.PanicsWithValue(t, "broken", func() {
			_, _, _ = keys.Once(t.Context(), r, func(context.Context) Answer {
				go func() { _, _, err := keys.Once(t.Context(), r, nil); twin <- err }()
				synctest.Wait()
				panic("broken")
			})
		})
		require.ErrorIs(t, <-twin, errNoAnswer)
		var runs atomic.Int64
		_, _, err := keys.Once(t.Context(), r, answering(doneAnswer, &runs))
		require.NoError(t, err)
		require.EqualValues(t, 1, runs.Load())
	})
}

// TestClaimThatLandsLate: the claim is stored, but its caller gave up waiting for it. The next try, which 503 invites,
// must not wait for the lease to end.
func TestClaimThatLandsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateKeys{memKeys: newMemKeys()}
		keys := newKeys(store, &keyOutcomes{})
		r := KeyedRequest{UserID: 1, Key: "k"}
		var runs atomic.Int64
		_, _, err := keys.Once(t.Context(), r, answering(doneAnswer, &runs))
		require.ErrorIs(t, err, ErrUnavailable)
		require.Zero(t, runs.Load())
		start := time.Now()
		a, _, err := keys.Once(t.Context(), r, answering(doneAnswer, &runs))
		require.NoError(t, err)
		require.Equal(t, doneAnswer, a)
		require.Less(t, time.Since(start), time.Second)
	})
}

// lateKeys stores the first claims and does not say so.
type lateKeys struct {
	*memKeys
	told bool
}

func (l *lateKeys) ClaimKeys(ctx context.Context, claims []*Claim) []KeyState {
	states := l.memKeys.ClaimKeys(ctx, claims)
	if !l.told {
		l.told = true
		for i := range states {
			states[i] = KeyState{Err: ErrUnavailable}
		}
	}
	return states
}
