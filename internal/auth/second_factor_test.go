package auth

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestSecondFactorCheck(t *testing.T) {
	factors, err := NewSecondFactors(domain.NewKeyring(testKey(1)))
	require.NoError(t, err)
	key, err := newKey("13800000001")
	require.NoError(t, err)
	u := domain.User{ID: 7}
	now := time.Date(2026, 11, 11, 12, 0, 10, 0, time.UTC)
	current := now.Unix() / 30
	at := func(step int64) string {
		code, err := totp.GenerateCode(key.Secret(), time.Unix(step*30, 0))
		require.NoError(t, err)
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
	old, err := NewSecondFactors(domain.NewKeyring(testKey(1)))
	require.NoError(t, err)
	sealed := old.seal(7, "SECRET")
	require.NotContains(t, string(sealed), "SECRET")
	require.LessOrEqual(t, len(old.seal(7, fmt.Sprintf("%032d", 0))), 128, "the column's length")

	rotated, err := NewSecondFactors(domain.NewKeyring(testKey(2), testKey(1)))
	require.NoError(t, err)
	secret, err := rotated.open(7, sealed)
	require.NoError(t, err, "an earlier key decrypts")
	require.Equal(t, "SECRET", secret)
	_, err = rotated.open(8, sealed)
	require.ErrorIs(t, err, domain.ErrSecondFactorLost, "of another user")
	_, err = old.open(7, rotated.seal(7, "SECRET"))
	require.Error(t, err, "the first key encrypts")
	_, err = NewSecondFactors(nil)
	require.Error(t, err)
}

// A token states whether its session was opened with a second factor.
func TestTokenHasSecondFactor(t *testing.T) {
	tokens, err := NewTokens(domain.NewKeyring(testKey(1)), func() time.Time { return testNow })
	require.NoError(t, err)
	for _, secondFactor := range []bool{true, false} {
		want := Identity{UserID: 7, SessionID: "s", Role: domain.RoleOperator, SecondFactor: secondFactor}
		token, err := tokens.Access(want, time.Minute)
		require.NoError(t, err)
		id, err := tokens.Verify(token)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
}
