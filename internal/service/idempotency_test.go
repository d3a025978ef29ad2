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

	"seckill/internal/domain"
)

// memKeys is a KeyStore in memory with injected faults.
type memKeys struct {
	mu     sync.Mutex
	rows   map[string]*memKey
	err    error // the result of every method, if not nil
	frozen bool  // calls block until their context ends
}

type memKey struct {
	claim  domain.Claim
	runs   int
	until  time.Time
	answer *domain.Answer
}

func newMemKeys() *memKeys { return &memKeys{rows: map[string]*memKey{}} }

// fault returns the injected error. It must not be called with the mutex held: in a synctest bubble, time does not
// advance while a goroutine waits for a mutex.
func (m *memKeys) fault(ctx context.Context) error {
	m.mu.Lock()
	frozen, err := m.frozen, m.err
	m.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return domain.ErrUnavailable
	}
	return err
}

func keyRowOf(c *domain.Claim) string { return strconv.FormatInt(c.UserID, 10) + "/" + c.Key }

func (m *memKeys) ClaimKey(ctx context.Context, c *domain.Claim) domain.KeyState {
	err := m.fault(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[keyRowOf(c)]
	switch {
	case err != nil:
		return domain.KeyState{Err: err}
	case r == nil:
		r = &memKey{claim: *c}
		m.rows[keyRowOf(c)] = r
	case r.claim.Fingerprint != c.Fingerprint:
		return domain.KeyState{Err: domain.ErrIdempotencyMismatch}
	case r.answer != nil:
		return domain.KeyState{Answer: r.answer}
	case time.Now().Before(r.until):
		return domain.KeyState{Err: domain.ErrOrderInProgress}
	}
	r.claim.Token, r.until = c.Token, time.Now().Add(domain.KeyLease)
	r.runs++
	return domain.KeyState{Runs: r.runs, ResourceID: r.claim.ResourceID}
}

func (m *memKeys) KeepAnswer(ctx context.Context, c *domain.Claim, a domain.Answer) error {
	err := m.fault(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[keyRowOf(c)]
	switch {
	case err != nil:
		return err
	case r.claim.Token != c.Token:
		return domain.ErrOrderInProgress
	case a.Transient:
		r.until = time.Now()
	default:
		r.answer = &a
	}
	return nil
}

func (m *memKeys) NoteResource(ctx context.Context, c *domain.Claim, id int64, _ time.Time) error {
	err := m.fault(ctx)
	if err == nil {
		m.set(func() { m.rows[keyRowOf(c)].claim.ResourceID = id })
	}
	return err
}

func (m *memKeys) PurgeKeys(ctx context.Context) (int, error) { return 0, m.fault(ctx) }

func (m *memKeys) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

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
	doneAnswer  = domain.Answer{Status: http.StatusCreated, Body: []byte("done")}
	retryAnswer = domain.Answer{Status: http.StatusServiceUnavailable, RetryAfter: "1", Transient: true}
)

func answerWith(a domain.Answer, runs *atomic.Int64) func(context.Context, *domain.Claim) domain.Answer {
	return func(context.Context, *domain.Claim) domain.Answer { runs.Add(1); return a }
}

// In-flight duplicates get the answer of the run once it is stored, in its process and in others.
func TestInFlightDuplicatesShareTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemKeys(), &keyOutcomes{}
		here, there := newKeys(store, seen), newKeys(store, seen)
		r := domain.KeyedRequest{UserID: 1, Key: "k"}
		var runs atomic.Int64
		slow := func(context.Context, *domain.Claim) domain.Answer {
			runs.Add(1)
			time.Sleep(time.Second)
			return doneAnswer
		}
		var wg sync.WaitGroup
		start := time.Now()
		send := func(keys *Idempotency) {
			wg.Go(func() {
				a, _, err := keys.Do(t.Context(), r, slow)
				if err != nil || a.Status != doneAnswer.Status {
					t.Errorf("%v %v", a, err)
				}
			})
			synctest.Wait()
		}
		for range 10 {
			send(here)
			send(there)
		}
		wg.Wait()
		require.EqualValues(t, 1, runs.Load())
		require.LessOrEqual(t, time.Since(start), time.Second+keyPoll)
		require.Equal(t, append([]string{"new"}, slices.Repeat([]string{"replayed"}, 19)...), seen.seen)
	})
}

// Until the lease of a stuck process ends, other runs fail. Then the next one takes over and gets the recorded
// resource. If the first run continues after that, it returns no answer.
func TestTakeoverAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemKeys(), &keyOutcomes{}
		first, next := newKeys(store, seen), newKeys(store, seen)
		r := domain.KeyedRequest{UserID: 1, Key: "k"}
		zombie := make(chan error, 1)
		go func() {
			_, _, err := first.Do(t.Context(), r, func(ctx context.Context, c *domain.Claim) domain.Answer {
				require.NoError(t, store.NoteResource(ctx, c, 9, testNow))
				time.Sleep(domain.KeyLease + time.Minute)
				return doneAnswer
			})
			zombie <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, _, err := next.Do(t.Context(), r, func(context.Context, *domain.Claim) domain.Answer { t.Error("two runs at once"); return doneAnswer })
		require.ErrorIs(t, err, domain.ErrOrderInProgress)
		require.LessOrEqual(t, time.Since(start), keyedTimeout+keyPoll, "it fails in time")
		time.Sleep(domain.KeyLease)
		a, replayed, err := next.Do(t.Context(), r, func(_ context.Context, c *domain.Claim) domain.Answer {
			require.True(t, c.Again)
			require.Equal(t, int64(9), c.ResourceID, "recorded by the first run")
			return doneAnswer
		})
		require.NoError(t, err)
		require.False(t, replayed)
		require.Equal(t, doneAnswer, a)
		require.ErrorIs(t, <-zombie, domain.ErrOrderInProgress)
		require.Equal(t, []string{"new", "in_progress", "takeover", "lost"}, seen.seen)
	})
}

// A request does not run if its key cannot be claimed, and gets no answer that cannot be stored. Its key stays usable.
func TestStoreFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemKeys(), &keyOutcomes{}
		keys := newKeys(store, seen)
		r := domain.KeyedRequest{UserID: 1, Key: "k"}
		var runs atomic.Int64
		store.err = domain.ErrUnavailable
		_, _, err := keys.Do(t.Context(), r, answerWith(doneAnswer, &runs))
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.Zero(t, runs.Load())

		store.err = nil
		_, _, err = keys.Do(t.Context(), r, func(context.Context, *domain.Claim) domain.Answer {
			runs.Add(1)
			store.set(func() { store.err = domain.ErrUnavailable })
			return doneAnswer
		})
		require.ErrorIs(t, err, domain.ErrUnavailable)
		store.set(func() { store.err = nil })
		time.Sleep(domain.KeyLease)
		_, _, err = keys.Do(t.Context(), r, answerWith(doneAnswer, &runs))
		require.NoError(t, err)
		require.EqualValues(t, 2, runs.Load())

		r.Key = "frozen"
		a, _, err := keys.Do(t.Context(), r, func(context.Context, *domain.Claim) domain.Answer {
			store.set(func() { store.frozen = true })
			return retryAnswer
		})
		require.NoError(t, err)
		require.Equal(t, retryAnswer, a, "a transient answer need not be stored")
		start := time.Now()
		r.Key = "late"
		_, _, err = keys.Do(t.Context(), r, answerWith(doneAnswer, &runs))
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.LessOrEqual(t, time.Since(start), keyedTimeout)
	})
}

// A run whose caller disconnects completes, and a retry gets its answer.
func TestRunContinuesAfterCallerDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeys(newMemKeys(), &keyOutcomes{})
		r := domain.KeyedRequest{UserID: 1, Key: "k"}
		ctx, disconnect := context.WithCancel(t.Context())
		_, _, err := keys.Do(ctx, r, func(ctx context.Context, _ *domain.Claim) domain.Answer {
			disconnect()
			require.NoError(t, ctx.Err())
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			return doneAnswer
		})
		require.NoError(t, err)
		a, replayed, err := keys.Do(t.Context(), r, func(context.Context, *domain.Claim) domain.Answer { t.Error("a second run"); return doneAnswer })
		require.NoError(t, err)
		require.True(t, replayed)
		require.Equal(t, doneAnswer, a)
	})
}

// A panic reaches the caller and releases the key.
func TestPanicReleasesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeys(newMemKeys(), &keyOutcomes{})
		r := domain.KeyedRequest{UserID: 1, Key: "k"}
		require.PanicsWithValue(t, "broken", func() {
			_, _, _ = keys.Do(t.Context(), r, func(context.Context, *domain.Claim) domain.Answer { panic("broken") })
		})
		var runs atomic.Int64
		_, _, err := keys.Do(t.Context(), r, answerWith(doneAnswer, &runs))
		require.NoError(t, err)
		require.EqualValues(t, 1, runs.Load())
	})
}

// The claim is stored, but the store reports that it was unavailable. The retry need not wait for the end of the lease.
func TestUnansweredClaimIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateKeys{memKeys: newMemKeys()}
		keys := newKeys(store, &keyOutcomes{})
		r := domain.KeyedRequest{UserID: 1, Key: "k"}
		var runs atomic.Int64
		_, _, err := keys.Do(t.Context(), r, answerWith(doneAnswer, &runs))
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.Zero(t, runs.Load())
		start := time.Now()
		a, _, err := keys.Do(t.Context(), r, answerWith(doneAnswer, &runs))
		require.NoError(t, err)
		require.Equal(t, doneAnswer, a)
		require.Less(t, time.Since(start), time.Second)
	})
}

// lateKeys stores the first claims but reports a failure.
type lateKeys struct {
	*memKeys
	failed bool
}

func (l *lateKeys) ClaimKey(ctx context.Context, c *domain.Claim) domain.KeyState {
	state := l.memKeys.ClaimKey(ctx, c)
	if !l.failed {
		l.failed = true
		return domain.KeyState{Err: domain.ErrUnavailable}
	}
	return state
}
