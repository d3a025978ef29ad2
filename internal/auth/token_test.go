package auth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

var testSecret = domain.NewKeyring([]byte("a-secret-for-tests-only-0123456789"))

// tokensAt returns the tokens of a server with these secrets at a time, or with the secret of the tests.
func tokensAt(t *testing.T, clock *time.Time, secrets ...string) *Tokens {
	t.Helper()
	keys := testSecret
	if len(secrets) > 0 {
		keys = domain.ParseKeyring(strings.Join(secrets, ","))
	}
	return env.Must(NewTokens(keys, func() time.Time { return *clock }))(t)
}

var (
	oldSecret   = strings.Repeat("o", MinSecret)
	newSecret   = strings.Repeat("n", MinSecret)
	otherSecret = strings.Repeat("x", MinSecret)
)

// Other systems read the claims, so their encoding must not change.
func TestAccessTokenClaims(t *testing.T) {
	clock := testNow
	tokens := tokensAt(t, &clock)
	want := Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}
	token := env.Must(tokens.Access(want, AccessTTL))(t)

	body := env.Must(base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1]))(t)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(body, &claims))
	require.Equal(t, map[string]any{
		"iss": "seckill", "aud": "seckill", "sub": "7", "sid": "s", "role": "admin",
		"iat": float64(testNow.Unix()), "exp": float64(testNow.Add(15 * time.Minute).Unix()),
	}, claims)

	got := env.Must(tokens.Verify(token))(t)
	require.Equal(t, want, got)
	clock = testNow.Add(AccessTTL)
	env.Fails(tokens.Verify(token))(t, domain.ErrTokenExpired)
}

func TestShortSecretIsRefused(t *testing.T) {
	_, err := NewTokens(domain.NewKeyring(testSecret.Signer(), testSecret.Signer()[:MinSecret-1]), time.Now)
	require.ErrorContains(t, err, "32")
}

func TestForgedRefreshTokenIsRefused(t *testing.T) {
	now := time.Now()
	tokens, other := tokensAt(t, &now), tokensAt(t, &now, otherSecret)
	good := tokens.refresh("s", 3)
	id, generation, err := tokens.parseRefresh(good)
	require.NoError(t, err)
	require.Equal(t, "s", id)
	require.Equal(t, int64(3), generation)
	for _, bad := range []string{"", ".", "s.3", "s.3.", strings.Replace(good, "s.3", "s.4", 1), other.refresh("s", 3), good + "A"} {
		_, _, err := tokens.parseRefresh(bad)
		require.ErrorIs(t, err, domain.ErrUnauthenticated, bad)
	}
}

func TestCachedTokenStillExpires(t *testing.T) {
	now := testNow
	tokens := tokensAt(t, &now)
	want := Identity{UserID: 7, SessionID: "s", Role: domain.RoleOperator, SecondFactor: true}
	token := env.Must(tokens.Access(want, time.Minute))(t)
	for range 2 {
		id := env.Must(tokens.Verify(token))(t)
		require.Equal(t, want, id)
	}
	uncached := testing.AllocsPerRun(10, func() { _, _ = tokens.parse(token) })
	cached := testing.AllocsPerRun(10, func() { _, _ = tokens.Verify(token) })
	require.Less(t, cached, uncached/4, "the token is cached")
	last := token[len(token)-2]
	env.Fails(tokens.Verify(token[:len(token)-2]+string(last^1)+token[len(token)-1:]))(t, domain.ErrUnauthenticated, "a different signature")
	now = now.Add(time.Minute)
	for range 2 {
		env.Fails(tokens.Verify(token))(t, domain.ErrTokenExpired)
	}
}

// The clocks of servers may differ.
func TestTokenOfServerWhoseClockIsAhead(t *testing.T) {
	sign := func(ahead time.Duration) string {
		clock := testNow.Add(ahead)
		return env.Must(tokensAt(t, &clock).Access(Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}, AccessTTL))(t)
	}
	tokens := tokensAt(t, &testNow)
	env.Must(tokens.Verify(sign(maxSkew)))(t)
	env.Fails(tokens.Verify(sign(maxSkew+time.Second)))(t, domain.ErrUnauthenticated)
}

func TestTokenKindsAreNotInterchangeable(t *testing.T) {
	now := time.Now()
	tokens, other := tokensAt(t, &now), tokensAt(t, &now, otherSecret)
	good := tokens.pageToken("s")
	id := env.Must(tokens.parsePageToken(good))(t)
	require.Equal(t, "s", id)

	access := env.Must(tokens.Access(Identity{UserID: 1, SessionID: "s"}, AccessTTL))(t)
	last := good[len(good)-1]
	sameBits := good[:len(good)-1] + string(last^1) // the base64 encoding of 32 bytes ends in two unused bits
	for _, bad := range []string{
		"", ".", "s", "s.", "t" + good[1:], good + "A", good + ".", sameBits, other.pageToken("s"), tokens.refresh("s", 1), access,
	} {
		env.Fails(tokens.parsePageToken(bad))(t, domain.ErrUnauthenticated, bad)
	}
	env.Fails(tokens.Verify(good))(t, domain.ErrUnauthenticated)
	// The second token differs from a refresh token only by its key.
	for _, bad := range []string{good, tokens.pageToken("s.1")} {
		_, _, err := tokens.parseRefresh(bad)
		require.ErrorIs(t, err, domain.ErrUnauthenticated)
	}
}

// A new secret signs, and the old one verifies until it is dropped. Other systems select the key by kid.
func TestChangeOfSecretKeepsTokens(t *testing.T) {
	user := Identity{UserID: 7, SessionID: "s", Role: domain.RoleBuyer}
	before, during, after := tokensAt(t, &testNow, oldSecret), tokensAt(t, &testNow, newSecret, oldSecret), tokensAt(t, &testNow, newSecret)
	verify := func(issuer, verifier *Tokens) []error {
		access := env.Must(issuer.Access(user, AccessTTL))(t)
		_, errAccess := verifier.Verify(access)
		_, _, errRefresh := verifier.parseRefresh(issuer.refresh("s", 3))
		_, errPage := verifier.parsePageToken(issuer.pageToken("s"))
		var errCode error
		if !verifier.isCode(issuer.codeHash("13800000001", "123456"), "13800000001", "123456") {
			errCode = domain.ErrUnauthenticated
		}
		return []error{errAccess, errRefresh, errPage, errCode}
	}
	valid := []error{nil, nil, nil, nil}
	require.Equal(t, valid, verify(before, during))
	require.Equal(t, valid, verify(during, during))
	require.Equal(t, valid, verify(during, after), "the new secret signs")
	for _, err := range append(verify(before, after), verify(during, before)...) {
		require.ErrorIs(t, err, domain.ErrUnauthenticated)
	}
	require.False(t, during.isCode(before.codeHash("13800000001", "123456"), "13800000001", "123457"))

	kid := func(tokens *Tokens) any {
		access := env.Must(tokens.Access(user, AccessTTL))(t)
		token, _, err := jwt.NewParser().ParseUnverified(access, jwt.MapClaims{})
		require.NoError(t, err)
		return token.Header["kid"]
	}
	require.Equal(t, kid(after), kid(during))
	require.NotEqual(t, kid(before), kid(after))
}

// TestDemoTokens: no token of a demo is valid outside it.
func TestDemoTokens(t *testing.T) {
	demo := env.Must(NewDemoTokens(testSecret, func() time.Time { return testNow }))(t)
	server := tokensAt(t, &testNow)
	access := env.Must(demo.Access(Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}, AccessTTL))(t)
	verify := func(tokens *Tokens) []error {
		_, errAccess := tokens.Verify(access)
		_, _, errRefresh := tokens.parseRefresh(demo.refresh("s", 3))
		_, errPage := tokens.parsePageToken(demo.pageToken("s"))
		require.Equal(t, tokens == demo, tokens.provesDevice(demo.proof("d", domain.User{ID: 7}), domain.User{ID: 7}))
		require.Equal(t, tokens == demo, tokens.isCode(demo.codeHash("id", "123456"), "id", "123456"))
		return []error{errAccess, errRefresh, errPage}
	}
	require.Equal(t, []error{nil, nil, nil}, verify(demo))
	for _, err := range verify(server) {
		require.ErrorIs(t, err, domain.ErrUnauthenticated)
	}
}

// TestTokenWithoutKeyID: earlier versions signed tokens without kid, and an upgrade keeps their sessions.
func TestTokenWithoutKeyID(t *testing.T) {
	tokens := tokensAt(t, &testNow, newSecret, oldSecret)
	sign := func(secret string, kid any) string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
			"iss": "seckill", "aud": "seckill", "sub": "7", "sid": "s", "role": "buyer", "exp": testNow.Add(time.Minute).Unix(),
		})
		if kid != nil {
			token.Header["kid"] = kid
		}
		return env.Must(token.SignedString([]byte(secret)))(t)
	}
	for _, secret := range []string{newSecret, oldSecret} {
		env.Must(tokens.Verify(sign(secret, nil)))(t)
		for _, kid := range []any{"", "unknown", 7, []string{"a"}, map[string]any{}} {
			env.Fails(tokens.Verify(sign(secret, kid)))(t, domain.ErrUnauthenticated, kid)
		}
	}
	env.Fails(tokens.Verify(sign(oldSecret, keyID(domain.ParseKeyring(newSecret)[0]))))(t, domain.ErrUnauthenticated, "the kid of another secret")
	env.Fails(tokens.Verify(sign(otherSecret, nil)))(t, domain.ErrUnauthenticated)
}

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestSecondFactorCheck(t *testing.T) {
	factors := NewSecondFactors(domain.NewKeyring(testKey(1)))
	key := env.Must(newKey("Tea House", "13800000001"))(t)
	require.Equal(t, "Tea House", key.Issuer())
	u := domain.User{ID: 7}
	now := time.Date(2026, 11, 11, 12, 0, 10, 0, time.UTC)
	current := now.Unix() / 30
	at := func(step int64) string {
		return env.Must(totp.GenerateCode(key.Secret(), time.Unix(step*30, 0)))(t)
	}
	for _, c := range []struct {
		name, password string
		lastStep       int64
		step           int64
		err            error
	}{
		{"none", "", 0, 0, domain.ErrTOTPRequired},
		{"current", at(current), 0, current, nil},
		{"clock one step behind", at(current - 1), 0, current - 1, nil},
		{"clock one step ahead", at(current + 1), 0, current + 1, nil},
		{"two steps behind", at(current - 2), 0, 0, domain.ErrWrongTOTP},
		{"two steps ahead", at(current + 2), 0, 0, domain.ErrWrongTOTP},
		{"used", at(current), current, 0, domain.ErrWrongTOTP},
		{"older than the used one", at(current - 1), current, 0, domain.ErrWrongTOTP},
		{"after the used one", at(current + 1), current, current + 1, nil},
		{"short", at(current)[:5], 0, 0, domain.ErrWrongTOTP},
		{"text", "abcdef", 0, 0, domain.ErrWrongTOTP},
		{"as the app shows it", at(current)[:3] + " " + at(current)[3:], 0, current, nil},
		{"only spaces", " \u3000", 0, 0, domain.ErrTOTPRequired},
	} {
		factor := &SecondFactor{Secret: factors.seal(u.ID, key.Secret()), LastStep: c.lastStep}
		require.ErrorIs(t, factors.check(u, factor, c.password, now), c.err, c.name)
		require.Equal(t, max(c.lastStep, c.step), factor.LastStep, c.name)
	}
}

func TestSecondFactorsAreEncrypted(t *testing.T) {
	old := NewSecondFactors(domain.NewKeyring(testKey(1)))
	sealed := old.seal(7, "SECRET")
	require.NotContains(t, string(sealed), "SECRET")
	require.LessOrEqual(t, len(old.seal(7, fmt.Sprintf("%032d", 0))), 128, "the column's length")

	rotated := NewSecondFactors(domain.NewKeyring(testKey(2), testKey(1)))
	secret, err := rotated.open(7, sealed)
	require.NoError(t, err, "an earlier key decrypts")
	require.Equal(t, "SECRET", secret)
	env.Fails(rotated.open(8, sealed))(t, domain.ErrSecondFactorLost, "of another user")
	_, err = old.open(7, rotated.seal(7, "SECRET"))
	require.Error(t, err, "the first key encrypts")
}

type sessionTable struct {
	Store // nil: the other methods are not called

	ends  time.Time
	role  domain.Role
	reads int
	err   error // of each read, if not nil
}

func (s *sessionTable) SessionUser(context.Context, string) (domain.User, time.Time, error) {
	s.reads++
	time.Sleep(time.Millisecond) // so that concurrent reads meet
	return domain.User{ID: 7, Role: s.role}, s.ends, s.err
}

func newPageRig(t *testing.T) (*sessionTable, *Service, string) {
	table := &sessionTable{ends: time.Now().Add(PageSessionTTL), role: domain.RoleBuyer}
	tokens := env.Must(NewTokens(testSecret, time.Now))(t)
	a := New(Config{
		Store: table, Tokens: tokens, Revoked: NewRevocations(nil, time.Now), Now: time.Now,
	})
	return table, a, tokens.pageToken(NewSessionID())
}

// Most requests need no query, and a role is as old as that of an access token at most.
func TestPageSessionIsReadAgainAfterAccessTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		for range 100 {
			id := env.Must(a.AuthenticatePage(t.Context(), token))(t)
			require.Equal(t, domain.RoleBuyer, id.Role)
		}
		require.Equal(t, 1, table.reads)

		table.role = domain.RoleViewer
		time.Sleep(AccessTTL)
		id := env.Must(a.AuthenticatePage(t.Context(), token))(t)
		require.Equal(t, domain.RoleViewer, id.Role)
		require.Equal(t, 2, table.reads)
	})
}

func TestConcurrentUsesOfPageSessionShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				env.Must(a.AuthenticatePage(t.Context(), token))(t)
			})
		}
		all.Wait()
		require.Equal(t, 1, table.reads)
	})
}

// While the store is unavailable, a session is valid for as long as an access token would be.
func TestPageSessionWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		use := func() error {
			_, err := a.AuthenticatePage(t.Context(), token)
			return err
		}
		table.err = domain.ErrUnavailable
		require.ErrorIs(t, use(), domain.ErrUnavailable)

		table.err = nil
		require.NoError(t, use())
		table.err = domain.ErrUnavailable
		time.Sleep(AccessTTL - time.Second)
		require.NoError(t, use())
		time.Sleep(time.Second)
		require.ErrorIs(t, use(), domain.ErrUnavailable)

		table.err = nil
		require.NoError(t, use())
		time.Sleep(PageSessionTTL)
		require.ErrorIs(t, use(), domain.ErrUnauthenticated, "it has ended")
	})
}

// A revoked session, one that the store refuses, and a forged token cost no further reads.
func TestInvalidPageSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		refused := func(token string, reads int) {
			t.Helper()
			table.reads = 0
			for range 10 {
				env.Fails(a.AuthenticatePage(t.Context(), token))(t, domain.ErrUnauthenticated)
			}
			require.Equal(t, reads, table.reads)
		}
		refused(NewSessionID()+token[32:], 0)

		id := env.Must(a.AuthenticatePage(t.Context(), token))(t)
		a.cfg.Revoked.Add(time.Now().Add(time.Hour), id.SessionID) // as the poll does
		refused(token, 0)

		table.err = domain.ErrUnauthenticated
		refused(a.cfg.Tokens.pageToken(NewSessionID()), 1)
	})
}

// revocationRows is a RevocationStore that records the sequence numbers it is queried from.
type revocationRows struct {
	rows []Revocation
	from []int64
}

func (r *revocationRows) RevocationsAfter(_ context.Context, seq int64, _ time.Time) ([]Revocation, error) {
	r.from = append(r.from, seq)
	var out []Revocation
	for _, row := range r.rows {
		if row.Seq > seq {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b Revocation) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, nil
}
func (r *revocationRows) PurgeSessions(context.Context, time.Time) (int, error) { return 0, nil }

// A sequence number is assigned before its transaction commits, so a smaller one can appear after a larger one.
func TestPollFindsLateCommits(t *testing.T) {
	clock := testNow
	rows := &revocationRows{rows: []Revocation{{Seq: 2, SessionID: "b", KeepUntil: testNow.Add(time.Hour)}}}
	r := NewRevocations(rows, func() time.Time { return clock })
	require.NoError(t, r.Load(t.Context()))
	require.True(t, r.Has("b"))
	clock = clock.Add(revocationOverlap - time.Second)
	rows.rows = append(rows.rows, Revocation{Seq: 1, SessionID: "a", KeepUntil: testNow.Add(time.Hour)})
	require.NoError(t, r.Load(t.Context()))
	require.True(t, r.Has("a"))

	for range 4 { // after the overlap, old rows are not read again
		clock = clock.Add(revocationOverlap)
		require.NoError(t, r.Load(t.Context()))
	}
	require.Equal(t, int64(1), rows.from[len(rows.from)-1], "it begins at the last row")

	require.False(t, r.Has("c"))
	r.Add(testNow, "c")
	require.True(t, r.Has("c"))
	clock = testNow.Add(2 * time.Hour)
	require.NoError(t, r.purge(t.Context()))
	require.False(t, r.Has("a"))
	require.False(t, r.Has("c"))
}

// A watcher is called once, before Add returns or in the poll that finds the end of its session.
func TestWatchEndOfSession(t *testing.T) {
	rows := &revocationRows{}
	r := NewRevocations(rows, func() time.Time { return testNow })
	calls := map[string]int{}
	watch := func(session, name string) (stop func()) {
		return env.Must(r.watch(session, func() { calls[name]++ }))(t)
	}
	watch("a", "a1")
	watch("a", "a2")
	watch("b", "b")
	watch("c", "c")
	watch("b", "stopped")()
	r.Add(testNow.Add(time.Hour), "a")
	require.Equal(t, map[string]int{"a1": 1, "a2": 1}, calls)
	for i, session := range []string{"a", "b"} {
		rows.rows = append(rows.rows, Revocation{Seq: int64(i + 1), SessionID: session, KeepUntil: testNow.Add(time.Hour)})
	}
	for range 2 {
		require.NoError(t, r.Load(t.Context()))
	}
	require.Equal(t, map[string]int{"a1": 1, "a2": 1, "b": 1}, calls)
	env.Fails(r.watch("a", func() {}))(t, domain.ErrUnauthenticated)
	watch("c", "c2")()
	require.Len(t, r.watchers, 1)
}
