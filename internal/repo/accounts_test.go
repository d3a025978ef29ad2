package repo

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
	"seckill/test/env"
)

func anyCode(*auth.LoginRequest) bool { return true }

func noFactor(domain.User, *auth.SecondFactor) (bool, error) { return false, nil }

// sendCode stores a login request for a phone and returns a guess at its code.
func sendCode(t *testing.T, s *Store, phone string) auth.Guess {
	t.Helper()
	r := auth.LoginRequest{
		ID: rand.Text(), Phone: phone, Asker: make([]byte, 16), Hash: []byte{1}, CreatedAt: now, ExpiresAt: now.Add(2 * time.Minute),
	}
	require.NoError(t, s.AddLoginRequest(t.Context(), r))
	return auth.Guess{LoginID: r.ID, Phone: phone, Now: now}
}

func newSession(id string) auth.Session {
	return auth.Session{ID: id, Generation: 1, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
}

// Concurrent first logins with one phone, by one code and by several, create one user, and one session each.
func TestConcurrentFirstLoginsCreateOneUser(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		codes := []auth.Guess{sendCode(t, s, "13800000001"), sendCode(t, s, "13800000001"), sendCode(t, s, "13800000001")}
		newcomer := domain.User{Phone: "13800000001", NickName: "n", Role: domain.RoleBuyer, CreatedAt: now}
		users := make([]domain.User, 10)
		allAtOnce(t, len(users), func(i int) (err error) {
			users[i], err = s.OpenSession(t.Context(), codes[i%len(codes)], newcomer, newSession(fmt.Sprint(i)), anyCode, noFactor)
			return err
		})
		for _, u := range users {
			require.Equal(t, users[0], u)
		}
		require.Equal(t, users[0], env.Must(s.User(t.Context(), users[0].ID))(t))
		env.Fails(s.User(t.Context(), 999))(t, domain.ErrNotFound)
	})
}

// A token is exchanged once, and by its reuse the session ends. For a short time a browser may send the token that it has just
// exchanged. Older tokens are never accepted.
func TestRotateSession(t *testing.T) {
	const grace = 10 * time.Second
	type exchange struct {
		generation   int64
		after, grace time.Duration
	}
	for name, tc := range map[string]struct {
		accepted, refused []exchange
		revoked           bool
	}{
		"reuse":                {[]exchange{{1, 0, 0}, {2, 0, 0}}, []exchange{{1, 0, 0}, {3, 0, 0}}, true},
		"an ended session":     {nil, []exchange{{1, time.Hour, 0}}, false},
		"within the grace":     {[]exchange{{1, 0, grace}, {1, grace - time.Millisecond, grace}, {2, time.Minute, grace}, {2, time.Minute, grace}}, nil, false},
		"after the grace":      {[]exchange{{1, 0, grace}}, []exchange{{1, grace, grace}, {2, grace, grace}}, true},
		"two generations back": {[]exchange{{1, 0, grace}, {2, 0, grace}}, []exchange{{1, 0, grace}}, true},
		"a clock behind":       {[]exchange{{1, 0, 0}}, []exchange{{1, -time.Second, 0}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *Store) {
				login(t, s, "1", "a", now)
				require.ErrorIs(t, rotate(s, "unknown", 1, now, 0), domain.ErrUnauthenticated)
				for _, e := range tc.accepted {
					require.NoError(t, rotate(s, "a", e.generation, now.Add(e.after), e.grace), "%+v", e)
				}
				for _, e := range tc.refused {
					require.ErrorIs(t, rotate(s, "a", e.generation, now.Add(e.after), e.grace), domain.ErrUnauthenticated, "%+v", e)
				}
				require.Equal(t, tc.revoked, slices.Equal(revoked(t, s), []string{"a"}))
			})
		})
	}
}

// revoked returns the sessions that were revoked, the first one first.
func revoked(t *testing.T, s *Store) (ids []string) {
	t.Helper()
	for _, r := range env.Must(s.RevocationsAfter(t.Context(), 0, now))(t) {
		ids = append(ids, r.SessionID)
	}
	return ids
}

func rotate(s *Store, id string, generation int64, at time.Time, reuseWindow time.Duration) error {
	_, _, err := s.RotateSession(context.Background(), auth.Rotation{
		SessionID: id, Generation: generation, Now: at, Expires: at.Add(time.Hour), Grace: reuseWindow,
	})
	return err
}

// A session is bound to one device. Sessions from before this rule are bound by their next exchange, and no device may
// repeat an earlier one.
func TestRotateSessionOfAnotherDevice(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		rotate := func(id string, generation int64, device string) error {
			_, _, err := s.RotateSession(t.Context(), auth.Rotation{
				SessionID: id, Generation: generation, DeviceHash: device, Now: now, Expires: now.Add(time.Hour),
				Grace: time.Minute,
			})
			return err
		}
		open := func(id string, device *string, rotatedAt *time.Time) {
			row := sessionRow{Session: newSession(id), DeviceHash: device, RotatedAt: rotatedAt}
			row.UserID = 1
			if rotatedAt != nil {
				row.Generation = 2
			}
			require.NoError(t, s.db.Writer(t.Context()).Create(&row).Error)
		}
		env.Must(s.SeedUsers(t.Context(), 1, now, now.Add(time.Hour)))(t)
		for _, pair := range [][2]string{{"", "mine"}, {"", "theirs"}, {"mine", ""}, {"mine", "theirs"}} {
			device, other := pair[0], pair[1]
			id := device + "/" + other
			open(id, &device, nil)
			require.NoError(t, rotate(id, 1, device))
			require.ErrorIs(t, rotate(id, 1, other), domain.ErrUnauthenticated)
			require.ErrorIs(t, rotate(id, 2, device), domain.ErrUnauthenticated, "the session was revoked")
		}
		open("old", nil, nil)
		require.NoError(t, rotate("old", 1, "mine"))
		require.NoError(t, rotate("old", 1, "mine"), "repeated by the same device")
		require.ErrorIs(t, rotate("old", 2, "theirs"), domain.ErrUnauthenticated)
		open("rotated", nil, &now)
		require.ErrorIs(t, rotate("rotated", 1, "theirs"), domain.ErrUnauthenticated)
	})
}

func TestRotateSessionRespectsMaxAge(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		login(t, s, "1", "a", now)
		end := now.Add(auth.SessionMaxAge)
		require.NoError(t, s.db.Writer(t.Context()).Model(&sessionRow{}).Where("id = ?", "a").Update("expires_at", end.Add(time.Hour)).Error)
		require.NoError(t, rotate(s, "a", 1, end.Add(-time.Millisecond), 0))
		var row sessionRow
		require.NoError(t, s.db.Reader(t.Context()).Where("id = ?", "a").Take(&row).Error)
		require.Equal(t, end, row.ExpiresAt)
		require.NoError(t, s.db.Writer(t.Context()).Model(&row).Update("expires_at", end.Add(time.Hour)).Error) // of an earlier version
		require.ErrorIs(t, rotate(s, "a", 2, end, 0), domain.ErrUnauthenticated)
	})
}

// The sessions of a user end one by one, or all at once. Revocations are purged when no token of the session is valid.
func TestRevokeSessions(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		seeded := env.Must(s.SeedUsers(t.Context(), 2, now, now.Add(time.Hour)))(t)
		again := env.Must(s.SeedUsers(t.Context(), 2, now, now.Add(time.Hour)))(t)
		require.NoError(t, s.RevokeSession(t.Context(), seeded[0].SessionID, now))
		ids := env.Must(s.RevokeSessions(t.Context(), seeded[0].UserID, now))(t)
		require.Equal(t, []string{again[0].SessionID}, ids, "the other session had ended")
		require.Equal(t, []string{seeded[0].SessionID, again[0].SessionID}, revoked(t, s))
		require.ErrorIs(t, rotate(s, again[0].SessionID, 1, now, 0), domain.ErrUnauthenticated)
		require.NoError(t, rotate(s, again[1].SessionID, 1, now, 0), "another user")
		ids = env.Must(s.RevokeSessions(t.Context(), seeded[0].UserID, now))(t)
		require.Empty(t, ids)

		require.NoError(t, s.RevokeSession(t.Context(), seeded[0].SessionID, now), "twice is no error")
		require.NoError(t, s.RevokeSession(t.Context(), "unknown", now.Add(time.Hour)))
		list := env.Must(s.RevocationsAfter(t.Context(), 0, now))(t)
		require.Len(t, list, 4)
		require.Equal(t, list[3:], env.Must(s.RevocationsAfter(t.Context(), list[2].Seq, now))(t))
		require.Equal(t, 2, env.Must(s.PurgeSessions(t.Context(), now.Add(time.Millisecond)))(t), "the ended sessions")
		require.Equal(t, 3+2, env.Must(s.PurgeSessions(t.Context(), now.Add(auth.SeedTTL+time.Minute)))(t), "revocations, other sessions")
		require.Equal(t, []string{"unknown"}, revoked(t, s))
	})
}

// A replica that lacks the last rows becomes the primary and assigns their numbers to other sessions. The other
// instances must still see these revocations at their next poll.
func TestRevocationsSurviveFailover(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		clock := now
		r := auth.NewRevocations(s, func() time.Time { return clock })
		revoke := func(seq int64, id string) {
			require.NoError(t, s.db.Writer(t.Context()).Create(&auth.Revocation{Seq: seq, SessionID: id, KeepUntil: clock.Add(time.Hour)}).Error)
		}
		for seq := int64(1); seq <= 5; seq++ {
			revoke(seq, fmt.Sprint("before-", seq))
		}
		for range 4 {
			require.NoError(t, r.Load(t.Context()))
			clock = clock.Add(time.Minute)
		}
		for _, left := range []int64{0, 1, 3} { // rows of the replica that is promoted
			require.NoError(t, s.db.Writer(t.Context()).Where("seq > ?", left).Delete(&auth.Revocation{}).Error)
			for seq := left + 1; seq <= 7; seq++ {
				revoke(seq, fmt.Sprintf("after-%d-%d", left, seq))
				require.NoError(t, r.Load(t.Context()))
				require.True(t, r.Has(fmt.Sprintf("after-%d-%d", left, seq)))
			}
			for range 4 {
				require.NoError(t, r.Load(t.Context()))
				clock = clock.Add(time.Minute)
			}
		}
	})
}

// A session is extended when a purge has found it, by a server whose clock is behind. It stays.
func TestPurgeBesideExtensionOfSession(t *testing.T) {
	onEachFaulty(t, func(t *testing.T, s *Store, faults *env.Faults) {
		login(t, s, "1", "extended", now)
		login(t, s, "2", "ended", now)
		later := now.Add(time.Hour + time.Minute)

		faults.Before(func(query string) error {
			if query == "BEGIN" { // of the purge, which has read the sessions
				faults.Before(nil)
				require.NoError(t, rotate(s, "extended", 1, now.Add(time.Minute), 0))
			}
			return nil
		})
		require.Equal(t, 2, env.Must(s.PurgeSessions(t.Context(), later))(t), "found")
		for session, want := range map[string]error{"extended": nil, "ended": domain.ErrUnauthenticated} {
			_, _, err := s.SessionUser(t.Context(), session)
			require.ErrorIs(t, err, want, session)
		}
	})
}

func TestSessionUser(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		owner := login(t, s, "1", "a", now)
		u, ends, err := s.SessionUser(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, owner, u)
		require.Equal(t, now.Add(time.Hour), ends)

		refused := func(id, why string) {
			_, _, err := s.SessionUser(t.Context(), id)
			require.ErrorIs(t, err, domain.ErrUnauthenticated, why)
		}
		refused("unknown", "there is no such session")
		require.NoError(t, s.RevokeSession(t.Context(), "a", now))
		refused("a", "it was revoked")

		orphan := newSession("b")
		orphan.UserID = 999
		row := newSessionRow(&orphan)
		require.NoError(t, s.db.Writer(t.Context()).Create(&row).Error)
		refused("b", "its user does not exist")
	})
}

func login(t *testing.T, s *Store, phone, session string, at time.Time) domain.User {
	t.Helper()
	g := sendCode(t, s, phone)
	sess := newSession(session)
	sess.CreatedAt, sess.ExpiresAt = at, at.Add(time.Hour)
	return env.Must(s.OpenSession(t.Context(), g, domain.User{Phone: phone, NickName: "n", Role: domain.RoleBuyer, CreatedAt: at}, sess, anyCode, noFactor))(t)
}

// A login that runs beside the erasure of its user opens a session of the erased account only if it came first, and
// that session ends with the others.
func TestEraseUserBesideLogins(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		for i := range 10 {
			u := login(t, s, "138", fmt.Sprint("first", i), now)
			g := sendCode(t, s, "138")
			var erased []string
			var opened domain.User
			var loginErr, eraseErr error
			runTogether(i,
				func() {
					opened, loginErr = s.OpenSession(t.Context(), g, domain.User{Phone: "138", Role: domain.RoleBuyer, CreatedAt: now},
						newSession(fmt.Sprint("second", i)), anyCode, noFactor)
				},
				func() {
					erased, eraseErr = s.EraseUser(t.Context(), auth.Erasure{UserID: u.ID, Now: now})
				})
			require.NoError(t, eraseErr)
			if loginErr == nil && opened.ID == u.ID {
				require.Contains(t, erased, fmt.Sprint("second", i))
			}
		}
	})
}

// TestErasedPhonesAreNotInFile: SQLite would keep them in the free parts of its pages.
func TestErasedPhonesAreNotInFile(t *testing.T) {
	file := env.SQLiteFile(t)
	s := env.Must(OpenSQLite(file))(t)
	u := login(t, s, "13800000001", "a", now)
	env.Must(s.EraseUser(t.Context(), auth.Erasure{UserID: u.ID, Now: now}))(t)
	require.NoError(t, s.Close())
	require.False(t, bytes.Contains(env.Must(os.ReadFile(file))(t), []byte(u.Phone)))
}

func TestIdleUsers(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const keep = 1000 * time.Hour
		later := now.Add(keep)
		order := 0
		ordered := func(userID int64, status domain.OrderStatus, at time.Time) {
			order++
			require.NoError(t, s.db.Writer(t.Context()).Exec("INSERT INTO voucher_orders (id, user_id, voucher_id, status, amount, created_at, "+
				"expires_at, updated_at) VALUES (?, ?, 1, ?, 1, ?, ?, ?)", order, userID, status, at, at, at).Error)
		}
		idle := login(t, s, "1", "a", now)
		login(t, s, "2", "b", later) // came back
		recent := login(t, s, "3", "c", now)
		ordered(recent.ID, domain.OrderCancelled, later)
		owed := login(t, s, "4", "d", now)
		ordered(owed.ID, domain.OrderPaid, now)
		used := login(t, s, "5", "e", now)
		ordered(used.ID, domain.OrderRedeemed, now)
		env.Must(s.PurgeSessions(t.Context(), later))(t)
		login(t, s, "6", "f", later.Add(-time.Hour))
		returned := login(t, s, "1x", "g", now)
		login(t, s, "1x", "h", later)
		env.Must(s.PurgeSessions(t.Context(), later.Add(2*time.Hour)))(t)

		since := later.Add(-time.Minute)
		found := func() (ids []int64) {
			for after := int64(0); ; {
				users, last, err := s.IdleUsers(t.Context(), after, since)
				require.NoError(t, err)
				if last == 0 {
					return ids
				}
				for _, u := range users {
					ids = append(ids, u.ID)
				}
				after = last
			}
		}
		six := idle.ID + 5
		require.ElementsMatch(t, []int64{idle.ID, used.ID, six}, found())
		for _, u := range []domain.User{returned, recent, owed, idle} {
			env.Must(s.EraseUser(t.Context(), auth.Erasure{UserID: u.ID, Now: later, IdleSince: since}))(t)
		}
		for _, u := range []domain.User{returned, recent, owed} {
			_, err := s.User(t.Context(), u.ID)
			require.NoError(t, err, "a user who has come back or bought since the search is kept: %s", u.Phone)
		}
		env.Fails(s.User(t.Context(), idle.ID))(t, domain.ErrNotFound)
		login(t, s, "5", "i", now) // an old login whose session lasts
		require.Equal(t, []int64{six}, found())
	})
}

func TestEraseIdleKeepsAdmins(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		const buyers = sqldb.PurgeBatch + 1 // two steps
		env.Must(s.SeedUsers(t.Context(), buyers, now, now.Add(time.Hour)))(t)
		admin := login(t, s, "138", "a", now)
		later := now.Add(1000 * time.Hour)
		for n := 1; n > 0; {
			n = env.Must(s.PurgeSessions(t.Context(), later))(t)
		}
		users := auth.New(auth.Config{
			Store: s, Revoked: auth.NewRevocations(s, nil), AdminPhones: []string{"138"}, Now: func() time.Time { return later },
		})
		for _, want := range []int{buyers, 0} {
			require.Equal(t, want, env.Must(users.EraseIdle(t.Context(), 999*time.Hour))(t))
		}
		env.Must(s.User(t.Context(), admin.ID))(t)
	})
}

var personal = regexp.MustCompile(`^(phone|nick_name|icon|provider_ref)$|(user|actor)_id$|device|asker|network|second_factor`)

// Every column that may identify a person is in docs/operations.md, with its purpose and its lifetime.
func TestPersonalColumnsAreDocumented(t *testing.T) {
	text := env.Must(os.ReadFile("../../docs/operations.md"))(t)
	db := env.Must(sqldb.OpenSQLite(env.SQLiteFile(t)))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var columns []struct{ Table, Name string }
	require.NoError(t, sqldb.Access{DB: db}.Reader(t.Context()).Raw("SELECT m.name AS 'table', c.name AS name FROM sqlite_master m "+
		"JOIN pragma_table_info(m.name) c WHERE m.type = 'table'").Scan(&columns).Error)
	found := 0
	for _, c := range columns {
		if personal.MatchString(c.Name) {
			found++
			require.Contains(t, string(text), "`"+c.Table+"."+c.Name+"`")
		}
	}
	require.Greater(t, found, 8)
}

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

// A login that fails after its code was correct, but not by a wrong password, can be tried again with the code.
func TestCodeOutlivesFailedConfirmation(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		g := sendCode(t, s, "138")
		for _, failure := range []error{errors.New("no key"), domain.ErrSecondFactorLost, domain.ErrTOTPRequired} {
			use := func(r *auth.LoginRequest) bool { r.Attempts++; r.Hash = nil; return true }
			fails := func(domain.User, *auth.SecondFactor) (bool, error) { return false, failure }
			env.Fails(s.OpenSession(t.Context(), g, newcomer, newSession("a"), use, fails))(t, failure)
			guess(t, s, g, func(r *auth.LoginRequest) {
				require.Zero(t, r.Attempts, failure)
				require.NotEmpty(t, r.Hash, failure)
			})
		}

		env.Must(s.OpenSession(t.Context(), g, newcomer, newSession("a"), anyCode, noFactor))(t)
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
		login(t, s, "1", "before", now)
		admin := domain.User{Phone: "1", NickName: "n", Role: domain.RoleAdmin, CreatedAt: now}
		u := env.Must(s.Enroll(ctx, admin, sealed, now))(t)
		require.Equal(t, []string{"before"}, revoked(t, s))
		_, err := s.Enroll(ctx, admin, sealed, now.Add(time.Minute))
		require.NoError(t, err, "a lost app is replaced")
		login(t, s, "1", "during", now)

		configured := login(t, s, "2", "other", now)
		viewer := env.Must(s.Enroll(ctx, domain.User{Phone: "3", NickName: "n", Role: domain.RoleViewer, CreatedAt: now}, nil, now))(t)
		list := env.Must(s.Admins(ctx, []string{"2", "4"}))(t)
		require.Equal(t, []domain.Admin{{User: u, EnrolledAt: now.Add(time.Minute), Factor: sealed(u.ID)}, {User: configured}, {User: viewer}}, list)

		shop := domain.Shop{Name: "Tea", TypeID: 1, CreatedAt: now, UpdatedAt: now}
		require.NoError(t, s.CreateShop(ctx, nil, &shop, domain.Actor{Kind: domain.ActorSystem}))
		cashier := domain.User{Phone: "1", Role: domain.RoleRedeemer, ShopIDs: domain.ShopIDs{shop.ID}, CreatedAt: now}
		require.Equal(t, cashier.ShopIDs, env.Must(s.Enroll(ctx, cashier, sealed, now))(t).ShopIDs)
		stored := env.Must(s.ShopsOf(ctx, u.ID))(t)
		require.Equal(t, cashier.ShopIDs, stored)

		require.Equal(t, domain.RoleBuyer, env.Must(s.RemoveAdmin(ctx, "1", now))(t).Role)
		stored = env.Must(s.ShopsOf(ctx, u.ID))(t)
		require.Equal(t, cashier.ShopIDs, stored, "for the tokens of the former redeemer")
		require.ElementsMatch(t, []string{"before", "during"}, revoked(t, s))
		login(t, s, "1", "after", now) // noFactor is called without a factor, too
		list = env.Must(s.Admins(ctx, nil))(t)
		require.Equal(t, []domain.Admin{{User: viewer}}, list)
		env.Fails(s.RemoveAdmin(ctx, "9", now))(t, domain.ErrNotFound)
	})
}
