package auth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
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
	"seckill/internal/kit/ratelimit"
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
	token := env.Must(tokensAt(t, &testNow).Access(Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}, AccessTTL))(t)
	body := env.Must(base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1]))(t)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(body, &claims))
	require.Equal(t, map[string]any{
		"iss": "seckill", "aud": "seckill", "sub": "7", "sid": "s", "role": "admin",
		"iat": float64(testNow.Unix()), "exp": float64(testNow.Add(15 * time.Minute).Unix()),
	}, claims)
}

func TestShortSecretIsRefused(t *testing.T) {
	env.Fails(NewTokens(domain.NewKeyring(testSecret.Signer(), testSecret.Signer()[:MinSecret-1]), time.Now))(t, "32")
}

func TestCachedTokenStillExpires(t *testing.T) {
	now := testNow
	tokens := tokensAt(t, &now)
	want := Identity{UserID: 7, SessionID: "s", Role: domain.RoleOperator, SecondFactor: true}
	token := env.Must(tokens.Access(want, time.Minute))(t)
	for range 2 {
		require.Equal(t, want, env.Must(tokens.Verify(token))(t))
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

// TestTokenKindsAreNotInterchangeable: no token is valid as one of another kind, of another server, or after a change.
func TestTokenKindsAreNotInterchangeable(t *testing.T) {
	now := time.Now()
	tokens, other := tokensAt(t, &now), tokensAt(t, &now, otherSecret)
	page, refresh := tokens.pageToken("s"), tokens.refresh("s", 3)
	access := env.Must(tokens.Access(Identity{UserID: 1, SessionID: "s"}, AccessTTL))(t)
	require.Equal(t, "s", env.Must(tokens.parsePageToken(page))(t))
	id, generation, err := tokens.parseRefresh(refresh)
	require.NoError(t, err)
	require.Equal(t, []any{"s", int64(3)}, []any{id, generation})

	last := page[len(page)-1]
	sameBits := page[:len(page)-1] + string(last^1) // the base64 encoding of 32 bytes ends in two unused bits
	for _, bad := range []string{
		"", ".", "s", "s.", "t" + page[1:], page + "A", page + ".", sameBits, other.pageToken("s"), refresh, access,
	} {
		env.Fails(tokens.parsePageToken(bad))(t, domain.ErrUnauthenticated, bad)
	}
	// A page token of session s.1 differs from a refresh token only by its key.
	for _, bad := range []string{
		"", ".", "s.3", "s.3.", strings.Replace(refresh, "s.3", "s.4", 1), refresh + "A", other.refresh("s", 3), page, tokens.pageToken("s.1"),
	} {
		_, _, err := tokens.parseRefresh(bad)
		require.ErrorIs(t, err, domain.ErrUnauthenticated, bad)
	}
	env.Fails(tokens.Verify(page))(t, domain.ErrUnauthenticated)
}

// verify returns the errors of a server for what another one has issued: tokens of each kind, a login code and the proof of a device.
func verify(t *testing.T, issuer, verifier *Tokens) []error {
	t.Helper()
	user := domain.User{ID: 7, Phone: "138"}
	_, errAccess := verifier.Verify(env.Must(issuer.Access(Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}, AccessTTL))(t))
	_, _, errRefresh := verifier.parseRefresh(issuer.refresh("s", 3))
	_, errPage := verifier.parsePageToken(issuer.pageToken("s"))
	errs := []error{errAccess, errRefresh, errPage, nil, nil}
	for i, accepted := range []bool{verifier.isCode(issuer.codeHash("id", "123456"), "id", "123456"), verifier.provesDevice(issuer.proof("d", user), user)} {
		if !accepted {
			errs[3+i] = domain.ErrUnauthenticated
		}
	}
	return errs
}

// A new secret signs, and the old one verifies until it is dropped. Other systems select the key by kid. Nothing of a demo is
// valid outside it.
func TestChangeOfSecretKeepsTokens(t *testing.T) {
	before, during, after := tokensAt(t, &testNow, oldSecret), tokensAt(t, &testNow, newSecret, oldSecret), tokensAt(t, &testNow, newSecret)
	demo := env.Must(NewDemoTokens(domain.ParseKeyring(newSecret), func() time.Time { return testNow }))(t)
	for _, pair := range [][2]*Tokens{{before, during}, {during, during}, {during, after}, {demo, demo}} {
		require.Equal(t, make([]error, 5), verify(t, pair[0], pair[1]))
	}
	for _, pair := range [][2]*Tokens{{before, after}, {during, before}, {demo, after}} {
		for _, err := range verify(t, pair[0], pair[1]) {
			require.ErrorIs(t, err, domain.ErrUnauthenticated)
		}
	}
	require.False(t, during.isCode(before.codeHash("id", "123456"), "id", "123457"))

	kid := func(tokens *Tokens) any {
		access := env.Must(tokens.Access(Identity{UserID: 7, SessionID: "s"}, AccessTTL))(t)
		token, _, err := jwt.NewParser().ParseUnverified(access, jwt.MapClaims{})
		require.NoError(t, err)
		return token.Header["kid"]
	}
	require.Equal(t, kid(after), kid(during))
	require.NotEqual(t, kid(before), kid(after))
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
	require.Equal(t, "Seckill", env.Must(newKey("", "13800000001"))(t).Issuer())
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
	require.Error(t, env.Err(old.open(7, rotated.seal(7, "SECRET"))), "the first key encrypts")
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

// Most requests need no query, not even those that arrive at once, and a role is as old as that of an access token at most.
func TestPageSessionIsReadAgainAfterAccessTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		use := func(role domain.Role, reads int) {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					require.Equal(t, role, env.Must(a.AuthenticatePage(t.Context(), token))(t).Role)
				})
			}
			all.Wait()
			require.Equal(t, reads, table.reads)
		}
		use(domain.RoleBuyer, 1)
		use(domain.RoleBuyer, 1)

		table.role = domain.RoleViewer
		time.Sleep(AccessTTL)
		use(domain.RoleViewer, 2)
	})
}

// While the store is unavailable, a session is valid for as long as an access token would be.
func TestPageSessionWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		use := func() error { return env.Err(a.AuthenticatePage(t.Context(), token)) }
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
			table.reads = 0
			for range 10 {
				env.Fails(a.AuthenticatePage(t.Context(), token))(t, domain.ErrUnauthenticated)
			}
			require.Equal(t, reads, table.reads)
		}
		refused(NewSessionID()+token[32:], 0)

		id := env.Must(a.AuthenticatePage(t.Context(), token))(t)
		a.cfg.Revoked.Add(time.Now(), id.SessionID) // as the poll does
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
	out := slices.DeleteFunc(slices.Clone(r.rows), func(row Revocation) bool { return row.Seq <= seq })
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
	clock = testNow.Add(SeedTTL + time.Second)
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

// codes counts the codes that a quota allows within a day.
type codes struct {
	t       *testing.T
	now     time.Time
	service *Service
	quota   *ratelimit.Quota
	phones  int
}

func newCodes(t *testing.T) *codes {
	c := &codes{t: t, now: testNow}
	clock := func() time.Time { return c.now }
	tokens := env.Must(NewTokens(testSecret, clock))(t)
	c.service, c.quota = New(Config{Store: &userStore{}, Tokens: tokens, Now: clock}), ratelimit.NewQuota("codes", clock, nil)
	return c
}

// userStore has a user for every phone, and counts the reads.
type userStore struct {
	Store

	reads int
}

func (s *userStore) UserByPhone(_ context.Context, phone string) (domain.User, error) {
	s.reads++
	return domain.User{Phone: phone}, nil
}

func (c *codes) identify(from Asker, phone string) asker {
	return env.Must(c.service.identify(c.t.Context(), from, phone))(c.t)
}

func (c *codes) send(country, address string, known bool) bool {
	c.phones++
	phone := fmt.Sprint(c.phones)
	from := Asker{Address: netip.MustParseAddr(address)}
	if known {
		from.Proof = c.service.proof("", domain.User{Phone: phone})
	}
	return c.quota.Take(c.t.Context(), codeBuckets(phone, country, c.identify(from, phone))...) == 0
}

func TestCodesOfNetworksAreBounded(t *testing.T) {
	env.NoRace(t, "it computes")
	for name, address := range map[string]func(i int) string{
		"IPv4 /24": func(i int) string { return fmt.Sprintf("198.51.100.%d", i%256) },
		"IPv6 /48": func(i int) string { return fmt.Sprintf("2001:db8:0:%x::%x", i%0x10000, i) },
		"mapped":   func(i int) string { return fmt.Sprintf("::ffff:198.51.100.%d", i%256) },
	} {
		c, sent := newCodes(t), 0
		for hour := range 24 {
			for refused := 0; refused < 3; {
				if c.send("CN", address(sent+refused), false) {
					sent++
				} else {
					refused++
				}
			}
			if hour == 0 {
				require.Equal(t, 4000, sent, "at once, %s", name)
			}
			c.now = c.now.Add(time.Hour)
		}
		require.LessOrEqual(t, sent, 6000, "in a day, %s", name)
	}
}

// More addresses of a network bring no more codes for a phone: three networks cannot use up what strangers get, and a
// fourth, that of the owner, gets its first codes.
func TestNetworkOfStrangersIsOneAsker(t *testing.T) {
	c := newCodes(t)
	sent := func(address string) bool {
		c.now = c.now.Add(time.Minute) // the interval between two codes
		a := c.identify(Asker{Address: netip.MustParseAddr(address)}, "138")
		return c.quota.Take(t.Context(), codeBuckets("138", "CN", a)...) == 0
	}
	got := 0
	for i := range 500 {
		if sent(fmt.Sprintf("198.51.100.%d", i%256)) {
			got++
		}
	}
	require.LessOrEqual(t, got, 6+4, "%d in 500 minutes", got)
	require.True(t, sent("203.0.113.7"), "another network")
}

// take takes n tokens of a rule's bucket for a stranger's code.
func (c *codes) take(n int, rule ratelimit.Rule, country string) {
	for _, b := range codeBuckets("", country, asker{}) {
		for range n {
			if b.Rule == rule {
				require.Zero(c.t, c.quota.Take(c.t.Context(), b))
			}
		}
	}
}

// Addresses all over the world cannot send more than the budget of a country, nor of all countries together. Devices
// that have logged in before still get codes.
func TestCodesOfCountriesAreBounded(t *testing.T) {
	env.NoRace(t, "it computes")
	c := newCodes(t)
	c.take(49_999, codeCountries, "CN")
	require.True(t, c.send("CN", "203.0.113.7", false))
	require.False(t, c.send("CN", "203.0.113.7", false))
	require.True(t, c.send("CN", "203.0.113.7", true), "a known device")
	require.True(t, c.send("DE", "203.0.113.7", false), "another country")
	c.take(100_000-2, codesInAll, "")
	require.False(t, c.send("DE", "203.0.113.7", false))
	require.True(t, c.send("DE", "203.0.113.7", true), "a known device")
}

func TestDeviceIsKnownForItsPhone(t *testing.T) {
	c := newCodes(t)
	user := domain.User{Phone: "138"}
	proof := c.service.proof("", user)
	identify := func(proof, phone string) asker {
		return c.identify(Asker{Address: netip.MustParseAddr("198.51.100.9"), Proof: proof}, phone)
	}
	require.True(t, identify(proof, "138").known)
	require.Equal(t, proof, c.service.proof(proof, user), "a device keeps its identity")
	for _, other := range []string{"", ".", "x", proof + "x", "x" + proof, proof[:len(proof)-1]} {
		require.Equal(t, asker{key: "198.51.100.9/32", network: "198.51.100.0/24"}, identify(other, "138"), other)
	}
	require.False(t, identify(proof, "139").known)
	for _, changed := range []domain.User{{Phone: "138", ID: 1}, {Phone: "138", DeviceGeneration: 1}} {
		require.False(t, c.service.cfg.Tokens.provesDevice(proof, changed))
	}
	require.NotEqual(t, proof, c.service.proof(proof, domain.User{Phone: "139"}))
	require.Equal(t, asker{key: "unknown", network: "unknown"}, c.identify(Asker{}, "138"))
	require.Equal(t, asker{key: "2001:db8:1:100::/56", network: "2001:db8:1::/48"},
		c.identify(Asker{Address: netip.MustParseAddr("2001:db8:1:1ff::7%eth0")}, "138"))
}

// Made-up proofs cost no query. A device with a proof, which anyone with a phone can have, costs one a second.
func TestProofsCostFewReads(t *testing.T) {
	c := newCodes(t)
	c.service.cfg.Quota = c.quota
	store := c.service.cfg.Store.(*userStore)
	proof := c.service.proof("", domain.User{Phone: "138"})
	for _, made := range []string{"x", "a.1.1.x", proof + "x", "x" + proof} {
		require.False(t, c.identify(Asker{Proof: made}, "138").known)
	}
	require.False(t, c.identify(Asker{Proof: proof}, "139").known)
	require.Zero(t, store.reads)
	for range 100 {
		_, err := c.service.identify(t.Context(), Asker{Proof: proof}, "138")
		if store.reads == proofReads.Burst && err != nil {
			require.ErrorAs(t, err, new(*domain.RateLimitedError))
		} else {
			require.NoError(t, err)
		}
	}
	require.Equal(t, proofReads.Burst, store.reads)
	require.False(t, c.identify(Asker{}, "138").known, "a stranger")
}

// Every way to write a number leads to one account.
func TestParseReturnsOneFormPerNumber(t *testing.T) {
	for want, tc := range map[string]struct {
		countries []string
		country   string
		written   []string
	}{
		"13800000001": {[]string{"CN"}, "CN", []string{
			"13800000001", "+8613800000001", "008613800000001", "0086 138 0000 0001", "+86 138-0000-0001", "8613800000001",
			"１３８０００００００１", "＋86 13800000001", " 138 0000 0001 ", "(+86) 138.0000.0001", "０13800000001",
			// Address books and messengers add marks and links (woocommerce/woocommerce#58000, glific/glific#4815).
			"\u202d138 0000 0001\u202c", "\u200e+86 138 0000 0001", "+86\u202f138\u202f0000\u202f0001", "\ufeff138\u00ad0000\u20600001",
			"\u2068+86 138\u20090000\u20090001\u2069", "138−0000−0001", "tel:+86-138-0000-0001", "TEL:13800000001", "13800000001\n", "١٣٨٠٠٠٠٠٠٠١",
			"+86\u2011138\u20110000\u20110001", "（＋86）138\u061c00000001", "138·0000·0001", "138•0000•0001", "138_0000_0001",
			"1\ufe0f\u20e33\ufe0f\u20e38\ufe0f\u20e300000001", "tel://13800000001", "138/0000/0001",
			"'13800000001", "“138 0000 0001”。", "【13800000001】", "<tel:13800000001>", "📞 +86 138 0000 0001", "☎\ufe0f（+86）13800000001;", "138～0000～0001",
			"tel:+86%20138%200000%200001", "tel:%2B86-138-0000-0001", "TEL:%E2%80%AA13800000001", // as a browser copies a link
		}},
		"19412345678": {[]string{"CN"}, "CN", []string{"+86 194 1234 5678", "19412345678"}}, // a prefix that the library does not know
		"+491711234567": {[]string{"CN", "de"}, "DE", []string{
			"0171 1234567", "0171/1234567", "+49 171 1234567", "+49 (0)171 1234567", "0049 171 1234567", "0171-123 45 67",
		}},
		"+447400123456": {[]string{"GB"}, "GB", []string{"07400 123456", "+447400123456", "+4407400123456", "00447400123456"}},
		"+447911123456": {[]string{"GG"}, "GG", []string{"+447911123456", "+4407911123456"}},
		"+819012345678": {[]string{"JP"}, "JP", []string{"090-1234-5678", "+81 (0)90 1234 5678", "０９０ー１２３４ー５６７８", "+81 90・1234・5678"}},
		"+33612345678":  {[]string{"FR"}, "FR", []string{"06.12.34.56.78", "06 12 34 56 78", "+33\u202f6\u202f12\u202f34\u202f56\u202f78"}},
		// The former prefix of mobile numbers: https://en.wikipedia.org/wiki/Telephone_numbers_in_Mexico
		"+525512345678": {[]string{"MX"}, "MX", []string{"+52 55 1234 5678", "+52 1 55 1234 5678", "0052 1 55 1234 5678", "55 1234 5678"}},
		"+12015550123":  {[]string{"US", "CA"}, "US", []string{"(201) 555-0123", "1-201-555-0123", "+1 201 555 0123"}},
	} {
		for _, in := range tc.written {
			got, country, err := env.Must(NewPhones(tc.countries))(t).Parse(in)
			require.NoError(t, err, in)
			require.Equal(t, want, got, in)
			require.Equal(t, tc.country, country, in)
		}
	}
}

func TestParseRefusesOtherNumbers(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "short": "1", "landline": "021-62345678", "landline abroad": "+49 30 123456",
		"unassigned": "12800000001", "load-test user": "10000000001", "too long": "138000000011", "letter": "1380000000a",
		"text": "call 13800000001", "NUL": "13800000001\x00", "extension": "13800000001;ext=5",
		"URI": "tel:+8613800000001;phone-context=+86", "another URI": "sms:+8613800000001", "vanity": "+1-800-FLOWERS", "two pluses": "+86+8613800000001",
		"other country": "+4915112345678", "other country, national": "0171 1234567", "US": "+1 201 555 0123",
		"satellite": "+88216123456789", "premium": "+97912345678", "premium US": "+19005551234", "spaces": "   ",
		"long": "1380000000" + string(make([]byte, 1000)),
	} {
		_, _, err := env.Must(NewPhones([]string{"CN"}))(t).Parse(in)
		var invalid *domain.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, []domain.FieldError{{
			Field: "phone", Detail: "must be a mobile number of CN, such as 131 2345 6789 or +86 131 2345 6789",
		}}, invalid.Fields, name)
	}
	for _, in := range []string{"+88216123456789", "+97912345678", "+19005551234", "+18005551234", "+122222222222222", "+16715551234"} {
		_, _, err := env.Must(NewPhones([]string{"US", "CN", "DE"}))(t).Parse(in)
		require.Error(t, err, in)
	}
}

// Accounts of a country that is no longer accepted can still be found.
func TestCanonicalOfAnyNumber(t *testing.T) {
	chinese := env.Must(NewPhones([]string{"CN"}))(t)
	for in, want := range map[string]string{
		"+49 (0)151 12345678": "+4915112345678", "0086 138 0000 0001": "13800000001", "14912345678": "14912345678",
	} {
		require.Equal(t, want, env.Must(chinese.Canonical(in))(t))
	}
	for _, in := range []string{"x", "", "12", "+1234567890123456789"} {
		env.Fails(chinese.Canonical(in))(t, "such as 131 2345 6789", in)
	}
}

func TestNewRefusesUnknownCountries(t *testing.T) {
	for _, bad := range [][]string{{"XX"}, {"CN", "China"}, {"86"}, {"001"}, {""}, {}} {
		require.Error(t, env.Err(NewPhones(bad)), bad)
	}
}
