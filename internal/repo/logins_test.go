package repo

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

var newcomer = domain.User{Phone: "138", Role: domain.RoleBuyer, CreatedAt: now}

// guess passes the request of a guess to see and reports whether there is one. It logs no one in.
func guess(t *testing.T, s *Store, g auth.Guess, see func(*auth.LoginRequest)) (found bool) {
	t.Helper()
	_, err := s.OpenSession(t.Context(), g, newcomer, newSession("a"), func(r *auth.LoginRequest) bool {
		found = true
		see(r)
		return false
	}, noFactor)
	require.ErrorIs(t, err, domain.ErrWrongCode)
	return found
}

func nothing(*auth.LoginRequest) {}

func TestLoginRequests(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		home, away := []byte("asker 0123456789"), []byte("asker 9876543210")
		request := func(id, phone string, asker []byte, at time.Time) auth.LoginRequest {
			r := auth.LoginRequest{ID: id, Phone: phone, Asker: asker, Hash: []byte{1, 2, 3}, CreatedAt: at, ExpiresAt: at.Add(2 * time.Minute)}
			require.NoError(t, s.AddLoginRequest(t.Context(), r))
			return r
		}
		first := request("first", "138", home, now)
		second := request("second", "138", home, now.Add(time.Second))
		other := request("other", "138", away, now.Add(2*time.Second))
		request("another phone", "139", home, now.Add(3*time.Second))

		for _, want := range []auth.LoginRequest{first, second, other} {
			require.True(t, guess(t, s, auth.Guess{LoginID: want.ID, Phone: "138"}, func(r *auth.LoginRequest) { require.Equal(t, want, *r) }))
		}
		for _, g := range []auth.Guess{
			{LoginID: "unknown", Phone: "138"}, {LoginID: "first", Phone: "139"}, {LoginID: "ü\x00😀", Phone: "138"},
			{Phone: "137", Askers: [][]byte{home}, Now: now}, {Phone: "138", Askers: [][]byte{[]byte("asker aaaaaaaaaa")}, Now: now},
			{Phone: "138", Askers: [][]byte{home}, Now: now.Add(121 * time.Second)},
		} {
			require.False(t, guess(t, s, g, nothing), g)
		}
		newest := func(asker []byte, want string) {
			t.Helper()
			require.True(t, guess(t, s, auth.Guess{Phone: "138", Askers: [][]byte{[]byte("of another key  "), asker}, Now: now}, func(r *auth.LoginRequest) { require.Equal(t, want, r.ID) }))
		}
		newest(home, "second")
		newest(away, "other")
		require.True(t, guess(t, s, auth.Guess{LoginID: "other", Phone: "138"}, func(r *auth.LoginRequest) { r.Hash = nil }))
		require.False(t, guess(t, s, auth.Guess{Phone: "138", Askers: [][]byte{away}, Now: now}, nothing), "the code is used")
		require.NoError(t, s.DeleteLoginRequest(t.Context(), "second"))
		require.NoError(t, s.DeleteLoginRequest(t.Context(), "second"))
		newest(home, "first")
	})
}

// A wrong guess is stored with its request only.
func TestWrongGuessIsCountedAndOpensNoSession(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		one, two := sendCode(t, s, "138"), sendCode(t, s, "138")
		require.True(t, guess(t, s, one, func(r *auth.LoginRequest) { r.Attempts++; r.AttemptsWithoutID += 2; r.Hash = nil }))
		guess(t, s, one, func(r *auth.LoginRequest) {
			require.Equal(t, []int{1, 2, 0}, []int{r.Attempts, r.AttemptsWithoutID, len(r.Hash)})
		})
		guess(t, s, two, func(r *auth.LoginRequest) { require.Zero(t, r.Attempts) })
		_, err := s.User(t.Context(), 1)
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

// Every concurrent guess at a code must be counted, or a limit of five guesses allows many.
func TestConcurrentGuessesAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const guesses = 40
		g := sendCode(t, s, "138")
		var wg sync.WaitGroup
		for range guesses {
			wg.Go(func() {
				_, err := s.OpenSession(context.Background(), g, newcomer, newSession("a"), func(r *auth.LoginRequest) bool {
					r.Attempts++
					return false
				}, noFactor)
				if err != domain.ErrWrongCode { //nolint:errorlint // not wrapped
					t.Errorf("guess: %v", err)
				}
			})
		}
		wg.Wait()
		guess(t, s, g, func(r *auth.LoginRequest) { require.Equal(t, guesses, r.Attempts) })
	})
}

// Several requests of a phone may lead to logins at the same time. They create one user.
func TestConcurrentLoginsWithSeveralRequests(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		users := make([]domain.User, 10)
		guesses := make([]auth.Guess, len(users))
		for i := range guesses {
			guesses[i] = sendCode(t, s, "138")
		}
		var wg sync.WaitGroup
		for i := range users {
			wg.Go(func() {
				u, err := s.OpenSession(context.Background(), guesses[i], newcomer, newSession(string(rune('a'+i))), anyCode, noFactor)
				if err != nil {
					t.Errorf("log in: %v", err)
				}
				users[i] = u
			})
		}
		wg.Wait()
		for _, u := range users {
			require.Equal(t, users[0], u)
		}
	})
}

func TestLoginRequestsArePurgedAfterOneDay(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		g := sendCode(t, s, "138")
		purge := func(at time.Time) int {
			n, err := s.PurgeSessions(t.Context(), at)
			require.NoError(t, err)
			return n
		}
		require.Zero(t, purge(now.Add(24*time.Hour)))
		require.True(t, guess(t, s, g, nothing))
		require.Equal(t, 1, purge(now.Add(24*time.Hour+time.Millisecond)))
		require.False(t, guess(t, s, g, nothing))
	})
}
