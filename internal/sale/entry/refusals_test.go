package entry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// records is an UnpaidStore that counts its reads.
type records struct {
	of          map[domain.SaleUser]domain.SaleRecord
	unpaid      map[int64]int
	err         error
	saleReads   atomic.Int64
	unpaidReads atomic.Int64
}

func (r *records) SaleRecords(context.Context, []domain.SaleUser) (map[domain.SaleUser]domain.SaleRecord, error) {
	time.Sleep(time.Millisecond) // as long as a query
	r.saleReads.Add(1)
	return r.of, r.err
}

func (r *records) UnpaidOrders(context.Context, []int64) (map[int64]int, error) {
	r.unpaidReads.Add(1)
	return r.unpaid, r.err
}

func limitedSale(limit int) *domain.Voucher {
	return &domain.Voucher{ID: 1, Type: domain.VoucherSeckill, Status: domain.VoucherOn, Sale: &domain.Sale{
		Stock: 5, LimitPerUser: 1, BeginAt: start, EndAt: start.Add(time.Hour), UnpaidLimit: &limit, EndedUnpaid: true,
	}}
}

func purchase(user int64) *domain.Purchase {
	return &domain.Purchase{Admission: domain.Admission{UserID: user, VoucherID: 1, At: start}, Deadline: time.Now().Add(time.Minute)}
}

// Before an order of the sale has ended unpaid, a purchase reads nothing. Afterwards concurrent purchases share
// queries.
func TestPurchasesShareLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &records{of: map[domain.SaleUser]domain.SaleRecord{{UserID: 7, VoucherID: 1}: {Expired: 1}}}
		u := NewUnpaid(store)
		v := limitedSale(1)
		v.Sale.Entry.Mode = domain.EntryPass
		v.Sale.EndedUnpaid = false
		require.NoError(t, u.MayOrder(purchase(7), v))
		require.Zero(t, store.saleReads.Load())

		v.Sale.EndedUnpaid = true
		var wg sync.WaitGroup
		for user := range int64(50) {
			wg.Go(func() {
				if err := u.MayOrder(purchase(user), v); user == 7 {
					require.ErrorIs(t, err, domain.ErrUnpaidLimit)
				} else {
					require.NoError(t, err)
				}
			})
		}
		wg.Wait()
		require.Less(t, store.saleReads.Load(), int64(10))
		time.Sleep(time.Second) // the batcher ends
	})
}

func TestMayEnter(t *testing.T) {
	store := &records{
		of: map[domain.SaleUser]domain.SaleRecord{
			{UserID: 7, VoucherID: 1}:  {Expired: 1},
			{UserID: 8, VoucherID: 1}:  {Active: 1},
			{UserID: 10, VoucherID: 1}: {Cancelled: 1, LastCancel: start},
		},
		unpaid: map[int64]int{8: domain.MaxUnpaidOrders - 1, 9: domain.MaxUnpaidOrders},
	}
	u := NewUnpaid(store)
	enter := func(user int64, v *domain.Voucher) error { return env.Err(u.MayEnter(t.Context(), user, v, start)) }
	require.ErrorIs(t, enter(7, limitedSale(1)), domain.ErrUnpaidLimit)
	require.NoError(t, enter(8, limitedSale(1)), "the purchase tells the user about the order")
	require.ErrorIs(t, enter(9, limitedSale(1)), domain.ErrUnpaidElsewhere)
	require.ErrorAs(t, enter(10, limitedSale(1)), new(*domain.RateLimitedError), "the pause after a cancellation")
	require.ErrorAs(t, u.MayOrder(purchase(10), limitedSale(1)), new(*domain.RateLimitedError))
	store.saleReads.Store(0)
	store.unpaidReads.Store(0)
	require.NoError(t, enter(9, limitedSale(0)), "the sale has no limit")
	require.Zero(t, store.unpaidReads.Load())
	fresh := limitedSale(1)
	fresh.Sale.EndedUnpaid = false
	require.ErrorIs(t, enter(9, fresh), domain.ErrUnpaidElsewhere)
	require.Zero(t, store.saleReads.Load())
	store.err = domain.ErrUnavailable
	require.ErrorIs(t, enter(7, limitedSale(1)), domain.ErrUnavailable)
	require.ErrorIs(t, enter(7, fresh), domain.ErrUnavailable)
}

// A pass of a waiting room buys once, whatever became of its order and whether or not the sale limits unpaid orders. A
// later pass of the buyer is good, and a buyer with as many orders as allowed gets none.
func TestPassBuysOnce(t *testing.T) {
	for _, limit := range []int{0, 1} {
		store := &records{of: map[domain.SaleUser]domain.SaleRecord{
			{UserID: 7, VoucherID: 1}: {LastRound: 5},
			{UserID: 9, VoucherID: 1}: {LastRound: 5, Active: 1, Newest: 33},
		}}
		u := NewUnpaid(store)
		v := limitedSale(limit)
		v.Sale.EndedUnpaid = false
		v.Sale.Entry = domain.Entry{Mode: domain.EntryRoom, PassTTL: time.Minute}
		place := func(user int64, round uint32) error {
			p := purchase(user)
			p.Round = round
			return u.MayOrder(p, v)
		}
		require.ErrorIs(t, place(7, 5), domain.ErrPassExpired)
		require.ErrorIs(t, place(7, 4), domain.ErrPassExpired)
		require.NoError(t, place(7, 6))
		require.NoError(t, place(8, 5), "another buyer")

		var held *domain.DuplicateOrderError
		require.ErrorAs(t, place(9, 6), &held)
		env.Fails(u.MayEnter(t.Context(), 9, v, start))(t, &held)
		require.Equal(t, int64(33), held.OrderID)
		require.True(t, env.Must(u.MayEnter(t.Context(), 7, v, start))(t).HasUsed(5))
	}
}

// An open sale with a limit counts the unpaid orders of all sales at the purchase, one without a limit reads nothing. A user
// with as many active orders as allowed is refused at once: one of them may expire before the lane inserts the new order.
func TestOpenSaleCountsUnpaidOrders(t *testing.T) {
	store := &records{
		of:     map[domain.SaleUser]domain.SaleRecord{{UserID: 8, VoucherID: 1}: {Active: 1, Newest: 9}},
		unpaid: map[int64]int{7: domain.MaxUnpaidOrders, 8: domain.MaxUnpaidOrders - 1, 9: domain.MaxUnpaidOrders - 1},
	}
	u, v := NewUnpaid(store), limitedSale(1)
	v.Sale.EndedUnpaid = false
	require.ErrorIs(t, u.MayOrder(purchase(7), v), domain.ErrUnpaidElsewhere)
	require.Equal(t, &domain.DuplicateOrderError{OrderID: 9}, u.MayOrder(purchase(8), v))
	v.Sale.LimitPerUser = 2
	require.NoError(t, u.MayOrder(purchase(8), v))
	require.NoError(t, u.MayOrder(purchase(9), v))
	store.saleReads.Store(0)
	store.unpaidReads.Store(0)
	unlimited := limitedSale(0)
	unlimited.Sale.EndedUnpaid = false
	require.NoError(t, u.MayOrder(purchase(7), unlimited))
	require.Zero(t, store.saleReads.Load()+store.unpaidReads.Load())

	store.err, unlimited.Sale.EndedUnpaid = domain.ErrUnavailable, true // reads the orders of the sale only
	require.ErrorIs(t, u.MayOrder(purchase(9), unlimited), domain.ErrUnavailable)
	require.ErrorIs(t, u.MayOrder(purchase(9), v), domain.ErrUnavailable)
}

var challenged = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// work returns a Work whose clock shows challenged + after.
func work(after time.Duration) *Work {
	return NewWork(domain.NewKeyring([]byte("a secret of the challenges of tests!")), func() time.Time { return challenged.Add(after) })
}

// foreign is a solution of user 7 for voucher 1 that was computed with the modules hashlib, hmac and json of Python.
const foreign = `{"challenge": {"parameters": {"algorithm": "PBKDF2/SHA-256", "nonce": "00112233445566778899aabbccddeeff",
"salt": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "cost": 5000, "keyLength": 32, "keyPrefix": "032f45516f52b39c2eb8e3cb12fe466a",
"expiresAt": 1794398520, "data": {"user": "7", "voucher": "1",
"keySignature": "d9fa7eed30069f1b939a5a5dde5e22fdd38b9eab46239a38c6e20f3f3879110b"}},
"signature": "c8522d279550df50d40e68a28ea119659ceff414aade9136f05965516ddca2a4"},
"solution": {"counter": 137, "derivedKey": "032f45516f52b39c2eb8e3cb12fe466abbca47cf20c577a000e1d6978ed8a932", "time": 512.5}}`

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestSolutionOfAnotherImplementation(t *testing.T) {
	for _, after := range []time.Duration{0, 120*time.Second - time.Millisecond} {
		require.Equal(t, "00112233445566778899aabbccddeeff", env.Must(work(after).Verify(t.Context(), 7, 1, encode(foreign)))(t))
	}
}

func TestRefusedSolutions(t *testing.T) {
	w, good := work(0), encode(foreign)
	refused := func(w *Work, user, voucher int64, solution string, want error) {
		env.Fails(w.Verify(t.Context(), user, voucher, solution))(t, want, solution)
	}
	refused(w, 8, 1, good, errOtherUser)
	refused(w, 7, 2, good, errOtherVoucher)
	refused(w, 1, 7, good, errOtherUser)
	refused(work(120*time.Second), 7, 1, good, errExpired)
	refused(NewWork(domain.NewKeyring([]byte("another secret")), w.now), 7, 1, good, errForged)

	refused(w, 7, 1, "", errNoSolution)
	for _, solution := range []string{
		"!", good[1:], encode("[]"), encode("{"), encode(foreign + "x"), encode(strings.Replace(foreign, "5000", `"5000"`, 1)),
		encode(strings.Replace(foreign, "137", "4294967296", 1)), encode(strings.Replace(foreign, "137", "-1", 1)),
		encode(foreign + strings.Repeat(" ", maxSolution)),
	} {
		refused(w, 7, 1, solution, errMalformed)
	}
	refused(w, 7, 1, encode("{}"), errForged)

	for replacement, want := range map[string]error{
		`"cost": 5000|"cost": 1`: errForged,
		`"keyPrefix": "032f45516f52b39c2eb8e3cb12fe466a"|"keyPrefix": "03"`:           errForged,
		`"keyPrefix": "032f45516f52b39c2eb8e3cb12fe466a"|"keyPrefix": ""`:             errForged,
		`"keyLength": 32|"keyLength": 1`:                                              errForged,
		`"algorithm": "PBKDF2/SHA-256"|"algorithm": "SHA-256"`:                        errForged,
		`1794398520|1794398521`:                                                       errForged,
		`"user": "7"|"user": "8"`:                                                     errForged,
		`"keySignature": "d9|"keySignature": "da`:                                     errForged,
		`"nonce": "00|"nonce": "01`:                                                   errForged,
		`"salt": "0f|"salt": "0e`:                                                     errForged,
		`"signature": "c8|"signature": "c9`:                                           errForged,
		`"signature": "c8|"signature": "`:                                             errForged,
		`"counter": 137|"counter": 136`:                                               errWrongSolution,
		`"counter": 137|"counter": 0`:                                                 errWrongSolution,
		`bbca47cf20c577a000e1d6978ed8a932", "t|bbca47cf20c577a000e1d6978ed8a933", "t`: errWrongSolution,
		`bbca47cf20c577a000e1d6978ed8a932", "t|", "t`:                                 errWrongSolution,
		`bbca47cf20c577a000e1d6978ed8a932", "t|x", "t`:                                errWrongSolution,
	} {
		from, to, _ := strings.Cut(replacement, "|")
		require.Contains(t, foreign, from)
		user := int64(7)
		if strings.Contains(to, `"user": "8"`) {
			user = 8
		}
		refused(w, user, 1, encode(strings.Replace(foreign, from, to, 1)), want)
	}
}

func challengeOf(t *testing.T, w *Work, user, voucher int64) json.RawMessage {
	t.Helper()
	return env.Must(w.Challenge(t.Context(), user, voucher))(t)
}

func TestChallengeIsSolved(t *testing.T) {
	env.NoRace(t, "it computes")
	w := work(0)
	text := challengeOf(t, w, 7, 1)
	var c struct{ Parameters map[string]any }
	require.NoError(t, json.Unmarshal(text, &c))
	p := c.Parameters
	require.Equal(t, []string{"algorithm", "cost", "data", "expiresAt", "keyLength", "keyPrefix", "nonce", "salt"}, slices.Sorted(maps.Keys(p)))
	require.EqualValues(t, challenged.Add(2*time.Minute).Unix(), p["expiresAt"])
	require.Equal(t, "PBKDF2/SHA-256", p["algorithm"])

	require.Equal(t, p["nonce"], env.Must(w.Verify(t.Context(), 7, 1, env.Must(env.SolveChallenge(text))(t)))(t))
}

// TestChallengeIsGivenAgain counts the challenges, each of which costs the server a derivation: one of a user and sale
// in 20 s, however many entries there are. A new one follows before less than 100 s are left to solve it.
func TestChallengeIsGivenAgain(t *testing.T) {
	after := time.Duration(0)
	w := work(0)
	w.now = func() time.Time { return challenged.Add(after) }
	challenges := map[string]int{}
	entries := func() {
		for range 50 {
			challenges[string(challengeOf(t, w, 7, 1))]++
		}
	}
	entries()
	require.Len(t, challenges, 1)
	after = 20*time.Second - time.Millisecond
	entries()
	require.Len(t, challenges, 1)
	after = 20 * time.Second
	entries()
	require.Len(t, challenges, 2)

	for _, other := range []domain.SaleUser{{UserID: 8, VoucherID: 1}, {UserID: 7, VoucherID: 2}} {
		require.NotContains(t, challenges, string(challengeOf(t, w, other.UserID, other.VoucherID)))
	}
}

// A solution works once, so a solved challenge is not given again. An old solution and a wrong one change nothing.
func TestChallengeIsSolvedOnce(t *testing.T) {
	w := work(0)
	first := challengeOf(t, w, 7, 1)
	wrong := encode(`{"challenge": ` + string(first) + `, "solution": {"counter": 1, "derivedKey": "00"}}`)
	env.Fails(w.Verify(t.Context(), 7, 1, wrong))(t, errWrongSolution)
	require.Equal(t, first, challengeOf(t, w, 7, 1))

	solution := env.Must(env.SolveChallenge(first))(t)
	env.Must(w.Verify(t.Context(), 7, 1, solution))(t)
	second := challengeOf(t, w, 7, 1)
	require.NotEqual(t, first, second)

	for range 3 {
		env.Must(w.Verify(t.Context(), 7, 1, solution))(t)
		require.Equal(t, second, challengeOf(t, w, 7, 1))
	}
}

// occupied returns a Work all of whose processors are busy. done makes them available.
func occupied() (w *Work, done func()) {
	w = work(0)
	processors := int64(0)
	for w.running.TryAcquire(1) {
		processors++
	}
	return w, func() { w.running.Release(processors) }
}

// TestDerivationsAreBounded: users wait for a processor, a bounded number of them; the others are refused at once. All entries of
// an account for a sale cost one derivation, so that accounts that flood the server leave room for honest ones.
func TestDerivationsAreBounded(t *testing.T) {
	env.NoRace(t, "it computes")
	synctest.Test(t, func(t *testing.T) {
		const entries = 60 // of an account, for two sales
		w, free := occupied()
		const accounts = maxDerivations/2 - 1
		given := make(chan string, accounts*entries+2)
		enter := func(user, voucher int64) {
			text, _ := w.Challenge(t.Context(), user, voucher)
			given <- string(text)
		}
		for user := range int64(accounts) {
			for n := range int64(entries) {
				go enter(user, 1+n%2)
			}
		}
		synctest.Wait()
		for honest := range int64(2) {
			go enter(1000+honest, 1)
		}
		synctest.Wait()
		require.Empty(t, given)
		env.Fails(w.Challenge(t.Context(), 2000, 1))(t, domain.ErrOverloaded)

		free()
		challenges := map[string]bool{}
		for range cap(given) {
			challenges[<-given] = true
		}
		require.NotContains(t, challenges, "", "an entry got no challenge")
		require.Len(t, challenges, 2*accounts+2)
		challengeOf(t, w, 2000, 1)
	})
}

// TestChallengeOutlivesItsFirstRequest: if several requests wait for one challenge, the end of the first ends no other one.
func TestChallengeOutlivesItsFirstRequest(t *testing.T) {
	env.NoRace(t, "it computes")
	synctest.Test(t, func(t *testing.T) {
		w, free := occupied()
		first, leave := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, ctx := range []context.Context{first, t.Context()} {
			go func() { done <- env.Err(w.Challenge(ctx, 1, 1)) }()
			synctest.Wait()
		}

		leave()
		synctest.Wait()
		free()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
}

func TestWaitForChallengeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, free := occupied()
		for _, shared := range []string{"its own derivation", "that of another request"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			env.Fails(w.Challenge(ctx, 7, 1))(t, domain.ErrOverloaded, shared)
			cancel()
			go func() { _, _ = w.Challenge(t.Context(), 7, 1) }()
			synctest.Wait()
		}
		free()
	})
}
