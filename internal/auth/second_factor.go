package auth

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"regexp"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"seckill/internal/domain"
)

// totpPeriod is the lifetime of a one-time password. Authenticator apps support no other.
const totpPeriod = 30 * time.Second

// SecondFactor is the authenticator app of a user (TOTP, RFC 6238).
type SecondFactor struct {
	// Sealed by SecondFactors.
	Secret []byte
	// Time step of the last accepted password: each password is accepted once (RFC 6238, 5.2).
	LastStep int64
}

// SecondFactors encrypts the secrets of authenticator apps and checks their passwords. A copy of the database alone is
// therefore no second factor. It is safe for concurrent use.
type SecondFactors struct{ keys []cipher.AEAD }

// NewSecondFactors returns the second factors of servers with these signing secrets, of which there is at least one. The
// first encrypts; all decrypt.
func NewSecondFactors(secrets domain.Keyring) *SecondFactors {
	f := &SecondFactors{}
	for _, key := range secrets.Derive("second factors") {
		// A derived key has the right length: 32 bytes.
		block, _ := aes.NewCipher(key.Secret)
		aead, _ := cipher.NewGCMWithRandomNonce(block)
		f.keys = append(f.keys, aead)
	}
	return f
}

func newKey(issuer, phone string) (*otp.Key, error) {
	return totp.Generate(totp.GenerateOpts{
		Issuer:      cmp.Or(issuer, "Seckill"),
		AccountName: phone,
		Rand:        rand.Reader,
	})
}

func (f *SecondFactors) seal(userID int64, secret string) []byte {
	return f.keys[0].Seal(nil, nil, []byte(secret), associated(userID)) //nolint:gosec // the AEAD adds a random nonce
}

// open decrypts a secret. Error: ErrSecondFactorLost (none of the keys has encrypted it for this user).
func (f *SecondFactors) open(userID int64, sealed []byte) (string, error) {
	for _, key := range f.keys {
		if secret, err := key.Open(nil, nil, sealed, associated(userID)); err == nil {
			return string(secret), nil
		}
	}
	return "", domain.ErrSecondFactorLost
}

// Opens reports whether one of the keys decrypts the second factor of a user.
func (f *SecondFactors) Opens(userID int64, sealed []byte) bool {
	_, err := f.open(userID, sealed)
	return err == nil
}

func associated(userID int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(userID)) //nolint:gosec // ids are positive
}

var sixDigits = regexp.MustCompile(`^[0-9]{6}$`)

// check accepts a password, as the user typed it, that is valid at now, give or take one step for clocks that differ. It sets the last step of
// the factor, and encrypts the secret with the first key, so that factors in use outlive a change of keys. Errors:
// ErrSecondFactorLost, ErrTOTPRequired (password is empty), ErrWrongTOTP (it is wrong, or its step is not later than the
// last accepted one).
func (f *SecondFactors) check(u domain.User, factor *SecondFactor, password string, now time.Time) error {
	password = domain.TypedCode(password)

	secret, err := f.open(u.ID, factor.Secret)
	switch {
	case err != nil:
		return err
	case password == "":
		return domain.ErrTOTPRequired
	case !sixDigits.MatchString(password):
		return domain.ErrWrongTOTP
	}

	current := now.Unix() / int64(totpPeriod.Seconds())
	for _, step := range []int64{current, current - 1, current + 1} {
		if step <= factor.LastStep {
			continue
		}

		valid, err := hotp.ValidateCustom(password, uint64(step), secret, hotp.ValidateOpts{ //nolint:gosec // steps are positive
			// What authenticator apps support.
			Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1,
		})
		if err != nil {
			return fmt.Errorf("check the second factor of user %d: %w", u.ID, err)
		}

		if valid {
			*factor = SecondFactor{Secret: f.seal(u.ID, secret), LastStep: step}
			return nil
		}
	}

	return domain.ErrWrongTOTP
}
