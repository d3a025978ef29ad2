package repo

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/test/env"
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

// Every concurrent guess at a code must be counted, or a limit of five guesses allows many. It counts for its request only, and
// opens no session.
func TestConcurrentGuessesAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const guesses = 40
		one, two := sendCode(t, s, "138"), sendCode(t, s, "138")
		requireWinners(t, 0, domain.ErrWrongCode, atOnce(guesses, func(int) error {
			_, err := s.OpenSession(t.Context(), one, newcomer, newSession("a"), func(r *auth.LoginRequest) bool {
				r.Attempts++
				r.AttemptsWithoutID += 2
				r.Hash = nil
				return false
			}, noFactor)
			return err
		}))
		guess(t, s, one, func(r *auth.LoginRequest) {
			require.Equal(t, []int{guesses, 2 * guesses, 0}, []int{r.Attempts, r.AttemptsWithoutID, len(r.Hash)})
		})
		guess(t, s, two, func(r *auth.LoginRequest) { require.Zero(t, r.Attempts) })
		env.Fails(s.User(t.Context(), 1))(t, domain.ErrNotFound)
	})
}

func TestLoginRequestsArePurgedAfterOneDay(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		g := sendCode(t, s, "138")
		purge := func(at time.Time) int {
			return env.Must(s.PurgeSessions(t.Context(), at))(t)
		}
		require.Zero(t, purge(now.Add(24*time.Hour)))
		require.True(t, guess(t, s, g, nothing))
		require.Equal(t, 1, purge(now.Add(24*time.Hour+time.Millisecond)))
		require.False(t, guess(t, s, g, nothing))
	})
}

// sealed stands for an encrypted secret.
func sealed(userID int64) []byte { return []byte("for user " + strconv.FormatInt(userID, 10)) }

func TestEnrollAndRemove(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		buyer := domain.User{Phone: "1", NickName: "n", Role: domain.RoleBuyer, CreatedAt: now}
		open := func(session string) {
			g := sendCode(t, s, "1")
			env.Must(s.OpenSession(ctx, g, buyer, newSession(session), anyCode, noFactor))(t)
		}
		open("before")
		admin := buyer
		admin.Role = domain.RoleAdmin
		u := env.Must(s.Enroll(ctx, admin, sealed, now, now.Add(time.Hour)))(t)
		require.Equal(t, []string{"before"}, revoked(t, s))
		_, err := s.Enroll(ctx, admin, sealed, now.Add(time.Minute), now.Add(time.Hour))
		require.NoError(t, err, "a lost app is replaced")
		open("during")

		configured := domain.User{Phone: "2", NickName: "n", Role: domain.RoleBuyer, CreatedAt: now}
		configured = env.Must(s.OpenSession(ctx, sendCode(t, s, "2"), configured, newSession("other"), anyCode, noFactor))(t)
		viewer := env.Must(s.Enroll(ctx, domain.User{Phone: "3", NickName: "n", Role: domain.RoleViewer, CreatedAt: now}, nil, now, now.Add(time.Hour)))(t)
		list := env.Must(s.Admins(ctx, []string{"2", "4"}))(t)
		require.Equal(t, []domain.Admin{{User: u, EnrolledAt: now.Add(time.Minute), Factor: sealed(u.ID)}, {User: configured}, {User: viewer}}, list)

		shop := domain.Shop{Name: "Tea", TypeID: 1, CreatedAt: now, UpdatedAt: now}
		require.NoError(t, s.CreateShop(ctx, nil, &shop, domain.Actor{Kind: domain.ActorSystem}))
		cashier := domain.User{Phone: "1", Role: domain.RoleRedeemer, ShopIDs: domain.ShopIDs{shop.ID}, CreatedAt: now}
		enrolled := env.Must(s.Enroll(ctx, cashier, sealed, now, now.Add(time.Hour)))(t)
		require.Equal(t, cashier.ShopIDs, enrolled.ShopIDs)
		stored := env.Must(s.ShopsOf(ctx, u.ID))(t)
		require.Equal(t, cashier.ShopIDs, stored)

		removed := env.Must(s.RemoveAdmin(ctx, "1", now, now.Add(time.Hour)))(t)
		require.Equal(t, domain.RoleBuyer, removed.Role)
		stored = env.Must(s.ShopsOf(ctx, u.ID))(t)
		require.Equal(t, cashier.ShopIDs, stored, "for the tokens of the former redeemer")
		require.ElementsMatch(t, []string{"before", "during"}, revoked(t, s))
		open("after") // noFactor is called without a factor, too
		list = env.Must(s.Admins(ctx, nil))(t)
		require.Equal(t, []domain.Admin{{User: viewer}}, list)
		env.Fails(s.RemoveAdmin(ctx, "9", now, now.Add(time.Hour)))(t, domain.ErrNotFound)
	})
}
