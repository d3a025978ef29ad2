// Package webhook signs and verifies the calls over HTTP between a server and the services of its operator: login codes,
// events of orders, payments and their notices.
package webhook

import (
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/domain"
)

// maxAge is how old or how far in the future a signature may be, so that a captured call cannot be replayed later.
const maxAge = 5 * time.Minute

// SignatureHeader is the header of a signature.
const SignatureHeader = "X-Seckill-Signature"

// Sign returns the signature of a body for SignatureHeader: a time, and an HMAC over the time and the
// body. The format is that of Stripe's webhooks (https://docs.stripe.com/webhooks#verify-manually).
func Sign(secret, body []byte, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(domain.MAC(secret, signedText(stamp, body)))
}

func signedText(stamp string, body []byte) []byte { return append([]byte(stamp+"."), body...) }

// Verify checks a signature, which may be at most maxAge old. One of its v1 values must be right for one of the secrets,
// which allows the secret to be changed on either side first. Error: domain.ErrUnauthenticated.
func Verify(secrets domain.Keyring, body []byte, signature string, now time.Time) error {
	var stamp string
	var tags []string
	for part := range strings.SplitSeq(signature, ",") {
		name, value, _ := strings.Cut(part, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "t":
			stamp = value
		case "v1":
			tags = append(tags, value)
		}
	}

	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: the signature has no time", domain.ErrUnauthenticated)
	}

	if age := now.Sub(time.Unix(seconds, 0)); age > maxAge || age < -maxAge {
		return fmt.Errorf("%w: the signature is %s old", domain.ErrUnauthenticated, age)
	}

	// One HMAC per secret, however many values a signature has: the sender of a wrong one may choose their number.
	signed := signedText(stamp, body)
	right := secrets.Any(func(secret []byte) bool {
		want := domain.MAC(secret, signed)
		return slices.ContainsFunc(tags, func(tag string) bool {
			got, err := hex.DecodeString(tag)
			return err == nil && hmac.Equal(got, want)
		})
	})
	if right {
		return nil
	}

	return fmt.Errorf("%w: the signature is wrong", domain.ErrUnauthenticated)
}
