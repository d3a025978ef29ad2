package entry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

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
		id := env.Must(work(after).Verify(t.Context(), 7, 1, encode(foreign)))(t)
		require.Equal(t, "00112233445566778899aabbccddeeff", id)
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
