package auth

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

var testSecret = []byte("a-secret-for-tests-only-0123456789")

// Other systems read the claims, so their encoding must not change.
func TestAccessTokenClaims(t *testing.T) {
	clock := testNow
	tokens, err := NewTokens(testSecret, func() time.Time { return clock })
	require.NoError(t, err)
	want := Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}
	token, err := tokens.Access(want, AccessTTL)
	require.NoError(t, err)

	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	require.NoError(t, err)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(body, &claims))
	require.Equal(t, map[string]any{
		"iss": "seckill", "aud": "seckill", "sub": "7", "sid": "s", "role": "admin",
		"iat": float64(testNow.Unix()), "exp": float64(testNow.Add(15 * time.Minute).Unix()),
	}, claims)

	got, err := tokens.Verify(token)
	require.NoError(t, err)
	require.Equal(t, want, got)
	clock = testNow.Add(AccessTTL)
	_, err = tokens.Verify(token)
	require.ErrorIs(t, err, domain.ErrTokenExpired)
}

func TestShortSecretIsRefused(t *testing.T) {
	_, err := NewTokens(testSecret[:MinSecret-1], time.Now)
	require.ErrorContains(t, err, "32")
}

func TestForgedRefreshTokenIsRefused(t *testing.T) {
	tokens, err := NewTokens(testSecret, time.Now)
	require.NoError(t, err)
	other, err := NewTokens([]byte(strings.Repeat("x", MinSecret)), time.Now)
	require.NoError(t, err)
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
	tokens, err := NewTokens([]byte(strings.Repeat("k", MinSecret)), func() time.Time { return now })
	require.NoError(t, err)
	token, err := tokens.Access(Identity{UserID: 7, SessionID: "s", Role: domain.RoleBuyer}, time.Minute)
	require.NoError(t, err)
	for range 2 {
		id, err := tokens.Verify(token)
		require.NoError(t, err)
		require.Equal(t, Identity{UserID: 7, SessionID: "s", Role: domain.RoleBuyer}, id)
	}
	uncached := testing.AllocsPerRun(10, func() { _, _ = tokens.parse(token) })
	cached := testing.AllocsPerRun(10, func() { _, _ = tokens.Verify(token) })
	require.Less(t, cached, uncached/4, "the token is cached")
	last := token[len(token)-2]
	_, err = tokens.Verify(token[:len(token)-2] + string(last^1) + token[len(token)-1:])
	require.ErrorIs(t, err, domain.ErrUnauthenticated, "a different signature")
	now = now.Add(time.Minute)
	for range 2 {
		_, err = tokens.Verify(token)
		require.ErrorIs(t, err, domain.ErrTokenExpired)
	}
}

// The clocks of servers may differ.
func TestTokenOfServerWhoseClockIsAhead(t *testing.T) {
	sign := func(ahead time.Duration) string {
		tokens, err := NewTokens(testSecret, func() time.Time { return testNow.Add(ahead) })
		require.NoError(t, err)
		token, err := tokens.Access(Identity{UserID: 7, SessionID: "s", Role: domain.RoleAdmin}, AccessTTL)
		require.NoError(t, err)
		return token
	}
	tokens, err := NewTokens(testSecret, func() time.Time { return testNow })
	require.NoError(t, err)
	_, err = tokens.Verify(sign(maxSkew))
	require.NoError(t, err)
	_, err = tokens.Verify(sign(maxSkew + time.Second))
	require.ErrorIs(t, err, domain.ErrUnauthenticated)
}

func TestTokenKindsAreNotInterchangeable(t *testing.T) {
	tokens, err := NewTokens(testSecret, time.Now)
	require.NoError(t, err)
	other, err := NewTokens([]byte(strings.Repeat("x", MinSecret)), time.Now)
	require.NoError(t, err)
	good := tokens.idleToken("s")
	id, err := tokens.parseIdleToken(good)
	require.NoError(t, err)
	require.Equal(t, "s", id)

	access, err := tokens.Access(Identity{UserID: 1, SessionID: "s"}, AccessTTL)
	require.NoError(t, err)
	last := good[len(good)-1]
	sameBits := good[:len(good)-1] + string(last^1) // the base64 encoding of 32 bytes ends in two unused bits
	for _, bad := range []string{
		"", ".", "s", "s.", "t" + good[1:], good + "A", good + ".", sameBits, other.idleToken("s"), tokens.refresh("s", 1), access,
	} {
		_, err := tokens.parseIdleToken(bad)
		require.ErrorIs(t, err, domain.ErrUnauthenticated, bad)
	}
	_, err = tokens.Verify(good)
	require.ErrorIs(t, err, domain.ErrUnauthenticated)
	// The second token differs from a refresh token only by its key.
	for _, bad := range []string{good, tokens.idleToken("s.1")} {
		_, _, err = tokens.parseRefresh(bad)
		require.ErrorIs(t, err, domain.ErrUnauthenticated)
	}
}
