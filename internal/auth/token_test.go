package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
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
	tokens := env.Must(NewTokens(keys, func() time.Time { return *clock }))(t)
	return tokens
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
		token := env.Must(tokensAt(t, &clock).Access(Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}, AccessTTL))(t)
		return token
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

// TestChangeOfSecretKeepsTokens: a new secret signs, and the old one verifies until it is dropped. Other systems select
// the key by kid.
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
		text := env.Must(token.SignedString([]byte(secret)))(t)
		return text
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
	factors := env.Must(NewSecondFactors(domain.NewKeyring(testKey(1))))(t)
	key := env.Must(newKey("Tea House", "13800000001"))(t)
	require.Equal(t, "Tea House", key.Issuer())
	u := domain.User{ID: 7}
	now := time.Date(2026, 11, 11, 12, 0, 10, 0, time.UTC)
	current := now.Unix() / 30
	at := func(step int64) string {
		code := env.Must(totp.GenerateCode(key.Secret(), time.Unix(step*30, 0)))(t)
		return code
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
	old := env.Must(NewSecondFactors(domain.NewKeyring(testKey(1))))(t)
	sealed := old.seal(7, "SECRET")
	require.NotContains(t, string(sealed), "SECRET")
	require.LessOrEqual(t, len(old.seal(7, fmt.Sprintf("%032d", 0))), 128, "the column's length")

	rotated := env.Must(NewSecondFactors(domain.NewKeyring(testKey(2), testKey(1))))(t)
	secret, err := rotated.open(7, sealed)
	require.NoError(t, err, "an earlier key decrypts")
	require.Equal(t, "SECRET", secret)
	env.Fails(rotated.open(8, sealed))(t, domain.ErrSecondFactorLost, "of another user")
	_, err = old.open(7, rotated.seal(7, "SECRET"))
	require.Error(t, err, "the first key encrypts")
	_, err = NewSecondFactors(nil)
	require.Error(t, err)
}
