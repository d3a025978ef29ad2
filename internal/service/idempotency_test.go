package service

import (
	"context"
	"errors"
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
	noted  []int64
	order  func() (Order, error)
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
			m.noted = append(m.noted, c.ResourceID)
		}
	}
	return errs
}

func (m *memKeys) ClaimedOrder(context.Context, *Claim) (Order, error) { return m.order() }
func (m *memKeys) PurgeKeys(ctx context.Context) (int, error)          { return 0, m.broken(ctx) }

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
	return NewIdempotency(IdempotencyConfig{Store: store, IDs: &ids{}, Now: func() time.Time { return testNow }, Observe: seen.add})
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
		r := KeyedRequest{UserID: 1, Key: "k", Order: true}
		zombie := make(chan error, 1)
		go func() {
			_, _, err := first.Once(t.Context(), r, func(context.Context) Answer { time.Sleep(KeyLease + time.Minute); return doneAnswer })
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
			require.Equal(t, int64(1), c.ResourceID, "the order id that the first run chose")
			require.Equal(t, Moment(testNow), c.ResourceAt)
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

// TestOnceWithoutIDs: what was answered before is found although there are no order ids to be had; a first purchase
// goes on without, and asks for itself.
func TestOnceWithoutIDs(t *testing.T) {
	store, g := newMemKeys(), &ids{}
	keys := NewIdempotency(IdempotencyConfig{Store: store, IDs: g, Now: time.Now})
	r := KeyedRequest{UserID: 1, Key: "k", Order: true}
	_, _, err := keys.Once(t.Context(), r, func(ctx context.Context) Answer {
		require.Equal(t, int64(1), ClaimOf(ctx).ResourceID)
		return doneAnswer
	})
	require.NoError(t, err)
	g.err = errors.New("Redis is away")
	_, replayed, err := keys.Once(t.Context(), r, nil)
	require.NoError(t, err)
	require.True(t, replayed)
	r.Key = "new"
	_, _, err = keys.Once(t.Context(), r, func(ctx context.Context) Answer {
		require.Zero(t, ClaimOf(ctx).ResourceID)
		return retryAnswer
	})
	require.NoError(t, err)
	r.Key, r.Order = "other", false
	g.blocks = nil
	_, _, err = keys.Once(t.Context(), r, func(context.Context) Answer { return doneAnswer })
	require.NoError(t, err)
	require.Empty(t, g.blocks, "only purchases need ids")
}

// claimedPurchase is a purchase under a claim.
func claimedPurchase(store KeyStore, again bool, order int64) Purchase {
	c := &Claim{KeyedRequest: KeyedRequest{UserID: 7, Key: "k"}, Again: again, ResourceID: order, store: store}
	p := Purchase{UserID: 7, VoucherID: 1, Limit: 1, At: testNow, Deadline: time.Now().Add(time.Minute), Claim: c}
	if order != 0 {
		c.ResourceAt = testNow
	}
	return p
}

// TestClaimedPurchase: it is placed under the id of its claim. A fresh id is noted before anything happens under it.
func TestClaimedPurchase(t *testing.T) {
	for name, tc := range map[string]struct {
		again  bool
		order  int64          // of the claim
		before bool           // the store has it
		taken  map[int64]bool // by others
		notes  error
		id     int64 // placed
		noted  []int64
		err    error
	}{
		"first run":                {order: 70, id: 70},
		"again, not placed":        {again: true, order: 70, id: 70},
		"again, placed":            {again: true, order: 70, before: true, id: 70},
		"taken":                    {order: 70, taken: map[int64]bool{70: true}, id: 1071, noted: []int64{1071}},
		"again, taken":             {again: true, order: 70, taken: map[int64]bool{70: true}, id: 1071, noted: []int64{1071}},
		"an earlier click's":       {order: storedBefore, id: storedBefore + 1001, noted: []int64{storedBefore + 1001}},
		"without id":               {id: 1, noted: []int64{1}},
		"its key is another run's": {notes: ErrOrderInProgress, err: ErrOrderInProgress},
	} {
		t.Run(name, func(t *testing.T) {
			store, keys, placed := &store{}, newMemKeys(), []int64{}
			keys.err = tc.notes
			store.place = func(_ context.Context, o Order) (Order, error) {
				placed = append(placed, o.ID)
				if tc.taken[o.ID] {
					return Order{}, ErrIDTaken
				}
				return o, nil
			}
			var orders OrderStore = store
			if tc.before {
				orders = &placedBefore{store}
			}
			lane := NewLockLane(locks{}, NewBatchLane(&ids{}, orders, nil))
			o, err := lane.Place(t.Context(), claimedPurchase(keys, tc.again, tc.order))
			if tc.err != nil {
				require.ErrorIs(t, err, tc.err)
				require.Empty(t, placed, "nothing happens under an id that is not noted")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.id, o.ID)
			require.Equal(t, tc.noted, keys.noted)
		})
	}
}

// placedBefore is a store that has every order already.
type placedBefore struct{ *store }

func (s *placedBefore) PlaceOrders(ctx context.Context, orders []NewOrder) []Placed {
	placed := s.store.PlaceOrders(ctx, orders)
	for i := range placed {
		placed[i].Before = true
	}
	return placed
}

// TestClaimedAdmission: the gate is asked under the id of the claim, beside others that need fresh ones.
func TestClaimedAdmission(t *testing.T) {
	keys, g := newMemKeys(), &fakeGate{reserve: admitAll}
	lane := NewQueueLane(g, &ids{next: 100}, &gateStore{}, nil)
	lost := claimedPurchase(keys, false, 0)
	bad := newMemKeys()
	bad.err = ErrOrderInProgress
	lost.Claim.store = bad
	results := lane.admit(t.Context(), 1, []Purchase{claimedPurchase(keys, true, 70), queuePurchase(0), claimedPurchase(keys, false, 71)})
	require.Equal(t, []int64{70, 101, 71}, []int64{results[0].order.ID, results[1].order.ID, results[2].order.ID})
	require.Empty(t, keys.noted)
	results = lane.admit(t.Context(), 1, []Purchase{lost})
	require.ErrorIs(t, results[0].err, ErrOrderInProgress)
	require.Zero(t, results[0].order.ID)
}
