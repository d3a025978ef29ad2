package service

import (
	"context"
	"errors"
	"fmt"
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
	"seckill/test/env"
)

// memKeys is a KeyStore in memory with injected faults. It collects the outcomes that are observed.
type memKeys struct {
	mu     sync.Mutex
	rows   map[string]*memKey
	err    error // the result of every method, if not nil
	frozen bool  // calls block until their context ends
	late   bool  // the next claim is stored, but reported as failed
	seen   []string
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
	if m.late {
		m.late = false
		return domain.KeyState{Err: domain.ErrUnavailable}
	}
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

func (m *memKeys) PurgeKeys(ctx context.Context) (int, error) { return 0, m.fault(ctx) }

func (m *memKeys) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func newKeys(store *memKeys) *Idempotency {
	observe := func(outcome string) { store.set(func() { store.seen = append(store.seen, outcome) }) }
	return &Idempotency{Store: store, Observe: observe}
}

var (
	onceRequest = domain.KeyedRequest{UserID: 1, Key: "k"}
	doneAnswer  = domain.Answer{Status: http.StatusCreated, Body: []byte("done")}
	retryAnswer = domain.Answer{Status: http.StatusServiceUnavailable, RetryAfter: "1", Transient: true}
)

func answerWith(a domain.Answer, runs *atomic.Int64) func(context.Context, *domain.Claim) domain.Answer {
	return func(context.Context, *domain.Claim) domain.Answer { runs.Add(1); return a }
}

// In-flight duplicates get the answer of the run once it is stored, in its process and in others.
func TestInFlightDuplicatesShareTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemKeys()
		here, there := newKeys(store), newKeys(store)
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
				a, _, err := keys.Do(t.Context(), onceRequest, slow)
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
		require.Equal(t, append([]string{"new"}, slices.Repeat([]string{"replayed"}, 19)...), store.seen)
	})
}

// Until the lease of a stuck process ends, other runs fail. Then the next one takes over and gets the recorded
// resource. If the first run continues after that, it returns no answer.
func TestTakeoverAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemKeys()
		first, next := newKeys(store), newKeys(store)
		zombie := make(chan error, 1)
		go func() {
			_, _, err := first.Do(t.Context(), onceRequest, func(_ context.Context, c *domain.Claim) domain.Answer {
				store.set(func() { store.rows[keyRowOf(c)].claim.ResourceID = 9 }) // as NoteResource does
				time.Sleep(domain.KeyLease + time.Minute)
				return doneAnswer
			})
			zombie <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, _, err := next.Do(t.Context(), onceRequest, func(context.Context, *domain.Claim) domain.Answer { t.Error("two runs at once"); return doneAnswer })
		require.ErrorIs(t, err, domain.ErrOrderInProgress)
		require.LessOrEqual(t, time.Since(start), keyedTimeout+keyPoll, "it fails in time")
		time.Sleep(domain.KeyLease)
		a, replayed, err := next.Do(t.Context(), onceRequest, func(_ context.Context, c *domain.Claim) domain.Answer {
			require.True(t, c.Again)
			require.Equal(t, int64(9), c.ResourceID, "recorded by the first run")
			return doneAnswer
		})
		require.NoError(t, err)
		require.False(t, replayed)
		require.Equal(t, doneAnswer, a)
		require.ErrorIs(t, <-zombie, domain.ErrOrderInProgress)
		require.Equal(t, []string{"new", "in_progress", "takeover", "lost"}, store.seen)
	})
}

// A request does not run if its key cannot be claimed, and gets no answer that cannot be stored. Its key stays usable.
func TestStoreFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, r := newMemKeys(), onceRequest
		keys := newKeys(store)
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
		keys := newKeys(newMemKeys())
		ctx, disconnect := context.WithCancel(t.Context())
		_, _, err := keys.Do(ctx, onceRequest, func(ctx context.Context, _ *domain.Claim) domain.Answer {
			disconnect()
			require.NoError(t, ctx.Err())
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			return doneAnswer
		})
		require.NoError(t, err)
		a, replayed, err := keys.Do(t.Context(), onceRequest, func(context.Context, *domain.Claim) domain.Answer { t.Error("a second run"); return doneAnswer })
		require.NoError(t, err)
		require.True(t, replayed)
		require.Equal(t, doneAnswer, a)
	})
}

// A panic reaches the caller and releases the key.
func TestPanicReleasesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeys(newMemKeys())
		require.PanicsWithValue(t, "broken", func() {
			_, _, _ = keys.Do(t.Context(), onceRequest, func(context.Context, *domain.Claim) domain.Answer { panic("broken") })
		})
		var runs atomic.Int64
		_, _, err := keys.Do(t.Context(), onceRequest, answerWith(doneAnswer, &runs))
		require.NoError(t, err)
		require.EqualValues(t, 1, runs.Load())
	})
}

// The claim is stored, but the store reports that it was unavailable. The retry need not wait for the end of the lease.
func TestUnansweredClaimIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemKeys()
		store.late = true
		keys := newKeys(store)
		var runs atomic.Int64
		_, _, err := keys.Do(t.Context(), onceRequest, answerWith(doneAnswer, &runs))
		require.ErrorIs(t, err, domain.ErrUnavailable)
		require.Zero(t, runs.Load())
		start := time.Now()
		a, _, err := keys.Do(t.Context(), onceRequest, answerWith(doneAnswer, &runs))
		require.NoError(t, err)
		require.Equal(t, doneAnswer, a)
		require.Less(t, time.Since(start), time.Second)
	})
}

// orderKeyStore is a store with one result for all keys. It counts the lookups by key.
type orderKeyStore struct {
	store
	found   domain.Placed
	err     error
	lookups atomic.Int64
}

func (s *orderKeyStore) RepeatedOrders(_ context.Context, ps []domain.Purchase) ([]domain.Placed, error) {
	s.lookups.Add(1)
	return slices.Repeat([]domain.Placed{s.found}, len(ps)), s.err
}

var (
	// testKey is the key of most requests, and earlier the order that it has placed.
	testKey = domain.NewRequestKey("k", [32]byte{1})
	earlier = domain.Placed{Order: domain.Order{ID: 5}, Replayed: true}
)

// once is PlaceOnce of a request that gets no order.
func once(t *testing.T, orders *Orders, user int64, key *domain.RequestKey) error {
	_, _, err := orders.PlaceOnce(t.Context(), user, 1, 0, key, "")
	return err
}

func requireReplay(t *testing.T, orders *Orders, user, id int64) domain.Order {
	t.Helper()
	o, replayed, err := orders.PlaceOnce(t.Context(), user, 1, 0, testKey, "")
	require.NoError(t, err)
	require.True(t, replayed)
	require.Equal(t, id, o.ID)
	return o
}

// In-flight duplicates share one run and its result. All but the first are replays.
func TestInFlightDuplicatesShareRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		orders := newOrders(t, saleOf(1), OrdersConfig{MaxInFlight: 100, Lane: laneFunc(func(context.Context, domain.Purchase) (domain.Order, error) {
			runs.Add(1)
			time.Sleep(time.Second)
			return domain.Order{ID: 5}, nil
		})})
		var fresh, replays atomic.Int64
		place := func(ctx context.Context, user int64, key *domain.RequestKey) {
			o, replayed, err := orders.PlaceOnce(ctx, user, 1, 0, key, "")
			require.NoError(t, err)
			require.Equal(t, int64(5), o.ID)
			if replayed {
				replays.Add(1)
			} else {
				fresh.Add(1)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		go place(gone, 7, testKey)
		synctest.Wait()
		cancel() // the first caller leaves; its run continues for the others
		for range 10 {
			go place(t.Context(), 7, testKey)
		}
		go place(t.Context(), 8, testKey)
		go place(t.Context(), 7, domain.NewRequestKey("k", [32]byte{2}))
		go place(t.Context(), 7, domain.NewRequestKey("l", [32]byte{1}))
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 4, runs.Load())
		require.EqualValues(t, 4, fresh.Load())
		require.EqualValues(t, 10, replays.Load())
	})
}

// An order is replayed until its key expires, even if the end of the sale is moved to the past meanwhile. Later no
// order is searched.
func TestReplayAfterEndIsMovedBack(t *testing.T) {
	v := openSale(1)
	v.UpdatedAt = testNow
	v.Sale.BeginAt, v.Sale.EndAt = testNow.Add(-9*domain.KeyLife), testNow.Add(-2*domain.KeyLife)
	now := testNow.Add(domain.KeyLife - time.Second)
	orders := newOrders(t, func() (domain.Voucher, error) { return v, nil }, OrdersConfig{
		Store: &orderKeyStore{found: earlier}, Now: func() time.Time { return now },
	})
	requireReplay(t, orders, 7, 5)
	now = testNow.Add(domain.KeyLife)
	require.ErrorIs(t, once(t, orders, 7, testKey), domain.ErrSaleEnded)
}

// A purchase with a key of a sold-out sale without a list is decided by its key and the orders in the store. While too many
// lookups are running, a repeated request still has the answer of the first one.
func TestKeyedPurchaseIsAnsweredFromStore(t *testing.T) {
	for name, tc := range map[string]struct {
		found     domain.Placed
		lookupErr error
		active    int
		activeErr error
		id        int64
		want      error // nil: an order
	}{
		"placed before":          {found: earlier, id: 5},
		"mismatch":               {found: domain.Placed{Err: domain.ErrIdempotencyMismatch}, want: domain.ErrIdempotencyMismatch},
		"new, at limit":          {found: domain.Placed{Err: domain.ErrNotFound}, active: 1, want: &domain.DuplicateOrderError{OrderID: 99}},
		"new, allowed":           {found: domain.Placed{Err: domain.ErrNotFound}, want: domain.ErrSoldOut},
		"no key lookup":          {lookupErr: domain.ErrUnavailable, active: 1, want: &domain.DuplicateOrderError{OrderID: 99}},
		"no order count":         {found: domain.Placed{Err: domain.ErrNotFound}, activeErr: domain.ErrUnavailable, want: domain.ErrUnavailable},
		"no key lookup, allowed": {lookupErr: domain.ErrUnavailable, want: domain.ErrUnavailable},
	} {
		orders := newOrders(t, saleOf(0), OrdersConfig{Store: &orderKeyStore{found: tc.found, err: tc.lookupErr, store: store{
			users:  func() ([]int64, error) { return nil, ErrTooMany },
			active: func() (int, int64, error) { return tc.active, 99, tc.activeErr },
		}}})
		o, replayed, err := orders.PlaceOnce(t.Context(), 7, 1, 0, testKey, "")
		require.Equal(t, tc.want, err, name)
		require.Equal(t, tc.id, o.ID, name)
		require.Equal(t, tc.id == 5, replayed, name)

		require.True(t, orders.lookups.TryAcquire(maxLookups), name) // those of a slow database
		if tc.id == 5 {
			requireReplay(t, orders, 7, 5)
		}
	}
}

// Another process sells a returned unit, and the message about it is lost. The buyer's repeated request finds its order
// in time.
func TestReplayAfterLostMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buyers := []int64{1, 2}
		orders := newOrders(t, saleOf(0), OrdersConfig{
			Store: &orderKeyStore{store: store{users: func() ([]int64, error) { return buyers, nil }}, found: earlier},
		})
		env.Fails(orders.Place(t.Context(), 7, 1, 0))(t, domain.ErrSoldOut) // reads the list
		buyers = append(buyers, 3)
		time.Sleep(buyersMaxAge)
		env.Fails(orders.Place(t.Context(), 7, 1, 0))(t, domain.ErrSoldOut)
		synctest.Wait()
		requireReplay(t, orders, 3, 5)
	})
}

// Another process sells a returned unit between two reads of the sale, and the message about it is lost. The buyer's
// repeated request finds its order although the list of buyers is young.
func TestReplayAfterUnitSoldUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := testNow
		orders := newOrders(t, func() (domain.Voucher, error) {
			v := openSale(0)
			v.Sale.ChangedAt = changed
			return v, nil
		}, OrdersConfig{Store: &orderKeyStore{found: earlier, store: store{
			users:  func() ([]int64, error) { return []int64{1, 2}, nil },
			active: func() (int, int64, error) { return 1, 5, nil },
		}}})
		require.ErrorIs(t, once(t, orders, 3, testKey), domain.ErrSoldOut) // reads the list

		changed = changed.Add(time.Millisecond)
		time.Sleep(buyersMaxAge / 2)
		requireReplay(t, orders, 3, 5)
	})
}

// While the sale cannot be read, nobody knows whether a unit has returned and was sold again. A user outside the list
// of buyers is therefore not refused as sold out.
func TestSoldOutIsNotAnsweredFromOldSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error
		st := &orderKeyStore{found: domain.Placed{Err: domain.ErrNotFound}, store: store{
			users:  func() ([]int64, error) { return []int64{1, 2}, nil },
			active: func() (int, int64, error) { return 0, 0, down },
		}}
		orders := newOrders(t, func() (domain.Voucher, error) { return openSale(0), down }, OrdersConfig{Store: st})
		require.ErrorIs(t, once(t, orders, 3, testKey), domain.ErrSoldOut)

		down, st.err = domain.ErrUnavailable, domain.ErrUnavailable
		time.Sleep(2 * time.Second)
		for user := range int64(2 * staleLookupsPerSecond) {
			require.ErrorIs(t, once(t, orders, 3+user, testKey), domain.ErrUnavailable, "user %d", 3+user)
		}
	})
}

// In lane queue, only the gate knows all orders, and whether Redis may have lost one. It therefore decides wherever the
// list of buyers does not, even in a sale that may not sell a unit which the snapshot does not show.
func TestGateDecidesAboutBuyersOfSoldOutSale(t *testing.T) {
	errLane := errors.New("of the lane")
	for name, users := range map[string]func() ([]int64, error){
		"no list":   func() ([]int64, error) { return nil, ErrTooMany },
		"cold":      func() ([]int64, error) { return nil, domain.ErrGateCold },
		"lost":      func() ([]int64, error) { return nil, domain.ErrGateLacking },
		"on a list": func() ([]int64, error) { return []int64{7}, nil },
	} {
		for _, limit := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, limit %d", name, limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := openSale(0)
					v.Sale.UnpaidLimit = &limit
					orders := newOrders(t, func() (domain.Voucher, error) { return v, nil }, OrdersConfig{
						Store: &orderKeyStore{found: domain.Placed{Err: domain.ErrNotFound}},
						Queue: &ticketQueue{store: store{users: users}},
						Lane: laneFunc(func(_ context.Context, p domain.Purchase) (domain.Order, error) {
							require.Equal(t, limit > 0, p.SoldOut)
							require.Equal(t, 1, p.Limit)
							return domain.Order{}, errLane
						}),
					})
					for _, key := range []*domain.RequestKey{testKey, nil} {
						require.Equal(t, errLane, once(t, orders, 7, key))
					}
					if name == "on a list" {
						env.Fails(orders.Place(t.Context(), 8, 1, 0))(t, domain.ErrSoldOut)
					}
				})
			})
		}
	}
}

// Soon after the last unit is sold, a sold-out sale is answered from memory: without the lane and without a search for
// the keys of buyers that have no order.
func TestSoldOutIsKnownSoonAfterTheLastUnit(t *testing.T) {
	for _, lane := range []string{"batch", "queue"} {
		t.Run(lane, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stock := int64(1)
				changed := testNow
				calls := 0
				load := func() (domain.Voucher, error) {
					v := openSale(stock)
					v.Sale.ChangedAt = changed
					return v, nil
				}
				buyers := store{
					users: func() ([]int64, error) {
						time.Sleep(20 * time.Millisecond)
						return []int64{1}, nil
					},
					active: func() (int, int64, error) { return 0, 0, nil },
				}
				st := &orderKeyStore{store: buyers, found: domain.Placed{Err: domain.ErrNotFound}}
				cfg := OrdersConfig{Store: st, Lane: laneFunc(func(context.Context, domain.Purchase) (domain.Order, error) {
					calls++
					if stock == 0 {
						return domain.Order{}, domain.ErrSoldOut
					}
					stock = 0
					changed = changed.Add(time.Millisecond)
					return domain.Order{ID: 5}, nil
				})}
				if lane == "queue" {
					cfg.Queue = &ticketQueue{store: buyers}
				}

				orders := newOrders(t, load, cfg)
				require.NoError(t, once(t, orders, 1, testKey))
				for user := range int64(3000) {
					if user == 500 {
						calls = 0
						st.lookups.Store(0)
					}
					require.ErrorIs(t, once(t, orders, 100+user, testKey), domain.ErrSoldOut)
					time.Sleep(time.Millisecond)
				}
				require.Zero(t, calls, "calls of the lane")
				require.Zero(t, st.lookups.Load(), "searches for keys")
			})
		})
	}
}

// A repeated request whose order is still queued returns that order even if the sale has ended.
func TestReplayOfQueuedOrderAfterSale(t *testing.T) {
	queued := domain.Ticket{Admission: domain.Admission{OrderID: 6, UserID: 7, VoucherID: 1, Key: &domain.RequestKey{Hash: testKey.Hash, Request: testKey.Request}}}
	failed := queued
	failed.OrderID, failed.Failed = 5, domain.ReasonInternal
	orders := newOrders(t, saleOf(1), OrdersConfig{
		Store: &orderKeyStore{found: domain.Placed{Err: domain.ErrNotFound}}, Queue: &ticketQueue{tickets: []domain.Ticket{failed, queued}},
		Now: func() time.Time { return openSale(1).Sale.EndAt },
	})
	require.Equal(t, domain.OrderQueued, requireReplay(t, orders, 7, 6).Status)
	require.ErrorIs(t, once(t, orders, 7, domain.NewRequestKey("k", [32]byte{2})), domain.ErrIdempotencyMismatch)
}

type ticketQueue struct {
	ReservationStore
	store
	tickets []domain.Ticket
}

func (q *ticketQueue) Ticket(_ context.Context, userID, orderID, _ int64) (domain.Ticket, error) {
	return domain.Ticket{Admission: domain.Admission{OrderID: orderID, UserID: userID}}, nil
}
func (q *ticketQueue) Tickets(context.Context, int64) ([]domain.Ticket, error) { return q.tickets, nil }
func (q *ticketQueue) Holders(ctx context.Context, voucherID int64, most int) ([]int64, error) {
	return q.store.Holders(ctx, voucherID, most)
}
